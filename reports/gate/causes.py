"""From red to cause: which phase, and which Spark stage, gained what a regression is about.

Stages are matched by cell, step, phase and name. For a time, and for a number that no stage has,
the phases that gained come first: most of Keymark's small writes start no Spark job at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from statistics import median

from keymark.harness.store.results import Stage
from keymark.harness.store.units import METRICS
from keymark.reports.gate.run_numbers import Key, RunNumbers

MOST = 3
"""Causes that are shown of one regression."""

TIME = "wall_s"
_TOTAL = "total"
_WHAT = frozenset(("cell", "step", "repetition", "phase", "name"))
_MEASURED = tuple(field.name for field in fields(Stage) if field.name not in _WHAT)
_COUNTED = tuple(name for name in _MEASURED if name != TIME)
_OF_STAGES = {"largest_tasks_records": "task_records_max"}
"""What a number of a step adds up over its stages"""

StageKey = tuple[str, str]
"""(phase, name)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A part of a step that gained.

    Attributes:
        kind: `phase` or `stage`.
        phase: of the part.
        name: what a stage does; empty for a phase.
        metric: what it gained; `stages` is how many there are.
        before: the base's median over repetitions; 0 where the base has no such stage.
        after: the candidate's.
    """

    kind: str
    phase: str
    name: str
    metric: str
    before: float
    after: float

    @property
    def unit(self) -> str:
        """Base unit of both values."""
        return METRICS[self.metric].unit if self.metric in METRICS else "1"


def causes(
    base: RunNumbers, candidate: RunNumbers, key: Key, steps: Iterable[str]
) -> tuple[Cause, ...]:
    """The parts of a step that gained most of what got worse.

    Args:
        base: with its stages.
        candidate: the same.
        key: the number that got worse.
        steps: which steps it is about.
    """
    steps = tuple(steps)
    found = _phases(base, candidate, key, steps)
    ours, theirs = (_sums(side, key, steps) for side in (base, candidate))
    metric = _OF_STAGES.get(key.metric, key.metric)
    wanted = (metric,) if metric in _MEASURED else _COUNTED
    found += _gained(ours, theirs, wanted)
    if not any(each.kind == "stage" for each in found) and wanted != _COUNTED:
        # Time without a stage that took longer: more work tells as well.
        found += _gained(ours, theirs, _COUNTED)
    return tuple(found[:MOST])


def _gained(
    ours: Mapping[StageKey, Mapping[str, float]],
    theirs: Mapping[StageKey, Mapping[str, float]],
    metrics: Iterable[str],
) -> list[Cause]:
    """Stages that gained, those first that gained most of what they had."""
    nothing = dict.fromkeys(_MEASURED, 0.0)
    found = [
        Cause(
            kind="stage",
            phase=place[0],
            name=place[1],
            metric=metric,
            before=ours.get(place, nothing)[metric],
            after=values[metric],
        )
        for place, values in theirs.items()
        for metric in metrics
        if values[metric] > ours.get(place, nothing)[metric]
    ]
    whole = {metric: sum(each[metric] for each in ours.values()) or 1.0 for metric in _MEASURED}
    causes: dict[StageKey, Cause] = {}
    for each in sorted(found, key=lambda c: (c.before - c.after) / whole[c.metric]):
        causes.setdefault((each.phase, each.name), each)
    return list(causes.values())


def _phases(base: RunNumbers, candidate: RunNumbers, key: Key, steps: Iterable[str]) -> list[Cause]:
    """The phases of a whole step that gained, the greatest gain first."""
    if key.phase != _TOTAL:
        return []
    gains: dict[str, tuple[float, float]] = {}
    for step in steps:
        for other, ours in base.numbers.items():
            theirs = candidate.numbers.get(other)
            same = (other.cell, other.step, other.metric) == (key.cell, step, key.metric)
            if same and other.phase != _TOTAL and theirs is not None:
                before, after = gains.get(other.phase, (0.0, 0.0))
                gains[other.phase] = before + ours.median, after + theirs.median
    ordered = sorted(gains.items(), key=lambda item: item[1][0] - item[1][1])
    return [
        Cause(kind="phase", phase=phase, name="", metric=key.metric, before=before, after=after)
        for phase, (before, after) in ordered[:1]
        if after > before
    ]


def _sums(side: RunNumbers, key: Key, steps: Iterable[str]) -> dict[StageKey, dict[str, float]]:
    """Medians over repetitions of each stage, added up over steps."""
    found: dict[StageKey, dict[str, float]] = {}
    for step in steps:
        turns: dict[StageKey, list[Stage]] = {}
        repetitions = set()
        for stage in side.stages.get((key.cell, step), ()):
            repetitions.add(stage.repetition)
            if key.phase in (_TOTAL, stage.phase):
                turns.setdefault((stage.phase, stage.name), []).append(stage)
        for place, stages in turns.items():
            sums = found.setdefault(place, dict.fromkeys(_MEASURED, 0.0))
            absent = [0.0] * (len(repetitions) - len(stages))
            for metric in _MEASURED:
                sums[metric] += median([*(getattr(s, metric) for s in stages), *absent])
    return found
