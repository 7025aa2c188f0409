"""Calibration runs into the constants of the cost model. The only module here that needs numpy.

Constants are not negative. The fit is that of relative deviations, as times span powers of ten.
Those up to a tenth count by their square, larger ones by their size (Huber's loss), so that a cell
that the machine disturbed moves little. It is found by non-negative least squares with weights that
are taken anew from the deviations, round after round.
Cells that are the same work are fitted as one. How far cells are off is told by each of them: where
there are few kinds of work, the constants follow even what chance did to their medians.
Draws are bootstrap samples: every cell's fit, off by what some cell was off. So each has all cells,
few as a mode may have. The seed is fixed: equal runs give equal calibrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from reports.errors import ReportError
from reports.plan.calibration import Calibration, Equation
from reports.plan.formulas import EQUATIONS
from reports.plan.observe import Observation, observations, pooled
from reports.projection import Run

DRAWS = 60
_SEED = 1
_ROUNDS = 30
_ORDINARY = 0.1
_LEAST_CELLS = 4
_LEAST = 1e-12
RANGED = ("rows", "batch", "files", "shards", "cores")


def calibrate(runs: Sequence[Run]) -> Calibration:
    """Fit the equations to the verified cells of runs.

    Raises:
        ReportError: they have too few cells that the model is about.
    """
    found = [each for run in runs for each in observations(run)]
    equations = {}
    for name in EQUATIONS:
        cells = [each for each in found if each.equation == name]
        if len(pooled(cells)) >= _LEAST_CELLS:
            equations[name] = fit(cells)
    names = ", ".join(run.name for run in runs)
    if not any(name.startswith("tag/") for name in equations):
        raise ReportError(
            f"{names}: too few cells with upserts to fit a cost model; `run_bench.py run calibrate`"
            " measures what it takes"
        )
    places = [each.at for each in found]
    ranges = {
        key: (min(float(getattr(p, key)) for p in places), max(getattr(p, key) for p in places))
        for key in RANGED
    }
    machine = runs[0].info.get("machine")
    return Calibration(
        name=names,
        runs=tuple(run.run_id for run in runs),
        machine=machine if isinstance(machine, dict) else {},
        cores=int(ranges["cores"][1]),
        row_bytes=round(float(np.median([p.row_bytes for p in places])), 1),
        key_bytes=places[0].key_bytes,
        ranges=ranges,
        equations=equations,
    )


def fit(cells: Sequence[Observation]) -> Equation:
    """Fit one equation to its cells."""
    names = tuple(dict.fromkeys(name for each in cells for name in each.amounts))
    table, measured = _table(pooled(cells), names)
    best = robust_constants(table, measured)
    amounts, values = _table(cells, names)
    fitted = np.maximum(amounts @ best, _LEAST)
    off = values / fitted
    chance = np.random.default_rng(_SEED)
    made = [_as_measured(cells, fitted * chance.choice(off, len(cells))) for _ in range(DRAWS)]
    return Equation(
        amounts=names,
        values=tuple(float(value) for value in best),
        draws=tuple(tuple(map(float, robust_constants(table, each))) for each in made),
        spread=float(np.median(np.abs(np.log(off)))),
        cells=len(measured),
    )


def _as_measured(cells: Sequence[Observation], values: Any) -> Any:
    """What the cells would have told, had they measured these values."""
    made = [
        replace(each, values=(float(value),)) for each, value in zip(cells, values, strict=True)
    ]
    return np.array([each.value for each in pooled(made)])


def _table(cells: Sequence[Observation], names: Sequence[str]) -> tuple[Any, Any]:
    """Amounts, a row per cell and a column per name, and what was measured; float64."""
    table = [[each.amounts.get(name, 0.0) for name in names] for each in cells]
    return np.array(table), np.array([each.value for each in cells])


def robust_constants(table: Any, measured: Any) -> Any:
    """Constants that are not negative and fit `table @ constants = measured`.

    Args:
        table: float64, a row per cell, a column per amount.
        measured: float64, positive.

    Returns:
        float64, a constant per column.
    """
    sizes = np.maximum(np.abs(table).max(axis=0), 1e-300)
    relative = table / sizes / measured[:, None]
    weights = np.ones(len(measured))
    constants = np.zeros(table.shape[1])
    for _ in range(_ROUNDS):
        constants, _ = nnls(relative * weights[:, None], weights)
        weights = 1 / np.sqrt(np.maximum(np.abs(relative @ constants - 1), _ORDINARY))
    return constants / sizes
