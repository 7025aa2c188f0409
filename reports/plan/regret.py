"""The choice where inputs are ranges: the index that is regretted least, and what would change it.

The regret of an index at a place is what it adds to a write more than the index that adds least
there, as a share of that write. An index is judged by its worst place in the ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from keymark.indexes.workload import Workload
from keymark.reports.plan.calibration import Calibration
from keymark.reports.plan.decide import Choice, laid_out, options_of
from keymark.reports.plan.formulas import CostModel
from keymark.reports.plan.predict import PARTS, likely
from keymark.reports.plan.spans import Span

GOOD = 0.05
"""A choice that costs no more than this of any write is good."""
_POINTS = {1: 9, 2: 5}
_POINTS_OF_MORE = 3
_MOST_IN_THREES = 6
"""With more ranges than this only their ends are tried: three values of each of nine ranges would
be 19,683 places, which take seconds."""
_HALVINGS = 24
_EXACT = 1.001
"""What changes the answer is found to three digits."""

Place = Mapping[str, float]
"""Values of the inputs by name."""

_Costs = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """How an index does over the ranges.

    Attributes:
        index: its name.
        worst: its largest regret.
        at: the place of it; only inputs that are ranges.
        better: the index that adds least there.
    """

    index: str
    worst: float
    at: Place
    better: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An input along which another index adds least; the other inputs are in their middle.

    Attributes:
        along: the input.
        low: the index that adds least at its low end.
        at: up to this value it does, by the likely costs.
        above: the index that adds least right above.
        high: the one at its high end.
        low_regret: what `high` costs more at the low end, as a share of that write.
        high_regret: what `low` costs more at the high end.
    """

    along: str
    low: str
    at: float
    above: str
    high: str
    low_regret: float
    high_regret: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrets:
    """The answer over ranges.

    Attributes:
        ranges: the inputs that are ranges.
        order: every index, the least regretted first.
        changes: the inputs that change which index adds least.
    """

    ranges: Mapping[str, Span]
    order: tuple[Regret, ...]
    changes: tuple[Change, ...]

    @property
    def good(self) -> tuple[str, ...]:
        """The indexes that are a good choice all over the ranges."""
        return tuple(each.index for each in self.order if each.worst <= GOOD)


def regrets(
    calibration: Calibration,
    inputs: Mapping[str, Span],
    workload: Callable[[Place], Workload],
    indexes: Sequence[str],
) -> Regrets | None:
    """Judge indexes over ranges.

    Args:
        calibration: the constants.
        inputs: every input.
        workload: the workload that their values make.
        indexes: to choose from, at least one.

    Returns:
        None where no input is a range.
    """
    ranges = {name: span for name, span in inputs.items() if not span.is_single}
    if not ranges:
        return None
    middle = {name: span.middle for name, span in inputs.items()}
    count = _POINTS.get(len(ranges), _POINTS_OF_MORE if len(ranges) <= _MOST_IN_THREES else 2)
    worst: dict[str, Regret] = {}
    for values in product(*(span.points(count) for span in ranges.values())):
        place = dict(zip(ranges, values, strict=True))
        costs = _costs(calibration, workload(middle | place), indexes)
        best = _cheapest(costs)
        for index in costs:
            regret = _more(costs, index, best)
            if index not in worst or regret > worst[index].worst:
                worst[index] = Regret(index=index, worst=regret, at=place, better=best)
    changes = []
    for name, span in ranges.items():

        def costs_of(value: float, name: str = name) -> _Costs:
            return _costs(calibration, workload(middle | {name: value}), indexes)

        at_low, at_high = costs_of(span.low), costs_of(span.high)
        low, high = _cheapest(at_low), _cheapest(at_high)
        if low != high:
            at, above = _turn(costs_of, span, low, high)
            change = Change(
                along=name,
                low=low,
                at=at,
                above=above,
                high=high,
                low_regret=_more(at_low, high, low),
                high_regret=_more(at_high, low, high),
            )
            changes.append(change)
    return Regrets(
        ranges=ranges,
        order=tuple(sorted(worst.values(), key=lambda each: each.worst)),
        changes=tuple(changes),
    )


def least_regretted(choice: Choice, over: Regrets | None, model: CostModel, at: Workload) -> Choice:
    """The choice of the ranges' middle, turned to the index that is regretted least over them.

    Where the middle recommends nothing, or not the cheapest index, what is known is too little:
    regret is of likely costs, and there their ranges overlap, so that it cannot decide either.
    """
    if over is None or choice.recommended != choice.order[0]:
        return choice
    best = over.order[0]
    why = (
        f"over the ranges {best.index} never costs more than {best.worst:.0%} of a write over the "
        "index that adds least"
    )
    options = options_of(model, best.index, at)
    return replace(choice, recommended=best.index, why=why, options=options)


def _turn(
    costs_of: Callable[[float], _Costs], span: Span, low: str, high: str
) -> tuple[float, str]:
    """Where an index stops adding least, to three digits, and the index that does right above.

    Args:
        costs_of: the costs of a value.
        span: between a value where `low` adds least and one where `high` does.
        low: the index.
        high: another one.
    """
    above = high
    for _ in range(_HALVINGS):
        if span.high <= span.low * _EXACT:
            break
        cheapest = _cheapest(costs_of(span.middle))
        if cheapest == low:
            span = Span(span.middle, span.high)
        else:
            span, above = Span(span.low, span.middle), cheapest
    return float(f"{span.high:.3g}"), above


def _costs(calibration: Calibration, at: Workload, indexes: Sequence[str]) -> _Costs:
    """Seconds that each index adds to a write, and those of the whole write."""
    at, _ = laid_out(calibration, at)
    costs = {}
    for index in indexes:
        parts = {part: likely(calibration, part, index, at) for part in PARTS}
        costs[index] = (parts["tag"] + parts["index"], sum(parts.values()))
    return costs


def _cheapest(costs: _Costs) -> str:
    return min(costs, key=lambda index: costs[index][0])


def _more(costs: _Costs, index: str, cheapest: str) -> float:
    """What an index costs more than the cheapest one, as a share of its write."""
    mine, whole = costs[index]
    return (mine - costs[cheapest][0]) / whole if whole else 0.0
