"""How often a gate alarms although nothing changed, and how often it finds what did.

    python tests/benchmarks/gate_replay.py [--gates 300] [--json FILE]

Every gate has four cells, each with three steps of two required times (tagging, and a total of
which tagging is 35 %): 24 times, and 8 means over steps. The times are made by arithmetic, with
the noise of a calm machine or of one that others use (`tests/reports/gate_noise.py`). "Spread" is
the standard deviation of one value of a pair, apart from what the machine does to both. A slot is
the median of three values, which has 0.67 of their spread.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

from gate_noise import CELLS, STEPS, Machine, calm, rough, two_sides

from keymark.reports.gate.compare import compare
from keymark.reports.gate.policy import Level, Policy, PolicyRule
from keymark.reports.gate.verdicts import Verdict

REQUIRED = Policy(rule=(PolicyRule(metric="wall_s", level=Level.REQUIRED),))
ONE_OF_THREE = 1 / 0.67
SEED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Gates of one kind.

    Attributes:
        machine: calm or rough.
        spread: of one value.
        pairs: of each time.
        slow: by how much tagging of one cell is slower.
        what: what the pairs are.
        cells: of each gate.
        steps: of each cell that tag.
    """

    machine: str
    spread: float
    pairs: int
    slow: float
    what: str = "slots"
    cells: int = len(CELLS)
    steps: int = len(STEPS)

    @property
    def noise(self) -> Machine:
        """The machine's."""
        return {"calm": calm, "rough": rough}[self.machine](self.spread)


def cases() -> Iterator[Case]:
    """What is replayed."""
    for machine in ("calm", "rough"):
        for spread in (0.01, 0.02, 0.03, 0.06, 0.1):
            for slow in (0.0, 0.05):
                yield Case(machine=machine, spread=spread, pairs=24, slow=slow)
    for slow in (0.0, 0.05):
        for cells, steps in ((4, 3), (1, 3), (1, 1)):
            few = {"machine": "calm", "slow": slow, "cells": cells, "steps": steps}
            if (cells, steps) != (4, 3):
                yield Case(**few, spread=0.03, pairs=24)
            yield Case(**few, spread=0.03 * ONE_OF_THREE, pairs=72, what="single values")
    for pairs in (12, 48, 96, 192):
        for slow in (0.0, 0.05):
            yield Case(machine="calm", spread=0.06, pairs=pairs, slow=slow)
    for slow in (0.1, 0.2, 0.5):
        yield Case(machine="rough", spread=0.06, pairs=24, slow=slow)


def replay(case: Case, gates: int) -> dict[str, int]:
    """How many gates of one kind had each verdict."""
    draw = np.random.default_rng([SEED, gates, *map(ord, str(case))])
    found: Counter[str] = Counter({verdict.value: 0 for verdict in Verdict})
    for _ in range(gates):
        sides = two_sides(
            draw,
            case.noise,
            pairs=case.pairs,
            slow=case.slow,
            cells=CELLS[: case.cells],
            steps=STEPS[: case.steps],
        )
        found[compare(*sides, REQUIRED).verdict.value] += 1
    return dict(found)


def main(arguments: list[str] | None = None) -> None:
    """Replay all cases and print a table of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=300)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    rows = [
        {**asdict(case), "gates": given.gates, **replay(case, given.gates)}
        for case in track(list(cases()), description="gates", console=Console(stderr=True))
    ]
    sys.stdout.write(
        "machine | cells x steps | pairs | spread | slower by | pass | regression | unsure\n"
    )
    for row in rows:
        words = [
            row["machine"],
            f"{row['cells']} x {row['steps']}",
            f"{row['pairs']} {row['what']}",
        ]
        words += [f"{row['spread']:.1%}", f"{row['slow']:.0%}"]
        words += [row[name] for name in ("pass", "regression", "inconclusive")]
        sys.stdout.write(" | ".join(map(str, words)) + "\n")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
