"""The bloom filters partition, from the footers of the base files.

A record's key follows from its file's name, so each group's task walks its files in the order of
their keys and reads one footer after the other: a filter of 431 KB is never in memory with many
others.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from keymark.table.format.hfile.writer import HFileWriter
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.index.build.footers import FOOTER_BYTES
from keymark.table.index.build.target import (
    BuildTarget,
    Built,
    base_stat,
    open_groups,
    put_base,
    remove_groups,
)
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.bloom import bloom_key, bloom_records
from keymark.table.metadata.records import SCHEMA
from keymark.table.metadata.shard import split_by_shard
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner, no_progress
from keymark.table.state.base_files import open_sized
from keymark.table.storage.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomTask:
    """One group: its base files in the order of their records' keys.

    A quarter of `memory` is for its file, more of it goes to the local disk.
    """

    storage: Storage
    base: BaseFile
    files: tuple[BaseFile, ...]
    block_size: int
    memory: int


def build_bloom_filters(
    target: BuildTarget, *, runner: TaskRunner, progress: Progress = no_progress
) -> Built:
    """Put the files of the partition: a record for each base file whose footer has a filter.

    Raises:
        CorruptFileError: a footer is damaged.
    """
    remove_groups(target)
    open_groups(target)
    keys = pa.array([bloom_key(f.partition_path, f.name) for f in target.files], pa.string())
    tasks = [
        BloomTask(
            storage=target.storage,
            base=target.base_file(number),
            files=tuple(target.files[row] for row in rows.tolist()),
            block_size=target.block_size,
            memory=target.memory,
        )
        for number, rows in enumerate(split_by_shard(keys, target.groups))
    ]
    steps = ProgressRunner(runner, progress, "groups")
    done = steps.run(
        build_group, tasks, weights=[len(task.files) * 8 * FOOTER_BYTES for task in tasks]
    )
    stats = [base_stat(file, count) for file, count in done if count]
    return Built(
        target=target,
        stats=tuple(stats),
        records=sum(count for _, count in done),
        size=sum(file.size for file, _ in done),
    )


def build_group(task: BloomTask) -> tuple[BaseFile, int]:
    """Put a group's base file, unless it has no records; the file and its records."""
    writer = HFileWriter(SCHEMA, task.block_size, memory=task.memory // 4)
    for file in task.files:
        footer = read_footer(open_sized(task.storage, file))
        keys, values = bloom_records(file.partition_path, file.name, footer, file.instant_time)
        if keys:
            writer.add(pa.array(keys, pa.string()), pa.array(values, pa.binary()))
    return put_base(task.storage, task.base, writer), writer.entry_count
