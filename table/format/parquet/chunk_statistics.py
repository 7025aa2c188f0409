"""The statistics of a column chunk some of whose pages are replaced.

Counts of nulls stay exact. A range stays true: it holds all values, and may be wider than they are
where the least or the greatest is gone.
Source: Statistics in parquet.thrift of Apache Parquet.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from keymark.table.format.parquet.thrift import I64
from keymark.table.format.parquet.thrift_scan import (
    RawFields,
    binary_of,
    integer,
    integer_of,
)

_NULLS, _MAX, _MIN = 3, 5, 6
# The same range for older readers, and whether its ends are values of the column.
_OLD = {1: _MAX, 2: _MIN}
_EXACT = (7, 8)


@dataclass(frozen=True, slots=True)
class Described:
    """Statistics (None where there are none), and of how many values."""

    statistics: RawFields | None
    values: int

    @property
    def nulls(self) -> int | None:
        """How many nulls they count."""
        nulls = (self.statistics or {}).get(_NULLS)
        return None if nulls is None else integer_of(nulls[1])


def statistics_after(
    before: Described | None, written: Sequence[Described], *, gone: int, kind: pa.DataType
) -> RawFields | None:
    """The statistics of a chunk with other pages; None where nothing is known.

    Args:
        before: of the chunk before; None where no page of it stays.
        written: of each page that is new.
        gone: nulls in the pages of the chunk before that are not there any more.
        kind: of the column.
    """
    parts = [*written] if before is None else [before, *written]
    counts = [part.nulls for part in parts]
    nulls = sum(count for count in counts if count is not None)
    nulls -= 0 if before is None else gone
    if None in counts or nulls < 0:
        return None
    encoded = {_NULLS: (I64, integer(nulls))}
    # Nothing but nulls has no range.
    ranged = [part.statistics or {} for part in parts if part.nulls != part.values]
    if not ranged or not all(fields.keys() >= {_MAX, _MIN} for fields in ranged):
        return encoded
    order = _order(kind)
    ends: dict[int, tuple[int, bytes]] = {}
    try:
        for number, choose in ((_MAX, max), (_MIN, min)):
            values = [fields[number] for fields in ranged]
            ends[number] = choose(values, key=lambda end: order(binary_of(end[1])))
    except struct.error:
        # No value of this type is that long.
        return encoded
    encoded |= ends
    encoded |= {
        old: encoded[new] for old, new in _OLD.items() if all(old in each for each in ranged)
    }
    for number in _EXACT:
        flags = {each.get(number) for each in ranged}
        if len(flags) == 1 and (flag := flags.pop()) is not None:
            encoded[number] = flag
    return encoded


def _order(kind: pa.DataType) -> Callable[[bytes], Any]:
    """What makes of a value in plain encoding one that compares as Parquet orders the column."""
    if pa.types.is_float64(kind):
        return lambda raw: struct.unpack("<d", raw)
    if pa.types.is_float32(kind):
        return lambda raw: struct.unpack("<f", raw)
    if pa.types.is_decimal(kind):
        return lambda raw: int.from_bytes(raw, "big", signed=True)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return lambda raw: int.from_bytes(raw, "little", signed=True)
    # Texts and binaries by their bytes; false before true.
    return bytes
