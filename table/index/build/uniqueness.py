"""Whether every record key is in one row only: the key scan of a record index, without the index.

    base files -> scan tasks -> spill files by shard -> one task per shard counts what repeats

A table whose index looks for a key in its partition only may hold it in several; one with a global
index must not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from keymark.table.index.build.ordered import OrderedKeys
from keymark.table.index.build.record_index import ENTRY_BYTES, scan_tasks
from keymark.table.index.build.scan import scan_files
from keymark.table.index.build.shard import read_spills, spills_path
from keymark.table.index.build.spill import find_stretch, spilled_keys
from keymark.table.index.build.target import BuildTarget, put_once
from keymark.table.layout.naming import BUILD
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner, no_progress
from keymark.table.storage.storage import Storage

FOLDER = f"{BUILD}/keys"
"""Where the keys are while they are counted; what a dead process left there may go."""


@dataclass(frozen=True, slots=True)
class CountTask:
    """One shard of the keys that the folder holds."""

    storage: Storage
    folder: str
    number: int
    shards: int
    memory: int


def count_repeats(task: CountTask) -> int:
    """Rows of a shard whose key another row has, less one for each key."""
    spills = read_spills(task.storage, task.folder)
    stretches = [find_stretch(task.storage.open(path), task.number, task.shards) for path in spills]
    keys = OrderedKeys(sources=stretches, read=spilled_keys, memory=task.memory)
    for _ in keys.batches():
        pass
    return keys.repeated


def repeated_rows(
    target: BuildTarget, *, rows: int, runner: TaskRunner, progress: Progress = no_progress
) -> int:
    """Rows of the target's base files that could go so that each key is in one row.

    Args:
        target: folder `FOLDER`, and a number of groups so that each one's keys fit memory.
        rows: of all files, from their footers.
        runner: where tasks run.
        progress: shows how far it came.

    Raises:
        CorruptFileError: a file is damaged.
    """
    storage, folder = target.storage, target.folder
    storage.delete_tree(folder)
    try:
        tasks = scan_tasks(target, rows)
        steps = ProgressRunner(runner, progress, "tasks of the key scan")
        weights = [sum(file.size for file in task.files) for task in tasks]
        spills = [
            path for done in steps.run(scan_files, tasks, weights=weights) for path in done.spills
        ]
        put_once(storage, spills_path(folder), json.dumps(spills).encode())
        counts = [
            CountTask(storage, folder, n, target.groups, target.memory)
            for n in range(target.groups)
        ]
        weight = rows * ENTRY_BYTES // target.groups
        steps = ProgressRunner(runner, progress, "shards of keys")
        return sum(steps.run(count_repeats, counts, weights=[weight] * len(counts)))
    finally:
        storage.delete_tree(folder)
