"""How wide the widest interval of a run's headlines is: whether more repetitions are worth it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from keymark.reports.model import tables
from keymark.reports.model.cell_pairs import cell_pairs
from keymark.reports.model.projection import CellView, Run
from keymark.reports.render.text import clean
from keymark.reports.stats.lookup_model import STATE_NAMES, lookup_model
from keymark.reports.stats.statistics import paired_ratio, summarize


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalWidth:
    """The interval of one headline number.

    Attributes:
        half_width: half of the interval as a share of the median.
        what: the number, in words that are safe to show.
        n: number of values.
    """

    half_width: float
    what: str
    n: int


def widest(run: Run) -> IntervalWidth | None:
    """The widest interval of a run's headlines; None where nothing was repeated.

    They are its times and, where it measured the lookup model, the constants K and c. Cells that
    are compared have the intervals of their ratios, others those of their medians.
    What the last repetition did not take is left out, since more repetitions do not narrow it:
    loads, steps of the first repetition alone, cells that failed. So are counters, which repeat.
    """
    loads = run.record.scenario.workload.load_steps
    taken = [each.repetition for each in run.samples if not each.warmup and each.step not in loads]
    last = max(taken, default=0)
    right = [cell for cell in run.cells if cell.verified and _is_in(cell, last, loads)]
    pairs = cell_pairs(right)
    paired = {cell.cell for pair in pairs for cell in pair}
    alone = [(cell,) for cell in right if cell.cell not in paired]
    found = [each for cells in (*pairs, *alone) for each in _widths(cells, last, loads)]
    found += _constants(right)
    return max(found, key=lambda each: each.half_width, default=None)


def _is_in(cell: CellView, repetition: int, loads: Collection[str]) -> bool:
    """Whether a cell took a step of a repetition."""
    return any(
        step not in loads and any(number == repetition for number, _ in series.values)
        for (step, _, _), series in cell.series.items()
    )


def _widths(
    cells: Sequence[CellView], last: int, loads: Collection[str]
) -> Iterator[IntervalWidth]:
    """The intervals of a cell, or of a pair, for each time that the last repetition took."""
    names = " to ".join(clean(cell.cell, 80) for cell in reversed(cells))
    for measure in tables.headline_measures(cells):
        values = [measure.values(cell) for cell in cells]
        is_repeated = all(last in {repetition for repetition, _ in each} for each in values)
        if not measure.is_time or not is_repeated or measure.step in loads:
            continue
        is_pair = len(cells) > 1
        summary = paired_ratio(*values)[0] if is_pair else summarize(list(values[0].values()))
        if summary is not None and summary.median > 0:
            half_width = (summary.high - summary.low) / 2 / summary.median
            what = f"{measure.what}, {names}"
            yield IntervalWidth(half_width=half_width, what=what, n=summary.n)


def _constants(cells: Sequence[CellView]) -> Iterator[IntervalWidth]:
    """The intervals of K and c over all numbers of shards, in each state of index and cache."""
    model = lookup_model(cells)
    if model is None:
        return
    for fit in model.fits:
        spots = [s for s in model.spots if (s.state, s.cache) == (fit.state, fit.cache)]
        for name, constant in (("K", fit.k), ("c", fit.c)):
            # At a border of what the fit allows, zero, a share says nothing.
            if fit.shards is None and constant.value > 0:
                state = f"{STATE_NAMES[fit.state]}, {fit.cache}"
                yield IntervalWidth(
                    half_width=(constant.high - constant.low) / 2 / constant.value,
                    what=f"{name} of the lookup model, {state}",
                    n=sum(len(spot.walls) for spot in spots),
                )
