"""Keys that stay in their file group and whose entry names a commit that is taken back.

A key that one commit deletes, or moves away, and a later one puts back into its file group has an
entry of the later commit. So has a key that was inserted there twice. Once that commit is taken
back its entry counts no more, although the row is there. So the entry gets the instant of the base
file that the key's row was in before.

    file groups that differ -> keys of both slices whose row such a commit wrote -> their entries
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.parquet.base_file import read_columns, read_metadata
from keymark.table.format.schema import COMMIT_TIME_COLUMN
from keymark.table.index.dedup import last_of_each
from keymark.table.index.external import ExternalEntries
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.layout.view import Snapshot
from keymark.table.read.arrow import reading_base
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.write.index_changes import KeyChanges

_NOTHING = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class StayTask:
    """Two slices of a file group, and the instants of the commits that are taken back."""

    storage: Storage
    now: BaseFile
    then: BaseFile
    stored: StoredKeys
    times: tuple[str, ...]


def staying_keys(work: StayTask) -> pa.Array:
    """The keys of both slices whose row such a commit wrote, each once; a task for a runner."""
    with reading_base(work.storage, work.now) as source:
        metadata = read_metadata(source)
        keys = work.stored.read(source, metadata)
        rows = read_columns(source, metadata, [COMMIT_TIME_COLUMN])
    if rows.num_columns:
        # Rows without meta fields do not say which commit wrote them.
        wrote = pa.array([*work.times, "", None], pa.string())
        times = rows[COMMIT_TIME_COLUMN].cast(pa.string()).combine_chunks()
        keys = keys.filter(pc.is_in(times, value_set=wrote))
    with reading_base(work.storage, work.then) as source:
        before = work.stored.read(source, read_metadata(source))
    return pc.unique(keys.filter(pc.is_in(keys, value_set=before)))


def stale_entries(
    state: TableState,
    before: Snapshot,
    times: Collection[str],
    entries: ExternalEntries,
    runner: TaskRunner,
) -> KeyChanges:
    """The keys whose entry names a commit that is taken back, with the place that they keep.

    Args:
        state: the table as it is.
        before: the snapshot gone back to.
        times: instants of the commits that are taken back.
        entries: of the table's index.
        runner: where base files are read.

    Raises:
        IndexUnavailableError: the index does not answer.
    """
    now, then = state.snapshot.by_location(), before.by_location()
    places = [p for p in sorted(now.keys() & then.keys()) if now[p] != then[p]]
    works = [
        StayTask(
            storage=state.storage,
            now=now[place],
            then=then[place],
            stored=StoredKeys.of(state.config),
            times=tuple(times),
        )
        for place in places
    ]
    found = runner.run(staying_keys, works, weights=[w.now.size + w.then.size for w in works])
    keys = pa.concat_arrays([_NOTHING, *found])
    codes = np.repeat(np.arange(len(places)), [len(each) for each in found])
    last = last_of_each(keys)
    keys, codes = keys.take(pa.array(last)), codes[last]
    named = entries.index.lookup(keys, entries.context(state))["instant_time"].combine_chunks()
    stale = pc.is_in(named, value_set=pa.array([*times], pa.string()))
    return KeyChanges(
        keys=keys.filter(stale),
        codes=codes[stale.to_numpy(zero_copy_only=False)],
        locations=places,
        deletes=_NOTHING,
    )


def with_stale(changes: KeyChanges, stale: KeyChanges) -> KeyChanges:
    """Changes from one snapshot to another, with the entries of keys that stay made anew."""
    new = pc.invert(pc.is_in(stale.keys, value_set=changes.keys))
    keys, codes = stale.keys.filter(new), stale.codes[new.to_numpy(zero_copy_only=False)]
    return changes.with_places(keys, codes, stale.locations)
