"""Writes a compact index file from keys and their file groups.

    keys -> hashes -> 256 parts by the first byte, in memory, then in runs on the local disk
    a part -> sorted -> blocks -> pages

The layout is drawn in docs/formats/compact.md.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import InputError
from keymark.table.format.compact.kernels import (
    ENTRY_BITS,
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

MAGIC = b"KMCOMP01"
HEADER = struct.Struct("<8s7Q")
MOST_GROUPS = 1 << 24
PARTS = 256
_MOST_BITS = 16
_LOW = np.uint64((1 << ENTRY_BITS) - 1)
_SEED = np.array([0x243F6A8885A308D3, 0x13198A2E03707344], np.uint64)

_Words = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]


def hashes_of(keys: pa.Array | pa.ChunkedArray) -> _Words:
    """The hash of each key.

    Args:
        keys: texts without nulls.
    """
    offsets, text = string_buffers(keys)
    return entry_hashes(text, offsets, _SEED)


def directory_bits(entries: int) -> int:
    """How many bits of a hash are the number of its block."""
    if entries < 1 << 12:
        return 0
    return 8 if entries < 1 << 20 else _MOST_BITS


class CompactWriter:
    """Takes keys in batches of any order and size; `finish` writes the file.

    Args:
        groups: the names of the file groups.
        memory: bytes of hashes that stay in memory; more go to files in `folder`.
        folder: for these; None for the system's.

    Raises:
        InputError: too many file groups, or a name with a line feed.
    """

    def __init__(
        self, groups: Sequence[str], *, memory: int = 256 << 20, folder: Path | None = None
    ) -> None:
        if len(groups) > MOST_GROUPS:
            raise InputError(f"{len(groups):,} file groups, at most {MOST_GROUPS:,} are possible")
        if any("\n" in name for name in groups):
            raise InputError("the name of a file group holds a line feed")
        self._groups = list(groups)
        self._bits = max(1, (len(groups) - 1).bit_length())
        self._most = max(1, memory // 8)
        self._folder = folder
        self._lots: list[tuple[_Words, _Numbers]] = []
        self._held = 0
        self._runs: list[tuple[BinaryIO, _Numbers]] = []

    def add(self, keys: pa.Array | pa.ChunkedArray, groups: npt.NDArray[np.int32]) -> None:
        """Add keys.

        Args:
            keys: texts without nulls.
            groups: of each the place of its file group among the names.

        Raises:
            InputError: a file group has no name.
        """
        if len(groups) and not 0 <= int(groups.min()) <= int(groups.max()) < len(self._groups):
            raise InputError(f"file groups are numbered from 0 to {len(self._groups) - 1}")
        hashes = hashes_of(keys)
        bounds = np.zeros(PARTS + 1, np.int64)
        count_first_bytes(hashes, bounds[1:])
        np.cumsum(bounds, out=bounds)
        words = np.empty(len(hashes), np.uint64)
        deal_out(hashes, groups, self._bits, bounds[:-1].copy(), words)
        self._lots.append((words, bounds))
        self._held += len(words)
        if self._held >= self._most:
            self._spill()

    def finish(self, path: Path) -> int:
        """Write the file, synced, and forget all keys.

        Args:
            path: of a file that is not there yet.

        Returns:
            Its entries.

        Raises:
            FileExistsError: it is there.
        """
        entries = sum(int(bounds[-1]) for _, bounds in [*self._lots, *self._runs])
        bits = directory_bits(entries)
        names = "".join(f"{name}\n" for name in self._groups).encode()
        directory = np.zeros((1 << bits) + 1, np.int64)
        start = HEADER.size + directory.nbytes + len(names)
        start += -start % PAGE
        new = path.open("xb")
        try:
            with new as file:
                file.truncate(start)
                file.seek(start)
                self._write_pages(file, bits, directory)
                facts = [entries, len(self._groups), bits, self._bits, len(names)]
                rest = directory.tobytes() + names
                head = HEADER.pack(MAGIC, *facts, 0, 0)
                file.seek(0)
                file.write(HEADER.pack(MAGIC, *facts, checksum_of(head + rest), 0) + rest)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            self.close()
        return entries

    def close(self) -> None:
        """Remove the files of spilled hashes."""
        for file, _ in self._runs:
            file.close()
        self._runs, self._lots, self._held = [], [], 0

    def _spill(self) -> None:
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  closed by `close`
        bounds = np.zeros(PARTS + 1, np.int64)
        for part in range(PARTS):
            bounds[part + 1] = bounds[part]
            for words, ends in self._lots:
                file.write(words[ends[part] : ends[part + 1]].tobytes())
                bounds[part + 1] += ends[part + 1] - ends[part]
        self._runs.append((file, bounds))
        self._lots, self._held = [], 0

    def _part(self, part: int) -> _Words:
        """All words of a part."""
        found = [words[ends[part] : ends[part + 1]] for words, ends in self._lots]
        for file, ends in self._runs:
            file.seek(int(ends[part]) * 8)
            data = file.read(int(ends[part + 1] - ends[part]) * 8)
            found.append(np.frombuffer(data, np.uint64))
        return np.concatenate([np.empty(0, np.uint64), *found])

    def _write_pages(self, file: BinaryIO, bits: int, directory: _Numbers) -> None:
        """Write all entries, and count those of each block in the directory."""
        left, block = np.empty(0, np.uint64), 1
        for words in self._sorted_parts(bits):
            if bits == _MOST_BITS:
                count_first_bytes(words, directory[block : block + PARTS])
                block += PARTS
            else:
                directory[block] = len(words)
                block += 1
            left = np.concatenate([left, words])
            whole = len(left) // PAGE_ENTRIES * PAGE_ENTRIES
            _write(file, left[:whole])
            left = left[whole:]
        _write(file, left)
        np.cumsum(directory, out=directory)

    def _sorted_parts(self, bits: int) -> Iterator[_Words]:
        """The words of each first byte, of few keys all words, in the order of their entries."""
        parts = (self._part(part) for part in range(PARTS))
        for words in parts if bits else [np.concatenate(list(parts))]:
            # The byte that only the directory tells is no part of an entry.
            entries = words & _LOW if bits < _MOST_BITS else words
            entries.sort()
            yield entries


def _write(file: BinaryIO, words: _Words) -> None:
    """Write entries as pages; only the last of a file is not full."""
    pages = np.zeros(-(-len(words) // PAGE_ENTRIES) * PAGE, np.uint8)
    fill_pages(words, 0, pages)
    seal_pages(pages)
    file.write(pages.tobytes())


def checksum_of(data: bytes) -> int:
    """The checksum of bytes, filled up with zeros to whole words."""
    filled = np.frombuffer(data + bytes(-len(data) % 8), np.uint8)
    return int(checksum(filled, 0, len(filled) // 8))
