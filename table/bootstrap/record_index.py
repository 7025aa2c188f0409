"""The record index of a table that has rows: one pass over the keys, then one task per shard.

    base files -> scan tasks -> spill files by shard -> shard tasks -> base HFile, read back

What is finished is noted in the build's folder, so that a build that was cut off goes on where it
stopped. Source: HoodieBackedTableMetadataWriter.initializeRecordIndexPartition.
"""

from __future__ import annotations

import json

from table.bootstrap.scan import ScanTask, scan_files
from table.bootstrap.shard import (
    ShardTask,
    build_shard,
    encode_values,
    locations_path,
    spills_path,
)
from table.bootstrap.target import (
    BuildTarget,
    Built,
    Progress,
    Steps,
    base_stat,
    no_progress,
    open_groups,
    put_once,
    remove_groups,
)
from table.errors import DuplicateKeyError
from table.format.digest import total
from table.metadata.records import encode_locations
from table.timeline.instant_name import instant_millis
from table.write.runner import TaskRunner

# Uncompressed bytes of an average entry: key, value and what surrounds them.
ENTRY_BYTES = 113
_TASK_BYTES_MIN, _TASK_BYTES_MAX = 32 << 20, 1 << 30
_TASKS_WANTED = 256
# A task holds its keys three times while it flushes them, a small part of what a shard takes.
_FLUSHES = 32
_FLUSH_BYTES_MIN, _FLUSH_BYTES_MAX = 1 << 20, 16 << 20


def build_record_index(
    target: BuildTarget, *, rows: int, runner: TaskRunner, progress: Progress = no_progress
) -> Built:
    """Put the files of a record index that holds exactly the keys of the target's base files.

    Args:
        target: partition `record_index`.
        rows: of all files, from their footers; bounds what a task holds in memory.
        runner: where tasks run.
        progress: shows how far it came.

    Raises:
        DuplicateKeyError: keys occur in more than one row.
        CorruptFileError: a file is damaged, or the index is not what the data is.
    """
    tasks = _scan_tasks(target, rows)
    _prepare(target, len(tasks))
    if not target.storage.exists(spills_path(target.folder)):
        steps = Steps(runner, progress, "tasks of the key scan")
        weights = [sum(file.size for file in task.files) for task in tasks]
        scanned = steps.run(scan_files, tasks, weights=weights)
        spills = [path for done in scanned for path in done.spills]
        put_once(target.storage, spills_path(target.folder), json.dumps(spills).encode())
    open_groups(target)
    return _build_shards(target, rows, Steps(runner, progress, "shards"))


def _scan_tasks(target: BuildTarget, rows: int) -> list[ScanTask]:
    """Neighbouring files, packed to tasks of about equal size."""
    size = sum(file.size for file in target.files)
    task_bytes = min(max(size // _TASKS_WANTED, _TASK_BYTES_MIN), _TASK_BYTES_MAX)
    task_bytes = max(task_bytes, -(-size // target.max_tasks))
    shard_bytes = rows * ENTRY_BYTES // target.groups
    flush_bytes = min(max(shard_bytes // _FLUSHES, _FLUSH_BYTES_MIN), _FLUSH_BYTES_MAX)
    tasks: list[ScanTask] = []
    first = weight = 0
    for number, file in enumerate(target.files):
        weight += file.size
        if weight < task_bytes and number + 1 < len(target.files):
            continue
        tasks.append(
            ScanTask(
                storage=target.storage,
                folder=target.folder,
                number=len(tasks),
                first=first,
                files=target.files[first : number + 1],
                shards=target.groups,
                flush_bytes=flush_bytes,
            )
        )
        first, weight = number + 1, 0
    return tasks


def _prepare(target: BuildTarget, tasks: int) -> None:
    """Keep what an earlier attempt at the same build left, and delete all else."""
    path = f"{target.folder}/plan.json"
    plan = json.dumps({"build": target.fingerprint, "tasks": tasks}).encode()
    try:
        if target.storage.read(path) == plan:
            return
    except FileNotFoundError:
        pass
    target.storage.delete_tree(target.folder)
    remove_groups(target)
    files = target.files
    values = encode_locations(
        [file.partition_path for file in files],
        [file.file_id for file in files],
        [instant_millis(file.instant_time, target.zone) for file in files],
    )
    target.storage.put(locations_path(target.folder), encode_values(values))
    # Last, so that whoever finds the plan finds all that belongs to it.
    target.storage.put(path, plan)


def _build_shards(target: BuildTarget, rows: int, steps: Steps) -> Built:
    tasks = [
        ShardTask(
            storage=target.storage,
            folder=target.folder,
            number=number,
            shards=target.groups,
            base=target.base_file(number),
            block_size=target.block_size,
            threads=steps.runner.threads_each(target.groups),
        )
        for number in range(target.groups)
    ]
    weight = rows * ENTRY_BYTES // target.groups
    done = steps.run(build_shard, tasks, weights=[weight] * len(tasks))
    repeated = sum(shard.repeated for shard in done)
    if repeated:
        raise DuplicateKeyError(
            f"{repeated} rows have a record key that another row has: a record index holds each "
            "key once; delete the duplicates first"
        )
    stats = [
        base_stat(target.base_file(number, shard.size), shard.count)
        for number, shard in enumerate(done)
        if shard.size
    ]
    digest = total([shard.digest for shard in done])
    return Built(
        target=target,
        stats=tuple(stats),
        records=digest.count,
        size=sum(shard.size for shard in done),
        digest=digest,
    )
