"""Base and candidate into findings and the verdict of the gate.

Cells are compared by name. A cell or a number that the candidate lacks is a finding like growth:
what is not measured any more cannot be shown to be as good. What it has in addition is no
finding. Of times that every step of a cell has, the mean over the steps is compared as well: a
change in tagging strikes every step that tags, and shows there with fewer pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from keymark.harness.store.units import METRICS
from keymark.reports.errors import ReportError
from keymark.reports.gate.causes import Cause, causes
from keymark.reports.gate.policy import Demand, Kind, Level, Policy
from keymark.reports.gate.run_numbers import Key, MeasuredNumber, RunNumbers
from keymark.reports.gate.verdicts import (
    Judged,
    Pairs,
    Verdict,
    counter,
    no_pairs,
    paired,
    same,
    times,
    unchanged,
)
from keymark.reports.model.projection import step_order
from keymark.reports.render.text import clean
from keymark.reports.stats.statistics import Caveat, CaveatKind

ALL_STEPS = "all steps"
"""Step of the findings about the mean over the steps."""

SET_UP = (
    *("table.options", "table.index_options", "table.engine_options", "table.variants"),
    *("spark.", "job."),
)
"""Options of tables, Spark and a job may differ between the sides; rows and steps may not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one comparison.

    Attributes:
        key: which number; step, phase and metric are empty where a whole cell is missing.
        demand: what the policy demands of it.
        base: the base's median; None for the mean over steps.
        candidate: the candidate's; None where it is missing.
        unit: base unit of both.
        judged: the verdict.
        causes: of a regression, the parts of the step that gained.
    """

    key: Key
    demand: Demand
    base: float | None
    candidate: float | None
    unit: str
    judged: Judged
    causes: tuple[Cause, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether the policy requires it."""
        return self.demand.level is Level.REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A gate's answer.

    Attributes:
        base: the side that is compared with.
        candidate: the side that is judged.
        findings: every comparison that the policy does not ignore.
        interleaved: both sides come from one run, so that times are judged.
        warnings: what a reader must know, safe to show.
    """

    base: RunNumbers
    candidate: RunNumbers
    findings: tuple[Finding, ...]
    interleaved: bool
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Pass, regression or inconclusive; only what is required decides."""
        found = {each.judged.verdict for each in self.findings if each.decides}
        if Verdict.REGRESSION in found:
            return Verdict.REGRESSION
        return Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in found else Verdict.PASS

    def with_verdict(self, verdict: Verdict, *, decides: bool) -> list[Finding]:
        """The findings of one verdict that decide, or those that do not."""
        return [
            each
            for each in self.findings
            if each.judged.verdict is verdict and each.decides is decides
        ]


def compare(base: RunNumbers, candidate: RunNumbers, policy: Policy) -> Gate:
    """Judge a candidate.

    Args:
        base: all of its cells must be verified.
        candidate: cells that are not verified, or not there, are regressions.
        policy: what is demanded.

    Raises:
        ReportError: the base is not verified, or the two sides did not do the same work.
    """
    _check(base, candidate)
    interleaved = base.origin is not None and base.origin == candidate.origin
    found = list(_absent_cells(base, candidate, policy))
    plain: list[Finding] = []
    paired_keys: list[tuple[Key, Demand]] = []
    unknown: set[str] = set()
    for key in sorted(base.numbers, key=_place):
        if key.metric not in METRICS:
            unknown.add(key.metric)
            continue
        demand = _demand(base, candidate, policy, key)
        if demand.level is Level.IGNORED or key.cell not in candidate.cells:
            continue
        theirs = candidate.numbers.get(key) if interleaved and demand.kind is Kind.TIME else None
        if theirs is not None and not same(base.numbers[key], theirs):
            paired_keys.append((key, demand))
        else:
            plain.append(_plain(base, candidate, key, demand))
    found += [*plain, *_times(base, candidate, paired_keys)]
    return Gate(
        base=base,
        candidate=candidate,
        findings=tuple(_explained(each, base, candidate) for each in found),
        interleaved=interleaved,
        warnings=tuple(_warnings(base, candidate, unknown)),
    )


def _demand(base: RunNumbers, candidate: RunNumbers, policy: Policy, key: Key) -> Demand:
    return policy.demand(
        key,
        native=key.cell not in base.foreign,
        seeded=key.cell not in base.unseeded | candidate.unseeded,
    )


def _explained(finding: Finding, base: RunNumbers, candidate: RunNumbers) -> Finding:
    """A regression with its causes; any other finding as it is."""
    key = finding.key
    if finding.judged.verdict is not Verdict.REGRESSION or not key.metric:
        return finding
    steps = [key.step]
    if key.step == ALL_STEPS:
        steps = [other.step for other in base.numbers if other._replace(step=ALL_STEPS) == key]
    return replace(finding, causes=causes(base, candidate, key, steps))


def _check(base: RunNumbers, candidate: RunNumbers) -> None:
    if base.wrong:
        cell, reason = next(iter(base.wrong.items()))
        raise ReportError(
            f"{base.name} cannot be a base: {clean(cell)} is not verified ({clean(reason)})"
        )
    differ = [text for key, text in _differences(base, candidate) if not key.startswith(SET_UP)]
    if differ:
        raise ReportError(
            f"{base.name} did other work than {candidate.name}: {'; '.join(differ[:5])}"
        )


