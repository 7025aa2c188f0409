"""Calibration runs into the constants of the cost model. The only module here that needs numpy.

No constant is below the least that a kernel takes (`floors.py`). The fit is that of relative
deviations, as times span powers of ten.
Those up to a tenth count by their square, larger ones by their size (Huber's loss), so that a cell
that the machine disturbed moves little. It is found by non-negative least squares with weights that
are taken anew from the deviations, round after round.
Cells that do the same work are fitted as one, to their median. The errors are those of the single
cells: with few kinds of work the constants follow even the noise of the medians.
All that read the key column of a file do the same to a row, so their equations share its constant
and are fitted at once: from small tables, none of them alone gives it well.
Draws are bootstrap samples: every cell's fit, off by what some cell was off. So each has all cells,
few as a mode may have. The seed is fixed: equal runs give equal calibrations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from keymark.harness.engines import NATIVE
from keymark.harness.store.units import Unit
from keymark.reports.errors import ReportError
from keymark.reports.model.projection import Run
from keymark.reports.plan.calibration import (
    DISK,
    RANGED,
    Calibration,
    FittedEquation,
    calibrating,
    can_fit,
)
from keymark.reports.plan.floors import floor
from keymark.reports.plan.formulas import CostModel, cost_model, unit_of
from keymark.reports.plan.observe import Observation, observations, pooled
from keymark.reports.render.text import clean

DRAWS = 60
_SEED = 1
_ROUNDS = 30
_ORDINARY = 0.1
_TOLD = 0.1
"""Share of a cell that a constant's work must make up for the cell to tell it."""
_LEAST = 1e-12
_SCANNED = "rows"

_Floats = npt.NDArray[np.float64]


def calibrate(
    runs: Sequence[Run], *, engine: str = NATIVE, most_rows: float = math.inf
) -> Calibration:
    """Fit the equations to the verified cells of runs.

    Args:
        runs: that measured them.
        engine: whose cells they are.
        most_rows: of a table; cells of larger ones are left for a score.

    Raises:
        ReportError: they have too few cells that the model is about, or their tables lay on
            different stores, or on a disk and a store.
    """
    model = cost_model(engine)
    tables = _tables(runs)
    every = [each for run in runs for each in observations(run, engine)]
    found = _told([each for each in every if each.at.rows <= most_rows])
    equations: dict[str, FittedEquation] = {}
    scans = model.scans()
    alone = (name for name in model.equation_names() if name not in scans)
    for group in (scans, *((name,) for name in alone)):
        cells = [each for name in group for each in _enough(found, name)]
        equations |= fit(cells, model) if cells else {}
    names = ", ".join(run.name for run in runs)
    if not any(name.startswith("tag/") for name in equations):
        raise ReportError(
            f"{names}: too few cells with upserts by {engine} to fit a cost model; "
            f"`{calibrating(engine)}` measures what it takes"
        )
    places = [each.at for each in found if each.quantity == "tag"]
    ranges = {
        key: (min(float(getattr(p, key)) for p in places), max(getattr(p, key) for p in places))
        for key in RANGED
    }
    return Calibration(
        name=names,
        engine=engine,
        runs=tuple(run.run_id for run in runs),
        machine=runs[0].record.machine.document,
        cores=int(ranges["cores"][1]),
        tables=tables,
        row_bytes=round(float(np.median([p.row_bytes for p in places])), 1),
        key_bytes=places[0].key_bytes,
        ranges=ranges,
        equations={name: equations[name] for name in model.equation_names() if name in equations},
    )


def _tables(runs: Sequence[Run]) -> str:
    """Where the tables of all runs lay: their constants have the latency of that place."""
    lay = [(run.record.scenario.table.location or DISK).partition("://")[0] for run in runs]
    if len(set(lay)) > 1:
        places = (f"{run.name} on {clean(place, 10)}" for run, place in zip(runs, lay, strict=True))
        raise ReportError(
            f"runs with tables in different places are not fitted together: {', '.join(places)}"
        )
    return lay[0]


def only_engine(runs: Sequence[Run]) -> str:
    """The engine whose cells runs have; Keymark's own where they have none that can be fitted.

    Raises:
        ReportError: they have cells of several.
    """
    fitted = {cell.engine: None for run in runs for cell in run.cells if can_fit(cell.engine)}
    if len(fitted) > 1:
        names = ", ".join(run.name for run in runs)
        raise ReportError(
            f"{names}: there are cells of {', '.join(map(clean, fitted))}; --engine says whose "
            "constants are asked for"
        )
    return next(iter(fitted), NATIVE)


def _told(found: Sequence[Observation]) -> list[Observation]:
    """Leave out what a known key adds in bytes, unless batches have several shares of known keys.

    Batches of one share cannot tell it from what any key takes. The constant of a key then has
    both, which is right for batches of that share.
    """
    shares = {round(each.at.new_share, 3) for each in found if _in_bytes(each)}
    if len(shares) > 1:
        return list(found)
    return [
        replace(each, amounts={k: v for k, v in each.amounts.items() if k != "found"})
        if _in_bytes(each)
        else each
        for each in found
    ]


