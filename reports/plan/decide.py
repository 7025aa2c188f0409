"""Predictions into a choice: an index, its file groups and options, and where another takes over.

Indexes are compared by what they add to a write: tagging, and keeping themselves up to date. The
rest of a write is the same for all of them. An index is recommended unless all ranges overlap, or
the table is far larger than all that the constants were fitted to or compared with. One that rests
on a constant which the calibration cannot tell is not recommended over one that is well known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from keymark.indexes.workload import Workload, files_for
from keymark.reports.plan.calibration import Calibration, calibrating
from keymark.reports.plan.formulas import CostModel
from keymark.reports.plan.predict import Estimate, added, beyond, likely_added
from keymark.reports.plan.untold import Untold, untold

FAR = 100.0
"""No single winner is named for tables more than this many times as large as the largest one
measured."""
_STEPS = 24
_SPAN = 1000.0
_HALVINGS = 24
_KNOWN_WITHIN = 3.0
"""A crossover whose range is wider is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is recommended.

    Attributes:
        recommended: the index; None where the calibration cannot tell.
        order: all that were compared, by what they are predicted to add to a write.
        ties: indexes whose ranges overlap with that of the best.
        why: one sentence.
        options: to set for it.
        untold: what the calibration leaves open about indexes that are not well known there.
    """

    recommended: str | None
    order: tuple[str, ...]
    ties: tuple[str, ...]
    why: str
    options: dict[str, str]
    untold: tuple[Untold, ...] = ()

    @property
    def tied(self) -> tuple[str, ...]:
        """The best index and those that may be as good; nothing without a tie."""
        return (self.order[0], *self.ties) if self.ties else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """File groups of an index in shards: which index, how many, and the reason."""

    index: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Where two indexes cost the same.

    Attributes:
        along: `rows` or `batch`.
        at: the size there, with as many digits as are known.
        low: up to this size `below` costs less, whatever the ranges leave open.
        high: from this size on `above` does.
        below: the index that adds less to a write at smaller sizes.
        above: the one at larger sizes.
        extrapolated: outside of what was calibrated.
    """

    along: str
    at: float
    low: float
    high: float
    below: str
    above: str
    extrapolated: bool


def choose(calibration: Calibration, at: Workload, candidates: Sequence[str]) -> Choice:
    """The best of some indexes.

    Args:
        calibration: the constants.
        at: the workload, with the shards that are recommended.
        candidates: calibrated indexes, at least one.
    """
    costs = {index: added(calibration, index, at) for index in candidates}
    order = sorted(candidates, key=lambda index: costs[index].value)
    open_ = {index: found for index in order if (found := untold(calibration, index, at))}
    best = order[0]
    ties = tuple(each for each in order[1:] if costs[each].overlaps(costs[best]))
    far = at.rows / calibration.largest_rows
    is_decided = len(order) == 1
    if is_decided:
        why = f"{best} is the only index asked for"
    elif far > FAR:
        rows = math.ceil(at.rows / FAR)
        why = (
            f"the table has {far:,.0f} times the rows of the largest table that these constants "
            f"were fitted to or compared with ({calibration.largest_rows:,.0f}); beyond "
            f"{FAR:.0f} times there is no single winner among {', '.join(order)}: tables of "
            f"{rows:,} rows, fitted or scored, would allow one "
            f"({calibrating(calibration.engine)} --set dataset.sizes=[{max(rows // 10, 1)},{rows}])"
        )
    elif len(ties) == len(order) - 1:
        why = _undecided(calibration, at, order)
    elif (known := _well_known(order, costs, open_)) is not None:
        is_decided = True
        why = _doubtful(open_[best], costs[best], known, costs[known])
        best = known
    else:
        is_decided = True
        factor = costs[order[1]].value / max(costs[best].value, 1e-9)
        why = f"{best} is predicted to add least to a write, {order[1]} {factor:.2f} times as much"
    return Choice(
        recommended=best if is_decided else None,
        order=tuple(order),
        ties=ties,
        why=why,
        options=options_of(calibration.model, best, at) if is_decided else {},
        untold=tuple(open_.values()),
    )


def _well_known(
    order: Sequence[str], costs: Mapping[str, Estimate], open_: Mapping[str, Untold]
) -> str | None:
    """The cheapest well known index, if the cheapest of all is not, and may cost more than it."""
    cheapest = order[0]
    known = next((index for index in order if index not in open_), None)
    if cheapest not in open_ or known is None:
        return None
    most = costs[cheapest].value + open_[cheapest].seconds
    return known if most > costs[known].value else None


def _doubtful(doubt: Untold, cost: Estimate, known: str, known_cost: Estimate) -> str:
    return (
        f"{doubt.index} is predicted to add less ({cost.value:.3g} s to a write, {known} "
        f"{known_cost.value:.3g} s), but this calibration cannot tell what {doubt.words} costs it, "
        f"which may be {doubt.seconds:.3g} s more: {doubt.run} would tell"
    )


