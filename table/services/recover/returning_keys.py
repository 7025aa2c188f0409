"""The record index's part of going back: keys get the place that they had, or lose their entry.

    file groups that differ -> keys that return, keys that go -> key files, by shard
    keys that go, where the index does not tell any more -> those that base files hold (`held_keys`)
    -> one task a shard: sorted, one log file that puts and deletes

A key that goes may be in another file group, if it was inserted twice. Then its entry was there
before, and is put again. As long as the shards have the file slices of then, their older log blocks
tell: that costs a lookup of the keys that go. After a compaction, a build or a re-sharding it costs
the reading of the key column of every base file of the snapshot gone back to.

A task holds the keys of two slices of a file group, and what it may hold of the keys of a shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.hfile.writer import HFileWriter
from keymark.table.index.build.changes import key_changes
from keymark.table.index.build.ordered import OrderedKeys
from keymark.table.index.key_file import KeyFile, KeySink
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.layout.view import Snapshot
from keymark.table.metadata.merge import Cells, side_by_side
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.reader import MetadataTable
from keymark.table.metadata.records import SCHEMA, encode_locations
from keymark.table.metadata.shard import Shard
from keymark.table.metadata.writer import DeltaCommit, GroupUpdate
from keymark.table.runtime.runner import TaskRunner, pack
from keymark.table.services.recover.held_keys import HeldSearch
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import DeltaStat
from keymark.table.timeline.instant_name import instant_millis
from keymark.table.write.bulk_index import KeyStretch, stretch_keys

_GONE = -1
# Neighbouring groups share a task up to this many bytes of files.
_TASK_BYTES = 64 << 20
_NOTHING = pa.array([], pa.string())
_NO_VALUES = pa.array([], pa.binary())
# Digits of an instant of the data, which those of the metadata table's own begin with.
_DIGITS = 17


@dataclass(frozen=True, slots=True)
class GroupReturn:
    """Two slices of a file group, None where there is none, and the number of its place."""

    now: BaseFile | None
    then: BaseFile | None
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnTask:
    """File groups whose keys one task compares."""

    storage: Storage
    instant: str
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
    gone, back = _key_sink(work), _key_sink(work)
    for group in work.groups:
        came, went = key_changes(work.storage, group.now, group.then, work.stored)
        back.add(came, group.place)
        gone.add(went, _GONE)
    return Returned(gone.close(), back.close())


def _key_sink(work: ReturnTask) -> KeySink:
    return KeySink(
        storage=work.storage, instant=work.instant, shards=work.shards, memory=work.memory
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReturn:
    """The keys of one shard whose entry changes: first those that go, then those that return.

    Attributes:
        stretches: of its keys. A key that is in both goes nowhere: it moves.
        held: stretches of keys that base files hold; one of these keeps an entry if it goes.
        then: the shard as it was, which tells the same; None where it does not.
        values: of the places, by number.
        update: the shard's log file with no keys in it yet.
        memory: bytes of keys that may be held, and of the log file.
    """

    stretches: tuple[KeyStretch, ...]
    held: tuple[KeyStretch, ...] = ()
    then: Shard | None = None
    values: pa.Array
    update: GroupUpdate
    memory: int


def log_shard(work: ShardReturn) -> DeltaStat | None:
    """Put a shard's log file; None where nothing changes. A task for a runner."""
    most = work.memory // 4
    share = work.memory // 2 if work.held else work.memory
    keys = OrderedKeys(sources=work.stretches, read=stretch_keys, memory=share)
    held = OrderedKeys(sources=work.held, read=stretch_keys, memory=share)
    file = HFileWriter(SCHEMA, work.update.block_size, memory=most)
    gone = [_NOTHING]
    for cells, others in side_by_side(keys.cells(), held.cells()):
        if len(cells.keys):
            rows, values = _placed(work, cells, others)
            file.add(cells.keys.take(pa.array(rows)), values)
            goes = np.ones(len(cells.keys), bool)
            goes[rows] = False
            gone.append(cells.keys.filter(pa.array(goes)).cast(pa.string()))
    deletes = pa.concat_arrays(gone)
    if not file.entry_count and not len(deletes):
        return None
    return work.update.write_cells(file, most, deletes)


