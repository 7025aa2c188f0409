"""What a commit changes in the table's index, in the record index or outside the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.index.dedup import without
from keymark.table.index.external import CHANGES, EntryChanges, KeyPart, gone
from keymark.table.index.key_file import stretches, write_key_file
from keymark.table.layout.view import Snapshot
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.records import encode_locations
from keymark.table.metadata.shard import split_by_shard
from keymark.table.metadata.writer import DeltaCommit, write_group
from keymark.table.runtime.runner import TaskRunner, threads_by_weight
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import DeltaStat
from keymark.table.timeline.instant_name import instant_millis
from keymark.table.timeline.timeline import Timeline


class IndexChanges(Protocol):
    """The keys of a commit that are new, that move or that go, wherever they are kept."""

    def log(self, delta: DeltaCommit, state: TableState, runner: TaskRunner) -> list[DeltaStat]:
        """Put the log file of every shard of the record index that the commit touches."""

    def entries(self, storage: Storage, instant: str) -> EntryChanges:
        """The changes for an index outside the table; their keys are on storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChanges:
    """Changes of keys that are in memory.

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

    def with_places(
        self, keys: pa.Array, codes: npt.NDArray[np.int64], locations: Sequence[tuple[str, str]]
    ) -> KeyChanges:
        """These changes and further keys with a location, which do not go."""
        return KeyChanges(
            keys=pa.concat_arrays([self.keys, keys]),
            codes=np.concatenate([self.codes, codes + len(self.locations)]),
            locations=[*self.locations, *locations],
            deletes=without(self.deletes, keys),
        )

    def log(self, delta: DeltaCommit, state: TableState, runner: TaskRunner) -> list[DeltaStat]:
        """The keys are where this commit put them: an entry has the commit's instant."""
        return log_keys(delta, state, self, runner)

    def entries(self, storage: Storage, instant: str) -> EntryChanges:
        """Put the keys into one key file."""
        if not len(self.keys):
            return EntryChanges((), self.deletes)
        entries = pa.table({"key": self.keys, "file": pa.array(self.codes, pa.int32())})
        keys = write_key_file(storage, instant, entries, stretches(len(self.keys)))
        return EntryChanges((KeyPart(keys, tuple(self.locations)),), self.deletes)


_NOTHING = pa.array([], pa.string())
NO_CHANGES = KeyChanges(keys=_NOTHING, codes=np.empty(0, np.int64), locations=(), deletes=_NOTHING)


def placed_changes(changes: KeyChanges, of: Snapshot, timeline: Timeline) -> pa.Table:
    """The changes (rows of table.index.external.CHANGES) that put keys back.

    The instant of a place is one that lasts as long as the rows of its base file in the snapshot
    `of`.
    """
    bases = of.by_location().items()
    times = {place: timeline.lasting(base.instant_time) for place, base in bases}
    places = [(*place, times.get(place)) for place in changes.locations]
    columns = [pa.array([place[n] for place in places], pa.string()) for n in range(3)]
    codes = pa.array(changes.codes, pa.int64())
    put = pa.table([changes.keys, *(column.take(codes) for column in columns)], schema=CHANGES)
    return pa.concat_tables([put, gone(changes.deletes)])


def log_keys(
    delta: DeltaCommit,
    state: TableState,
    changes: KeyChanges,
    runner: TaskRunner,
    *,
    of: Snapshot | None = None,
) -> list[DeltaStat]:
    """Put the log file of every shard that the commit touches.

    The instant of an entry must be a commit of the table: Hudi may pass over others
    (HoodieIndexUtils.checkIfValidCommit). It is the delta commit's own where keys are written, and
    that of the key's base file in the snapshot `of` where keys are only put back.
    """
    if not changes:
        return []
    count = len(delta.slices(RECORD_INDEX))
    times = {place: base.instant_time for place, base in of.by_location().items()} if of else {}
    values = encode_locations(
        [partition for partition, _ in changes.locations],
        [file_id for _, file_id in changes.locations],
        [
            instant_millis(times.get(place, delta.instant), state.config.zone)
            for place in changes.locations
        ],
    )
    puts = split_by_shard(changes.keys, count)
    deletes = split_by_shard(changes.deletes, count)
    groups = []
    for number, (rows, dropped) in enumerate(zip(puts, deletes, strict=True)):
        if len(rows) or len(dropped):
            chosen = pa.array(rows)
            codes = pa.array(np.asarray(changes.codes)[rows], pa.int64())
            groups.append(
                delta.group(
                    RECORD_INDEX,
                    number,
                    changes.keys.take(chosen),
                    values.take(codes),
                    changes.deletes.take(pa.array(dropped)).to_pylist(),
                )
            )
    weights = [group.keys.nbytes + group.values.nbytes for group in groups]
    threads = threads_by_weight(weights, runner.threads_each(1), least=delta.block_size)
    shared = [replace(group, threads=count) for group, count in zip(groups, threads, strict=True)]
    return runner.run(write_group, shared, weights=weights)
