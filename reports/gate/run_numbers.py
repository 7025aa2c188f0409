"""The numbers of one side of a gate: a run folder or a kept summary.json, read by key.

A run folder has its samples, so that values of one repetition can be paired; a summary has only
what it says about each number. Both may come from anyone: what is damaged is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from statistics import median
from typing import NamedTuple

from keymark.harness.engines import (
    WORKTREE,
    format_name,
    hudi_name,
    hudi_version,
    library_name,
)
from keymark.harness.errors import RunFolderError
from keymark.harness.store.results import Stage
from keymark.harness.store.store import RunFolder
from keymark.reports.errors import ReportError
from keymark.reports.gate import summary
from keymark.reports.model import facts, projection
from keymark.reports.model.projection import Trial
from keymark.reports.render.text import clean, without_folders


class Key(NamedTuple):
    """Which number of a run."""

    cell: str
    step: str
    phase: str
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNumber:
    """All values of one number.

    Attributes:
        unit: base unit.
        median: the median.
        min: the smallest value; of a summary that does not tell, the low end of its interval.
        max: the largest value, or the high end of the interval.
        n: number of values.
        trials: value by (repetition, round); empty where only a summary is known.
    """

    unit: str
    median: float
    min: float
    max: float
    n: int
    trials: Mapping[Trial, float] = field(default_factory=dict)

    def of(self, trials: Iterable[Trial]) -> MeasuredNumber:
        """The same of some of the repetitions only, at least one of which there must be."""
        return _measured(self.unit, {trial: self.trials[trial] for trial in trials})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNumbers:
    """One side of a gate.

    Attributes:
        name: how it was named, safe to show.
        run_id: of the run, safe to show.
        origin: the run folder, by which sides of one run know each other; None for a summary.
        numbers: everything measured in cells that are verified.
        wrong: cells that are not verified or were never measured, with the reason.
        foreign: cells of Hudi's engines, whose counters repeat less exactly.
        work: what was done, as (dotted key of the scenario -> text); empty where unknown.
        stages: Spark's stages by cell and step; empty where unknown.
        versions: of what numbers depend on, by name; empty where unknown.
        scenario: its name; empty where unknown.
        engine: the one whose cells these are; empty for all.
        unseeded: cells whose files are named at random, so that sizes of indexes are chance.
        side: what this side of a job is, as the run says; empty for others.
    """

    name: str
    run_id: str
    origin: Path | None
    numbers: Mapping[Key, MeasuredNumber]
    wrong: Mapping[str, str]
    foreign: frozenset[str]
    work: Mapping[str, str]
    stages: Mapping[tuple[str, str], Sequence[Stage]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    scenario: str = ""
    engine: str = ""
    unseeded: frozenset[str] = frozenset()
    side: str = ""

    @property
    def title(self) -> str:
        """What was measured, in words for readers elsewhere: an engine, a commit, or a run."""
        if self.side:
            return self.side
        hudi = hudi_name(self.engine)
        if hudi:
            return f"Apache Hudi {clean(hudi.version, 40)}, tables of version {hudi.table_version}"
        other = format_name(self.engine)
        if other:
            return f"{other.release.title} {clean(other.version, 40)}"
        named = self.engine.partition("@")[2]
        commit = self.versions.get("revision", "") if named in ("", WORKTREE) else named[:12]
        if not commit:
            return f"run {self.run_id}" if self.run_id else PurePosixPath(self.name).name
        changed = " with changes" if commit.endswith("+") else ""
        return f"commit {clean(commit, 60).rstrip('+')}{changed}"

    @property
    def cells(self) -> frozenset[str]:
        """The cells that are verified."""
        return frozenset(key.cell for key in self.numbers)


def load(path: Path, engine: str | None = None) -> RunNumbers:
    """Read one side.

    Args:
        path: a run folder, or a summary.json.
        engine: take the cells of this engine only, and leave the engine out of their names.

    Raises:
        ReportError: neither of both, damaged, unfinished, or without cells of the engine.
    """
    side = _from_summary(path, engine) if path.is_file() else _from_run(path, engine)
    if not side.numbers and not side.wrong:
        of = f" of engine {clean(engine)}" if engine else ""
        raise ReportError(f"{side.name} holds no cells{of}")
    return side


def _from_run(path: Path, engine: str | None) -> RunNumbers:
    run = projection.load_ended(path)
    cells = [cell for cell in run.cells if engine in (None, cell.engine)]
    missing = [
        name for name in facts.missing_cells(run) if engine is None or name.startswith(f"{engine}/")
    ]
    wrong = {_name(name, engine): "no value was measured" for name in missing}
    # In a cell that ended at a limit the later steps have no numbers: nothing judges them.
    wrong |= {
        _name(cell.cell, engine): cell.ended or "; ".join(cell.reasons)
        for cell in cells
        if cell.ended or cell.failed
    }
    return RunNumbers(
        name=_named(path, engine),
        run_id=clean(run.run_id),
        origin=path.resolve(),
        numbers={
            Key(_name(cell.cell, engine), series.step, series.phase, series.metric): _measured(
                series.unit, series.values
            )
            for cell in cells
            if cell.verified and not cell.ended
            for series in cell.series.values()
        },
        wrong=wrong,
        foreign=frozenset(_name(c.cell, engine) for c in cells if _is_foreign(c.engine)),
        work=facts.work(run.record, engine),
        stages=_stages(path, engine),
        versions=facts.versions(run),
        scenario=clean(run.record.scenario.name or "", 60),
        engine=engine or "",
        unseeded=frozenset(
            _name(c.cell, engine) for c in cells if c.engine not in run.record.seeded_ids
        ),
        side=facts.side_title(run, engine),
    )


def _stages(path: Path, engine: str | None) -> dict[tuple[str, str], list[Stage]]:
    """What Spark's stages did, by cell and step."""
    found: dict[tuple[str, str], list[Stage]] = {}
    try:
        for stage in RunFolder.open(path).stages():
            if engine is None or stage.cell.startswith(f"{engine}/"):
                found.setdefault((_name(stage.cell, engine), stage.step), []).append(stage)
    except RunFolderError as error:
        raise ReportError(clean(error)) from error
    return found


