"""Reads compact index files: candidates for keys.

The layout is drawn in docs/formats/compact.md.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from keymark.table.errors import CorruptFileError
from keymark.table.format.compact.kernels import (
    PAGE,
    PAGE_ENTRIES,
    find,
    first_damaged,
    read_entries,
)
from keymark.table.format.compact.writer import (
    BLOCKS,
    MAGIC,
    MOST_GROUPS,
    PARTS,
    SPARSE,
    STRETCH_BITS,
    TRAILER,
    UNKNOWN_STRETCH,
    Words,
    checksum_of,
    directory_size,
)
from keymark.table.storage.storage import Mappable, RangeReader

# Pages between two that are wanted are read with them, if they are at most so many.
_GAP = 16
# Pages that are read at once, but for the end of a block.
_WINDOW = 1 << 12
_BLOCK_SHIFT, _SECOND_SHIFT = np.uint64(48), np.uint64(56)

_Numbers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Candidates:
    """File groups that may hold keys; a key may have several.

    Attributes:
        rows: of each candidate the place of its hash among those asked for.
        places: the number of its file group, and the stretch of rows in which the key was when it
            came there.
    """

    rows: _Numbers
    places: npt.NDArray[np.int32]

    @property
    def groups(self) -> npt.NDArray[np.int32]:
        """The number of the file group of each."""
        found: npt.NDArray[np.int32] = self.places >> STRETCH_BITS
        return found

    @property
    def stretches(self) -> npt.NDArray[np.int32]:
        """The stretch of each; UNKNOWN_STRETCH for any."""
        found: npt.NDArray[np.int32] = self.places & UNKNOWN_STRETCH
        return found


@dataclass(slots=True)
class CompactFile:
    """An open file; `close` it, or use it in a `with` statement.

    Attributes:
        source: its bytes.
        entries: how many there are.
        bits: of the number of a file group and of a stretch.
        count: how many file groups have a name.
    """

    source: RangeReader
    entries: int
    bits: int
    count: int
    _names: bytes
    _directory_sum: int
    _map: mmap.mmap | None = None
    _starts: _Numbers | None = None
    _all: Words | None = None
    _proven: _Bytes = field(init=False)

    def __post_init__(self) -> None:
        self._proven = np.zeros(-(-self.entries // PAGE_ENTRIES), np.uint8)

    @classmethod
    def open(cls, source: RangeReader) -> Self:
        """Open a file.

        Raises:
            CorruptFileError: it is damaged, or no such file.
        """
        end = max(0, source.size - TRAILER.size)
        tail = source.read(end, TRAILER.size)
        if len(tail) < TRAILER.size or not tail.endswith(MAGIC):
            raise CorruptFileError(source.name, end, "no compact index file")
        entries, count, bits, length, of_directory, of_names, of_head, _ = TRAILER.unpack(tail)
        head = struct.pack("<6Q", entries, count, bits, length, of_directory, of_names)
        start = -(-entries // PAGE_ENTRIES) * PAGE + directory_size(entries)
        most = STRETCH_BITS + MOST_GROUPS.bit_length()
        in_range = count <= MOST_GROUPS and STRETCH_BITS < bits < most
        if checksum_of(head) != of_head or not in_range:
            raise CorruptFileError(source.name, end, "its end is damaged")
        if start + length != end:
            detail = f"{source.size} bytes are not what its end says"
            raise CorruptFileError(source.name, end, detail)
        names = source.read(start, length)
        if checksum_of(names) != of_names or names.count(b"\n") != count:
            raise CorruptFileError(source.name, start, "its names are damaged")
        return cls(source, entries, bits, count, names, of_directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back."""
        # An error still holds what was read: then the system takes the file back with it.
        with contextlib.suppress(BufferError):
            if self._map is not None:
                self._map.close()

    @property
    def groups(self) -> list[str]:
        """The names of the file groups."""
        try:
            return self._names.decode().split("\n")[:-1]
        except UnicodeDecodeError as error:
            raise CorruptFileError(self.source.name, 0, f"no names: {error}") from error

    def find(self, hashes: Words) -> Candidates:
        """The candidates of hashes; none for one that is certainly absent.

        Args:
            hashes: of keys (`hashes_of`).

        Raises:
            CorruptFileError: a page that was needed is damaged.
        """
        found = [Candidates(np.empty(0, np.int64), np.empty(0, np.int32))]
        if self.entries and len(hashes):
            order = np.argsort(hashes)
            for rows, first, pages, proven in self._windows(hashes[order]):
                part = self._find(hashes[order[rows]], first, pages, proven)
                found.append(Candidates(order[rows][part.rows], part.places))
        places = np.concatenate([each.places for each in found])
        self._check_places(places)
        return Candidates(np.concatenate([each.rows for each in found]), places)

    def part(self, number: int) -> tuple[Words, _Numbers]:
        """All entries whose hashes have that first byte, as `writer.write_file` takes them.

        Returns:
            Words, in which the bits of the place are 0; the place of each, as Candidates has it.

        Raises:
            CorruptFileError: a page is damaged.
        """
        ends = self._directory()[number * PARTS : (number + 1) * PARTS + 1]
        if self.entries >= SPARSE:
            words = self._entries(int(ends[0]), int(ends[-1]))
        else:
            # All parts of a small file are read at once.
            if self._all is None:
                self._all = self._entries(0, self.entries)
            words = self._all[ends[0] : ends[-1]]
        second = np.repeat(np.arange(PARTS, dtype=np.uint64), np.diff(ends))
        low = np.uint64((1 << self.bits) - 1)
        places = (words & low).astype(np.int64)
        self._check_places(places)
        return words & ~low | second << _SECOND_SHIFT, places

    def _check_places(self, places: _Numbers | npt.NDArray[np.int32]) -> None:
        if len(places) and places.max() >> STRETCH_BITS >= self.count:
            raise CorruptFileError(self.source.name, 0, "an entry of a file group without a name")

    def _entries(self, first: int, end: int) -> Words:
        """Some entries as words, whose first byte is 0."""
        page, stop = first // PAGE_ENTRIES, -(-end // PAGE_ENTRIES)
        pages = self._read(page, stop)
        self._check(page, pages, np.ones(stop - page, np.uint8), np.zeros(stop - page, np.uint8))
        words = np.empty(end - first, np.uint64)
        read_entries(pages, first - page * PAGE_ENTRIES, words)
        return words

    def _directory(self) -> _Numbers:
        """The place of each block's first entry, and the end."""
        if self._starts is None:
            start, size = len(self._proven) * PAGE, directory_size(self.entries)
            data = self.source.read(start, size)
            if len(data) != size or checksum_of(data) != self._directory_sum:
                raise CorruptFileError(self.source.name, start, "its directory is damaged")
            if self.entries < SPARSE:
                blocks = np.frombuffer(data, np.uint16, self.entries)
                counts = np.bincount(blocks, minlength=BLOCKS)
                self._starts = np.concatenate([np.zeros(1, np.int64), counts.cumsum()])
            else:
                self._starts = np.frombuffer(data, np.int64)
            steps = np.diff(self._starts)
            if steps.min() < 0 or self._starts[0] != 0 or self._starts[-1] != self.entries:
                raise CorruptFileError(self.source.name, start, "its directory is not in order")
        return self._starts

    def _windows(self, hashes: Words) -> Iterator[tuple[slice, int, _Bytes, _Bytes]]:
        """The pages that hold all entries of the blocks of some of the hashes.

        Args:
            hashes: in order.

        Returns:
            The places of these hashes, the number of the first page, the pages, and by page whether
            it was compared with its checksum before.
        """
        starts = self._directory()
        blocks = (hashes >> _BLOCK_SHIFT).astype(np.int64)
        if isinstance(self.source, Mappable):
            if self._map is None:
                self._map = self.source.map()
            self._read_ahead(hashes, starts[blocks], starts[blocks + 1])
            pages = np.frombuffer(self._map, np.uint8, len(self._proven) * PAGE)
            yield slice(0, len(hashes)), 0, pages, self._proven
            return
        low, high = starts[blocks] // PAGE_ENTRIES, -(-starts[blocks + 1] // PAGE_ENTRIES)
        for rows in _runs_of_pages(low, high):
            first, end = int(low[rows.start]), int(high[rows.stop - 1])
            yield rows, first, self._read(first, end), np.zeros(end - first, np.uint8)

    def _find(self, hashes: Words, first: int, pages: _Bytes, proven: _Bytes) -> Candidates:
        """The candidates of hashes, in order, whose entries are in some pages."""
        used = np.zeros(len(proven), np.uint8)
        file = (self._directory() - first * PAGE_ENTRIES, pages, used)
        found, done, room = [], 0, 2 * len(hashes) + 64
        while done < len(hashes):
            rows, groups = np.empty(room, np.int64), np.empty(room, np.int32)
            count, answered = find(hashes[done:], self.bits, file, rows, groups)
            found.append(Candidates(done + rows[:count], groups[:count]))
            done += answered
            # A key may have more candidates than there is room.
            room *= 2
        self._check(first, pages, used, proven)
        return Candidates(
            np.concatenate([each.rows for each in found]),
            np.concatenate([each.places for each in found]),
        )

    def _read(self, first: int, end: int) -> _Bytes:
        """Some pages."""
        data = self.source.read(first * PAGE, (end - first) * PAGE)
        if len(data) != (end - first) * PAGE:
            raise CorruptFileError(self.source.name, first * PAGE, "pages are missing")
        return np.frombuffer(data, np.uint8)

    def _check(self, first: int, pages: _Bytes, used: _Bytes, proven: _Bytes) -> None:
        """Refuse pages that were used and are not as they were written."""
        damaged = first_damaged(pages, used, proven)
        if damaged >= 0:
            place = (first + damaged) * PAGE
            raise CorruptFileError(self.source.name, place, "the checksum of a page differs")

    def _read_ahead(self, hashes: Words, first: _Numbers, end: _Numbers) -> None:
        """Tell the system which pages sorted hashes will need, so that it reads them at once.

        Args:
            hashes: in order.
            first: the place of the first entry of each one's block.
            end: the place behind its last entry.
        """
        assert self._map is not None
        share = (hashes << np.uint64(16)).astype(np.float64) / 2.0**64
        # Half a block's entries vary by their square root.
        spread = np.sqrt(end - first) + 1
        guess = first + share * (end - first)
        low = np.maximum(guess - spread, 0).astype(np.int64) // PAGE_ENTRIES
        high = np.minimum(guess + spread, self.entries - 1).astype(np.int64) // PAGE_ENTRIES + 1
        for rows in _runs_of_pages(low, high):
            # The system's pages may be larger.
            start = int(low[rows.start]) * PAGE // mmap.PAGESIZE * mmap.PAGESIZE
            length = int(high[rows.stop - 1]) * PAGE - start
            self._map.madvise(mmap.MADV_WILLNEED, start, length)


def _runs_of_pages(low: _Numbers, high: _Numbers) -> Iterator[slice]:
    """Stretches of hashes whose pages are read at once: neighbours, with small gaps between them.

    Args:
        low: the first page of each hash, ascending.
        high: the page behind its last.
    """
    high = np.maximum.accumulate(high)
    apart = low[1:] > high[:-1] + _GAP
    cut = low[1:] // _WINDOW != low[:-1] // _WINDOW
    starts = [0, *(np.flatnonzero(apart | cut) + 1).tolist(), len(low)]
    for start, stop in itertools.pairwise(starts):
        if start < stop:
            yield slice(start, stop)
