"""Keys that are made instead of read: each a function of its row's number.

    row numbers -> scan tasks -> spill files of numbers by shard -> shard tasks make the keys again

A number takes 4 bytes of a spill file, where a key with its location takes 40.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.format.kernels.pieces import Spilled
from keymark.table.format.kernels.scatter import assign, no_sums, partition_numbers
from keymark.table.index.build.scan import ScanDone, scan_name, scan_once
from keymark.table.index.build.spill import Stretch, encode_numbers, spilled_numbers
from keymark.table.keygen import record_keys
from keymark.table.properties.config import TableConfig
from keymark.table.storage.storage import Storage

# Keys made at once: few enough to stay in the processor's cache.
_ROWS_AT_ONCE = 1 << 16
_TASK_ROWS_MAX = 1 << 22


class RowSource(Protocol):
    """Rows of which key and place are known without storing them; equal in every process."""

    @property
    def rows(self) -> int:
        """How many rows there are: their numbers are those below."""

    @property
    def fingerprint(self) -> str:
        """Text that is another one where a key or a place is."""

    def places(self) -> tuple[pa.Table, Sequence[str]]:
        """All file groups: partition columns (no columns for none), file ids."""

    def make(self, numbers: npt.NDArray[np.int64], /) -> tuple[pa.Table, npt.NDArray[np.int32]]:
        """Key columns of rows by number, and file groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask:
    """Rows `first` to `end`, exclusive; `words` are what file groups add to the digest."""

    storage: Storage
    folder: str
    number: int
    source: RowSource
    config: TableConfig
    words: npt.NDArray[np.uint64]
    first: int
    end: int
    shards: int


def task_bounds(rows: int, shards: int) -> Iterator[tuple[int, int]]:
    """First row and end of each task: a shard gets about as many keys of it as are made at once."""
    step = min(_ROWS_AT_ONCE * shards, _TASK_ROWS_MAX)
    return ((first, min(first + step, rows)) for first in range(0, rows, step))


def scan_rows(task: RowTask) -> ScanDone:
    """Spill the numbers of a task's rows, unless that was done before.

    Raises:
        InputError: a row has no key that an index can hold.
    """
    name = scan_name(task.folder, task.number)

    def spill() -> ScanDone:
        sums = no_sums(task.shards)
        owner = np.empty(task.end - task.first, np.int32)
        for start in range(task.first, task.end, _ROWS_AT_ONCE):
            numbers = np.arange(start, min(start + _ROWS_AT_ONCE, task.end), dtype=np.int64)
            columns, codes = task.source.make(numbers)
            at = start - task.first
            keys = record_keys(columns, task.config)
            owner[at : at + len(numbers)] = assign(keys, codes, task.words, sums)
        data = encode_numbers(task.first, partition_numbers(owner, sums), sums)
        path = f"{name}-{secrets.token_hex(4)}.rows"
        task.storage.put(path, data)
        return ScanDone(len(owner), (path,))

    return scan_once(task.storage, name, spill)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Makes the keys of spilled row numbers."""

    source: RowSource
    config: TableConfig

    def __call__(self, stretch: Stretch) -> Spilled:
        """Keys and file groups of a stretch."""
        columns, codes = self.source.make(spilled_numbers(stretch))
        offsets, text = string_buffers(record_keys(columns, self.config))
        lengths = np.diff(offsets).astype(np.uint16)
        for made in (codes, lengths):
            # As what is read from files: kernels are compiled anew for writable arrays.
            made.flags.writeable = False
        return Spilled(codes, lengths, text[offsets[0] : offsets[-1]])
