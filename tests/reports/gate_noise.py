"""Both sides of a gate made by arithmetic: times with the noise of a shared machine.

A repetition measures every cell's base and candidate one after the other, the next repetition
in the opposite order, as a run does. The machine is one for all of them: its drift and its bursts
go through all measurements in their order of time, whatever is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import lfilter

from keymark.reports.gate.run_numbers import Key, MeasuredNumber, RunNumbers

CELLS = ("record", "global_simple", "global_bloom", "bucket")
STEPS = ("upsert_1", "upsert_2", "delete")
TAG_SHARE = {"tag": 1.0, "total": 0.35}
"""Part of each phase that is tagging."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine's noise, in logarithms of a time.

    Attributes:
        white: standard deviation of one value, apart from all others.
        drift: standard deviation of slow drift (0.97 of it is left at the next measurement).
        burst: how many measurements lie between two bursts; each lasts some, and slows by 10 to
            60 per cent. 0: none.
        second: by how much what is measured second is slower.
    """

    white: float
    drift: float = 0.05
    burst: float = 60.0
    second: float = 0.02


def rough(white: float) -> Machine:
    """A machine that others use as well."""
    return Machine(white=white)


def calm(white: float) -> Machine:
    """A machine of one's own."""
    return Machine(white=white, drift=0.02, burst=0.0, second=0.005)


def two_sides(
    draw: np.random.Generator,
    machine: Machine,
    *,
    pairs: int,
    slow: float = 0.0,
    cells: tuple[str, ...] = CELLS,
    steps: tuple[str, ...] = STEPS,
) -> tuple[RunNumbers, RunNumbers]:
    """Base and candidate; tagging of the first cell is slower by `slow`."""
    values: dict[str, dict[Key, dict[tuple[int, int], float]]] = {"base": {}, "candidate": {}}
    weather = _weather(draw, machine, pairs * 2 * len(cells) * len(steps))
    now = 0
    for repetition in range(pairs):
        order = [(cell, name) for cell in cells for name in ("base", "candidate")]
        seen: set[str] = set()
        for cell, name in order if repetition % 2 == 0 else reversed(order):
            late = machine.second if cell in seen else 0.0
            seen.add(cell)
            hit = np.log1p(slow) if name == "candidate" and cell == cells[0] else 0.0
            for number, step in enumerate(steps, start=1):
                for phase, share in TAG_SHARE.items():
                    own = machine.white * draw.standard_normal()
                    log = weather[now] + own + late + share * hit
                    key = Key(cell, step, phase, "wall_s")
                    trials = values[name].setdefault(key, {})
                    trials[repetition, number] = float(np.exp(log))
                now += 1
    return side("base", values["base"]), side("candidate", values["candidate"])


def side(name: str, values: dict[Any, Any], *, run: str = "run", **changes: Any) -> RunNumbers:
    """One side of values by trial."""
    fields: dict[str, Any] = {
        "name": name,
        "run_id": run,
        "origin": Path(run),
        "numbers": {key: measured(trials) for key, trials in values.items()},
        "wrong": {},
        "foreign": frozenset(),
        "work": {},
    }
    return RunNumbers(**(fields | changes))


def measured(trials: dict[tuple[int, int], float], unit: str = "s") -> MeasuredNumber:
    """Values by trial as one number of a side."""
    found = list(trials.values())
    return MeasuredNumber(
        unit=unit,
        median=float(np.median(found)),
        min=min(found),
        max=max(found),
        n=len(found),
        trials=trials,
    )


def _weather(draw: np.random.Generator, machine: Machine, count: int) -> Any:
    """What all measurements share, in their order of time; np.ndarray of float64."""
    kept = 0.97
    steps = draw.normal(0.0, machine.drift * (1 - kept**2) ** 0.5, count)
    state = lfilter([1.0], [1.0, -kept], steps)
    if machine.burst:
        at = int(draw.exponential(machine.burst))
        while at < count:
            length = 1 + int(draw.geometric(0.25))
            state[at : at + length] += draw.uniform(0.1, 0.6)
            at += length + int(draw.exponential(machine.burst))
    return state
