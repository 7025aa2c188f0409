"""The row groups of a Parquet footer, kept as bytes, and the numbers in them that change.

    row groups    kept bytes | number | kept bytes | number | ...

Where column chunks move or are compressed, only offsets, sizes and the codec change in what the
footer says about them. One pass finds these numbers (docs/formats/base_file.md); another writes the
row groups again with other numbers. Paths, encodings and statistics are copied as they lie.
Source: parquet.thrift of Apache Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from keymark.table.errors import CorruptFileError
from keymark.table.format.kernels.compiled import kernel
from keymark.table.format.parquet.thrift import LIST, STRUCT
from keymark.table.format.parquet.thrift_scan import (
    INTEGER_BYTES,
    LOOK,
    OTHER,
    STRANGE,
    copy_bytes,
    new_stack,
    rules,
    scan_list,
    scan_struct,
    write_integer,
)

# Slots of a column chunk's numbers.
CHUNK_OFFSET, CODEC, VALUES, UNCOMPRESSED, COMPRESSED, DATA_PAGE, DICTIONARY_PAGE = range(7)
# Slots of a row group's numbers.
GROUP_UNCOMPRESSED, GROUP_ROWS, GROUP_OFFSET, GROUP_COMPRESSED, ORDINAL = range(5)
_CHUNK_SLOTS, _GROUP_SLOTS = 7, 5

# Fields that are looked into.
_COLUMNS, _META = 1, 3
_GROUP_RULES = rules(
    {
        _COLUMNS: LOOK,
        2: GROUP_UNCOMPRESSED,
        3: GROUP_ROWS,
        5: GROUP_OFFSET,
        6: GROUP_COMPRESSED,
        7: ORDINAL,
    },
    last=7,
)
# All other fields of ColumnChunk refer to page indexes, encryption or another file.
_CHUNK_RULES = rules({1: OTHER, 2: CHUNK_OFFSET, _META: LOOK}, last=3)
# Fields 10, 14 and 15 of ColumnMetaData refer to an index page and to Parquet's bloom filters.
_META_RULES = rules(
    {
        4: CODEC,
        5: VALUES,
        6: UNCOMPRESSED,
        7: COMPRESSED,
        9: DATA_PAGE,
        10: OTHER,
        11: DICTIONARY_PAGE,
        14: OTHER,
        15: OTHER,
    },
    last=17,
)

FIRST_CHUNK = 4
"""Where the first column chunk of a file starts: behind the magic"""

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FooterGroups:
    """The row groups of a footer. Chunks are counted over all of them.

    Attributes:
        data: the value of the footer's field 4, a list.
        groups: start and end of each RowGroup in it. (groups, 2).
        chunks: start and end of each ColumnChunk. (groups * columns, 2).
        group_slots: for each number of a row group its row in `values`, or -1. (groups, 5).
        chunk_slots: the same of a chunk. (groups * columns, 7).
        places: start and end of each number in `data`, ascending. (numbers, 2).
        values: the numbers.
        movable: whether no chunk refers to anything but its pages.
    """

    data: _Bytes
    groups: _Numbers
    chunks: _Numbers
    group_slots: _Numbers
    chunk_slots: _Numbers
    places: _Numbers
    values: _Numbers
    movable: bool

    @classmethod
    def of(cls, data: _Bytes, name: str, offset: int) -> Self:
        """The row groups of a footer.

        Args:
            data: the value of its field 4, a list.
            name: the file, for errors.
            offset: of the value in the file, for errors.

        Raises:
            CorruptFileError: it is no list of row groups with as many columns each.
        """
        stack = new_stack()
        kind, count, start = scan_list(data, 0)
        columns = _columns_of_first(data, start, stack) if count else 0
        # Each chunk takes some bytes: a larger count is a lie, and must not become memory.
        if start < 0 or (count and kind != STRUCT) or not 0 <= columns * count <= len(data):
            raise CorruptFileError(name, offset, "damaged footer: no list of row groups")
        most = count * (columns * _CHUNK_SLOTS + _GROUP_SLOTS)
        found = cls(
            data=data,
            groups=np.empty((count, 2), np.int64),
            chunks=np.empty((count * columns, 2), np.int64),
            group_slots=np.full((count, _GROUP_SLOTS), -1, np.int64),
            chunk_slots=np.full((count * columns, _CHUNK_SLOTS), -1, np.int64),
            places=np.empty((most, 2), np.int64),
            values=np.empty(most, np.int64),
            movable=True,
        )
        counts = np.zeros(2, np.int64)
        layout = (found.groups, found.chunks, found.group_slots, found.chunk_slots)
        numbers = (found.places, found.values, counts, stack)
        end = _scan_groups(data, start, layout, numbers, (_GROUP_RULES, _CHUNK_RULES, _META_RULES))
        used, others = counts.tolist()
        needed = (found.chunk_slots[:, CODEC:DICTIONARY_PAGE], found.group_slots[:, [GROUP_ROWS]])
        if end != len(data) or any((slots < 0).any() for slots in needed):
            raise CorruptFileError(name, offset, "damaged footer: row groups that cannot be read")
        return replace(
            found, places=found.places[:used], values=found.values[:used], movable=not others
        )

    @property
    def shape(self) -> tuple[int, int]:
        """How many row groups there are, and how many columns each has."""
        count = len(self.groups)
        return count, len(self.chunks) // max(1, count)

    def of_chunks(self, slot: int) -> _Numbers:
        """A number of each column chunk; 0 where it has none. (groups * columns,)."""
        rows = self.chunk_slots[:, slot]
        return np.where(rows < 0, 0, self.values[rows]) if len(self.values) else rows

    def of_groups(self, slot: int) -> _Numbers:
        """A number of each row group; 0 where it has none. (groups,)."""
        rows = self.group_slots[:, slot]
        return np.where(rows < 0, 0, self.values[rows]) if len(self.values) else rows

    @property
    def starts(self) -> _Numbers:
        """Offset of the first page of each column chunk. (groups * columns,).

        For a chunk without values Arrow says that data pages start at 0.
        """
        data, dictionary = self.of_chunks(DATA_PAGE), self.of_chunks(DICTIONARY_PAGE)
        first = np.where(data > 0, np.minimum(data, dictionary), dictionary)
        return np.where(dictionary > 0, first, data)

    def with_numbers(
        self, chunks: Mapping[int, _Numbers], groups: Mapping[int, _Numbers]
    ) -> FooterGroups:
        """The same with other numbers, by slot, of all chunks and of all row groups.

        A number that is not there stays away.
        """
        values = self.values.copy()
        for slots, given in ((self.chunk_slots, chunks), (self.group_slots, groups)):
            for slot, numbers in given.items():
                there = slots[:, slot] >= 0
                values[slots[there, slot]] = numbers[there]
        out = np.empty(len(self.data) + INTEGER_BYTES * len(values), np.uint8)
        size = _write(self.data, self.places, values, out)
        return FooterGroups.of(np.frombuffer(out[:size].tobytes(), np.uint8), "row groups", 0)


def sizes_of_groups(uncompressed: _Numbers, compressed: _Numbers) -> dict[int, _Numbers]:
    """Sizes and offsets of row groups, by slot, in a file of nothing but their chunks.

    Args:
        uncompressed: bytes of each chunk. (groups, columns).
        compressed: likewise.
    """
    sizes = compressed.sum(axis=1)
    return {
        GROUP_UNCOMPRESSED: uncompressed.sum(axis=1),
        GROUP_OFFSET: FIRST_CHUNK + np.cumsum(sizes) - sizes,
        GROUP_COMPRESSED: sizes,
    }


def _columns_of_first(data: _Bytes, at: int, stack: _Numbers) -> int:
    """How many column chunks the row group at a place has; STRANGE where there is none."""
    slots, places = np.full(_GROUP_SLOTS, -1, np.int64), np.empty((_GROUP_SLOTS, 2), np.int64)
    found = (slots, places, np.empty(_GROUP_SLOTS, np.int64), np.zeros(2, np.int64), stack)
    number, kind, at = scan_struct(data, at, 0, _GROUP_RULES, found)
    _, count, at = scan_list(data, at)
    return int(count) if number == _COLUMNS and kind == LIST and at >= 0 else STRANGE


@kernel
def _scan_groups(data: _Bytes, at: int, layout: Any, numbers: Any, wanted: Any) -> int:
    """Fill the arrays of row groups; the place behind them, STRANGE where they are none."""
    for group in range(len(layout[0])):
        at = _scan_group(data, (at, group), layout, numbers, wanted)
    return at


@kernel
def _scan_group(data: _Bytes, where: Any, layout: Any, numbers: Any, wanted: Any) -> int:
    """Fill the arrays of one row group; the place behind it."""
    at, group = where
    groups, chunks, group_slots, chunk_slots = layout
    places, values, counts, stack = numbers
    columns = len(chunks) // len(groups)
    found = (group_slots[group], places, values, counts, stack)
    groups[group, 0] = at
    number, kind, at = scan_struct(data, at, 0, wanted[0], found)
    if number != _COLUMNS or kind != LIST:
        return STRANGE
    kind, count, at = scan_list(data, at)
    if kind != STRUCT or count != columns:
        return STRANGE
    for chunk in range(group * columns, (group + 1) * columns):
        chunks[chunk, 0] = at
        at = _scan_chunk(data, at, (chunk_slots[chunk], places, values, counts, stack), wanted)
        chunks[chunk, 1] = at
    number, kind, at = scan_struct(data, at, _COLUMNS, wanted[0], found)
    groups[group, 1] = at
    return at if number == 0 else STRANGE


@kernel
def _scan_chunk(data: _Bytes, at: int, found: Any, wanted: Any) -> int:
    """Note the numbers of a column chunk; the place behind it."""
    number, kind, at = scan_struct(data, at, 0, wanted[1], found)
    if number == _META and kind == STRUCT:
        _, _, at = scan_struct(data, at, 0, wanted[2], found)
        number, kind, at = scan_struct(data, at, _META, wanted[1], found)
    return at if number == 0 else STRANGE


@kernel
def _write(data: _Bytes, places: _Numbers, values: _Numbers, out: _Bytes) -> Any:
    """Copy the data with other numbers in their places; how many bytes that makes."""
    start, at = 0, 0
    for row in range(len(values)):
        at = copy_bytes(data, (start, places[row, 0]), out, at)
        at = write_integer(out, at, values[row])
        start = places[row, 1]
    return copy_bytes(data, (start, len(data)), out, at)
