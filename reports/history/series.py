"""Run folders and summaries into one series for each number, and its changes.

A series is of one cell, and a cell is named after its engine, which tells the version of Hudi's
tables: versions are never joined. Runs of before schema 2 are of version 6, and read so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from keymark.harness.engines import hudi_name, is_native
from keymark.harness.store.units import METRICS
from keymark.reports.errors import ReportError
from keymark.reports.gate import run_numbers
from keymark.reports.gate.policy import Kind, Level, Policy
from keymark.reports.gate.run_numbers import Key, RunNumbers
from keymark.reports.history.change_points import LevelChange, counter_changes, time_changes
from keymark.reports.model.projection import step_order
from keymark.reports.render.text import clean

_SCAN, _READ = "point_query", "point_query_spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberHistory:
    """One number over the runs that measured it.

    Attributes:
        key: which number.
        unit: base unit.
        runs: places of the runs in the history.
        values: the medians of those runs.
        changes: where the level changed; `LevelChange.at` counts within `runs`.
    """

    key: Key
    unit: str
    runs: tuple[int, ...]
    values: tuple[float, ...]
    changes: tuple[LevelChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A run from which on a step means something else than before.

    Attributes:
        run: its place in the history.
        step: name of the step.
        words: what it means now, and which step has its former meaning.
    """

    run: int
    step: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Many runs.

    Attributes:
        runs: names, in order, safe to show.
        series: everything that at least two runs measured.
        begins: where steps begin anew.
        warnings: what was left out, safe to show.
    """

    runs: tuple[str, ...]
    series: tuple[NumberHistory, ...]
    begins: tuple[Begin, ...]
    warnings: tuple[str, ...]

    @property
    def changed(self) -> list[NumberHistory]:
        """The series that changed, the largest change first, counters before times."""
        return sorted((each for each in self.series if each.changes), key=_weight)


def read(paths: Sequence[Path]) -> History:
    """Read runs into a history, in the order in which they are given.

    Args:
        paths: run folders or kept summaries, at least two, of one scenario.

    Raises:
        ReportError: a path is neither, its run did other work than the first one, or no number is
            in two runs, as where their tables are of different versions.
    """
    if len(paths) < 2:
        raise ReportError("a history needs at least two runs")
    found = [run_numbers.load(path) for path in paths]
    first = found[0]
    for other in found[1:]:
        if differ := differing_work(first.work, other.work):
            raise ReportError(
                f"{other.name} did other work than {first.name}: {', '.join(differ[:5])}"
            )
    numbers: dict[Key, dict[int, float]] = {}
    units: dict[Key, str] = {}
    for place, side in enumerate(found):
        for key, measured in side.numbers.items():
            numbers.setdefault(key, {})[place] = measured.median
            units[key] = measured.unit
    apart = list(_versions_apart(found))
    foreign = frozenset().union(*(side.foreign for side in found))
    unseeded = frozenset().union(*(side.unseeded for side in found))
    series = [
        number_history(
            key,
            units[key],
            values,
            native=key.cell not in foreign,
            seeded=key.cell not in unseeded,
        )
        for key, values in numbers.items()
        if len(values) > 1 and key.metric in METRICS
    ]
    if not series:
        nothing = "no verified number is in two of the runs, so there is no history"
        raise ReportError("; ".join([nothing, *apart[:3]]))
    return History(
        runs=tuple(side.run_id or side.name for side in found),
        series=tuple(sorted(series, key=_order)),
        begins=tuple(_begins(numbers)),
        warnings=tuple(
            f"{side.name}: {clean(cell)} is left out ({clean(reason)})"
            for side in found
            for cell, reason in side.wrong.items()
        )
        + tuple(apart),
    )


def _versions_apart(found: Sequence[RunNumbers]) -> Iterator[str]:
    """Cells of one release that no run measured together and that differ by their tables' version.

    A reader may take such runs for runs of the same.
    """
    runs_of: dict[tuple[str, str], dict[int, tuple[str, set[int]]]] = {}
    for place, side in enumerate(found):
        for cell in side.cells:
            engine, _, rest = cell.partition("/")
            if hudi := hudi_name(engine):
                versions = runs_of.setdefault((hudi.version, rest), {})
                versions.setdefault(hudi.table_version, (cell, set()))[1].add(place)
    for _, versions in sorted(runs_of.items()):
        for (first, (one, runs)), (second, (other, others)) in combinations(
            sorted(versions.items()), 2
        ):
            if not runs & others:
                yield (
                    f"{clean(one)} has tables of version {first} and {clean(other)} of version "
                    f"{second}: a history joins numbers of one version"
                )


def _begins(numbers: Mapping[Key, Mapping[int, float]]) -> Iterator[Begin]:
    """Where Keymark's point query becomes a scan, in a history that has its read by Spark before.

    Args:
        numbers: values by the place of their run.
    """
    first = {
        step: min(
            (
                min(values)
                for key, values in numbers.items()
                if key.step == step and is_native(key.cell.partition("/")[0])
            ),
            default=None,
        )
        for step in (_SCAN, _READ)
    }
    scan, read = first[_SCAN], first[_READ]
    if scan is not None and read is not None and read < scan:
        words = f"Keymark's {_SCAN} is a scan without Spark; its read by Spark is now {_READ}"
        yield Begin(run=scan, step=_SCAN, words=words)


def differing_work(first: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Keys of scenarios in which the work of two runs differs; tables and jobs may be others."""
    return [
        key
        for key, value in first.items()
        if other.get(key, value) != value and not key.startswith(("table.", "job."))
    ]


def number_history(
    key: Key, unit: str, values: Mapping[int, float], *, native: bool, seeded: bool
) -> NumberHistory:
    """One number with its changes.

    Args:
        key: which number; its metric is one of `METRICS`.
        unit: base unit.
        values: its medians by the place of the run, in order.
        native: whether its engine is Keymark's own.
        seeded: whether files of all runs were named from a seed; else sizes vary by chance.
    """
    demand = Policy().demand(key, native=native, seeded=seeded)
    numbers = tuple(values.values())
    if demand.kind is Kind.COUNTER and demand.level is Level.REQUIRED:
        changes = counter_changes(numbers, demand.tolerance)
    else:
        changes = time_changes(numbers)
    return NumberHistory(key=key, unit=unit, runs=tuple(values), values=numbers, changes=changes)


def _weight(series: NumberHistory) -> tuple[bool, float]:
    timed = not METRICS[series.key.metric].counter
    return timed, -max(abs((change.ratio or 2.0) - 1.0) for change in series.changes)


def _order(series: NumberHistory) -> tuple[str, tuple[int, int, str], str, str]:
    key = series.key
    return key.cell, step_order(key.step), key.metric, key.phase