def _placed(
    work: ShardReturn, cells: Cells, others: Cells
) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Which of some keys have a place, ascending, and the values of these."""
    places = cells.values.to_numpy()
    rows, going = np.flatnonzero(places != _GONE), np.flatnonzero(places == _GONE)
    values = work.values.take(pa.array(places[rows]))
    if not len(going):
        return rows, values
    hits, older = _older_places(work, cells.keys.take(pa.array(going)), others)
    rows = np.concatenate([rows, going[hits]])
    order = np.argsort(rows)
    return rows[order], pa.concat_arrays([values, older]).take(pa.array(order))


def _older_places(
    work: ShardReturn, keys: pa.Array, others: Cells
) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Which of some keys that go are in another file group, and the values of these."""
    if work.then is not None:
        return work.then.lookup(keys)
    if not len(others.keys):
        return np.empty(0, np.int64), _NO_VALUES
    found = pc.index_in(keys, value_set=others.keys)
    hits = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    return hits, work.values.take(others.values.take(found.drop_null()))


def log_returns(
    delta: DeltaCommit, state: TableState, before: Snapshot, runner: TaskRunner, memory: int
) -> list[DeltaStat]:
    """Put the log file of every shard that changes when the table goes back to a snapshot.

    The instant of an entry is that of the key's base file in the snapshot: it must be a commit of
    the table, since Hudi may pass over others (HoodieIndexUtils.checkIfValidCommit).

    Args:
        delta: the delta commit of the rollback or restore.
        state: the table as it is.
        before: the snapshot, as of the latest commit that stays.
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
            groups=tuple(members),
            stored=StoredKeys.of(state.config),
            shards=shards,
            memory=memory,
        )
        for members in _packed(groups)
    ]
    weights = [sum(map(_size, work.groups)) for work in works]
    found = runner.run(spill_returns, works, weights=weights)
    gone = [each for done in found for each in done.gone]
    files = [*gone, *(each for done in found for each in done.back)]
    if not files:
        return []
    earlier = _index_then(delta.metadata, before.as_of) if gone else None
    held: list[KeyFile] = []
    if gone and earlier is None:
        search = HeldSearch(
            state=state, before=before, instant=delta.instant, shards=shards, memory=memory
        )
        held, places = search.run(gone, runner), [*places, *search.places]
    first = len(groups)
    values = _values(state, places, before, delta.instant)
    updates = [
        ShardReturn(
            stretches=tuple(KeyStretch(state.storage, file, number, 0) for file in files),
            held=tuple(KeyStretch(state.storage, file, number, first) for file in held),
            then=earlier[number] if earlier else None,
            values=values,
            update=delta.group(RECORD_INDEX, number, _NOTHING, _NO_VALUES),
            memory=memory,
        )
        for number in range(shards)
    ]
    sizes = [sum(each.held for each in (*work.stretches, *work.held)) for work in updates]
    stats = runner.run(log_shard, updates, weights=sizes)
    return [stat for stat in stats if stat is not None]


def _index_then(metadata: MetadataTable, then: str | None) -> tuple[Shard, ...] | None:
    """The shards with the log blocks up to an instant; None if that is not what the index was.

    A file slice that was opened since holds what instants since then have changed. So may one that
    a build made beside writers: a later commit names its base file.
    """
    if then is None:
        return None
    shards = metadata.shards(RECORD_INDEX)
    for shard in shards:
        opened = {shard.slice.base_instant_time}
        base = shard.slice.base_file
        if base is not None and base.path in shard.recorded:
            opened |= shard.recorded[base.path].instants
        if any(time[:_DIGITS] > then for time in opened):
            return None
    data = metadata.validity.data
    times = {instant.time for instant in (*metadata.timeline.instants, *data.instants)}
    counted = frozenset(t for t in times | data.rolled_back() if t[:_DIGITS] <= then)
    return tuple(replace(shard, only=counted) for shard in shards)


def _values(
    state: TableState, places: Sequence[tuple[str, str]], before: Snapshot, instant: str
) -> pa.Array:
    """The index's values of places: with the instant of the snapshot's file, if it has one there.

    Without one no key is put there, and `instant` stands in.
    """
    times = {place: file.instant_time for place, file in before.by_location().items()}
    return encode_locations(
        [partition for partition, _ in places],
        [file_id for _, file_id in places],
        [instant_millis(times.get(place, instant), state.config.zone) for place in places],
    )


def _packed(groups: Sequence[GroupReturn]) -> Iterator[list[GroupReturn]]:
    """Groups by task."""
    weights = [_size(group) for group in groups]
    for members in pack(weights, -(-sum(weights) // _TASK_BYTES)):
        yield [groups[number] for number in members]


def _size(group: GroupReturn) -> int:
    return sum(file.size for file in (group.now, group.then) if file is not None)
