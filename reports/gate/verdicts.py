"""One number of a candidate against the base's: a counter's verdict, and a time's.

Counters of Keymark's own engine repeat, so one value tells. Counters of other code may vary though
nothing changed: from five repetitions on, growth there takes evidence. A time is judged by pairs
measured side by side, and its verdict has three values. `regression` takes evidence that noise
gives at most once in 5,000 gates, and a growth of at least half the tolerance; `pass` takes
evidence that there is no growth of the tolerance; all between is `inconclusive`, and says
how many pairs decide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import comb, exp, inf, isfinite, log1p

import numpy as np

from keymark.harness.store.units import Better
from keymark.reports.gate.paired import Shift, adjusted, log_ratios, p_above, pairs_needed, shift
from keymark.reports.gate.policy import Demand
from keymark.reports.gate.run_numbers import MeasuredNumber
from keymark.reports.render.format_values import exact
from keymark.reports.stats.statistics import Caveat, CaveatKind

ALARM = 0.0002
"""Probability that any time of a gate is called slower although nothing changed."""
CHANCE = 1 / comb(10, 5)
"""Probability that a counter which varies is called worse although nothing changed.

So often five values lie beyond five others.
"""
ENOUGH = 5
"""Repetitions from which on a counter that varies can show more than chance does."""
SURE = 0.995
"""Confidence with which a time that passes has not grown by its tolerance."""


class Verdict(StrEnum):
    """What a comparison shows."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict with its figures.

    Attributes:
        verdict: what is shown.
        ratio: candidate / base; None where the base is zero and the candidate is not.
        low: lower end of the ratio's interval; None where there is none.
        high: upper end of it.
        pairs: pairs that were compared; 0 for counters.
        needed: pairs that would decide; None where more pairs are not what is wanting.
        spread: relative standard deviation of one side of a pair; None for counters.
        p: adjusted p-value of a change for the worse; None for counters.
        caveats: what a reader must know.
    """

    verdict: Verdict
    ratio: float | None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    needed: int | None = None
    spread: float | None = None
    p: float | None = None
    caveats: tuple[Caveat, ...] = ()


def counter(base: MeasuredNumber, candidate: MeasuredNumber, demand: Demand) -> Judged:
    """Compare two counters: their medians, and their values farthest on the bad side.

    Where both have repetitions, only those are compared that both have. A base that does not
    repeat makes room for as much again as its own values differ; growth that is the same in every
    repetition is seen through that (a query asks for another key in each).
    Of other code than Keymark's, growth that chance may explain leaves the counter undecided, once
    there are repetitions enough to tell.
    """
    shared = [trial for trial in base.trials if trial in candidate.trials]
    if shared:
        base, candidate = base.of(shared), candidate.of(shared)
    own = base.max - base.min
    room = own + demand.tolerance * max(abs(base.min), abs(base.max))
    worse = max(_growths(base, candidate, demand.better))
    opposite = {Better.LOWER: Better.HIGHER, Better.HIGHER: Better.LOWER}
    better = max(_growths(base, candidate, opposite.get(demand.better, Better.NEITHER)))
    verdict = Verdict.PASS
    alike = bool(shared) and _grew_alike(base, candidate, demand)
    if worse > room or alike:
        is_sure = alike or demand.repeats or len(shared) < ENOUGH
        is_sure = is_sure or _is_beyond(base, candidate, demand)
        verdict = Verdict.REGRESSION if is_sure else Verdict.INCONCLUSIVE
    elif better > room:
        verdict = Verdict.IMPROVEMENT
    caveats: tuple[Caveat, ...] = ()
    if verdict is Verdict.INCONCLUSIVE:
        detail = f"{len(shared)} repetitions do not tell growth from chance; more of them would"
        caveats = (Caveat(kind=CaveatKind.VARIES, detail=detail),)
    elif own > demand.tolerance * max(abs(base.min), abs(base.max)):
        detail = f"the base itself varies from {exact(base.min)} to {exact(base.max)}"
        caveats = (Caveat(kind=CaveatKind.VARIES, detail=detail),)
    return Judged(
        verdict=verdict,
        ratio=_ratio(candidate.median, base.median),
        low=_ratio(candidate.min, base.max),
        high=_ratio(candidate.max, base.min),
        caveats=caveats,
    )


def same(base: MeasuredNumber, candidate: MeasuredNumber) -> bool:
    """Tell whether the two hold the same values, so that there is nothing to decide."""
    if base.trials and candidate.trials:
        return base.trials == candidate.trials
    return replace(base, trials={}) == replace(candidate, trials={})


def no_pairs(base: MeasuredNumber, candidate: MeasuredNumber) -> Judged:
    """A time whose sides were not measured side by side: its ratio means nothing."""
    detail = "not measured side by side in one run: the machine may have changed in between"
    return Judged(
        verdict=Verdict.INCONCLUSIVE,
        ratio=_ratio(candidate.median, base.median),
        caveats=(Caveat(kind=CaveatKind.UNPAIRED, detail=detail),),
    )


def unchanged() -> Judged:
    """Both sides hold the same values."""
    return Judged(verdict=Verdict.PASS, ratio=1.0, low=1.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The pairs of one time.

    Attributes:
        logs: logarithms of candidate / base, one for each pair.
        demand: what is demanded of it.
    """

    logs: tuple[float, ...]
    demand: Demand


