"""The page headers of column chunks, found in one compiled pass.

    column chunk: page header, page, page header, page, ...

`pages.py` reads headers with all that is in them; this is for writing and for columns of keys,
where thousands of small pages would keep the interpreter busy.
Source: PageHeader and DataPageHeader in parquet.thrift of Apache Parquet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keymark.table.errors import CorruptFileError
from keymark.table.format.kernels.compiled import kernel
from keymark.table.format.parquet.pages import PAGE_BYTES_MAX
from keymark.table.format.parquet.thrift import STRUCT
from keymark.table.format.parquet.thrift_scan import (
    LOOK,
    STRANGE,
    new_stack,
    rules,
    scan_struct,
)

DATA_PAGE, DICTIONARY_PAGE = 0, 2
"""Types of pages"""

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]

# Slots of the numbers in a header, and what follows them in a row of the table.
_KIND, _UNCOMPRESSED, _COMPRESSED, _CHECKSUM, _VALUES, _ENCODING, _LEVELS = range(7)
_SLOTS = 7
_CHUNK, _START, _SIZE_START, _SIZE_END, _PAGE, _END = range(_SLOTS, _SLOTS + 6)
_ROW = _SLOTS + 6
_DATA_HEADER = 5
_HEADER_RULES = rules(
    {1: _KIND, 2: _UNCOMPRESSED, 3: _COMPRESSED, 4: _CHECKSUM, _DATA_HEADER: LOOK}, last=8
)
_DATA_RULES = rules({1: _VALUES, 2: _ENCODING, 3: _LEVELS}, last=5)
_ROWS_FIRST = 256
_DONE, _FULL, _DAMAGED = range(3)


class Page(NamedTuple):
    """A page; numbers that its header does not have are -1, `has_checksum` is 0 or 1.

    `values`, `encoding` and `levels` are those of data pages of version 1, `chunk` counts the
    chunks asked for. The header is from `start` to `page`, its compressed size (a varint) from
    `size_start` to `size_end`, the page from `page` to `end`.
    """

    kind: int
    uncompressed: int
    compressed: int
    has_checksum: int
    values: int
    encoding: int
    levels: int
    chunk: int
    start: int
    size_start: int
    size_end: int
    page: int
    end: int


def scan_pages(data: _Bytes, starts: _Numbers, *, ends: _Numbers, name: str) -> list[Page]:
    """The pages of column chunks, in their order.

    Args:
        data: the file, or a part of it.
        starts: of the chunks in it.
        ends: likewise, none beyond the data.
        name: the file, for errors.

    Raises:
        CorruptFileError: headers and pages contradict each other.
    """
    found = (
        np.empty(_SLOTS, np.int64),
        np.empty((_SLOTS, 2), np.int64),
        np.empty(_SLOTS, np.int64),
        np.zeros(2, np.int64),
        new_stack(),
    )
    tools = (*found, _HEADER_RULES, _DATA_RULES)
    state, room = _FULL, _ROWS_FIRST
    while state == _FULL:
        table = np.empty((room, _ROW), np.int64)
        state, count, at = _scan_pages(data, starts, ends, table, tools)
        room *= 4
    if state == _DAMAGED:
        raise CorruptFileError(name, int(at), "a damaged page header, or a page beyond its chunk")
    return [Page(*row) for row in table[:count].tolist()]


@kernel
def _scan_pages(
    data: _Bytes, starts: _Numbers, ends: _Numbers, table: _Numbers, tools: Any
) -> tuple[int, int, int]:
    """Fill a row of the table for each page: how that went, how many there are, and where."""
    count = 0
    for chunk in range(len(starts)):
        at = starts[chunk]
        while at < ends[chunk]:
            if count == len(table):
                return _FULL, count, at
            row = table[count]
            row[_CHUNK], row[_START] = chunk, at
            if not _scan_page(data, at, ends[chunk], row, tools):
                return _DAMAGED, count, at
            at = row[_END]
            count += 1
    return _DONE, count, 0


@kernel
def _scan_page(data: _Bytes, at: int, stop: int, row: _Numbers, tools: Any) -> Any:
    """Fill the row of a page; whether it ends before its chunk does."""
    slots, places, values, counts, stack, header, data_header = tools
    found = (slots, places, values, counts, stack)
    slots[:] = -1
    counts[0] = 0
    number, kind, at = scan_struct(data, at, 0, header, found)
    if number == _DATA_HEADER and kind == STRUCT:
        _, _, at = scan_struct(data, at, 0, data_header, found)
        number, kind, at = scan_struct(data, at, _DATA_HEADER, header, found)
    if number != 0 or at == STRANGE or min(slots[_KIND], slots[_UNCOMPRESSED]) < 0:
        return False
    for slot in range(_SLOTS):
        row[slot] = values[slots[slot]] if slots[slot] >= 0 else -1
    # A checksum may be any number.
    row[_CHECKSUM] = 1 if slots[_CHECKSUM] >= 0 else 0
    size = row[_COMPRESSED]
    row[_SIZE_START], row[_SIZE_END] = places[slots[_COMPRESSED], 0], places[slots[_COMPRESSED], 1]
    row[_PAGE], row[_END] = at, at + size
    return 0 <= size <= stop - at and 0 <= row[_UNCOMPRESSED] <= PAGE_BYTES_MAX
