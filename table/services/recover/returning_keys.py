"""The record index's part of going back: keys get the place that they had, or lose their entry.

    file groups that differ -> keys that return, keys that go -> key files, by shard
    -> one task a shard: sorted, one log file that puts and deletes

A task holds the keys of two slices of a file group, and what it may hold of the keys of a shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from keymark.table.format.hfile.writer import HFileWriter
from keymark.table.index.build.changes import key_changes
from keymark.table.index.build.ordered import OrderedKeys
from keymark.table.index.key_file import KeyFile, KeySink
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.layout.view import Snapshot
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.records import SCHEMA, encode_locations
from keymark.table.metadata.writer import DeltaCommit, GroupUpdate
from keymark.table.runtime.runner import TaskRunner, pack
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import DeltaStat
from keymark.table.timeline.instant_name import instant_millis
from keymark.table.write.bulk_index import KeyStretch, stretch_keys

_GONE = -1
# Neighbouring groups share a task up to this many bytes of files.
_TASK_BYTES = 64 << 20
_NOTHING = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class GroupReturn:
    """Two slices of a file group, None where there is none, and the number of its place."""

    now: BaseFile | None
    then: BaseFile | None
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnTask:
    """File groups whose keys one task compares; `number` tells its files from those of others."""

    storage: Storage
    instant: str
    number: int
    groups: tuple[GroupReturn, ...]
    stored: StoredKeys
    shards: int
    memory: int


@dataclass(frozen=True, slots=True)
class Returned:
    """Key files of keys that go, and of keys that return to the place of their number."""

    gone: tuple[KeyFile, ...]
    back: tuple[KeyFile, ...]


def spill_returns(work: ReturnTask) -> Returned:
    """Put the keys that differ between the two slices of some file groups; a task for a runner."""
    gone, back = _key_sink(work, "gone"), _key_sink(work, "back")
    for group in work.groups:
        came, went = key_changes(work.storage, group.now, group.then, work.stored)
        back.add(came, group.place)
        gone.add(went, _GONE)
    return Returned(gone.close(), back.close())


def _key_sink(work: ReturnTask, kind: str) -> KeySink:
    return KeySink(
        storage=work.storage,
        instant=work.instant,
        name=f"{kind}-{work.number}",
        shards=work.shards,
        memory=work.memory,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReturn:
    """The keys of one shard whose entry changes: first those that go, then those that return.

    Attributes:
        stretches: of its keys. A key that is in both goes nowhere: it moves.
        values: of the places, by number.
        update: the shard's log file with no keys in it yet.
        memory: bytes of keys that may be held, and of the log file.
    """

    stretches: tuple[KeyStretch, ...]
    values: pa.Array
    update: GroupUpdate
    memory: int


def log_shard(work: ShardReturn) -> DeltaStat | None:
    """Put a shard's log file; None where nothing changes. A task for a runner."""
    most = work.memory // 4
    keys = OrderedKeys(sources=work.stretches, read=stretch_keys, memory=work.memory)
    file = HFileWriter(SCHEMA, work.update.block_size, memory=most)
    gone = [_NOTHING]
    for array, order, codes in keys.batches():
        ascending, places = array.take(pa.array(order)), codes[order]
        back = places != _GONE
        file.add(ascending.filter(pa.array(back)), work.values.take(pa.array(places[back])))
        gone.append(ascending.filter(pa.array(~back)).cast(pa.string()))
    deletes = pa.concat_arrays(gone)
    if not file.entry_count and not len(deletes):
        return None
    return work.update.write_cells(file, most, deletes)


def log_returns(
    delta: DeltaCommit, state: TableState, before: Snapshot, runner: TaskRunner, memory: int
) -> list[DeltaStat]:
    """Put the log file of every shard that changes when the table goes back to a snapshot.

    The instant of an entry is that of the key's base file in the snapshot: it must be a commit of
    the table, since Hudi may pass over others (HoodieIndexUtils.checkIfValidCommit).

    Args:
        delta: the delta commit of the rollback or restore.
        state: the table as it is.
        before: the snapshot.
        runner: where tasks run.
        memory: bytes that each task may hold.
    """
    now, then = state.snapshot.by_location(), before.by_location()
    places = [p for p in sorted(now.keys() | then.keys()) if now.get(p) != then.get(p)]
    groups = [GroupReturn(now.get(p), then.get(p), n) for n, p in enumerate(places)]
    shards = len(delta.slices(RECORD_INDEX))
    works = [
        ReturnTask(
            storage=state.storage,
            instant=delta.instant,
            number=number,
            groups=tuple(members),
            stored=StoredKeys.of(state.config),
            shards=shards,
            memory=memory,
        )
        for number, members in enumerate(_packed(groups))
    ]
    weights = [sum(map(_size, work.groups)) for work in works]
    found = runner.run(spill_returns, works, weights=weights)
    files = [each for done in found for each in done.gone]
    files += [each for done in found for each in done.back]
    if not files:
        return []
    instants = [then[p].instant_time if p in then else delta.instant for p in places]
    values = encode_locations(
        [partition for partition, _ in places],
        [file_id for _, file_id in places],
        [instant_millis(instant, state.config.zone) for instant in instants],
    )
    updates = [
        ShardReturn(
            stretches=tuple(KeyStretch(state.storage, file, number, 0) for file in files),
            values=values,
            update=delta.group(RECORD_INDEX, number, _NOTHING, _NOTHING.cast(pa.binary())),
            memory=memory,
        )
        for number in range(shards)
    ]
    sizes = [sum(stretch.held for stretch in update.stretches) for update in updates]
    stats = runner.run(log_shard, updates, weights=sizes)
    return [stat for stat in stats if stat is not None]


def _packed(groups: Sequence[GroupReturn]) -> Iterator[list[GroupReturn]]:
    """Groups by task."""
    weights = [_size(group) for group in groups]
    for members in pack(weights, -(-sum(weights) // _TASK_BYTES)):
        yield [groups[number] for number in members]


def _size(group: GroupReturn) -> int:
    return sum(file.size for file in (group.now, group.then) if file is not None)
