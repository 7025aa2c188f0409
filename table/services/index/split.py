"""The tasks of a re-sharding: entries of old file groups, dealt out among new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError, FileTakenError
from keymark.table.format.hashes.digest import Digest, Pieces, digest_pairs, total
from keymark.table.format.hashes.hashing import shards, string_buffers
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.strings import Ordered
from keymark.table.format.hfile.writer import HFileWriter
from keymark.table.format.log.block import BlockType, LogBlock
from keymark.table.format.log.deletes import decode_deletes, encode_deletes
from keymark.table.format.log.reader import read_blocks
from keymark.table.format.log.writer import empty_delete_block
from keymark.table.index.build.target import BuildTarget, base_stat, put_base
from keymark.table.layout.model import BaseFile, FileSlice, LogFile, WriteStat
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.merge import merged
from keymark.table.metadata.records import SCHEMA
from keymark.table.metadata.shard import Shard
from keymark.table.metadata.writer import GroupUpdate
from keymark.table.storage.spool import Spool
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import DeltaStat

_NO_KEYS = pa.array([], pa.string())
_NO_VALUES = pa.array([], pa.binary())
_ROOM = 1 << 16
"""Bytes of an open block beyond its size."""
_FEW = 1 << 16
"""Distinct values that are numbered at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """A class of file groups: all entries of the old ones belong to these new ones.

    Attributes:
        target: the new file groups; a quarter of its memory is for their files.
        sources: the old file groups.
        numbers: of the new ones.
    """

    target: BuildTarget
    sources: tuple[Shard, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDone:
    """What a class has become.

    Attributes:
        stats: of the new base files; a group without entries has none.
        digest: of all entries, the same before and after.
    """

    stats: tuple[WriteStat, ...]
    digest: Digest


def split(task: SplitTask) -> SplitDone:
    """Put the base files of a class, from one pass over its old file groups, and read them back.

    Where a class has more new file groups than a task has memory for, it takes several passes.

    Raises:
        CorruptFileError: a key is in a file group that is not its own, or the new files do not
            hold what the old ones do.
    """
    target, before = task.target, Digest()
    stats, digests = [], []
    for part in _parts(target, task.numbers):
        writers = {n: _writer(target, len(part)) for n in part}
        before, few = Digest(), _FewValues()
        for keys, values in merged([source for shard in task.sources for source in shard.sources]):
            before = before.plus(_digest(keys, values))
            cells = few.cells(keys, values)
            for number, rows in _dealt(keys, target, task.numbers):
                if number in writers:
                    _add(writers[number], keys, values, cells, rows)
        for number, writer in writers.items():
            count = writer.entry_count
            base = put_base(target.storage, target.base_file(number), writer, target.place)
            if count:
                stats.append(base_stat(base, count))
                digests.append(_read_back(target, base))
    if (after := total(digests)) != before:
        detail = f"new file groups hold {after.count} entries, the old ones {before.count}"
        raise _differing(target, detail)
    return SplitDone(stats=tuple(stats), digest=before)


@dataclass(frozen=True, slots=True, kw_only=True)
class DealTask:
    """Log blocks of a class that its new base files do not have yet.

    Attributes:
        target: the new file groups.
        sources: old file groups, each with the instants of its blocks to take in.
        numbers: of the new ones.
        version: of the log files to put.
    """

    target: BuildTarget
    sources: tuple[tuple[Shard, frozenset[str]], ...]
    numbers: tuple[int, ...]
    version: int


def deal(task: DealTask) -> tuple[DeltaStat, ...]:
    """Put a log file for each new file group that a block has entries of; in the blocks' order.

    Each part of a block keeps the block's instant: by it readers tell whether the part counts. The
    files are read back.

    Raises:
        CorruptFileError: a key is in a file group that is not its own, or the new files do not
            hold what the blocks do.
    """
    logs: dict[int, _Log] = {}
    before = Digest()
    for shard, instants in task.sources:
        for block in shard.blocks:
            if block.instant_time in instants:
                before = before.plus(_deal_block(task, block, logs))
    stats = tuple(
        _update(task, number, task.target.instant).put(log.data.content(), log.records)
        for number, log in sorted(logs.items())
    )
    if (after := total([_changes_of(task.target, stat) for stat in stats])) != before:
        detail = f"new log files hold {after.count} changes, the old ones {before.count}"
        raise _differing(task.target, detail)
    return stats


@dataclass(frozen=True, slots=True)
class MoveTask:
    """A file of a new file group, and where it belongs."""

    storage: Storage
    source: str
    target: str


def move(task: MoveTask) -> None:
    """Move a file to where it belongs, unless a task whose answer was lost has done it."""
    storage = task.storage
    try:
        storage.move(task.source, task.target)
    except FileTakenError:
        storage.delete(task.source)
    except FileNotFoundError:
        if not storage.exists(task.target):
            raise
    else:
        return
    # The process of that task may have died before its folder was synced.
    storage.keep(task.target)


def _differing(target: BuildTarget, detail: str) -> CorruptFileError:
    """The new file groups differ from the old ones. Another attempt would keep their files."""
    remedy = "`keymark table index reshard PATH --abort` deletes the new ones"
    where = f"{METADATA}/{target.partition}"
    return CorruptFileError(where, 0, f"{detail}, or others; {remedy}")


@dataclass(slots=True)
class _Log:
    """The log file of a new file group, as it grows."""

    data: Spool
    records: int = 0


def _deal_block(task: DealTask, block: LogBlock, logs: dict[int, _Log]) -> Digest:
    """Add the parts of a block to the log files; the digest of all its changes."""
    target = task.target
    if block.type is BlockType.DELETE:
        keys = decode_deletes(block.content(), block.source.name)
        for number, rows in _dealt(keys, target, task.numbers):
            log, update = _log(task, number, logs), _update(task, number, block.instant_time)
            deletes = encode_deletes(keys.take(pa.array(rows)), target.partition)
            update.add_block(log.data, BlockType.DELETE, deletes)
            log.records += len(rows)
        return _digest(keys, keys)
    before = Digest()
    for part in _parts(target, task.numbers):
        writers: dict[int, HFileWriter] = {}
        before, few = Digest(), _FewValues()
        for keys, values in _hfile_of(block).scan():
            before = before.plus(_digest(keys, values))
            cells = few.cells(keys, values)
            for number, rows in _dealt(keys, target, task.numbers):
                if number in part:
                    writer = writers.setdefault(number, _writer(target, len(part)))
                    _add(writer, keys, values, cells, rows)
        for number, writer in writers.items():
            log, update = _log(task, number, logs), _update(task, number, block.instant_time)
            written = writer.close(file_info=update.file_info)
            update.add_block(log.data, BlockType.HFILE_DATA, written)
            log.records += writer.entry_count
    return before


def _changes_of(target: BuildTarget, stat: DeltaStat) -> Digest:
    """The digest of the changes in a log file. The value of a delete is its key, too."""
    found = Digest()
    source = target.storage.open(f"{target.place}/{stat.path}")
    for block in read_blocks(source, complete=True):
        if block.type is BlockType.DELETE:
            keys = decode_deletes(block.content(), source.name)
            found = found.plus(_digest(keys, keys))
        else:
            found = found.plus(_digest_of(_hfile_of(block)))
    return found


def _hfile_of(block: LogBlock) -> HFileReader:
    return HFileReader(block.source, offset=block.content_offset, length=block.content_length)


def _log(task: DealTask, number: int, logs: dict[int, _Log]) -> _Log:
    """The log file of a new file group.

    It begins with a block of the switch's instant that deletes nothing: the commit of that instant
    names the file.
    """
    if number not in logs:
        logs[number] = _Log(Spool("a log file", task.target.memory // 4 // len(task.numbers)))
        logs[number].data.write(empty_delete_block(task.target.instant))
    return logs[number]


def _parts(target: BuildTarget, numbers: Sequence[int]) -> list[Sequence[int]]:
    """File groups that are written at a time: open blocks take a quarter of the memory."""
    count = max(1, target.memory // 4 // (target.block_size + _ROOM))
    return [numbers[first : first + count] for first in range(0, len(numbers), count)]


def _writer(target: BuildTarget, count: int) -> HFileWriter:
    """One of several writers; what is beyond its share of memory goes to the local disk.

    What it writes is read back by `split` and `deal`.
    """
    memory = target.memory // 4 // count
    return HFileWriter(SCHEMA, target.block_size, read_back=True, memory=memory)


def _update(task: DealTask, number: int, instant: str) -> GroupUpdate:
    """What makes blocks of an instant for a new file group, and puts its next log file."""
    target = task.target
    base = target.base_file(number)
    before = LogFile(
        partition_path=target.partition,
        file_id=base.file_id,
        base_instant_time=target.instant,
        version=task.version - 1,
        write_token="",
        size=0,
    )
    return GroupUpdate(
        storage=target.storage,
        slice=FileSlice(
            file_id=base.file_id,
            base_instant_time=target.instant,
            base_file=None,
            log_files=(before,),
        ),
        partition=target.partition,
        instant=instant,
        block_size=target.block_size,
        keys=_NO_KEYS,
        values=_NO_VALUES,
        place=target.place,
    )


def _dealt(
    keys: pa.Array, target: BuildTarget, numbers: Sequence[int]
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """The new file groups that get some of the keys, and which rows each of them gets."""
    owner = shards(keys, target.groups)
    for number in np.flatnonzero(np.bincount(owner)).tolist():
        if number not in numbers:
            detail = "a key lies in a file group that is not its own; `table check` names it"
            raise CorruptFileError(METADATA, 0, detail)
        yield number, np.flatnonzero(owner == number)


@dataclass(slots=True)
class _FewValues:
    """The distinct values of entries, numbered as they come: a commit and a file have one.

    A writer that knows equal values by their numbers does not look for what repeats.
    """

    numbers: dict[bytes, int] = field(default_factory=dict)
    distinct: Ordered = field(default_factory=lambda: Ordered.with_values(_NO_VALUES))

    def cells(self, keys: pa.Array, values: pa.Array) -> Ordered | None:
        """Entries in key order; None from where there are too many distinct values on."""
        if len(self.numbers) > _FEW:
            return None
        encoded, known = values.dictionary_encode(), len(self.numbers)
        codes = [
            self.numbers.setdefault(value, len(self.numbers))
            for value in encoded.dictionary.to_pylist()
        ]
        if len(self.numbers) > known:
            self.distinct = Ordered.with_values(pa.array([*self.numbers], pa.binary()))
        number_of = np.array(codes, np.int32)
        return self.distinct.with_keys(
            keys, np.arange(len(keys)), number_of[encoded.indices.to_numpy()]
        )


def _add(
    writer: HFileWriter,
    keys: pa.Array,
    values: pa.Array,
    cells: Ordered | None,
    rows: npt.NDArray[np.int64],
) -> None:
    """Write some rows of entries, by the numbers of their values where these are known."""
    if cells is not None:
        writer.add_ordered(cells.only(rows))
    else:
        places = pa.array(rows)
        writer.add(keys.take(places), values.take(places))


def _read_back(target: BuildTarget, base: BaseFile) -> Digest:
    return _digest_of(HFileReader(target.storage.open(f"{target.place}/{base.path}")))


def _digest_of(file: HFileReader) -> Digest:
    """The digest of a file's entries."""
    found = Digest()
    for block, (starts, lengths, value_starts, value_lengths) in file.cells():
        keys, values = (block, starts, lengths), (block, value_starts, value_lengths)
        found = found.plus(digest_pairs(keys, values))
    return found


def _digest(keys: pa.Array, values: pa.Array) -> Digest:
    """The digest of entries with their values, byte by byte."""
    return digest_pairs(_pieces(keys), _pieces(values))


def _pieces(strings: pa.Array) -> Pieces:
    offsets, text = string_buffers(strings)
    return text, offsets[:-1], np.diff(offsets)
