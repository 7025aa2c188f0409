"""Keys that go with file groups and are in others, too: a key may have been inserted twice.

    keys that may go -> one task for some base files of the snapshot gone back to
    -> key files: which of the keys they hold

A search reads the key column of every base file of the snapshot, as a build of the index does, and
writes few keys. Where the keys that go are more than a part of a task's memory, no task compares
its files with them: all keys of the snapshot are put by shard, and the shards' tasks choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.index.build.scan import record_keys
from keymark.table.index.dedup import last_of_each
from keymark.table.index.key_file import KeyFile, KeySink, stretches, write_key_file
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile, Instant
from keymark.table.layout.view import Snapshot
from keymark.table.runtime.runner import TaskRunner, pack
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline
from keymark.table.write.index_changes import KeyChanges

# Neighbouring files share a task up to this many bytes.
_TASK_BYTES = 64 << 20
# A task holds that part of its memory of the keys that it looks for.
_WANTED_PART = 4
# Writes that ask a global index where each key is, and so put none into a second file group.
_ASKING = frozenset({"UPSERT", "DELETE"})
_NOTHING = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTask:
    """Base files in which one task looks for keys.

    Attributes:
        storage: of the table.
        instant: among whose markers its key files lie.
        files: each with its number in the snapshot.
        stored: how their keys are kept.
        shards: of the index; 0 for an index without shards.
        memory: bytes that it may hold.
        wanted: key files of the keys that it looks for; None for all keys.
    """

    storage: Storage
    instant: str
    files: tuple[tuple[int, BaseFile], ...]
    stored: StoredKeys
    shards: int
    memory: int
    wanted: tuple[KeyFile, ...] | None


def spill_held(work: HeldTask) -> tuple[KeyFile, ...]:
    """Put the wanted keys of some base files; a task for a runner."""
    sink = KeySink(
        storage=work.storage,
        instant=work.instant,
        shards=work.shards,
        memory=work.memory,
    )
    wanted = None if work.wanted is None else _all_keys(work.storage, work.wanted)
    for number, file in work.files:
        for keys in record_keys(work.storage, file, work.stored):
            chosen = keys if wanted is None else keys.filter(pc.is_in(keys, value_set=wanted))
            sink.add(chosen, number)
    return sink.close()


def _all_keys(storage: Storage, files: Sequence[KeyFile]) -> pa.Array:
    parts = [
        file.read(storage, number)["key"].combine_chunks()
        for file in files
        for number in range(len(file.stretches))
    ]
    return pa.concat_arrays([_NOTHING, *parts])


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSearch:
    """A search of the snapshot gone back to.

    Attributes:
        state: the table as it is.
        before: the snapshot.
        instant: of the rollback or restore.
        shards: of the index; 0 for an index without shards.
        memory: bytes that each task may hold.
    """

    state: TableState
    before: Snapshot
    instant: str
    shards: int
    memory: int

    @property
    def places(self) -> list[tuple[str, str]]:
        """Where the snapshot's files are, by number."""
        return [(file.partition_path, file.file_id) for file in self.before.files]

    def run(self, wanted: Sequence[KeyFile], runner: TaskRunner) -> list[KeyFile]:
        """Key files in which are all the wanted keys that the snapshot holds, maybe with others.

        Each key has the number of its base file in the snapshot.
        """
        size = sum(length for file in wanted for _, length in file.stretches)
        few = size <= self.memory // _WANTED_PART
        files = self.before.files
        weights = [file.size for file in files]
        works = [
            HeldTask(
                storage=self.state.storage,
                instant=self.instant,
                files=tuple((member, files[member]) for member in members),
                stored=StoredKeys.of(self.state.config),
                shards=self.shards,
                memory=self.memory,
                wanted=tuple(wanted) if few else None,
            )
            for members in pack(weights, -(-sum(weights) // _TASK_BYTES))
        ]
        weights = [sum(file.size for _, file in work.files) for work in works]
        return [file for done in runner.run(spill_held, works, weights=weights) for file in done]


def puts_keys_twice(timeline: Timeline, commits: Sequence[Instant]) -> bool:
    """Whether commits to a table with a global index may have put a key that was there."""
    return any(timeline.commit(commit).operation not in _ASKING for commit in commits)


def with_held(changes: KeyChanges, search: HeldSearch, runner: TaskRunner) -> KeyChanges:
    """Changes from one snapshot to another, in which keys that are still held do not go."""
    deletes = changes.deletes
    if not len(deletes) or not search.before.files:
        return changes
    storage = search.state.storage
    entries = pa.table({"key": deletes, "file": pa.array(np.zeros(len(deletes), np.int32))})
    wanted = write_key_file(storage, search.instant, entries, stretches(len(deletes)))
    found = []
    for file in search.run((wanted,), runner):
        for number in range(len(file.stretches)):
            part = file.read(storage, number)
            found.append(part.filter(pc.is_in(part["key"], value_set=deletes)))
    if not found:
        return changes
    held = pa.concat_tables(found).combine_chunks()
    held = held.take(pa.array(last_of_each(held["key"].combine_chunks())))
    keys, codes = held["key"].combine_chunks(), held["file"].to_numpy()
    return changes.with_places(keys, codes, search.places)
