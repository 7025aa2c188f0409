"""The column statistics partition, from the footers of the base files.

footers -> tasks of many files -> records by group in spill files -> one task per group
"""

from __future__ import annotations

import gc
import secrets
from dataclasses import dataclass

import pyarrow as pa

from keymark.table.format.hfile.writer import HFileWriter
from keymark.table.format.kernels.order import key_order
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.index.build.footers import FOOTER_BYTES, footer_tasks
from keymark.table.index.build.target import (
    BuildTarget,
    Built,
    base_stat,
    decoding_build_file,
    open_groups,
    put_base,
    remove_groups,
)
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.column_stats import column_stats_records
from keymark.table.metadata.records import SCHEMA
from keymark.table.metadata.shard import split_by_shard
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner, no_progress
from keymark.table.state.base_files import open_sized
from keymark.table.storage.storage import Storage

_SORTED_AT_ONCE = 1 << 16
_SCHEMA = pa.schema([("key", pa.string()), ("value", pa.large_binary())])


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsTask:
    """Base files whose records one task makes; `schema` names the columns."""

    storage: Storage
    folder: str
    files: tuple[BaseFile, ...]
    schema: pa.Schema
    groups: int


@dataclass(frozen=True, slots=True)
class StatsSpill:
    """Where a task's records are: path, and (offset, length) in bytes of each group's stretch."""

    path: str
    stretches: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTask:
    """One group and where its records are: (path, offset, length in bytes).

    A quarter of `memory` is for its file, more of it goes to the local disk.
    """

    storage: Storage
    base: BaseFile
    stretches: tuple[tuple[str, int, int], ...]
    block_size: int
    memory: int


def build_column_stats(
    target: BuildTarget, *, schema: pa.Schema, runner: TaskRunner, progress: Progress = no_progress
) -> Built:
    """Put the files of the partition: a record for each base file and indexed column.

    Args:
        target: partition `column_stats`.
        schema: of the indexed columns, meta columns included.
        runner: where tasks run.
        progress: shows how far it came.

    Raises:
        CorruptFileError: a footer is damaged.
        UnsupportedTableError: a decimal that a record cannot hold.
    """
    target.storage.delete_tree(target.folder)
    remove_groups(target)
    open_groups(target)
    tasks = [
        StatsTask(
            storage=target.storage,
            folder=target.folder,
            files=part.files,
            schema=schema,
            groups=target.groups,
        )
        for part in footer_tasks(target.storage, target.files, max_tasks=target.max_tasks)
    ]
    steps = ProgressRunner(runner, progress, "tasks of the footer scan")
    weights = [len(task.files) * FOOTER_BYTES for task in tasks]
    spills = steps.run(spill_stats, tasks, weights=weights)
    return _build_groups(target, spills, ProgressRunner(runner, progress, "groups"))


def spill_stats(task: StatsTask) -> StatsSpill:
    """Put the records of a task's files, by group."""
    keys: list[str] = []
    values: list[bytes] = []
    for file in task.files:
        footer = read_footer(open_sized(task.storage, file))
        found = column_stats_records(file.partition_path, file.name, footer.metadata, task.schema)
        keys += found[0]
        values += found[1]
        # A footer and its schema refer to each other: with a bloom filter each, they pile up.
        del footer
        gc.collect(1)
    records = pa.table([pa.array(keys, pa.string()), pa.array(values, pa.large_binary())], _SCHEMA)
    parts: list[bytes] = []
    stretches: list[tuple[int, int]] = []
    offset = 0
    for rows in split_by_shard(records["key"].combine_chunks(), task.groups):
        part = _stream(records.take(pa.array(rows)))
        parts.append(part)
        stretches.append((offset, len(part)))
        offset += len(part)
    path = f"{task.folder}/{secrets.token_hex(8)}.stats"
    task.storage.put(path, b"".join(parts))
    return StatsSpill(path, tuple(stretches))


def _stream(records: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_table(records)
    return bytes(sink.getvalue())


def _build_groups(target: BuildTarget, spills: list[StatsSpill], steps: ProgressRunner) -> Built:
    tasks = [
        GroupTask(
            storage=target.storage,
            base=target.base_file(number),
            stretches=tuple((spill.path, *spill.stretches[number]) for spill in spills),
            block_size=target.block_size,
            memory=target.memory,
        )
        for number in range(target.groups)
    ]
    weights = [sum(length for _, _, length in task.stretches) for task in tasks]
    done = steps.run(build_group, tasks, weights=weights)
    return Built(
        target=target,
        stats=tuple(base_stat(file, count) for file, count in done if count),
        records=sum(count for _, count in done),
        size=sum(file.size for file, _ in done),
    )


def build_group(task: GroupTask) -> tuple[BaseFile, int]:
    """Put a group's base file, unless it has no records; the file and its records."""
    parts = []
    for path, offset, length in task.stretches:
        with decoding_build_file(path):
            parts.append(
                pa.ipc.open_stream(task.storage.open(path).read(offset, length)).read_all()
            )
    records = pa.concat_tables([_SCHEMA.empty_table(), *parts]).combine_chunks()
    keys, values = records["key"].chunk(0), records["value"].chunk(0)
    order = key_order(keys)
    writer = HFileWriter(SCHEMA, task.block_size, memory=task.memory // 4)
    for start in range(0, len(order), _SORTED_AT_ONCE):
        rows = pa.array(order[start : start + _SORTED_AT_ONCE])
        writer.add(keys.take(rows), values.take(rows))
    return put_base(task.storage, task.base, writer), writer.entry_count
