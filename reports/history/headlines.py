"""Runs of several scenarios into the history of each headline.

Runs are taken together that measured the same scenario with the same work on the same machine:
times of two machines say nothing about a change. As in `series`, versions of Hudi's tables are
never joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

from keymark.harness.engines import is_native
from keymark.harness.store.run_record import RunRecord
from keymark.reports.gate.run_numbers import Key
from keymark.reports.history.series import History, differing_work, number_history
from keymark.reports.model import facts, projection, tables
from keymark.reports.model.measures import BY_KEY, Measure
from keymark.reports.render.text import clean


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineHistory:
    """One headline measure over the runs that have it.

    Attributes:
        key: of the measure, for files and anchors.
        title: of the measure.
        history: a number for each cell that two runs measured.
    """

    key: str
    title: str
    history: History

    @property
    def finding(self) -> str:
        """What became of it, in a sentence."""
        runs, cells = len(self.history.runs), len(self.history.series)
        changes = sum(len(each.changes) for each in self.history.changed)
        of = f"in {cells} cell{'' if cells == 1 else 's'} over {runs} runs"
        if not changes:
            return f"No change of level is shown {of}."
        return f"{changes} change{'' if changes == 1 else 's'} of level {of}."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkHistory:
    """Runs of the same work on the same machine, in order of time.

    Attributes:
        scenario: its name.
        machine: processor, cores and memory in words.
        runs: their ids.
        headlines: what two of them measured; nothing of a single run.
    """

    scenario: str
    machine: str
    runs: tuple[str, ...]
    headlines: tuple[HeadlineHistory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EndedRun:
    """A run that has ended, its samples not yet read.

    Attributes:
        path: its folder.
        run_id: as run.json says.
        record: what run.json says.
    """

    path: Path
    run_id: str
    record: RunRecord

    def is_repeated_by(self, other: _EndedRun) -> bool:
        """Whether both did the same; of one without a scenario that is unknown."""
        first, record = self.record, other.record
        same = (_scenario(first), _machine(first)) == (_scenario(record), _machine(record))
        is_known = record.scenario.name is not None
        return is_known and same and not differing_work(facts.work(first), facts.work(record))


def read_all(paths: Sequence[Path]) -> list[WorkHistory]:
    """The history of each headline in run folders of any scenarios, those of most runs first.

    The samples of a run whose work no other run did are not read: it has no history.

    Args:
        paths: of run folders that have ended.

    Raises:
        ReportError: a path is no run folder, or its run has not ended.
    """
    groups: list[list[_EndedRun]] = []
    runs = [_ended(path) for path in paths]
    for run in sorted(runs, key=lambda run: (run.record.started, run.run_id)):
        group = next((each for each in groups if each[0].is_repeated_by(run)), None)
        if group is None:
            group = []
            groups.append(group)
        group.append(run)
    found = [
        WorkHistory(
            scenario=_scenario(group[0].record),
            machine=_machine(group[0].record),
            runs=tuple(clean(run.run_id) for run in group),
            headlines=tuple(_headlines(group)) if len(group) > 1 else (),
        )
        for group in groups
    ]
    return sorted(found, key=lambda work: (-len(work.runs), work.scenario))


def _ended(path: Path) -> _EndedRun:
    record = projection.ended_record(path)
    return _EndedRun(path=path, run_id=record.run_id or path.resolve().name, record=record)


def _scenario(record: RunRecord) -> str:
    return clean(record.scenario.name or "no name", 60)


def _machine(record: RunRecord) -> str:
    return facts.machine_words(record.machine) or "a machine that is not told"


def _headlines(group: Sequence[_EndedRun]) -> list[HeadlineHistory]:
    """Each headline measure that two of the runs have of some cell."""
    runs = [run for each in group for run in projection.load([each.path])]
    measures: dict[str, Measure] = {}
    numbers: dict[str, dict[Key, dict[int, float]]] = {}
    engines: dict[Key, str] = {}
    for place, run in enumerate(runs):
        right = [cell for cell in run.cells if cell.verified]
        for cell, shown in product(right, tables.headline_measures(right)):
            measure = _lasting(shown, cell.engine)
            measures.setdefault(measure.key, measure)
            key = Key(cell.cell, measure.step, measure.phase, measure.metric)
            if values := measure.values(cell):
                of_measure = numbers.setdefault(measure.key, {})
                of_measure.setdefault(key, {})[place] = median(values.values())
                engines[key] = cell.engine
    seeded = set.intersection(*(set(run.record.seeded_ids) for run in runs))
    names = tuple(clean(run.run_id) for run in runs)
    found = []
    for name, measure in measures.items():
        series = tuple(
            number_history(
                key,
                measure.unit,
                values,
                native=is_native(engines[key]),
                seeded=engines[key] in seeded,
            )
            for key, values in numbers.get(name, {}).items()
            if len(values) > 1
        )
        if series:
            history = History(runs=names, series=series, begins=(), warnings=())
            found.append(HeadlineHistory(key=name, title=measure.what, history=history))
    return found


def _lasting(shown: Measure, engine: str) -> Measure:
    """A measure of one run as those of all runs know it.

    A run whose Keymark has no scan calls its read by Spark the point query.
    """
    if shown.of_keymark and is_native(engine):
        return BY_KEY["point_query_spark"]
    return shown
