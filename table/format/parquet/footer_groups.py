"""The row groups of a Parquet footer, kept as bytes, and the numbers in them that change.

    RowGroup    head | ColumnChunk | ColumnChunk | ... | tail
    each        kept bytes | number | kept bytes | ...

Where column chunks move or are compressed, only offsets, sizes and the codec change in what the
footer says of them. One pass finds these numbers (docs/formats/base_file.md); a second writes the
row groups again, with any chunks in them and with other numbers. Paths, encodings and statistics
are copied as they lie.
Source: parquet.thrift of Apache Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from keymark.table.errors import CorruptFileError
from keymark.table.format.kernels.compiled import kernel
from keymark.table.format.parquet.thrift import LIST, STRUCT
from keymark.table.format.parquet.thrift_scan import (
    INTEGER_BYTES,
    LONG_LIST,
    LOOK,
    OTHER,
    STRANGE,
    copy_bytes,
    new_stack,
    rules,
    scan_list,
    scan_struct,
    varint,
    write_integer,
)

# Slots of a column chunk's numbers.
CHUNK_OFFSET, CODEC, UNCOMPRESSED, COMPRESSED, DATA_PAGE, DICTIONARY_PAGE = range(6)
# Slots of a row group's numbers.
GROUP_UNCOMPRESSED, GROUP_ROWS, GROUP_OFFSET, GROUP_COMPRESSED, ORDINAL = range(5)
_CHUNK_SLOTS, _GROUP_SLOTS = 6, 5
_OFFSETS = (CHUNK_OFFSET, DATA_PAGE, DICTIONARY_PAGE)

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
    """The row groups of a footer.

    A stretch is three numbers: its start and end in `data`, and the first row of `places` that lies
    behind its start. Chunks are counted over all row groups; a slot holds a row of `values`, or -1.

    Attributes:
        data: the bytes that the stretches are of.
        heads: a stretch a row group: what comes before its chunks. (groups, 3).
        tails: what comes after them.
        chunks: a stretch a column chunk. (groups * columns, 3).
        group_slots: where each number of a row group is. (groups, 5).
        chunk_slots: where each number of a chunk is. (groups * columns, 6).
        places: start and end of each number in `data`, ascending. (numbers, 2).
        values: what each number is to be.
        movable: whether no chunk refers to anything but its pages.
    """

    data: _Bytes
    heads: _Numbers
    tails: _Numbers
    chunks: _Numbers
    group_slots: _Numbers
    chunk_slots: _Numbers
    places: _Numbers
    values: _Numbers
    movable: bool

    @classmethod
    def of(cls, data: _Bytes, name: str, offset: int) -> Self:
        """Those of a footer.

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
        groups = cls(
            data=data,
            heads=np.empty((count, 3), np.int64),
            tails=np.empty((count, 3), np.int64),
            chunks=np.empty((count * columns, 3), np.int64),
            group_slots=np.full((count, _GROUP_SLOTS), -1, np.int64),
            chunk_slots=np.full((count * columns, _CHUNK_SLOTS), -1, np.int64),
            places=np.empty((most, 2), np.int64),
            values=np.empty(most, np.int64),
            movable=True,
        )
        counts = np.zeros(2, np.int64)
        slots = (groups.group_slots, groups.chunk_slots)
        layout = (groups.heads, groups.tails, groups.chunks, *slots)
        numbers = (groups.places, groups.values, counts, stack)
        end = _scan_groups(data, start, layout, numbers, (_GROUP_RULES, _CHUNK_RULES, _META_RULES))
        used, others = counts.tolist()
        needed = groups.chunk_slots[:, [CODEC, UNCOMPRESSED, COMPRESSED, DATA_PAGE]]
        if end != len(data) or (needed < 0).any() or (groups.group_slots[:, GROUP_ROWS] < 0).any():
            raise CorruptFileError(name, offset, "damaged footer: row groups that cannot be read")
        return replace(
            groups, places=groups.places[:used], values=groups.values[:used], movable=not others
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The row groups of several footers, one behind the other; their chunks likewise.

        They need not have as many columns each.
        """
        sizes = np.array([(len(part.data), len(part.values)) for part in parts])
        firsts = (np.cumsum(sizes, axis=0) - sizes).tolist()
        # Of each part by how much its places in `data`, and its rows of `values`, move.
        moved = [(part, start, row) for part, (start, row) in zip(parts, firsts, strict=True)]
        by = [np.array([start, start, row]) for _, start, row in moved]
        data = np.concatenate([part.data for part in parts])
        data.flags.writeable = False
        return cls(
            data=data,
            heads=np.concatenate([part.heads + n for part, n in zip(parts, by, strict=True)]),
            tails=np.concatenate([part.tails + n for part, n in zip(parts, by, strict=True)]),
            chunks=np.concatenate([part.chunks + n for part, n in zip(parts, by, strict=True)]),
            group_slots=np.concatenate([_moved(p.group_slots, row) for p, _, row in moved]),
            chunk_slots=np.concatenate([_moved(p.chunk_slots, row) for p, _, row in moved]),
            places=np.concatenate([part.places + start for part, start, _ in moved]),
            values=np.concatenate([part.values for part in parts]),
            movable=all(part.movable for part in parts),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """How many row groups there are, and how many columns each has."""
        count = len(self.heads)
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

        Of a chunk without values Arrow says that data pages start at 0.
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
        return replace(self, values=values)

    def written(self, plan: GroupPlan | None = None) -> bytes:
        """A list of row groups: the value of the footer's field 4.

        Args:
            plan: which row groups, of which chunks; None for those that are here.
        """
        if plan is None:
            plan = GroupPlan.same(self)
        moves = np.zeros(len(self.values), np.int64)
        for slot in _OFFSETS:
            rows = self.chunk_slots[:, slot]
            moves[rows[rows >= 0]] = 1
        # An offset of 0 says that there is none.
        moves[self.values == 0] = 0
        lengths = self.chunks[:, 1] - self.chunks[:, 0]
        ends = (self.heads, self.tails)
        room = int(lengths[plan.chunks].sum())
        room += sum(int((each[plan.groups, 1] - each[plan.groups, 0]).sum()) for each in ends)
        room += INTEGER_BYTES * (_GROUP_SLOTS * len(plan.groups) + _CHUNK_SLOTS * plan.chunks.size)
        out = np.empty(room, np.uint8)
        stretches = (self.heads, self.tails, self.chunks)
        source = (self.data, self.places, self.values, moves)
        size = _write_groups(source, stretches, (plan.groups, plan.chunks, plan.shifts), out)
        return list_head(len(plan.groups)) + out[:size].tobytes()


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Row groups to write.

    Attributes:
        groups: for each the row group whose other fields it has. (n,).
        chunks: the column chunks of each. (n, columns).
        shifts: by how many bytes each chunk moves. (n, columns).
    """

    groups: _Numbers
    chunks: _Numbers
    shifts: _Numbers

    @classmethod
    def same(cls, groups: FooterGroups) -> Self:
        """All row groups as they are."""
        chunks = np.arange(len(groups.chunks)).reshape(groups.shape)
        return cls(np.arange(len(groups.heads)), chunks, np.zeros_like(chunks))


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


def list_head(count: int) -> bytes:
    """What comes before so many structs of a list."""
    if count < LONG_LIST:
        return bytes([count << 4 | STRUCT])
    return bytes([LONG_LIST << 4 | STRUCT]) + varint(count)


def _moved(slots: _Numbers, row: int) -> _Numbers:
    """Slots whose numbers lie so many rows further on."""
    return np.where(slots < 0, slots, slots + row)


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
    heads, tails, chunks, group_slots, chunk_slots = layout
    places, values, counts, stack = numbers
    columns = len(chunks) // len(heads)
    found = (group_slots[group], places, values, counts, stack)
    heads[group, 0], heads[group, 2] = at, counts[0]
    number, kind, at = scan_struct(data, at, 0, wanted[0], found)
    if number != _COLUMNS or kind != LIST:
        return STRANGE
    kind, count, at = scan_list(data, at)
    if kind != STRUCT or count != columns:
        return STRANGE
    heads[group, 1] = at
    for chunk in range(group * columns, (group + 1) * columns):
        chunks[chunk, 0], chunks[chunk, 2] = at, counts[0]
        found = (chunk_slots[chunk], places, values, counts, stack)
        at = _scan_chunk(data, at, found, wanted)
        chunks[chunk, 1] = at
    found = (group_slots[group], places, values, counts, stack)
    tails[group, 0], tails[group, 2] = at, counts[0]
    number, kind, at = scan_struct(data, at, _COLUMNS, wanted[0], found)
    tails[group, 1] = at
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
def _write_groups(source: Any, stretches: Any, plan: Any, out: _Bytes) -> int:
    """Write row groups with chunks; how many bytes they take."""
    heads, tails, chunks = stretches
    groups, members, shifts = plan
    at = 0
    for row in range(len(groups)):
        at = _write_stretch(source, heads[groups[row]], 0, out, at)
        for column in range(members.shape[1]):
            chunk = chunks[members[row, column]]
            at = _write_stretch(source, chunk, shifts[row, column], out, at)
        at = _write_stretch(source, tails[groups[row]], 0, out, at)
    return at


@kernel
def _write_stretch(source: Any, stretch: _Numbers, shift: int, out: _Bytes, at: int) -> int:
    """Copy a stretch with its numbers as they are to be; offsets move."""
    data, places, values, moves = source
    start, stop, row = stretch[0], stretch[1], stretch[2]
    while row < len(values) and places[row, 0] < stop:
        at = copy_bytes(data, (start, places[row, 0]), out, at)
        at = write_integer(out, at, values[row] + shift * moves[row])
        start = places[row, 1]
        row += 1
    return copy_bytes(data, (start, stop), out, at)
