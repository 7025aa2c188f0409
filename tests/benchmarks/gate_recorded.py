"""Gates replayed from recorded pairs: the noise of a real machine, as it was and scaled down.

    python tests/benchmarks/gate_recorded.py DIR [--gates 100]

DIR holds what `gate_live.py` measured where nothing changed. A replayed gate has four cells with
three steps of two required times. Each series is drawn from the recorded repetitions in stretches
of three, so that drift and bursts within a slot stay; a slot is their median. Deviations from a
run's median are multiplied so that slots have the spread that is asked for ("recorded": by one).
Tagging of one cell is then made slower by 5 %, and its total by what tagging is of it. With
`--exchange` the sides of a stretch change places at random: what one process was faster than the
other by goes into the noise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

from gate_live import REQUIRED
from gate_noise import CELLS, STEPS, side

from keymark.harness.store.store import RunFolder
from keymark.reports.gate.compare import compare
from keymark.reports.gate.run_numbers import Key

SLOT = 3
SLOTS = 24
PHASES = ("tag", "total")


def recorded(folder: Path) -> Any:
    """Deviations of every gate, np.ndarray (run, repetition, side, phase) of logarithms."""
    runs = []
    for path in sorted(folder.glob("same-[0-9][0-9]")):
        run = RunFolder.open(path)
        engines = run.read_record().scenario.engines
        found = {(s.repetition, s.engine, s.phase): s.value for s in run.samples()}
        count = 1 + max(repetition for repetition, _, _ in found)
        logs = np.log([[[found[n, e, p] for p in PHASES] for e in engines] for n in range(count)])
        runs.append(logs - np.median(logs, axis=(0, 1)))
    return np.stack(runs)


def slots(deviations: Any) -> Any:
    """Medians of three repetitions, along the first axis."""
    return np.median(deviations.reshape(-1, SLOT, *deviations.shape[1:]), axis=1)


def spread(runs: Any) -> float:
    """Standard deviation of one side of a pair of slots, as the gate estimates it, of tagging."""
    pairs = np.concatenate([slots(run)[:, 1, 0] - slots(run)[:, 0, 0] for run in runs])
    return float(1.4826 * np.median(np.abs(pairs - np.median(pairs))) / 2**0.5)


def gate(draw: np.random.Generator, runs: Any, *, slow: float, single: bool, exchange: bool) -> str:
    """The verdict of one replayed gate; `single`: of repetitions instead of slots."""
    values: dict[str, dict[Key, dict[tuple[int, int], float]]] = {"base": {}, "candidate": {}}
    for cell in CELLS:
        for number, step in enumerate(STEPS, start=1):
            which = draw.integers(0, len(runs), SLOTS)
            start = draw.integers(0, runs.shape[1] - SLOT + 1, SLOTS)
            series = np.concatenate(
                [
                    runs[w, s : s + SLOT, :: 1 - 2 * int(exchange and draw.random() < 0.5)]
                    for w, s in zip(which, start, strict=True)
                ]
            )
            series = series if single else slots(series)
            for at, name in enumerate(values):
                for place, (phase, share) in enumerate((("tag", 1.0), ("total", 0.35))):
                    hit = share * slow if name == "candidate" and cell == CELLS[0] else 0.0
                    times = np.exp(series[:, at, place]) * (1 + hit)
                    trials = {(n, number): float(time) for n, time in enumerate(times)}
                    values[name][Key(cell, step, phase, "wall_s")] = trials
    answer = compare(side("base", values["base"]), side("other", values["candidate"]), REQUIRED)
    return answer.verdict.value


def main(arguments: list[str] | None = None) -> None:
    """Replay, and print a line for each kind of gate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gates", type=int, default=100)
    parser.add_argument("--exchange", action="store_true")
    given = parser.parse_args(arguments)
    runs = recorded(given.folder)
    own = spread(runs)
    told = {"recorded_gates": len(runs), "pairs": int(runs.shape[0] * runs.shape[1])}
    sys.stdout.write(json.dumps(told | {"spread_of_slots": own}) + "\n")
    draw = np.random.default_rng(8)
    for wanted in (0.03, 0.02, own):
        for single in (False, True):
            for slow in (0.0, 0.05):
                scaled = runs * (wanted / own)
                found = Counter(
                    gate(draw, scaled, slow=slow, single=single, exchange=given.exchange)
                    for _ in range(given.gates)
                )
                line = {"spread_of_slots": round(wanted, 4), "slower": slow, "single": single}
                sys.stdout.write(json.dumps(line | found) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
