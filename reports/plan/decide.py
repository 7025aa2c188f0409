"""Predictions into a choice: an index, its file groups and options, and where another takes over.

Indexes are compared by what they add to a write: tagging, and keeping themselves up to date. The
rest of a write is the same for all of them. An index is recommended unless all ranges overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from keymark.indexes.workload import Workload, files_for
from keymark.reports.plan.calibration import Calibration
from keymark.reports.plan.formulas import ceil_to, cost_of, known
from keymark.reports.plan.predict import Estimate, added, beyond

_STEPS = 24
_SPAN = 1000.0
_HALVINGS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is recommended.

    Attributes:
        recommended: the index; None where the calibration cannot tell any two apart.
        ties: indexes whose ranges overlap with that of the best.
        why: one sentence.
        options: to set for it.
    """

    recommended: str | None
    ties: tuple[str, ...]
    why: str
    options: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Where two indexes cost the same.

    Attributes:
        along: `rows`, `batch` or `executors`.
        at: the size there.
        below: the index that adds less to a write at smaller sizes.
        above: the one at larger sizes.
        extrapolated: outside of what was calibrated.
    """

    along: str
    at: float
    below: str
    above: str
    extrapolated: bool


Sized = Callable[[float], Workload]


def choose(calibration: Calibration, at: Workload, candidates: Sequence[str]) -> Choice:
    """The best of some indexes.

    Args:
        calibration: the constants.
        at: the workload, with the shards that are recommended.
        candidates: calibrated indexes, at least one.
    """
    costs = {index: added(calibration, index, at) for index in candidates}
    order = sorted(candidates, key=lambda index: costs[index].value)
    best = order[0]
    ties = tuple(each for each in order[1:] if costs[each].overlaps(costs[best]))
    told = len(order) == 1 or len(ties) < len(order) - 1
    why = _why(order, costs, ties) if told else _undecided(calibration, at, order)
    return Choice(
        recommended=best if told else None,
        ties=ties,
        why=why,
        options=options_of(best, at) if told else {},
    )


def options_of(index: str, at: Workload) -> dict[str, str]:
    """The options that give a table an index as it was predicted."""
    return {"hoodie.index.type": known()[index].table_type, **cost_of(index).options(at)}


def best_shards(calibration: Calibration, at: Workload) -> int:
    """File groups of an index in shards: the fewest seconds a write, among those that fit it."""
    for index in calibration.indexes:
        fewest = cost_of(index).fewest_shards
        if fewest is not None:
            least = fewest(at)
            counts = {ceil_to(least * factor, 1) for factor in (1, 2, 4)}
            counts |= {ceil_to(least, at.cores), ceil_to(max(least, 10), at.cores)}
            costs = {n: added(calibration, index, replace(at, shards=n)).value for n in counts}
            return min(sorted(costs), key=lambda n: costs[n])
    return 1


def sweep(at: Workload, along: str) -> list[Workload]:
    """The same table over sizes, from a thousandth of it to a thousand times as much."""
    here = float(at.cores if along == "executors" else getattr(at, along))
    factors = [_SPAN ** (2 * step / _STEPS - 1) for step in range(_STEPS + 1)]
    return [sized(at, along, max(1.0, here * factor)) for factor in factors]


def sized(at: Workload, along: str, size: float) -> Workload:
    """The same table with another number of rows, keys of a batch, or cores.

    A table grows by base files as Hudi makes them: each takes rows until it is full.
    """
    if along == "executors":
        return replace(at, cores=max(1, round(size)))
    if along == "batch":
        return replace(at, batch=min(size, at.rows / max(1 - at.new_share, 1e-9)))
    files = max(at.files, files_for(size, at.row_bytes, at.partitions))
    return replace(at, rows=size, batch=min(at.batch, size), files=files)


def crossovers(
    calibration: Calibration, at: Workload, candidates: Sequence[str]
) -> list[Crossover]:
    """Where the cheapest index of all changes along the table's rows and the batch's keys."""
    found: list[Crossover] = []
    for along in ("rows", "batch"):
        points = sweep(at, along)
        for low, high in pairwise(points):
            first = _cheapest(calibration, low, candidates)
            last = _cheapest(calibration, high, candidates)
            if first == last:
                continue
            size = _meet(
                lambda size, along=along: sized(at, along, size),  # type: ignore[misc]
                (float(getattr(low, along)), float(getattr(high, along))),
                lambda place, first=first: (  # type: ignore[misc]
                    _cheapest(calibration, place, candidates) == first
                ),
            )
            place = sized(at, along, size)
            found.append(
                Crossover(
                    along=along,
                    at=size,
                    below=first,
                    above=last,
                    extrapolated=bool(beyond(calibration.ranges, place)),
                )
            )
    return found


def _meet(make: Sized, ends: tuple[float, float], holds: Callable[[Workload], bool]) -> float:
    """The size between two at which something ceases to hold."""
    low, high = ends
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(make(middle)) else (low, middle)
    return low


def _cheapest(calibration: Calibration, at: Workload, candidates: Iterable[str]) -> str:
    return min(candidates, key=lambda index: added(calibration, index, at).value)


def _why(order: Sequence[str], costs: dict[str, Estimate], ties: Sequence[str]) -> str:
    if len(order) == 1:
        return f"{order[0]} is the only index asked for"
    best, second = order[0], order[1]
    factor = costs[second].value / max(costs[best].value, 1e-9)
    if not ties:
        return f"{best} adds least to a write; {second}, the next, adds {factor:.1f} times as much"
    return (
        f"{best} adds least to a write; its range overlaps with that of {' and '.join(ties)}, "
        f"{second} is predicted at {factor:.2f} times as much"
    )


def _undecided(calibration: Calibration, at: Workload, order: Sequence[str]) -> str:
    outside = beyond(calibration.ranges, at)
    names = ", ".join(order)
    if not outside:
        return (
            f"the ranges of {names} overlap: a calibration with more repetitions would decide "
            "(keymark run calibrate --set schedule.repetitions=10)"
        )
    far = max(outside, key=lambda name: outside[name])
    return (
        f"the ranges of {names} overlap: a calibration nearer to {float(getattr(at, far)):,.0f} "
        f"{far} would decide (this one ends at {calibration.ranges[far][1]:,.0f}): "
        "keymark run calibrate with --set and --master as it will be used"
    )
