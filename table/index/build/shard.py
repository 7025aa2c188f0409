"""One shard: spilled keys -> sorted -> base HFile -> read back and compared with the data."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.hashes.digest import Digest, digest_entries, location_words, total
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.strings import Ordered
from keymark.table.format.hfile.writer import HFileWriter
from keymark.table.format.kernels.interner import Interner
from keymark.table.index.build.ordered import OrderedKeys
from keymark.table.index.build.spill import KeyReader, Stretch, find_stretch, spilled_keys
from keymark.table.index.build.target import decoding_build_file, put_base, put_once
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.records import (
    SCHEMA,
    decode_location,
    location_places,
    location_tails,
)
from keymark.table.properties.options import TASK_MEMORY_BYTES
from keymark.table.runtime.runner import LocalRunner
from keymark.table.storage.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """One shard of `shards`; `base` is its base file, of a size not known yet.

    `read` gives the keys of what was spilled, `threads` work on it; `memory` bytes are
    for keys, and for the base file.
    """

    storage: Storage
    folder: str
    number: int
    shards: int
    base: BaseFile
    block_size: int
    read: KeyReader = spilled_keys
    threads: int = 1
    memory: int = TASK_MEMORY_BYTES

    @property
    def record(self) -> str:
        """The file that says that the shard is done."""
        return f"{self.folder}/shard-{self.number:05d}.json"

    @property
    def path(self) -> str:
        """The base file's path in the table."""
        return f"{METADATA}/{self.base.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardDone:
    """A shard's base file; of size 0 where the shard has no entries.

    A shard in which `repeated` keys occur once more than they should has no base file, either.
    """

    size: int = 0
    repeated: int = 0
    count: int = 0
    low: int = 0
    high: int = 0

    @property
    def digest(self) -> Digest:
        """The digest of the shard's entries, read from its base file."""
        return Digest(self.count, self.low, self.high)


def locations_path(folder: str) -> str:
    """The file with the index value of every base file of the snapshot."""
    return f"{folder}/locations.arrow"


def spills_path(folder: str) -> str:
    """The file that names all spill files, there once all files are scanned."""
    return f"{folder}/spills.json"


def read_spills(storage: Storage, folder: str) -> list[str]:
    """The paths of a build's spill files."""
    data = storage.read(spills_path(folder))
    with decoding_build_file(spills_path(folder)):
        return list(map(str, json.loads(data)))


