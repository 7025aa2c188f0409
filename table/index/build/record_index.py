"""The record index of a table that has rows: one pass over the keys, then one task per shard.

    base files or row numbers -> scan tasks -> spill files by shard -> shard tasks -> base HFile,
    read back

What is finished is noted in the build's folder, so that a build that was cut off resumes where it
stopped. Source: HoodieBackedTableMetadataWriter.initializeRecordIndexPartition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from keymark.table.errors import DuplicateKeyError
from keymark.table.format.hashes.digest import location_words, total
from keymark.table.index.build.rows import RowReader, RowSource, RowTask, scan_rows, task_bounds
from keymark.table.index.build.scan import ScanDone, ScanTask, scan_files
from keymark.table.index.build.shard import (
    ShardTask,
    build_shard,
    encode_values,
    locations_path,
    spills_path,
)
from keymark.table.index.build.spill import KeyReader, spilled_keys
from keymark.table.index.build.target import (
    BuildTarget,
    Built,
    base_stat,
    open_group,
    open_groups,
    put_once,
    remove_groups,
)
from keymark.table.keygen import partition_paths
from keymark.table.metadata.records import encode_locations
from keymark.table.properties.config import TableConfig
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner, no_progress
from keymark.table.state.table_state import TableState
from keymark.table.timeline.instant_name import instant_millis

# Uncompressed bytes of an average entry: key, value and what surrounds them.
ENTRY_BYTES = 113
_TASK_BYTES_MIN, _TASK_BYTES_MAX = 32 << 20, 1 << 30
_TASKS_WANTED = 256
# A task holds its keys three times while it flushes them, a small part of what a shard takes.
_FLUSHES = 32
_FLUSH_BYTES_MIN, _FLUSH_BYTES_MAX = 1 << 20, 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyScan:
    """How all keys of an index get into spill files, and out of them.

    Attributes:
        rows: how many there are; bounds what a task holds in memory.
        scan: does a task; module-level.
        tasks: one pass over the keys.
        weights: of the tasks, in bytes.
        read: gives the keys of what a task spilled.
        values: makes the index value of each location.
        only: the one shard whose keys are spilled and whose file is put; None for all.
        state: what the outcome depends on besides the target.
    """

    rows: int
    scan: Callable[[Any], ScanDone]
    tasks: Sequence[Any]
    weights: Sequence[int]
    values: Callable[[], pa.Array]
    read: KeyReader = spilled_keys
    only: int | None = None
    state: str = ""


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
    return _build(target, _file_scan(target, rows), runner, progress)


def rebuild_shard(
    target: BuildTarget,
    number: int,
    *,
    rows: int,
    runner: TaskRunner,
    progress: Progress = no_progress,
) -> Built:
    """Put the files of one shard, built anew from the base files: what it holds is not read.

    Takes and raises what `build_record_index` does. The other shards stay as they are.
    """
    return _build(target, _file_scan(target, rows, number), runner, progress)


def build_mappings(
    target: BuildTarget,
    source: RowSource,
    *,
    state: TableState,
    runner: TaskRunner,
    progress: Progress = no_progress,
) -> Built:
    """Put the files of a record index that holds exactly the keys of a source.

    Args:
        target: partition `record_index`, without base files.
        source: of the keys and their places.
        state: the table, whose key generator and latest commit are those of the keys.
        runner: where tasks run.
        progress: shows how far it came.

    Raises:
        DuplicateKeyError: keys occur in more than one row.
        InputError: a row has no key that an index can hold.
        CorruptFileError: a file of the build is damaged, or the index is not what the source is.
    """
    return _build(target, _row_scan(target, source, state), runner, progress)


def _build(target: BuildTarget, scan: KeyScan, runner: TaskRunner, progress: Progress) -> Built:
    _prepare(target, scan)
    if not target.storage.exists(spills_path(target.folder)):
        steps = ProgressRunner(runner, progress, "tasks of the key scan")
        scanned = steps.run(scan.scan, scan.tasks, weights=scan.weights)
        spills = [path for done in scanned for path in done.spills]
        put_once(target.storage, spills_path(target.folder), json.dumps(spills).encode())
    if scan.only is None:
        open_groups(target)
    else:
        open_group(target, scan.only)
    return _build_shards(target, scan, ProgressRunner(runner, progress, "shards"))


def _file_scan(target: BuildTarget, rows: int, only: int | None = None) -> KeyScan:
    tasks = scan_tasks(target, rows, only)
    return KeyScan(
        rows=rows,
        scan=scan_files,
        tasks=tasks,
        weights=[sum(file.size for file in task.files) for task in tasks],
        values=partial(_file_values, target),
        only=only,
        state="" if only is None else f"shard {only}",
    )


def _row_scan(target: BuildTarget, source: RowSource, state: TableState) -> KeyScan:
    tasks = _row_tasks(target, source, state.config)
    return KeyScan(
        rows=source.rows,
        scan=scan_rows,
        tasks=tasks,
        weights=[ENTRY_BYTES * (task.end - task.first) for task in tasks],
        values=partial(_source_values, source, state),
        read=RowReader(source, state.config),
        state=hashlib.sha256(f"{source.rows} {source.fingerprint}".encode()).hexdigest(),
    )


def scan_tasks(target: BuildTarget, rows: int, only: int | None = None) -> list[ScanTask]:
    """Neighbouring files, packed to tasks of about equal size, for all shards or for one."""
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
                keys=target.keys,
                shards=target.groups,
                flush_bytes=flush_bytes,
                only=only,
            )
        )
        first, weight = number + 1, 0
    return tasks


def _row_tasks(target: BuildTarget, source: RowSource, config: TableConfig) -> list[RowTask]:
    words = location_words(*_source_places(source, config))
    return [
        RowTask(
            storage=target.storage,
            folder=target.folder,
            number=number,
            source=source,
            config=config,
            words=words,
            first=first,
            end=end,
            shards=target.groups,
        )
        for number, (first, end) in enumerate(task_bounds(source.rows, target.groups))
    ]


def _source_places(source: RowSource, config: TableConfig) -> tuple[list[str], Sequence[str]]:
    """Partition paths and file ids of a source's file groups."""
    columns, file_ids = source.places()
    if not config.partition_fields:
        return [""] * len(file_ids), file_ids
    return partition_paths(columns, config).to_pylist(), file_ids


