"""Comparing a secondary index with the values of the base files that it covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.layout.model import BaseFile
from keymark.table.runtime.runner import TaskRunner
from keymark.table.secondary.cover import Chains, Cover, no_entries, present
from keymark.table.secondary.runs import Run, load_runs, read_rows
from keymark.table.secondary.upkeep import column_type, distinct_values
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class CoveredFiles:
    """Base files whose chains begin in one run; `runs` are all that their chains go through."""

    storage: Storage
    column: str
    kind: pa.DataType
    files: tuple[BaseFile, ...]
    runs: tuple[Run, ...]


def wrong_files(
    state: TableState, files: Sequence[BaseFile], runner: TaskRunner
) -> tuple[str, ...]:
    """The paths of those base files of which a secondary index has not exactly the values.

    Files that no run covers are read anyway: they are not wrong.

    Raises:
        CorruptFileError: a run or a base file is damaged.
    """
    works = [
        work
        for column in (state.config.secondary_columns if files else ())
        for work in _comparisons(state, column, files)
    ]
    weights = [sum(file.size for file in work.files) for work in works]
    found = runner.run(compare_values, works, weights=weights, packed=False)
    return tuple(sorted({path for paths in found for path in paths}))


def _comparisons(state: TableState, column: str, files: Sequence[BaseFile]) -> list[CoveredFiles]:
    """One for each run in which chains begin: it bounds what a task holds in memory."""
    runs = load_runs(state.storage, column)
    chains = Chains.of(runs)
    begun: dict[int, list[BaseFile]] = {}
    through: dict[int, set[int]] = {}
    for file in files:
        chain = chains.of_file(file.partition_path, file.name)
        if chain:
            begun.setdefault(chain[0].run, []).append(file)
            through.setdefault(chain[0].run, set()).update(link.run for link in chain)
    kind = column_type(state, column)
    return [
        CoveredFiles(
            storage=state.storage,
            column=column,
            kind=kind,
            files=tuple(members),
            runs=tuple(runs[number] for number in sorted(through[first])),
        )
        for first, members in begun.items()
    ]


def compare_values(work: CoveredFiles) -> list[str]:
    """The paths of the files that differ; a task for a runner."""
    cover = Cover.of(work.files, work.runs)
    entries = [no_entries(work.kind)]
    for number, run in enumerate(work.runs):
        entries.append(cover.placed(number, read_rows(work.storage, run, work.kind)))
    indexed = present(pa.concat_tables(entries))
    stored = [indexed.schema.empty_table()]
    for number, file in enumerate(work.files):
        values = distinct_values(work.storage, file, work.column, work.kind)
        groups = pa.repeat(pa.scalar(number, pa.int64()), len(values))
        stored.append(pa.table([groups, values], schema=indexed.schema))
    # A pair of file and value is once among those indexed and once among those stored.
    pairs = pa.concat_tables([indexed, *stored])
    sides = np.ones(pairs.num_rows, np.int64)
    sides[indexed.num_rows :] = 2
    sums = pairs.append_column("sides", pa.array(sides)).group_by(["group", "value"])
    sums = sums.aggregate([("sides", "sum")])
    differing = sums.filter(pc.not_equal(sums["sides_sum"], 3))["group"]
    return [work.files[number].path for number in differing.unique().to_pylist()]
