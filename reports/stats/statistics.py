"""What a handful of repetitions says: median, interval, paired ratio, and how far to trust them.

The interval of a median is the exact one from order statistics: between the k-th smallest and the
k-th largest value lies the true median with probability 1 - 2 P(Bin(n, 1/2) < k), whatever the
distribution (David and Nagaraja, Order Statistics, section 7.1). It needs no resampling, so equal
samples always give equal reports. The price is that fewer than six values can not reach 95%: then
the interval is the range, and a caveat says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import ceil, comb, isfinite
from statistics import median
from typing import TypeVar

CONFIDENCE = 0.95

REPETITIONS_MIN = 3
"""With fewer times than this nothing is shown: their spread says too little. Counters repeat."""

LEAST_CHANGE = 0.01
"""Share from which a counter has changed: instants and file ids alter sizes by less."""

# From how many values on two groups are looked for, how many times as wide as a group the gap
# between them is, and the share of the value below it: chance makes less than 1 in 100 so.
_GROUPED = 8
_APART = 2.0
_VISIBLE = 0.05

# From how many values on a first one can stand out, and how far beyond the next slowest.
_FIRST = 4
_COLDER = 1.25

Pair = TypeVar("Pair")


class CaveatKind(StrEnum):
    """Why a statistic deserves less trust than it seems to."""

    FEW_SAMPLES = "few_samples"
    UNPAIRED = "unpaired"
    ZERO_BASE = "zero_base"
    VARIES = "varies"
    MISSING = "missing"
    TWO_GROUPS = "two_groups"
    FIRST_SLOWER = "first_slower"
    NOISY_MACHINE = "noisy_machine"
    DRIFT = "drift"
    LOADED = "loaded"
    CLOCK_RATE = "clock_rate"
    STOLEN = "stolen"
    COLD = "cold"
    BY_ROUNDS = "by_rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """One warning that travels with a statistic, as data.

    Attributes:
        kind: what to test for.
        detail: the sentence for readers.
    """

    kind: CaveatKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A sample in one line, in the unit of the sample.

    Attributes:
        median: the middle value.
        low: lower end of the interval of the median.
        high: upper end of the interval of the median.
        n: number of values.
        coverage: probability with which the interval holds the true median; at least
            ``CONFIDENCE`` from six values on, lower below.
        caveats: what a reader must know before trusting it.
    """

    median: float
    low: float
    high: float
    n: int
    coverage: float
    caveats: tuple[Caveat, ...] = ()

    def overlaps(self, other: Summary) -> bool:
        """Tell whether the two intervals share a value, so that no difference is shown."""
        return self.low <= other.high and other.low <= self.high


