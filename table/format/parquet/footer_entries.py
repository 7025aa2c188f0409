"""The key-value entries of a Parquet footer, without reading the rest of it.

The footer is a Thrift struct in the compact protocol (FileMetaData of parquet.thrift); its entries
are field 5, behind the description of every column chunk. To pass over that takes a fifth of the
time in which Arrow makes objects of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from keymark.table.format.kernels.compiled import kernel
from keymark.table.format.parquet.thrift import BINARY, FALSE, LIST, STRUCT
from keymark.table.format.parquet.thrift_scan import (
    STRANGE,
    new_stack,
    scan_field,
    scan_list,
    scan_varint,
    skip_value,
)

_ENTRIES_MAX = 64
_ENTRIES_FIELD = 5

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]


def footer_entries(footer: bytes) -> dict[bytes, bytes | None] | None:
    """The entries of a footer; None where it looks strange, and Arrow has to judge it."""
    places = np.empty((_ENTRIES_MAX, 4), np.int64)
    count = _entries(np.frombuffer(footer, np.uint8), places, new_stack())
    if count == STRANGE:
        return None
    return {
        footer[at : at + size]: None if length < 0 else footer[start : start + length]
        for at, size, start, length in places[:count].tolist()
    }


@kernel
def _entries(data: _Bytes, places: _Numbers, stack: _Numbers) -> int:
    """Where the entries are: start and length of key and of value; how many there are."""
    kind, number, at = scan_field(data, 0, 0)
    while kind:
        if number == _ENTRIES_FIELD and kind == LIST:
            return int(_read_entries(data, at, places))
        if kind > FALSE:
            at = skip_value(data, at, kind, stack)
        kind, number, at = scan_field(data, at, number)
    return 0 if at >= 0 else STRANGE


@kernel
def _read_entries(data: _Bytes, at: int, places: _Numbers) -> int:
    """The same of a list of entries."""
    kind, count, at = scan_list(data, at)
    if kind != STRUCT or at < 0 or count > len(places):
        return STRANGE
    for row in range(count):
        # Key and value are fields 1 and 2, each a binary; a value may be left out.
        places[row, 3] = -1
        for column in range(0, 4, 2):
            if column and at < len(data) and data[at] == 0:
                break
            if at >= len(data) or data[at] != (1 << 4) | BINARY:
                return STRANGE
            size, at = scan_varint(data, at + 1)
            if at < 0 or not 0 <= size <= len(data) - at:
                return STRANGE
            places[row, column], places[row, column + 1] = at, size
            at += size
        if at >= len(data) or data[at] != 0:
            return STRANGE
        at += 1
    return int(count)