def options_of(model: CostModel, index: str, at: Workload) -> dict[str, str]:
    """The options that give a table an index as it was predicted."""
    return {"hoodie.index.type": model.known[index].table_type, **model.cost(index).options(at)}


def shards_for(calibration: Calibration, at: Workload) -> Shards | None:
    """File groups of an index in shards: the fewest seconds a write, among those that fit it.

    Args:
        calibration: the constants; None is returned where it knows no such index.
        at: the workload; if it has shards, these are taken.
    """
    for index in calibration.indexes:
        fewest = calibration.model.cost(index).fewest_shards
        if fewest is None:
            continue
        least = fewest(at)
        room = f"{least:,} or more have room for twice the rows"
        if at.shards:
            return Shards(index=index, count=at.shards, why=f"as asked; {room}")
        for_all_cores = (-(-count // at.cores) * at.cores for count in (least, max(least, 10)))
        counts = {least, 2 * least, 4 * least, *for_all_cores}
        costs = {
            count: likely_added(calibration, index, replace(at, shards=count))
            for count in sorted(counts)
        }
        best = min(costs, key=lambda count: costs[count])
        tried = ", ".join(f"{count:,}" for count in costs)
        return Shards(
            index=index, count=best, why=f"{room}; {best:,} adds least to a write of {tried}"
        )
    return None


def laid_out(calibration: Calibration, at: Workload) -> tuple[Workload, Shards | None]:
    """A workload with the file groups and the data blocks that are best for it."""
    shards = shards_for(calibration, at)
    at = replace(at, shards=shards.count if shards else 1)
    for index in calibration.indexes:
        block_bytes = calibration.model.cost(index).block_bytes
        if block_bytes is not None:
            at = replace(at, block_bytes=block_bytes(at))
    return at, shards


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
    """Where the cheapest index of all changes along the table's rows and the batch's keys.

    A place is known as far as the ranges of the two indexes are apart on both sides of it.
    """
    found: list[Crossover] = []
    for along in ("rows", "batch"):
        places = sweep(at, along)
        costs = [
            {index: likely_added(calibration, index, place) for index in candidates}
            for place in places
        ]
        best = [min(candidates, key=lambda index: each[index]) for each in costs]
        for number, (below, above) in enumerate(pairwise(best)):
            if below == above:
                continue
            line = _Line(calibration, at, along, below, above)
            ends = [float(getattr(place, along)) for place in places[number : number + 2]]
            size = line.meet(ends[0], ends[1], ("value", "value"))
            far = 2 * _KNOWN_WITHIN
            low = line.meet(size / far, size, ("high", "low"))
            high = line.meet(size, size * far, ("low", "high"))
            if high > _KNOWN_WITHIN * low:
                continue
            rounded = float(f"{size:.0e}")
            found.append(
                Crossover(
                    along=along,
                    at=rounded if low <= rounded <= high else float(f"{size:.1e}"),
                    low=float(f"{low:.1e}"),
                    high=float(f"{high:.1e}"),
                    below=below,
                    above=above,
                    extrapolated=bool(beyond(calibration.ranges, sized(at, along, size))),
                )
            )
    return found


@dataclass(frozen=True, slots=True)
class _Line:
    """What two indexes add to a write along the sizes of a table."""

    calibration: Calibration
    at: Workload
    along: str
    below: str
    above: str

    def holds(self, size: float, ends: tuple[str, str]) -> bool:
        """Whether `below` costs no more there, by these ends of the ranges."""
        place = sized(self.at, self.along, size)
        costs = [added(self.calibration, index, place) for index in (self.below, self.above)]
        return bool(getattr(costs[0], ends[0]) <= getattr(costs[1], ends[1]))

    def meet(self, low: float, high: float, ends: tuple[str, str]) -> float:
        """The size between two from which it does not hold."""
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.holds(middle, ends) else (low, middle)
        return low


def _undecided(calibration: Calibration, at: Workload, order: Sequence[str]) -> str:
    outside = beyond(calibration.ranges, at)
    names = ", ".join(order)
    if not outside:
        return (
            f"the ranges of {names} overlap: a calibration with more repetitions would decide "
            f"({calibrating(calibration.engine)} --set schedule.repetitions=10)"
        )
    far = max(outside, key=lambda name: outside[name])
    here, (first, last) = float(getattr(at, far)), calibration.ranges[far]
    edge = f"begins at {first:,.0f}" if here < first else f"ends at {last:,.0f}"
    return (
        f"the ranges of {names} overlap: a calibration nearer to {here:,.0f} {far} would decide "
        f"(this one {edge}): {calibrating(calibration.engine)} with --set and --master as it will "
        "be used"
    )
