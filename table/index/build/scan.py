"""The one pass over the record keys: base files -> spill files, a few files per task."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.hashes.digest import location_words
from keymark.table.format.hashes.hashing import shards, string_buffers
from keymark.table.format.kernels.scatter import partition_keys
from keymark.table.format.parquet.base_file import read_metadata
from keymark.table.index.build.spill import encode_spill
from keymark.table.index.build.target import decoding_build_file, put_once
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.state.base_files import open_sized
from keymark.table.storage.storage import Storage

_KEY_BYTES_MAX = 32767


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Files to read: `files` have the numbers from `first` on in the snapshot.

    `flush_bytes` bounds the keys that a task holds; `shards` is their number. Only keys of the
    shard `only` are spilled; None for all.
    """

    storage: Storage
    folder: str
    number: int
    first: int
    files: tuple[BaseFile, ...]
    keys: StoredKeys
    shards: int
    flush_bytes: int
    only: int | None = None

    @property
    def name(self) -> str:
        """Start of the names of the task's own files."""
        return scan_name(self.folder, self.number)


def scan_name(folder: str, number: int) -> str:
    """Start of the names of the own files of a build's n-th task."""
    return f"{folder}/scan-{number:06d}"


@dataclass(frozen=True, slots=True)
class ScanDone:
    """What a task read, and where it is."""

    rows: int
    spills: tuple[str, ...]


def scan_files(task: ScanTask) -> ScanDone:
    """Spill the keys of a task's files, unless that was done before.

    Raises:
        CorruptFileError: a file is damaged, or a row in it has no key.
    """

    def spill() -> ScanDone:
        spiller = _Spiller(task)
        for number, file in enumerate(task.files):
            for keys in record_keys(task.storage, file, task.keys):
                if task.only is None:
                    spiller.take(keys, number)
                else:
                    mine = shards(keys, task.shards) == task.only
                    spiller.take(keys.filter(pa.array(mine)), number)
        return spiller.close()

    return scan_once(task.storage, task.name, spill)


def scan_once(storage: Storage, name: str, spill: Callable[[], ScanDone]) -> ScanDone:
    """Do a task, unless that was done before; `name` is what the names of its files start with."""
    with contextlib.suppress(FileNotFoundError):
        return _read(storage, name)
    done = spill()
    content = json.dumps({"rows": done.rows, "spills": done.spills}).encode()
    if put_once(storage, f"{name}.json", content):
        return done
    # Another attempt at the same task came first: its files are the ones that count.
    return _read(storage, name)


def _read(storage: Storage, name: str) -> ScanDone:
    data = storage.read(f"{name}.json")
    with decoding_build_file(f"{name}.json"):
        document = json.loads(data)
        return ScanDone(document["rows"], tuple(document["spills"]))


def record_keys(storage: Storage, file: BaseFile, stored: StoredKeys) -> Iterator[pa.Array]:
    """The record keys of a base file, as non-empty arrays.

    Raises:
        CorruptFileError: the file is damaged, or a row in it has no key that an index can hold.
    """
    source = open_sized(storage, file)
    for keys in stored.chunks(source, read_metadata(source)):
        if keys.null_count:
            raise CorruptFileError(file.path, 0, f"{keys.null_count} rows have no record key")
        if len(keys):
            _check_lengths(keys, file.path)
            yield keys


def _check_lengths(keys: pa.Array, path: str) -> None:
    offsets, _ = string_buffers(keys)
    lengths = offsets[1:] - offsets[:-1]
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < 1 or longest > _KEY_BYTES_MAX:
        wrong = longest if shortest else 0
        detail = f"a record key of {wrong} bytes, not 1 to {_KEY_BYTES_MAX}"
        raise CorruptFileError(path, 0, detail)


@dataclass(slots=True)
class _Spiller:
    """Holds keys up to the flush size, then deals them out and puts a spill file."""

    task: ScanTask
    words: Any = None
    pending: list[tuple[pa.Array, int]] = field(default_factory=list)
    pending_bytes: int = 0
    rows: int = 0
    spills: list[str] = field(default_factory=list)
    token: str = field(default_factory=lambda: secrets.token_hex(4))

    def __post_init__(self) -> None:
        files = self.task.files
        paths = [file.partition_path for file in files]
        self.words = location_words(paths, [file.file_id for file in files])

    def take(self, keys: pa.Array, number: int) -> None:
        """Add keys of the task's n-th file."""
        step = max(1, self.task.flush_bytes * len(keys) // max(1, keys.nbytes))
        for start in range(0, len(keys), step):
            part = keys.slice(start, step)
            self.pending.append((part, number))
            self.pending_bytes += part.nbytes
            if self.pending_bytes >= self.task.flush_bytes:
                self._flush()

    def _flush(self) -> None:
        dealt = partition_keys(self.pending, self.words, self.task.shards, first=self.task.first)
        self.pending, self.pending_bytes = [], 0
        path = f"{self.task.name}-{self.token}-{len(self.spills)}.keys"
        self.task.storage.put(path, encode_spill(dealt))
        self.spills.append(path)
        self.rows += len(dealt.codes)

    def close(self) -> ScanDone:
        """Flush what is left."""
        if self.pending:
            self._flush()
        return ScanDone(self.rows, tuple(self.spills))
