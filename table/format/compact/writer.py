"""Writes a compact index file from keys, their file groups, and where in these they are.

    keys -> hashes -> 256 parts by the first byte, in memory, then in runs on the local disk
    a part -> sorted -> blocks -> pages

The layout is drawn in docs/formats/compact.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import InputError
from keymark.table.format.compact.kernels import (
    PAGE,
    PAGE_ENTRIES,
    checksum,
    count_first_bytes,
    deal_out,
    fill_pages,
    seal_pages,
)
from keymark.table.format.hashes.digest import entry_hashes
from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.storage.spool import LocalFile

COMPACT = ".compact"
"""The end of a file's name."""
MAGIC = b"KMCOMP03"
TRAILER = struct.Struct("<7Q8s")
MOST_GROUPS = 1 << 24
STRETCH_BITS = 5
STRETCH_ROWS = 2048
"""Rows of a stretch: as many as a page of a new file has by default (keymark.parquet.page.rows)."""
UNKNOWN_STRETCH = (1 << STRETCH_BITS) - 1
"""Stands where the row is not known. Stretches are counted up to it, then from 0 again."""
PARTS = 256
BLOCKS = 1 << 16
# With fewer entries the block of each takes less room than where each block begins.
SPARSE = 1 << 18
_SEED = np.array([0x243F6A8885A308D3, 0x13198A2E03707344], np.uint64)

Words = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]


def hashes_of(keys: pa.Array | pa.ChunkedArray) -> Words:
    """The hash of each key.

    Args:
        keys: texts without nulls.
    """
    offsets, text = string_buffers(keys)
    return entry_hashes(text, offsets, _SEED)


def stretches_of(rows: _Numbers) -> _Numbers:
    """The stretch of each row of a base file."""
    return rows // STRETCH_ROWS % UNKNOWN_STRETCH


def place_bits(groups: int) -> int:
    """How many bits the number of a file group takes, with that of a stretch.

    Raises:
        InputError: they are too many.
    """
    if groups > MOST_GROUPS:
        raise InputError(f"{groups:,} file groups, at most {MOST_GROUPS:,} are possible")
    return max(1, (groups - 1).bit_length()) + STRETCH_BITS


def directory_size(entries: int) -> int:
    """Bytes of the directory, by the number of entries."""
    if entries < SPARSE:
        return 2 * entries + -2 * entries % 8
    return 8 * (BLOCKS + 1)


def checksum_of(data: bytes) -> int:
    """The checksum of bytes, filled up with zeros to whole words."""
    filled = np.frombuffer(data + bytes(-len(data) % 8), np.uint8)
    return int(checksum(filled, 0, len(filled) // 8))


class CompactWriter:
    """Takes keys in batches of any order and size; `finish` writes the file.

    Args:
        groups: the names of the file groups.
        memory: bytes of hashes that stay in memory; more go to local files.

    Raises:
        InputError: too many file groups, or a name with a line feed.
    """

    def __init__(self, groups: Sequence[str], *, memory: int = 256 << 20) -> None:
        self._groups = list(groups)
        self._bits = place_bits(len(groups))
        self._most = max(1, memory // 8)
        self._lots: list[tuple[Words, _Numbers]] = []
        self._held = 0
        self._runs: list[tuple[LocalFile, _Numbers]] = []

    def add(
        self,
        keys: pa.Array | pa.ChunkedArray,
        groups: npt.NDArray[np.int32],
        rows: _Numbers | None = None,
    ) -> None:
        """Add keys.

        Args:
            keys: texts without nulls.
            groups: of each the place of its file group among the names.
            rows: of each its row in the base file; None where that is not known.

        Raises:
            InputError: a file group has no name.
            StorageError: the local disk is full.
        """
        if len(groups) and not 0 <= int(groups.min()) <= int(groups.max()) < len(self._groups):
            raise InputError(f"file groups are numbered from 0 to {len(self._groups) - 1}")
        hashes = hashes_of(keys)
        bounds = np.zeros(PARTS + 1, np.int64)
        count_first_bytes(hashes, bounds[1:])
        np.cumsum(bounds, out=bounds)
        words = np.empty(len(hashes), np.uint64)
        stretches = UNKNOWN_STRETCH if rows is None else stretches_of(rows)
        places = (groups.astype(np.int32) << STRETCH_BITS | stretches).astype(np.int32)
        deal_out(hashes, places, self._bits, bounds[:-1].copy(), words)
        self._lots.append((words, bounds))
        self._held += len(words)
        if self._held >= self._most:
            self._spill()

    def finish(self, append: Callable[[bytes], object]) -> int:
        """Write the file and forget all keys.

        Args:
            append: takes the bytes of the file, one behind the other.

        Returns:
            Its entries.
        """
        entries = write_file(append, self._groups, self._bits, self._part)
        self._runs, self._lots, self._held = [], [], 0
        return entries

    def _spill(self) -> None:
        file = LocalFile("hashes of keys")
        bounds = np.zeros(PARTS + 1, np.int64)
        for part in range(PARTS):
            words = [words[ends[part] : ends[part + 1]] for words, ends in self._lots]
            file.append(np.concatenate(words).tobytes())
            bounds[part + 1] = file.size // 8
        self._runs.append((file, bounds))
        self._lots, self._held = [], 0

    def _part(self, part: int) -> Words:
        """All words of a part."""
        found = [words[ends[part] : ends[part + 1]] for words, ends in self._lots]
        for file, ends in self._runs:
            first, last = 8 * int(ends[part]), 8 * int(ends[part + 1])
            found.append(np.frombuffer(file.read(first, last - first), np.uint64))
        return np.concatenate([np.empty(0, np.uint64), *found])


def write_file(
    append: Callable[[bytes], object],
    groups: Sequence[str],
    bits: int,
    part: Callable[[int], Words],
) -> int:
    """Write a file part by part; only one is in memory.

    Args:
        append: takes the bytes of the file, one behind the other.
        groups: the names of the file groups.
        bits: of a place in a word.
        part: gives the words of all hashes with that first byte: the second to eighth byte of each,
            its end replaced by the place: number of the file group, and of the stretch of rows.
            They are sorted in place.

    Returns:
        The entries.

    Raises:
        InputError: a name has a line feed.
    """
    if any("\n" in name for name in groups):
        raise InputError("the name of a file group holds a line feed")
    directory = np.zeros(BLOCKS + 1, np.int64)
    left = np.empty(0, np.uint64)
    for number in range(PARTS):
        words = part(number)
        words.sort()
        count_first_bytes(words, directory[1 + number * PARTS :][:PARTS])
        left = np.concatenate([left, words])
        whole = len(left) // PAGE_ENTRIES * PAGE_ENTRIES
        append(_pages(left[:whole]))
        left = left[whole:]
    append(_pages(left))
    entries = int(directory.sum())
    stored = directory.cumsum().tobytes()
    if entries < SPARSE:
        stored = np.repeat(np.arange(BLOCKS, dtype=np.uint16), directory[1:]).tobytes()
        stored += bytes(-len(stored) % 8)
    names = "".join(f"{name}\n" for name in groups).encode()
    facts = [entries, len(groups), bits, len(names), checksum_of(stored), checksum_of(names)]
    head = struct.pack("<6Q", *facts)
    append(stored + names + TRAILER.pack(*facts, checksum_of(head), MAGIC))
    return entries


def _pages(words: Words) -> bytes:
    """Words as pages of entries; only the last page of a file is not full."""
    pages = np.zeros(-(-len(words) // PAGE_ENTRIES) * PAGE, np.uint8)
    fill_pages(words, 0, pages)
    seal_pages(pages)
    return pages.tobytes()