def _differences(base: RunNumbers, candidate: RunNumbers) -> Iterable[tuple[str, str]]:
    """Keys of the scenario that both tell and that differ, with both values."""
    for key, value in base.work.items():
        other = candidate.work.get(key, value)
        if other != value:
            yield key, f"{key} is {value} there and {other} in the candidate"


def _warnings(base: RunNumbers, candidate: RunNumbers, unknown: Iterable[str]) -> Iterable[str]:
    for name in sorted(unknown):
        yield f"the metric {clean(name, 60)} is not known and not compared"
    if not base.work or not candidate.work:
        side = "base" if not base.work else "candidate"
        yield f"the {side} does not tell its scenario: whether both did the same is not checked"
    for key, text in _differences(base, candidate):
        if key.startswith(SET_UP):
            yield text
    for cell in sorted(candidate.cells - base.cells):
        yield f"the cell {clean(cell)} is new and compared with nothing"


def _absent_cells(base: RunNumbers, candidate: RunNumbers, policy: Policy) -> Iterable[Finding]:
    """Cells that the candidate has no right answers of; they weigh as their heaviest number."""
    for cell in sorted(base.cells - candidate.cells):
        demands = [
            _demand(base, candidate, policy, key)
            for key in base.numbers
            if key.cell == cell and key.metric in METRICS
        ]
        demand = min(demands, key=lambda each: list(Level).index(each.level), default=None)
        if demand is None or demand.level is Level.IGNORED:
            continue
        reason = candidate.wrong.get(cell, "the candidate has no such cell")
        caveat = Caveat(kind=CaveatKind.MISSING, detail=clean(reason))
        yield Finding(
            key=Key(cell, "", "", ""),
            demand=demand,
            base=None,
            candidate=None,
            unit="",
            judged=Judged(verdict=Verdict.REGRESSION, ratio=None, caveats=(caveat,)),
        )


def _plain(base: RunNumbers, candidate: RunNumbers, key: Key, demand: Demand) -> Finding:
    """A comparison that needs no statistics."""
    ours, theirs = base.numbers[key], candidate.numbers.get(key)
    if theirs is None:
        caveat = Caveat(kind=CaveatKind.MISSING, detail="the candidate did not measure it")
        judged = Judged(verdict=Verdict.REGRESSION, ratio=None, caveats=(caveat,))
    elif same(ours, theirs):
        judged = unchanged()
    elif demand.kind is Kind.COUNTER:
        judged = counter(ours, theirs, demand)
    else:
        judged = no_pairs(ours, theirs)
    return _finding(key, demand, (ours, theirs), judged)


def _finding(
    key: Key, demand: Demand, sides: tuple[MeasuredNumber, MeasuredNumber | None], judged: Judged
) -> Finding:
    ours, theirs = sides
    return Finding(
        key=key,
        demand=demand,
        base=ours.median,
        candidate=None if theirs is None else theirs.median,
        unit=ours.unit,
        judged=judged,
    )


def _times(
    base: RunNumbers, candidate: RunNumbers, keys: Sequence[tuple[Key, Demand]]
) -> Iterable[Finding]:
    """Times in pairs; what is required and what is not are families of their own."""
    for level in (Level.REQUIRED, Level.ADVISORY):
        family = [(key, demand) for key, demand in keys if demand.level is level]
        single = [
            paired(base.numbers[key], candidate.numbers[key], demand) for key, demand in family
        ]
        means = list(_means([key for key, _ in family], single))
        judged = times([*single, *(pairs for _, pairs in means)])
        for (key, demand), answer in zip(family, judged, strict=False):
            yield _finding(key, demand, (base.numbers[key], candidate.numbers[key]), answer)
        for (key, pairs), answer in zip(means, judged[len(single) :], strict=True):
            yield Finding(
                key=key,
                demand=pairs.demand,
                base=None,
                candidate=None,
                unit=base.numbers[family[0][0]].unit,
                judged=answer,
            )


def _means(keys: Sequence[Key], single: Sequence[Pairs]) -> Iterable[tuple[Key, Pairs]]:
    """The mean over the steps of a cell, pair by pair, where several have as many pairs."""
    grouped: dict[tuple[str, str, str, int], list[Pairs]] = {}
    for key, pairs in zip(keys, single, strict=True):
        group = key.cell, key.phase, key.metric, len(pairs.logs)
        grouped.setdefault(group, []).append(pairs)
    for (cell, phase, metric, count), members in grouped.items():
        demands = {each.demand for each in members}
        if len(members) > 1 and count > 1 and len(demands) == 1:
            logs = tuple(fmean(logs) for logs in zip(*(m.logs for m in members), strict=True))
            key = Key(cell, ALL_STEPS, phase, metric)
            yield key, Pairs(logs=logs, demand=members[0].demand)


def _place(key: Key) -> tuple[str, tuple[int, int, str], str, str]:
    return key.cell, step_order(key.step), key.metric, key.phase
