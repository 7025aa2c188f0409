"""Putting the runs of base files: the values that came to each, and those that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.index.dedup import without
from keymark.table.layout.model import BaseFile
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.values.changes import ValueChange
from keymark.table.values.hash_runs import put_hash_run
from keymark.table.values.indexed import Indexed
from keymark.table.values.runs import CoveredFile, FilesOfRun, entries_of, put_run

ROWS_PER_RUN = 1 << 22
"""Rows of base files that one task holds the values of"""
_HASHES_PER_RUN = 1 << 24
"""The same where it holds hashes"""
ROW_BYTES = 100
"""Bytes of a row in a base file, if no commit tells it"""

_Change = tuple[pa.Array, pa.Array, npt.NDArray[np.int64] | None]
"""The values that came to a file, those that are gone, and the rows of the former, if known."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A base file to be covered, and the covered slice before it; None for all its values."""

    file: BaseFile
    before: BaseFile | None


@dataclass(frozen=True, slots=True)
class RunTask:
    """The base files of a run that is to be put."""

    storage: Storage
    indexed: Indexed
    changes: tuple[FileChange, ...]


def covered(changes: Sequence[FileChange | ValueChange]) -> list[CoveredFile]:
    """The base files of a run."""
    return [
        CoveredFile(c.file.partition_path, c.file.name, c.before.name if c.before else "")
        for c in changes
    ]


def put_values(
    storage: Storage,
    indexed: Indexed,
    files: Sequence[CoveredFile],
    changes: Iterable[_Change],
) -> FilesOfRun:
    """Put a run.

    Args:
        storage: of the table.
        indexed: what is indexed.
        files: the base files that it covers, ordered by partition path.
        changes: for each of them the values that came and those that are gone.
    """
    if indexed.hashed:
        keys = (
            (came, np.full(len(came), place, np.int32), rows)
            for place, (came, _, rows) in enumerate(changes)
        )
        return put_hash_run(storage, files, keys)
    values = ((came, gone) for came, gone, _ in changes)
    return put_run(storage, indexed, files, entries_of(values, indexed.kind))


def cover_files(task: RunTask) -> FilesOfRun:
    """Put the run of some base files; a task for a runner.

    Raises:
        CorruptFileError: a base file is damaged or gone.
    """
    changes = (_values_of(task, change) for change in task.changes)
    return put_values(task.storage, task.indexed, covered(task.changes), changes)


def _values_of(task: RunTask, change: FileChange) -> _Change:
    """The values that came to a file since the slice before it, and those that went.

    Record keys are distinct, so that the place of one is its row.
    """
    values = task.indexed.distinct(task.storage, change.file)
    if change.before is None:
        return values, values.slice(0, 0), np.arange(len(values))
    old = task.indexed.distinct(task.storage, change.before)
    is_new = pc.invert(pc.is_in(values, value_set=old))
    gone = without(old, values)
    return values.filter(is_new), gone, np.flatnonzero(is_new)


def tasks_of(state: TableState, indexed: Indexed, changes: Sequence[FileChange]) -> list[RunTask]:
    """Neighbouring files, a run's worth of rows each."""
    row_bytes = state.average_record_bytes() or ROW_BYTES
    most = _HASHES_PER_RUN if indexed.hashed else ROWS_PER_RUN
    tasks: list[RunTask] = []
    part: list[FileChange] = []
    rows = 0.0
    for change in changes:
        part.append(change)
        rows += change.file.size / row_bytes
        if rows >= most:
            tasks.append(RunTask(state.storage, indexed, tuple(part)))
            part, rows = [], 0.0
    if part:
        tasks.append(RunTask(state.storage, indexed, tuple(part)))
    return tasks
