"""The least that one of an amount can cost: what a kernel takes that is measured alone.

Small tables do not tell every constant: where a fit would say 0 seconds, billions of checks would
cost nothing. `harness/calibration/floors.json` has the floors, each with its source.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from keymark.harness.store.units import Unit
from keymark.reports.plan.formulas import unit_of

FLOORS = Path(__file__).parents[2] / "harness" / "calibration" / "floors.json"
_ANY = "*"


@functools.cache
def _seconds() -> dict[str, float]:
    document = json.loads(FLOORS.read_text(encoding="utf-8"))
    return {amount: float(each["seconds"]) for amount, each in document["floors"].items()}


def floor(equation: str, amount: str) -> float:
    """The least seconds of one of an amount of an equation; bytes and requests have none."""
    if unit_of(equation.partition("/")[0]) != Unit.SECONDS:
        return 0.0
    return _seconds().get(amount, _seconds()[_ANY])
