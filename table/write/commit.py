"""The end of every write: index, metadata table, and the one put that makes it visible.

<instant>.deltacommit.requested, .inflight      (metadata table)
log files of record_index                       phase `index`
log files of files, column_stats, bloom_filters
entries of an index outside the table           phase `index`
<instant>.deltacommit
<instant>.commit                                phase `commit`: visible from here on
entries of keys that moved or went              phase `index`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import TableError
from keymark.table.index.external import (
    CHANGES,
    EntryChanges,
    KeyPart,
    OutsideIndex,
    announce,
    gone,
    settle,
    warn_unsettled,
)
from keymark.table.index.key_file import stretches, write_key_file
from keymark.table.layout.model import BaseFile, WriteStat
from keymark.table.layout.view import Snapshot
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.reader import split_by_shard
from keymark.table.metadata.records import encode_locations
from keymark.table.metadata.writer import DeltaCommit, write_group
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.table_state import TableState
from keymark.table.timeline.commit_metadata import encode_commit
from keymark.table.timeline.instant_name import COMPLETED, instant_millis
from keymark.table.write.file_group import FileGroupResult
from keymark.table.write.undo import sweep_losers
from keymark.table.write.writer import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexUpdate:
    """What a commit changes in the record index.

    Attributes:
        keys: those that got a new location.
        codes: of each key its place in `locations`.
        locations: (partition path, file id).
        deletes: record keys that are gone.
    """

    keys: pa.Array
    codes: npt.NDArray[np.int64]
    locations: Sequence[tuple[str, str]]
    deletes: pa.Array

    def __bool__(self) -> bool:
        return len(self.keys) + len(self.deletes) > 0


def commit(
    attempt: Attempt,
    results: Sequence[FileGroupResult],
    update_index: Callable[[DeltaCommit], None],
    entries: Callable[[], EntryChanges],
) -> None:
    """The end that all writes share: index phase, then commit phase.

    Args:
        attempt: the write.
        results: of every file group.
        update_index: writes the log files of the record index; called where the table has one, or
            is getting one.
        entries: what changes in an index that keeps entries outside the table.
    """
    state, delta = attempt.state, None
    with attempt.phase("index"):
        if state.metadata is not None:
            block_size = attempt.options.integer("hoodie.hfile.block.size")
            delta = DeltaCommit(state.metadata, attempt.instant, block_size)
            delta.begin()
            if RECORD_INDEX in state.config.maintained:
                update_index(delta)
        if isinstance(attempt.index, OutsideIndex):
            attempt.lease.check()
            announce(attempt.index, attempt.instant, entries(), attempt.context)
    with attempt.phase("commit"):
        _finish(attempt, delta, results)
    if isinstance(attempt.index, OutsideIndex):
        with attempt.phase("index"):
            _settle(attempt.index, attempt)
        # What services do from here on is not the index's.
        attempt.writer.on_phase("commit")


def _settle(index: OutsideIndex, attempt: Attempt) -> None:
    """Make the changes of entries that had to wait; those that fail, the next write makes."""
    try:
        settle(index, attempt.instant, attempt.context)
    except (TableError, OSError) as error:
        warn_unsettled(index, error)


def placed_changes(update: IndexUpdate, of: Snapshot) -> pa.Table:
    """The changes (rows of table.index.external.CHANGES) that put keys back.

    The instant of a place is that of its base file in the snapshot `of`.
    """
    times = {place: base.instant_time for place, base in of.by_location().items()}
    places = [(*place, times.get(place)) for place in update.locations]
    columns = [pa.array([place[n] for place in places], pa.string()) for n in range(3)]
    codes = pa.array(update.codes, pa.int64())
    put = pa.table([update.keys, *(column.take(codes) for column in columns)], schema=CHANGES)
    return pa.concat_tables([put, gone(update.deletes)])


def entry_changes(attempt: Attempt, update: IndexUpdate) -> EntryChanges:
    """The changes of a batch for an index outside the table; its keys are put on storage."""
    if not len(update.keys):
        return EntryChanges((), update.deletes)
    keys = write_key_file(
        attempt.storage,
        attempt.instant,
        "batch",
        entries=pa.table({"key": update.keys, "file": pa.array(update.codes, pa.int32())}),
        shards=stretches(len(update.keys)),
    )
    return EntryChanges((KeyPart(keys, tuple(update.locations)),), update.deletes)


def update_record_index(
    delta: DeltaCommit,
    state: TableState,
    update: IndexUpdate,
    runner: TaskRunner,
    *,
    of: Snapshot | None = None,
) -> None:
    """Put the log file of every shard that the commit touches.

    The instant of an entry must be a commit of the table: Hudi may pass over others
    (HoodieIndexUtils.checkIfValidCommit). It is the delta commit's own where keys are written, and
    that of the key's base file in the snapshot `of` where keys are only put back.
    """
    count = len(delta.slices(RECORD_INDEX))
    times = {place: base.instant_time for place, base in of.by_location().items()} if of else {}
    values = encode_locations(
        [partition for partition, _ in update.locations],
        [file_id for _, file_id in update.locations],
        [
            instant_millis(times.get(place, delta.instant), state.config.zone)
            for place in update.locations
        ],
    )
    puts = split_by_shard(update.keys, count)
    deletes = split_by_shard(update.deletes, count)
    groups = []
    for number, (rows, dropped) in enumerate(zip(puts, deletes, strict=True)):
        if len(rows) or len(dropped):
            chosen = pa.array(rows)
            codes = pa.array(np.asarray(update.codes)[rows], pa.int64())
            groups.append(
                delta.group(
                    RECORD_INDEX,
                    number,
                    update.keys.take(chosen),
                    values.take(codes),
                    update.deletes.take(pa.array(dropped)).to_pylist(),
                )
            )
    weights = [group.keys.nbytes + group.values.nbytes for group in groups]
    delta.stats.extend(runner.run(write_group, groups, weights=weights))


def _finish(
    attempt: Attempt, delta: DeltaCommit | None, results: Sequence[FileGroupResult]
) -> None:
    """Complete both commits, the metadata table's first, unless another writer took the table.

    A task that ran twice left a file that no result names: it goes before anything is visible.
    """
    files: list[BaseFile] = [r.file for r in results if r.file is not None]
    stats: list[WriteStat] = [r.stat for r in results if r.stat is not None]
    sweep_losers(attempt.storage, attempt.instant, {file.path for file in files})
    if delta is not None:
        delta.put_files(files)
        merged: dict[str, dict[str, bytes]] = {}
        for result in results:
            for partition, (keys, values) in result.records.items():
                merged.setdefault(partition, {}).update(zip(keys, values, strict=True))
        for partition, records in sorted(merged.items()):
            delta.put_records(partition, records)
    content = encode_commit(stats, schema=attempt.avro_schema, operation=attempt.operation)
    completions = [delta.completion()] if delta is not None else []
    path = attempt.state.timeline.path(attempt.instant, "commit", COMPLETED)
    attempt.lease.publish([*completions, (path, content)])
    attempt.written.extend(files)