@cache
def interval_depth(n: int, confidence: float = CONFIDENCE) -> tuple[int, float]:
    """Find the narrowest symmetric order-statistics interval that reaches a confidence.

    Args:
        n: number of values, at least 1.
        confidence: wished coverage, between 0 and 1.

    Returns:
        How many values to leave out at either end, and the real coverage of that interval;
        0 and the coverage of the range where no interval reaches the confidence.
    """
    # Of 1,024 values and more these numbers are too large for floats; their quotient is not.
    depth, tail, best = 0, 0, 1.0 - 2 / 2**n
    for left_out in range((n + 1) // 2):
        tail += comb(n, left_out)
        coverage = 1.0 - 2 * tail / 2**n
        if coverage < confidence:
            break
        depth, best = left_out, coverage
    return depth, max(best, 0.0)


def summarize(values: Sequence[float]) -> Summary:
    """Summarize one sample.

    Args:
        values: finite numbers, at least one, in any order.

    Returns:
        Median and interval, with a caveat when there are too few values for ``CONFIDENCE``.

    Raises:
        ValueError: there is no value, or one is not finite.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n == 0 or not all(isfinite(value) for value in ordered):
        raise ValueError("a summary needs at least one value, and only finite ones")
    depth, coverage = interval_depth(n)
    caveats: tuple[Caveat, ...] = ()
    if coverage < CONFIDENCE:
        caveats = (_few_samples(n, coverage),)
    return Summary(
        median=median(ordered),
        low=ordered[depth],
        high=ordered[n - 1 - depth],
        n=n,
        coverage=coverage,
        caveats=caveats,
    )


def paired_ratio(
    baseline: Mapping[Pair, float], candidate: Mapping[Pair, float]
) -> tuple[Summary | None, tuple[Caveat, ...]]:
    """Compare two samples measured side by side: candidate / baseline, pair by pair.

    What slows a machine down for a while slows both sides of a pair, so it leaves the ratio alone.

    Args:
        baseline: value by pair, for instance by (repetition, round).
        candidate: the same for the other side.

    Returns:
        The summary of the ratios, None when no pair is left, and caveats on pairs left out.
    """
    shared = [pair for pair in baseline if pair in candidate]
    usable = [pair for pair in shared if baseline[pair] != 0.0]
    caveats: list[Caveat] = []
    alone = len(baseline) + len(candidate) - 2 * len(shared)
    if alone:
        detail = f"{alone} values have no partner in the same repetition and are left out"
        caveats.append(Caveat(kind=CaveatKind.UNPAIRED, detail=detail))
    if len(usable) < len(shared):
        detail = f"{len(shared) - len(usable)} pairs have a baseline of zero and no ratio"
        caveats.append(Caveat(kind=CaveatKind.ZERO_BASE, detail=detail))
    if not usable:
        return None, tuple(caveats)
    ratios = summarize([candidate[pair] / baseline[pair] for pair in usable])
    return ratios, (*ratios.caveats, *caveats)


def is_shown(ratio: Summary, noise: float, *, is_counted: bool = False) -> bool:
    """Whether paired ratios show a difference.

    Args:
        ratio: of one side to the other.
        noise: of the machine, as a share; a smaller difference may be the machine's. Of counters
            the tolerance.
        is_counted: whether both sides are counters, which repeat: one pair is enough.
    """
    apart = not ratio.low <= 1 <= ratio.high
    farther = max(ratio.median, 1 / ratio.median) > 1 + noise if ratio.median else True
    return (is_counted or ratio.n >= REPETITIONS_MIN) and apart and farther


def repetitions_to_decide(left: Summary, right: Summary) -> int | None:
    """About how many values each would show two medians apart; None if they are equal.

    An interval of a median narrows with the square root of the number of values.
    """
    gap = abs(left.median - right.median)
    if not gap:
        return None
    if min(left.n, right.n) < REPETITIONS_MIN:
        return REPETITIONS_MIN
    widths = (left.high - left.low + right.high - right.low) / 2
    return ceil(max(left.n, right.n) * (widths / gap) ** 2) + 1


def shape_caveats(values: Mapping[tuple[int, int], float]) -> tuple[Caveat, ...]:
    """What the shape of a sample warns of: two groups of values, or a first one that was cold.

    Args:
        values: value by (repetition, round), in which order they were taken.
    """
    taken = [value for _, value in sorted(values.items())]
    found = [_two_groups(sorted(taken)), _first_slower(taken)]
    return tuple(caveat for caveat in found if caveat is not None)


def _two_groups(ordered: Sequence[float]) -> Caveat | None:
    """Bimodal: a gap far wider than both groups beside it, each a fourth of the values at least."""
    n = len(ordered)
    edge = max(2, -(-n // 4))
    if n < _GROUPED:
        return None
    gap, cut = max((ordered[at] - ordered[at - 1], at) for at in range(edge, n - edge + 1))
    widest = max(ordered[cut - 1] - ordered[0], ordered[-1] - ordered[cut])
    if gap <= _APART * widest or gap <= _VISIBLE * ordered[cut - 1]:
        return None
    detail = (
        f"the {n} values form two groups, {cut} near {median(ordered[:cut]):.3g} and {n - cut} "
        f"near {median(ordered[cut:]):.3g}: the median tells of one of them only"
    )
    return Caveat(kind=CaveatKind.TWO_GROUPS, detail=detail)


def _first_slower(taken: Sequence[float]) -> Caveat | None:
    if len(taken) < _FIRST or taken[0] <= _COLDER * max(taken[1:]) or taken[0] <= 0:
        return None
    times = taken[0] / median(taken)
    detail = f"the first of {len(taken)} values is {times:.2g} times the median: caches were cold"
    return Caveat(kind=CaveatKind.FIRST_SLOWER, detail=detail)


def _few_samples(n: int, coverage: float) -> Caveat:
    if n == 1:
        detail = "one value only: its spread is unknown"
    else:
        detail = (
            f"{n} values: the interval is their range and holds the true median "
            f"with {coverage:.0%} probability only (95% takes at least 6)"
        )
    return Caveat(kind=CaveatKind.FEW_SAMPLES, detail=detail)
