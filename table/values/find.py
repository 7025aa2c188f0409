"""Which base files hold a row that passes a condition, by the secondary indexes.

The index has the values of each file: where a comparison is answered, exactly the files with a
value that passes are left. Files that no run covers are left as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError, TableWarning
from keymark.table.layout.model import BaseFile
from keymark.table.read.predicate import (
    AnyOf,
    Comparison,
    Condition,
    conjuncts,
    tested_columns,
)
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.values.comparing import groups_to_read, passing
from keymark.table.values.cover import Cover, no_entries, present
from keymark.table.values.indexed import folder_of
from keymark.table.values.runs import Run, ask_again, load_runs, read_rows

# A comparison that this many entries may pass is not worth asking: it leaves most files.
_ENTRIES_MAX = 1 << 23

_Mask = npt.NDArray[np.bool_]


def files_with_values(
    state: TableState,
    files: tuple[BaseFile, ...],
    condition: Condition,
    *,
    schema: pa.Schema,
    warned: set[str],
) -> tuple[BaseFile, ...]:
    """Leave out the files that hold no row that passes, as far as secondary indexes tell.

    Args:
        state: the table, now or as of an instant.
        files: base files of its snapshot.
        condition: what a row must pass.
        schema: of the table, meta columns included.
        warned: what the table's handle has warned of; a damaged index is warned of once.
    """
    indexed = set(state.config.secondary_columns)
    if not files or not indexed & tested_columns(condition):
        return files
    try:
        keep = _Search(state.storage, files, schema, indexed).may_pass(condition)
    except CorruptFileError as error:
        if error.name not in warned:
            warned.add(error.name)
            root = state.storage.root
            warnings.warn(
                f"{root}: a secondary index cannot be used, all files are read: {error}; "
                f"`keymark table index build {root} secondary --column NAME` builds it anew",
                TableWarning,
                stacklevel=5,
            )
        return files
    return tuple(file for file, kept in zip(files, keep.tolist(), strict=True) if kept)


@dataclass(slots=True)
class _Search:
    """The answers of a table's secondary indexes about some files."""

    storage: Storage
    files: Sequence[BaseFile]
    schema: pa.Schema
    indexed: set[str]
    _covers: dict[str, Cover[Run]] = field(default_factory=dict)

    def may_pass(self, condition: Condition) -> _Mask:
        """Whether each file may hold a row that passes."""
        if isinstance(condition, AnyOf):
            passed: _Mask = np.any([self.may_pass(part) for part in condition.parts], axis=0)
            return passed
        keep = np.ones(len(self.files), bool)
        tests: dict[str, list[Comparison]] = {}
        for part in conjuncts(condition):
            if isinstance(part, AnyOf):
                keep &= self.may_pass(part)
            elif part.column in self.indexed:
                tests.setdefault(part.column, []).append(part)
        # One value must pass all tests of its column, as those of a range.
        for column, asked in tests.items():
            keep &= self._compared(column, asked)
        return keep

    def _compared(self, column: str, tests: Sequence[Comparison]) -> _Mask:
        held = ask_again(partial(self._ask, column, tests))
        return np.ones(len(self.files), bool) if held is None else held

    def _ask(self, column: str, tests: Sequence[Comparison]) -> _Mask:
        """Whether each file holds a value that passes all tests.

        Raises:
            FileNotFoundError: a run is gone.
        """
        # Runs of which one is gone are not asked again.
        cover = self._covers.pop(column, None)
        if cover is None:
            cover = Cover.of(self.files, load_runs(self.storage, folder_of(column)))
        held = _holding(cover, tests, self.storage, self.schema.field(column).type)
        self._covers[column] = cover
        return held


def _holding(
    cover: Cover[Run], tests: Sequence[Comparison], storage: Storage, kind: pa.DataType
) -> _Mask:
    """Whether each file holds a value that passes all tests, or is not covered.

    Raises:
        FileNotFoundError: a run is gone.
    """
    wanted = {
        number: _groups(cover.runs[number], tests, kind)
        for number, group in enumerate(cover.group)
        if (group >= 0).any()
    }
    entries_asked = sum(
        cover.runs[number].metadata.row_group(group).num_rows
        for number, groups in wanted.items()
        for group in groups
    )
    if entries_asked > _ENTRIES_MAX:
        return np.ones(len(cover.uncovered), bool)
    parts = [no_entries(kind)]
    for number, groups in wanted.items():
        if groups:
            entries = read_rows(storage, cover.runs[number], kind, groups)
            for test in tests:
                passed = passing(entries["value"], test)
                # What cannot be compared leaves no file out.
                entries = entries if passed is None else entries.filter(passed)
            parts.append(cover.placed(number, entries))
    found = cover.uncovered.copy()
    found[present(pa.concat_tables(parts))["group"].to_numpy()] = True
    return found


def _groups(run: Run, tests: Sequence[Comparison], kind: pa.DataType) -> list[int]:
    """The row groups of a run that may hold a value that passes all tests."""
    left = set(range(run.metadata.num_row_groups))
    for test in tests:
        left &= set(groups_to_read(run.metadata, test, kind))
    return sorted(left)
