"""Reads compact index files: candidates for keys.

The layout is drawn in docs/formats/compact.md.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.compact.kernels import PAGE, PAGE_ENTRIES, find, first_damaged
from keymark.table.format.compact.writer import (
    HEADER,
    MAGIC,
    MOST_GROUPS,
    checksum_of,
    directory_bits,
    hashes_of,
)

# Pages between two that are wanted are read with them, if they are no more than these.
_GAP = 16

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """File groups that may hold keys; a key may have several.

    Attributes:
        rows: of each candidate the place of its key among those asked for.
        groups: the number of its file group.
    """

    rows: _Numbers
    groups: npt.NDArray[np.int32]


@dataclass(slots=True)
class CompactFile:
    """An open file; `close` it, or use it in a `with` statement.

    Attributes:
        name: of the file, for errors.
        entries: how many there are.
        groups: the names of the file groups.
    """

    name: str
    entries: int
    groups: Sequence[str]
    _shape: tuple[int, int]
    _directory: _Numbers
    _start: int
    _map: mmap.mmap
    _proven: npt.NDArray[np.uint8] = field(init=False)

    def __post_init__(self) -> None:
        self._proven = np.zeros(-(-self.entries // PAGE_ENTRIES), np.uint8)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file.

        Raises:
            FileNotFoundError: there is none.
            CorruptFileError: it is damaged, or no such file.
        """
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(HEADER.size)
            if len(head) < HEADER.size or not head.startswith(MAGIC):
                raise CorruptFileError(str(path), 0, "no compact index file")
            _, entries, count, bits, group_bits, names, told, _ = HEADER.unpack(head)
            start = HEADER.size + 8 * ((1 << min(bits, 16)) + 1) + names
            start += -start % PAGE
            pages = -(-entries // PAGE_ENTRIES)
            if bits != directory_bits(entries) or start + pages * PAGE != size:
                raise CorruptFileError(str(path), 0, f"{size} bytes are not what its header says")
            rest = file.read(8 * ((1 << bits) + 1) + names)
            zeroed = HEADER.pack(*HEADER.unpack(head)[:6], 0, 0)
            if checksum_of(zeroed + rest) != told or count > MOST_GROUPS:
                raise CorruptFileError(str(path), 0, "its header or directory is damaged")
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        directory = np.frombuffer(rest, np.int64, (1 << bits) + 1)
        texts = rest[directory.nbytes :].decode().split("\n")[:-1]
        return cls(str(path), entries, texts, (bits, group_bits), directory, start, view)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back."""
        # An error still holds what was read: then the system takes the file back with it.
        with contextlib.suppress(BufferError):
            self._map.close()

    def find(self, keys: pa.Array | pa.ChunkedArray) -> Candidates:
        """The candidates of keys; none for a key that is certainly absent.

        Args:
            keys: texts without nulls.

        Raises:
            CorruptFileError: a page that was needed is damaged.
        """
        hashes = hashes_of(keys)
        order = np.argsort(hashes)
        hashes = hashes[order]
        if not self.entries or not len(hashes):
            return Candidates(np.empty(0, np.int64), np.empty(0, np.int32))
        self._read_ahead(hashes)
        pages = np.frombuffer(self._map, np.uint8, offset=self._start)
        used = np.zeros(len(self._proven), np.uint8)
        file = (self._directory, pages, used)
        found, done, room = [], 0, 2 * len(hashes) + 64
        while done < len(hashes):
            rows, groups = np.empty(room, np.int64), np.empty(room, np.int32)
            count, answered = find(hashes[done:], self._shape, file, rows, groups)
            found.append(Candidates(order[done + rows[:count]], groups[:count]))
            done += answered
            # A key may have more candidates than there is room.
            room *= 2
        damaged = first_damaged(pages, used, self._proven)
        if damaged >= 0:
            place = self._start + damaged * PAGE
            raise CorruptFileError(self.name, place, "the checksum of a page differs")
        return Candidates(
            np.concatenate([each.rows for each in found]),
            np.concatenate([each.groups for each in found]),
        )

    def _read_ahead(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Tell the system which pages sorted hashes will need, so that it reads them at once."""
        bits, _ = self._shape
        blocks = hashes >> np.uint64(64 - bits) if bits else np.zeros(len(hashes), np.uint64)
        first = self._directory[blocks.astype(np.int64)]
        size = self._directory[blocks.astype(np.int64) + 1] - first
        share = (hashes << np.uint64(16)).astype(np.float64) / 2.0**64
        # Half a block's entries vary by their square root.
        spread = np.sqrt(size) + 1
        guess = first + share * size
        low = np.maximum(guess - spread, 0).astype(np.int64) // PAGE_ENTRIES
        high = np.minimum(guess + spread, self.entries - 1).astype(np.int64) // PAGE_ENTRIES
        # Runs of pages with small gaps between them.
        high = np.maximum.accumulate(high)
        starts = np.flatnonzero(np.append(True, low[1:] > high[:-1] + _GAP))
        ends = np.append(starts[1:], len(low)) - 1
        for page, last in zip(low[starts].tolist(), high[ends].tolist(), strict=True):
            length = (last - page + 1) * PAGE
            self._map.madvise(mmap.MADV_WILLNEED, self._start + page * PAGE, length)
