"""Keys on their way from the tasks that wrote them to the shards of an index.

A task of a bulk insert writes such a file whenever it has enough keys: for each shard an Arrow
IPC stream of (key, file number of the task), one behind the other. A shard's task reads its
stretch of every file. The files lie among the instant's markers and go with them. Each has a name
of its own, since Spark may run a task again whose files are there. An index without shards gets
stretches of some size.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.layout.naming import TEMP
from keymark.table.metadata.shard import split_by_shard
from keymark.table.storage.storage import Storage

_SCHEMA = pa.schema([("key", pa.string()), ("file", pa.int32())])
_STRETCH_KEYS = 1 << 17
# While they are sorted by shard, keys are there as columns, copied, encoded and as a whole file.
_KEY_COPIES = 6


@dataclass(frozen=True, slots=True)
class KeyFile:
    """Where a task's keys are: path, and (offset, length) in bytes of each shard's stretch.

    A stretch without keys has no bytes.
    """

    path: str
    stretches: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return sum(length for _, length in self.stretches)

    def read(self, storage: Storage, shard: int) -> pa.Table:
        """The keys of a shard with their file numbers."""
        offset, length = self.stretches[shard]
        if not length:
            return _SCHEMA.empty_table()
        data = storage.open(self.path).read(offset, length)
        return pa.ipc.open_stream(data).read_all()


def write_key_file(storage: Storage, instant: str, entries: pa.Table, shards: int) -> KeyFile:
    """Put a task's keys, each with the number of the file that holds it (key, file)."""
    parts: list[bytes] = []
    stretches: list[tuple[int, int]] = []
    offset = 0
    for rows in split_by_shard(entries["key"].combine_chunks(), shards):
        part = _stream(entries.take(pa.array(rows))) if len(rows) else b""
        parts.append(part)
        stretches.append((offset, len(part)))
        offset += len(part)
    path = f"{TEMP}/{instant}/.keymark/{uuid.uuid4().hex}.keys"
    storage.put(path, b"".join(parts))
    return KeyFile(path, tuple(stretches))


@dataclass(slots=True, kw_only=True)
class KeySink:
    """Takes a task's keys, each of a file or place with a number.

    A key file is put each time sorting the keys would take the memory.

    Attributes:
        storage: where the files go.
        instant: among whose markers.
        shards: of the index; 0 for an index without shards.
        memory: bytes that the task may hold.
    """

    storage: Storage
    instant: str
    shards: int
    memory: int
    _keys: list[tuple[pa.Array, int]] = field(default_factory=list)
    _bytes: int = 0
    _files: list[KeyFile] = field(default_factory=list)

    def add(self, keys: pa.Array, number: int) -> None:
        """Take the keys of a file or place, which has a number."""
        most = self.memory // _KEY_COPIES
        step = max(1, most * len(keys) // max(1, keys.nbytes))
        for start in range(0, len(keys), step):
            part = keys.slice(start, step)
            self._keys.append((part, number))
            self._bytes += part.nbytes
            if self._bytes >= most:
                self._put()

    def close(self) -> tuple[KeyFile, ...]:
        """Put what is left; all key files."""
        if self._keys:
            self._put()
        return tuple(self._files)

    def _put(self) -> None:
        keys = pa.concat_arrays([keys for keys, _ in self._keys])
        files = np.repeat(
            np.array([number for _, number in self._keys], np.int32),
            [len(keys) for keys, _ in self._keys],
        )
        entries = pa.table({"key": keys, "file": files})
        shards = self.shards or stretches(len(files))
        self._files.append(write_key_file(self.storage, self.instant, entries, shards))
        self._keys, self._bytes = [], 0


def keys_of_files(storage: Storage, files: Iterable[tuple[str, int]]) -> Iterator[pa.Array]:
    """The keys in whole key files, stretch by stretch.

    Args:
        storage: the table's.
        files: path and size in bytes of each.

    Raises:
        CorruptFileError: a file is gone, or is not as it was put.
    """
    for path, size in files:
        try:
            data = storage.read(path)
        except FileNotFoundError as error:
            raise CorruptFileError(path, 0, "a file of keys that is gone") from error
        if len(data) != size:
            raise CorruptFileError(path, len(data), f"a file of keys of {size} bytes")
        source = pa.BufferReader(data)
        try:
            while source.tell() < size:
                with pa.ipc.open_stream(source) as stream:
                    yield from (batch["key"] for batch in stream)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise CorruptFileError(path, source.tell(), f"a file of keys: {error}") from error


def stretches(keys: int) -> int:
    """Into how many stretches keys are cut where no shards do it, by their number."""
    return max(1, -(-keys // _STRETCH_KEYS))


def _stream(entries: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_table(entries.cast(_SCHEMA))
    return bytes(sink.getvalue())
