"""Whether the cells of the calibrations can tell the constants, before a run takes an hour."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from keymark.harness.scenario.planned import planned
from keymark.harness.store.units import REQUEST_COUNTS
from keymark.reports.plan.ahead import workload
from keymark.reports.plan.formulas import HUDI, KEYMARK, QUANTITIES
from keymark.reports.plan.observe import asked

WORST = 10.0
"""Condition of the amounts, each by its largest, from which on constants lean on one another."""


def kinds_of_work(name, model):
    """The different amounts of each equation in the cells of a scenario."""
    record = planned(name)
    known = SimpleNamespace(row_bytes=116.0, model=model)
    found = {}
    for cell in record.cells:
        at = workload(known, record, cell)
        for quantity in QUANTITIES:
            here = asked(record, at) if quantity == "lookup" else at
            equation = model.equation_of(quantity, cell.index, here)
            if equation is None or quantity in REQUEST_COUNTS:
                continue
            mode = model.mode_of(quantity, cell.index, here)
            work = model.amounts(quantity, cell.index, here, mode)
            found.setdefault(equation, {})[tuple(work.items())] = work
    return {equation: list(kinds.values()) for equation, kinds in found.items()}


@pytest.mark.parametrize(("name", "model"), [("calibrate", KEYMARK), ("calibrate_hudi", HUDI)])
def test_no_constant_can_stand_in_for_another(name, model):
    leaning = {}
    for equation, kinds in kinds_of_work(name, model).items():
        amounts = list(dict.fromkeys(amount for work in kinds for amount in work))
        table = np.array([[work.get(amount, 0.0) for amount in amounts] for work in kinds])
        scaled = table / np.abs(table).max(axis=0)
        strengths = np.linalg.svd(scaled, compute_uv=False)
        if len(kinds) < len(amounts) or strengths[0] > WORST * strengths[-1]:
            leaning[equation] = amounts
    assert leaning == {}


@pytest.mark.parametrize(("name", "model"), [("calibrate", KEYMARK), ("calibrate_hudi", HUDI)])
def test_every_equation_has_cells(name, model):
    requests = tuple(REQUEST_COUNTS)
    asked_for = {
        equation.name
        for index, equation in model.equations()
        if index in planned(name).scenario.indexes and not equation.name.startswith(requests)
    }
    assert asked_for == set(kinds_of_work(name, model))
