"""What footers tell about a snapshot without its data: row counts, and from them file groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keymark.table.format.parquet.row_count import row_count
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.partitions import record_index_groups
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.base_files import open_sized
from keymark.table.storage.storage import Storage

# What reading a footer weighs, whatever the size of its file.
FOOTER_BYTES = 1 << 16
_FILES_PER_TASK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterTask:
    """Files whose footers one task reads."""

    storage: Storage
    files: tuple[BaseFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSizing:
    """Hudi's options for the number of file groups of a record index.

    hoodie.metadata.record.index.min.filegroup.count, .max.filegroup.count, .max.filegroup.size in
    bytes, .growth.factor.
    """

    minimum: int = 10
    maximum: int = 10_000
    group_bytes: int = 1 << 30
    growth: float = 2.0


def estimate_groups(rows: int, sizing: GroupSizing) -> int:
    """File groups for a number of keys (HoodieTableMetadataUtil.estimateFileGroupCount)."""
    return record_index_groups(
        rows,
        minimum=sizing.minimum,
        maximum=sizing.maximum,
        group_bytes=sizing.group_bytes,
        growth=sizing.growth,
    )


def count_rows(
    storage: Storage, files: Sequence[BaseFile], *, runner: TaskRunner, max_tasks: int = 100_000
) -> int:
    """Rows of base files, by their footers.

    Args:
        storage: the table's storage.
        files: the base files of a snapshot.
        runner: where footers are read.
        max_tasks: hoodie.metadata.max.init.parallelism.

    Raises:
        CorruptFileError: a footer is damaged.
    """
    tasks = footer_tasks(storage, files, max_tasks=max_tasks)
    weights = [len(task.files) * FOOTER_BYTES for task in tasks]
    return sum(runner.run(_rows, tasks, weights=weights))


def footer_tasks(
    storage: Storage, files: Sequence[BaseFile], *, max_tasks: int
) -> list[FooterTask]:
    """Neighbouring files, as many a task; at least two tasks where there are two files."""
    size = max(1, min(_FILES_PER_TASK, -(-len(files) // 2)), -(-len(files) // max_tasks))
    return [
        FooterTask(storage=storage, files=tuple(files[start : start + size]))
        for start in range(0, len(files), size)
    ]


def _rows(task: FooterTask) -> int:
    return sum(row_count(open_sized(task.storage, file)) for file in task.files)