def _measured(unit: str, trials: Mapping[Trial, float]) -> MeasuredNumber:
    values = list(trials.values())
    return MeasuredNumber(
        unit=unit,
        median=median(values),
        min=min(values),
        max=max(values),
        n=len(values),
        trials=trials,
    )


def _named(path: Path, engine: str | None) -> str:
    return clean(path) + (f" ({clean(engine, 60)})" if engine else "")


def _name(cell: str, engine: str | None) -> str:
    return cell if engine is None else cell.removeprefix(f"{engine}/")


def _from_summary(path: Path, engine: str | None) -> RunNumbers:
    document = summary.read(path)
    numbers: dict[Key, MeasuredNumber] = {}
    foreign, unseeded = set(), set()
    wrong = {
        _name(name, engine): "no value was measured"
        for name in document.missing
        if engine is None or name.startswith(f"{engine}/")
    }
    for place, cell in enumerate(document.cells):
        if engine not in (None, cell.engine):
            continue
        name = _name(cell.cell or f"{cell.engine}/{cell.index}", engine)
        if name in wrong or any(key.cell == name for key in numbers):
            raise ReportError(f"{clean(path)}, cell {place + 1}: {clean(name)} is there twice")
        if _is_foreign(cell.engine):
            foreign.add(name)
        if cell.engine not in document.seeded_ids:
            unseeded.add(name)
        if cell.ended or not (cell.verified and cell.metrics):
            reasons = clean(cell.ended), *map(clean, cell.reasons)
            wrong[name] = "; ".join(filter(None, reasons)) or "it was not verified"
            continue
        for each in cell.metrics:
            numbers[Key(name, each.step, each.phase, each.metric)] = MeasuredNumber(
                unit=each.unit,
                median=each.median,
                min=each.low if each.least is None else each.least,
                max=each.high if each.most is None else each.most,
                n=each.n,
            )
    return RunNumbers(
        name=_named(path, engine),
        run_id=clean(document.run_id),
        origin=None,
        numbers=numbers,
        wrong=wrong,
        foreign=frozenset(foreign),
        work={
            clean(key, 120): clean(without_folders(str(value)))
            for key, value in document.work.items()
        },
        versions={
            clean(name, 60): clean(without_folders(str(value)))
            for name, value in document.versions.items()
        },
        engine=engine or "",
        unseeded=frozenset(unseeded),
    )


def _is_foreign(engine: str) -> bool:
    """Whether an engine is no code of Keymark's."""
    return any(named(engine) for named in (hudi_version, format_name, library_name))