def encode_values(values: pa.Array) -> bytes:
    """Index values as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([values], names=["value"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def build_shard(task: ShardTask) -> ShardDone:
    """Build and verify a shard, unless that was done before.

    Raises:
        CorruptFileError: the index does not hold exactly what the data holds, or a file of the
            build is damaged.
    """
    known = _known(task)
    if known is not None:
        return known
    spills = read_spills(task.storage, task.folder)
    stretches = [find_stretch(task.storage.open(path), task.number, task.shards) for path in spills]
    digest = total([stretch.digest for stretch in stretches])
    done = ShardDone()
    if digest.count:
        repeated = _put(task, stretches)
        if repeated:
            return ShardDone(repeated=repeated)
        done = _verify(task, digest)
        # Who finds the note of a shard does not build it again, so its base file lasts before it.
        task.storage.sync()
    put_once(task.storage, task.record, json.dumps(asdict(done)).encode())
    return done


def _known(task: ShardTask) -> ShardDone | None:
    try:
        data = task.storage.read(task.record)
        with decoding_build_file(task.record):
            done = ShardDone(**json.loads(data))
        if done.size and task.storage.open(task.path).size != done.size:
            task.storage.delete(task.path)
            return None
    except FileNotFoundError:
        return None
    return done


def _put(task: ShardTask, stretches: Sequence[Stretch]) -> int:
    """Put the base file, unless keys repeat: how many are there once more than they should."""
    writer = HFileWriter(
        SCHEMA,
        task.block_size,
        read_back=True,
        threads=task.threads,
        memory=task.memory // 4,
    )
    cells = Ordered.with_values(_values(task))
    keys = OrderedKeys(sources=stretches, read=task.read, threads=task.threads, memory=task.memory)
    for array, order, codes in keys.batches():
        writer.add_ordered(cells.with_keys(array, order, codes))
    if not keys.repeated:
        put_base(task.storage, task.base, writer)
    return keys.repeated


def _values(task: ShardTask) -> pa.Array:
    data = task.storage.read(locations_path(task.folder))
    with decoding_build_file(locations_path(task.folder)):
        return pa.ipc.open_stream(data).read_all()["value"].combine_chunks()


def _verify(task: ShardTask, expected: Digest) -> ShardDone:
    """Compare the entries of the finished file with those of the data; a wrong file goes."""
    source = task.storage.open(task.path)

    def read(part: int) -> Digest:
        return entries_digest(HFileReader(source).cells(part, task.threads), task.path)

    parts = range(task.threads)
    try:
        found = total(LocalRunner(task.threads).run(read, parts, weights=[1] * len(parts)))
    except CorruptFileError:
        task.storage.delete(task.path)
        raise
    if found != expected:
        task.storage.delete(task.path)
        raise CorruptFileError(
            task.path,
            0,
            f"the index holds {found.count} keys of digest {found.hex}, the data {expected.count}"
            f" of digest {expected.hex}: nothing was taken into use",
        )
    return ShardDone(size=source.size, **asdict(found))


def entries_digest(
    cells: Iterable[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]], name: str
) -> Digest:
    """The digest of entries of a record index.

    Args:
        cells: as `HFileReader.cells` gives them.
        name: the file they come from, for errors.

    Raises:
        CorruptFileError: the file is damaged.
    """
    found = Digest()
    distinct = Interner()
    words = np.empty((0, 2), np.uint64)
    for data, (starts, lengths, value_starts, value_lengths) in cells:
        codes = distinct.number(data, value_starts, value_lengths)
        if len(distinct.values) > len(words):
            new = _words(tuple(distinct.values[len(words) :]), name)
            words = np.concatenate((words, new))
        found = found.plus(digest_entries(data, starts, lengths, codes=codes, words=words))
    return found


def _words(values: tuple[bytes, ...], name: str) -> npt.NDArray[np.uint64]:
    """What the locations in values add to the digest (two per value)."""
    codes, tails = location_tails(pa.array(values, pa.binary()), name)
    return _words_of_tails(tails, name)[codes]


class LocationWords:
    """What locations add to the digest of entries: each is decoded once, however often it comes.

    Args:
        name: the file that they come from, for errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._distinct = Interner()
        self._words = np.empty((0, 2), np.uint64)

    def of(self, values: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
        """For each record of the record index the row of its location; two words per location.

        Raises:
            CorruptFileError: a value is no such record.
        """
        codes, data, places = location_places(values, self._name)
        known = len(self._words)
        starts, lengths = np.ascontiguousarray(places.T)
        numbers = self._distinct.number(data, starts, lengths)
        new = self._distinct.values[known:]
        if new:
            self._words = np.concatenate((self._words, _words_of_tails(new, self._name)))
        return numbers[codes], self._words


def _words_of_tails(tails: Sequence[bytes], name: str) -> npt.NDArray[np.uint64]:
    try:
        words = np.array([_tail_words(tail) for tail in tails], np.uint64)
    except CorruptFileError as error:
        raise CorruptFileError(name, error.offset, error.detail) from error
    return words.reshape(-1, 2)


@functools.lru_cache(maxsize=1 << 16)
def _tail_words(tail: bytes) -> tuple[int, int]:
    """The words of an encoded location: all shards have the same ones."""
    path, file_id, _ = decode_location(tail, "")
    low, high = location_words([path], [file_id])[0].tolist()
    return low, high