def _source_values(source: RowSource, state: TableState) -> pa.Array:
    """The index values of a source: put there by the latest commit."""
    paths, file_ids = _source_places(source, state.config)
    millis = instant_millis(max(state.timeline.commit_times()), state.config.zone)
    return encode_locations(paths, file_ids, [millis] * len(file_ids))


def _prepare(target: BuildTarget, scan: KeyScan) -> None:
    """Keep what an earlier attempt at the same build left, and delete all else."""
    path = f"{target.folder}/plan.json"
    document = {"build": target.fingerprint, "keys": scan.state, "tasks": len(scan.tasks)}
    plan = json.dumps(document).encode()
    try:
        if target.storage.read(path) == plan:
            return
    except FileNotFoundError:
        pass
    target.storage.delete_tree(target.folder)
    remove_groups(target)
    target.storage.put(locations_path(target.folder), encode_values(scan.values()))
    # Last, so that a writer that finds the plan finds all that belongs to it.
    target.storage.put(path, plan)


def _file_values(target: BuildTarget) -> pa.Array:
    """The index value of each base file."""
    files = target.files
    return encode_locations(
        [file.partition_path for file in files],
        [file.file_id for file in files],
        [instant_millis(file.instant_time, target.zone) for file in files],
    )


def _build_shards(target: BuildTarget, scan: KeyScan, steps: ProgressRunner) -> Built:
    numbers = range(target.groups) if scan.only is None else [scan.only]
    tasks = [
        ShardTask(
            storage=target.storage,
            folder=target.folder,
            number=number,
            shards=target.groups,
            base=target.base_file(number),
            block_size=target.block_size,
            read=scan.read,
            threads=steps.runner.threads_each(len(numbers)),
            memory=target.memory,
        )
        for number in numbers
    ]
    weight = scan.rows * ENTRY_BYTES // target.groups
    done = steps.run(build_shard, tasks, weights=[weight] * len(tasks))
    repeated = sum(shard.repeated for shard in done)
    if repeated:
        raise DuplicateKeyError(
            f"{repeated} rows have a record key that another row has: a record index holds each "
            "key once; delete the duplicates first"
        )
    stats = [
        base_stat(target.base_file(number, shard.size), shard.count)
        for number, shard in zip(numbers, done, strict=True)
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