def paired(base: MeasuredNumber, candidate: MeasuredNumber, demand: Demand) -> Pairs:
    """Pair the values of the repetitions that both sides have."""
    shared = [trial for trial in base.trials if trial in candidate.trials]
    values = [base.trials[t] for t in shared], [candidate.trials[t] for t in shared]
    return Pairs(logs=tuple(log_ratios(*values)), demand=demand)


def times(family: Sequence[Pairs]) -> list[Judged]:
    """Judge times that a gate compares at once, corrected for their number.

    Args:
        family: the times; those without pairs are inconclusive.
    """
    known = [each for each in family if each.logs]
    signs = [-1.0 if each.demand.better is Better.HIGHER else 1.0 for each in known]
    # A shift above zero is one for the worse.
    shifts = [
        shift([sign * value for value in each.logs], bound_confidence=SURE)
        for each, sign in zip(known, signs, strict=True)
    ]
    worse = adjusted([each.p_above for each in shifts])
    better = adjusted([each.p_below for each in shifts])
    level = ALARM / max(len(known), 1)
    judged = (
        _time(found, each, (p_worse, p_better), level)
        for found, each, p_worse, p_better in zip(shifts, known, worse, better, strict=True)
    )
    detail = "no repetition measured both sides with a value above zero"
    caveat = Caveat(kind=CaveatKind.UNPAIRED, detail=detail)
    nothing = Judged(verdict=Verdict.INCONCLUSIVE, ratio=None, caveats=(caveat,))
    return [next(judged) if each.logs else nothing for each in family]


def _time(found: Shift, each: Pairs, p_values: tuple[float, float], level: float) -> Judged:
    limit = log1p(each.demand.tolerance)
    verdict, needed = Verdict.INCONCLUSIVE, None
    if p_values[0] <= ALARM and found.estimate >= limit / 2:
        verdict = Verdict.REGRESSION
    elif p_values[1] <= ALARM and found.estimate <= -limit / 2:
        verdict = Verdict.IMPROVEMENT
    elif found.bound < limit or not any(each.logs):
        verdict = Verdict.PASS
    else:
        needed = pairs_needed(found.spread, limit, level=level)
        if pairs_needed(found.spread, limit, level=ALARM) <= found.n:
            # There were enough pairs for their noise, and yet they did not decide.
            needed = max(needed, 2 * found.n)
    ends = [found.estimate, found.low, found.high]
    if each.demand.better is Better.HIGHER:
        ends = [-found.estimate, -found.high, -found.low]
    ratio, low, high = (exp(end) if isfinite(end) else None for end in ends)
    few = f"{found.n} pair{'s' * (found.n > 1)}: a 95% interval takes at least 6"
    return Judged(
        verdict=verdict,
        ratio=ratio,
        low=low,
        high=high,
        pairs=found.n,
        needed=needed,
        spread=found.spread,
        p=p_values[0],
        caveats=(Caveat(kind=CaveatKind.FEW_SAMPLES, detail=few),) if low is None else (),
    )


def _growths(base: MeasuredNumber, candidate: MeasuredNumber, better: Better) -> tuple[float, ...]:
    """By how much the candidate is worse: its median, and its worst value."""
    up = candidate.median - base.median, candidate.max - base.max
    down = base.median - candidate.median, base.min - candidate.min
    if better is Better.LOWER:
        return up
    return down if better is Better.HIGHER else (*up, *down)


def _grew_alike(base: MeasuredNumber, candidate: MeasuredNumber, demand: Demand) -> bool:
    """Tell whether every repetition is worse beyond the tolerance, by about the same factor."""
    if len(base.trials) < 2 or demand.better is Better.NEITHER or base.min <= 0:
        return False
    sign = -1.0 if demand.better is Better.HIGHER else 1.0
    growths = [sign * (candidate.trials[t] / value - 1.0) for t, value in base.trials.items()]
    return min(growths) > demand.tolerance and min(growths) > max(growths) - min(growths)


def _is_beyond(base: MeasuredNumber, candidate: MeasuredNumber, demand: Demand) -> bool:
    """Tell whether the candidate is worse by more than chance: in all values, or in pairs."""
    pairs = np.array([candidate.trials[t] - value for t, value in base.trials.items()])
    up = candidate.min > base.max or p_above(pairs) <= CHANCE
    down = candidate.max < base.min or p_above(-pairs) <= CHANCE
    if demand.better is Better.NEITHER:
        return up or down
    return up if demand.better is Better.LOWER else down


def _ratio(candidate: float, base: float) -> float | None:
    if base == 0:
        return 1.0 if candidate == 0 else None
    return candidate / base if abs(candidate / base) < inf else None