def _in_bytes(each: Observation) -> bool:
    return unit_of(each.quantity) is Unit.BYTES


def _enough(found: Sequence[Observation], name: str) -> list[Observation]:
    """The cells of an equation; none where its kinds of work are fewer than its amounts."""
    cells = [each for each in found if each.equation == name]
    return cells if len(pooled(cells)) >= len(_amounts(cells)) else []


def fit(cells: Sequence[Observation], model: CostModel) -> dict[str, FittedEquation]:
    """Fit equations to their cells; those that share a constant need one another's."""
    points = pooled(cells)
    shared = model.scans()
    columns = list(
        dict.fromkeys(_column(each, name, shared) for each in points for name in each.amounts)
    )
    table, measured = _table(points, columns, shared)
    least = np.zeros(len(columns))
    for each in points:
        for name in each.amounts:
            place = columns.index(_column(each, name, shared))
            least[place] = 0.0 if model.of_hudi else floor(str(each.equation), name)
    best = robust_constants(table, measured, least)
    limits = np.maximum(_limits(table, measured), best)
    amounts, values = _table(cells, columns, shared)
    fitted = np.maximum(amounts @ best, _LEAST)
    off = values / fitted
    chance = np.random.default_rng(_SEED)
    order = [each.work for each in points]
    works = np.array([order.index(each.work) for each in cells])
    draws = []
    for _ in range(DRAWS):
        drawn = fitted * chance.choice(off, len(cells))
        draws.append(robust_constants(table, _medians(drawn, works), least))
    found = {}
    for equation in dict.fromkeys(str(each.equation) for each in points):
        own = [each for each in points if each.equation == equation]
        names = _amounts(own)
        places = [columns.index(_column(own[0], name, shared)) for name in names]
        mine = np.array([each.equation == equation for each in cells])
        found[equation] = FittedEquation(
            amounts=names,
            values=tuple(map(float, best[places])),
            draws=tuple(tuple(map(float, draw[places])) for draw in draws),
            spread=float(np.median(np.abs(np.log(off[mine])))),
            cells=len(own),
            limits=tuple(map(float, limits[places])),
        )
    return found


def _amounts(cells: Sequence[Observation]) -> tuple[str, ...]:
    """The names of all amounts of cells."""
    return tuple(dict.fromkeys(name for each in cells for name in each.amounts))


def _column(cell: Observation, amount: str, scans: Sequence[str]) -> str:
    """What a constant is known by in a fit: its amount, and whose it is if it is not shared."""
    shared = amount == _SCANNED and cell.equation in scans
    return amount if shared else f"{cell.equation} {amount}"


def _limits(table: _Floats, measured: _Floats) -> _Floats:
    """By column, the constant with which an amount is a tenth of the cell where it weighs most."""
    heaviest: _Floats = (table / measured[:, None]).max(axis=0)
    found: _Floats = np.zeros_like(heaviest)
    np.divide(_TOLD, heaviest, out=found, where=heaviest > 0)
    return found


def _medians(values: _Floats, works: npt.NDArray[np.int64]) -> _Floats:
    """The median of the values of each work, by its number from 0; each number has values."""
    ordered = values[np.lexsort((values, works))]
    counts = np.bincount(works)
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    medians: _Floats = (ordered[middle] + ordered[middle + (counts + 1) % 2]) / 2
    return medians


def _table(
    cells: Sequence[Observation], columns: Sequence[str], scans: Sequence[str]
) -> tuple[_Floats, _Floats]:
    """Amounts, a row per cell and a column per constant, and what was measured."""
    table = np.zeros((len(cells), len(columns)))
    for row, each in zip(table, cells, strict=True):
        for name, amount in each.amounts.items():
            row[columns.index(_column(each, name, scans))] = amount
    return table, np.array([each.value for each in cells])


def robust_constants(table: _Floats, measured: _Floats, least: _Floats | None = None) -> _Floats:
    """Constants that are not below their least and fit `table @ constants = measured`.

    Args:
        table: a row per cell, a column per amount.
        measured: positive.
        least: by column; None: 0.

    Returns:
        A constant per column.
    """
    sizes: _Floats = np.maximum(np.abs(table).max(axis=0), 1e-300)
    relative = table / sizes / measured[:, None]
    least = np.zeros(table.shape[1]) if least is None else least
    left = 1 - relative @ (least * sizes)
    weights = np.ones(len(measured))
    above = np.zeros(table.shape[1])
    for _ in range(_ROUNDS):
        above, _ = nnls(relative * weights[:, None], left * weights)
        weights = 1 / np.sqrt(np.maximum(np.abs(relative @ above - left), _ORDINARY))
    return least + above / sizes
