"""Constants and a workload into predictions with ranges. No numpy: `plan` answers at once.

A range holds what the bootstrap draws say, widened by how far measured cells are off their fits.
Outside of what was calibrated the draws part, and the prediction is marked extrapolated. There its
range is widened by how far predictions were off at that distance, where a score knows it: of that
index, or else of the others. Where no score has met the quantity, the distance from the fit counts
half as much again for each factor e beyond the calibrated range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from keymark.harness.store.units import REQUEST_COUNTS, Unit
from keymark.indexes.workload import Workload
from keymark.reports.plan.calibration import Calibration, FittedEquation, SeenError
from keymark.reports.plan.formulas import POINT_QUERIES, SHUFFLE_REST, other

_COVERED = 0.95
_WIDER = 0.5
_SLACK = 1.01

PARTS = ("tag", "index", "write", "around")
"""The parts whose times add up to the latency of a write."""
ADDED = ("tag", "index")
"""The parts that an index adds."""
BY_SCORES, BY_RULE = "scores", "rule of thumb"
"""What ranges beyond the calibration are widened by."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the ends of its range."""

    value: float
    low: float
    high: float

    def overlaps(self, other: Estimate) -> bool:
        """Whether the ranges share a value."""
        return self.low <= other.high and other.low <= self.high

    def plus(self, other: Estimate) -> Estimate:
        """The sum; ends are added, as if both were off in the same direction."""
        return Estimate(self.value + other.value, self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Estimate:
        """A multiple."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)


NOTHING = Estimate(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One number of one index.

    Attributes:
        index: its name.
        metric: `write_s`, `tag_s`, `added_s`, `lookup_s`, `shuffle_bytes` (of tagging),
            `write_shuffle_bytes` (of all of a write), `index_bytes`, `memory_bytes`, `bootstrap_s`,
            `point_query_s`, `point_query_spark_s`, `cost_month`, and `REQUEST_COUNTS` of a write.
        unit: base unit; of money the currency.
        estimate: value and range.
        extrapolated: the workload is outside of what was calibrated.
    """

    index: str
    metric: str
    unit: str
    estimate: Estimate
    extrapolated: bool


def predictions(calibration: Calibration, at: Workload) -> list[Prediction]:
    """All that is predicted of every calibrated index, money aside."""
    made = []
    model = calibration.model
    outside = beyond(calibration.ranges, at)
    for index in calibration.indexes:
        parts = {part: quantity(calibration, part, index, at) for part in PARTS}
        asked = "lookup" if model.name_of("lookup", index) else "tag"
        memory = model.cost(index).memory
        shuffled = quantity(calibration, "shuffle", index, at)
        dealt_out = shuffled.plus(quantity(calibration, SHUFFLE_REST, index, at))
        measured = {
            "write_s": total(list(parts.values())),
            "tag_s": parts["tag"],
            "added_s": parts["tag"].plus(parts["index"]),
            "lookup_s": quantity(calibration, asked, index, at),
            "shuffle_bytes": shuffled,
            **({"write_shuffle_bytes": dealt_out} if _has(calibration, SHUFFLE_REST) else {}),
            "index_bytes": _kept(calibration, index, at),
            **({"memory_bytes": _exact(memory(at))} if memory else {}),
            "bootstrap_s": quantity(calibration, "bootstrap", index, at),
            **{
                f"{kind}_s": quantity(calibration, kind, index, at)
                for kind in POINT_QUERIES
                if _has(calibration, kind)
            },
            **{
                name: quantity(calibration, name, index, at)
                for name in REQUEST_COUNTS
                if _has(calibration, name)
            },
        }
        made += [
            Prediction(
                index=index,
                metric=metric,
                unit=_unit(metric).value,
                estimate=estimate,
                extrapolated=bool(outside),
            )
            for metric, estimate in measured.items()
        ]
    return made


def _has(calibration: Calibration, name: str) -> bool:
    """Whether a quantity was calibrated, of whatever index."""
    return any(equation.startswith(f"{name}/") for equation in calibration.equations)


def _unit(metric: str) -> Unit:
    if metric in REQUEST_COUNTS:
        return Unit.COUNT
    return Unit.BYTES if metric.endswith("_bytes") else Unit.SECONDS


def added(calibration: Calibration, index: str, at: Workload) -> Estimate:
    """What an index adds to a write: tagging, and keeping itself up to date."""
    parts = [quantity(calibration, part, index, at) for part in ADDED]
    return total(parts)


def likely_added(calibration: Calibration, index: str, at: Workload) -> float:
    """The same without a range."""
    return sum(likely(calibration, part, index, at) for part in ADDED)


def total(parts: Sequence[Estimate]) -> Estimate:
    """The sum of estimates."""
    whole = NOTHING
    for part in parts:
        whole = whole.plus(part)
    return whole


def quantity(calibration: Calibration, name: str, index: str, at: Workload) -> Estimate:
    """One quantity of one index; zero where its formula says that there is nothing to do."""
    fitted, work = work_of(calibration, name, index, at)
    if fitted is None:
        return NOTHING
    far = farthest(calibration, at)
    of_all = [each for each in calibration.errors if each.quantity == name]
    seen = [each for each in of_all if each.index == index] or of_all
    return estimate(fitted, work, off=distance_error(fitted.spread, seen, far))


def widened_by(calibration: Calibration, at: Workload) -> str:
    """What ranges at a workload are widened by: BY_SCORES or BY_RULE; within: nothing."""
    if not beyond(calibration.ranges, at):
        return ""
    scored = any(each.quantity in PARTS for each in calibration.errors)
    return BY_SCORES if scored else BY_RULE


def likely(calibration: Calibration, name: str, index: str, at: Workload) -> float:
    """The value of a quantity. A range costs a hundred times as much: it asks all the draws."""
    fitted, work = work_of(calibration, name, index, at)
    return 0.0 if fitted is None else max(0.0, _sum(fitted.values, _row(fitted, work)))


def work_of(
    calibration: Calibration, name: str, index: str, at: Workload
) -> tuple[FittedEquation | None, Mapping[str, float]]:
    """The constants of a quantity and its amounts; no constants where it is nothing.

    Where one mode was not calibrated the other one's constants stand in: the work is the same.
    """
    model = calibration.model
    equation = model.equation_of(name, index, at)
    fitted = calibration.equations.get(equation) if equation else None
    if fitted is None:
        return None, {}
    mode = model.mode_of(name, index, at)
    return fitted, model.amounts(name, index, at, mode if fitted.knows(mode) else other(mode))


def _row(equation: FittedEquation, amounts: Mapping[str, float]) -> list[float]:
    """The amounts in the order of the constants. One never calibrated counts as nothing."""
    return [amounts.get(name, 0.0) for name in equation.amounts]


def distance_error(spread: float, seen: Sequence[SeenError], far: float) -> float:
    """How far a cell is off at a distance from the calibration, as |log(measured / predicted)|.

    Between the distances that were scored it is linear in the logarithm of the distance. Beyond
    the largest it rises at the same rate, or at that of quantities without a score.

    Args:
        spread: of the cells that were calibrated.
        seen: what scores found of that quantity: of that index, or of others if it was not scored.
        far: the distance; 1 within the calibration.
    """
    points = [(0.0, spread)]
    # The largest of several errors at one distance counts.
    for each in sorted(seen, key=lambda each: (each.beyond, -each.off)):
        points.append((math.log(each.beyond), max(each.off, points[-1][1])))
    here = math.log(far)
    for (left, low), (right, high) in pairwise(points):
        if here <= right:
            return low + (high - low) * (here - left) / (right - left)
    last, off = points[-1]
    rate = max(_WIDER * spread, (off - spread) / last if last else 0.0)
    return off + rate * (here - last)


def estimate(
    equation: FittedEquation, amounts: Mapping[str, float], *, off: float | None = None
) -> Estimate:
    """The value of an equation and its range.

    Args:
        equation: the fitted constants.
        amounts: of the workload.
        off: how far a cell may be off, as |log(measured / predicted)|; None: as within the
            calibration.
    """
    row = _row(equation, amounts)
    value = _sum(equation.values, row)
    if value <= 0:
        return NOTHING
    low, high = middle([_sum(draw, row) for draw in equation.draws], value)
    around = equation.spread if off is None else off
    up = math.hypot(math.log(max(high / value, 1.0)), around)
    down = math.hypot(math.log(max(value / max(low, value * 1e-6), 1.0)), around)
    return Estimate(value, value * math.exp(-down), value * math.exp(up))


def middle(drawn: Sequence[float], value: float) -> tuple[float, float]:
    """The ends of the middle 95 % of draws; of none the value itself, twice."""
    ordered = sorted(drawn) or [value]
    left_out = math.floor(len(ordered) * (1 - _COVERED) / 2)
    return ordered[left_out], ordered[-1 - left_out]


def beyond(ranges: Mapping[str, tuple[float, float]], at: Workload) -> dict[str, float]:
    """How many times the workload is beyond the calibrated range, by what; within: left out."""
    found = {}
    for name, (low, high) in ranges.items():
        here = float(getattr(at, name))
        factor = max(here / high, low / here)
        if factor > _SLACK:
            found[name] = factor
    return found


def farthest(calibration: Calibration, at: Workload) -> float:
    """How many times the workload is beyond the calibrated ranges; 1 within."""
    return max(beyond(calibration.ranges, at).values(), default=1.0)


def _sum(constants: Sequence[float], amounts: Sequence[float]) -> float:
    return sum(c * a for c, a in zip(constants, amounts, strict=True))


def _kept(calibration: Calibration, index: str, at: Workload) -> Estimate:
    """Bytes of what an index is found by: mappings, or the filters in the base files."""
    exact = calibration.model.cost(index).index_bytes
    if exact is not None:
        return _exact(exact(at))
    return quantity(calibration, "index_bytes", index, at)


def _exact(value: float) -> Estimate:
    """A value that follows from the formula alone."""
    return Estimate(value, value, value)
