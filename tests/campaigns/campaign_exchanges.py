"""Two files of a kind exchange their contents: each file is whole, and in the wrong place."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from bounded import bounded
from campaign import Outcome
from damage_tables import TABLES, Trial, copied, damageable, kind, prepared, told, whole

CASES_PER_TABLE = 15


@functools.cache
def pairs(name: str) -> list[tuple[str, str]]:
    """All pairs of files of a kind that differ."""
    root = prepared(name)
    found = []
    for one, other in combinations(damageable(root), 2):
        if kind(one) == kind(other) and (root / one).read_bytes() != (root / other).read_bytes():
            found.append((one, other))
    return found


@dataclass(frozen=True)
class Exchanges:
    """Every pair of every table; a case is some of them."""

    seed: int = 1
    seconds: float = 300
    share: int = 2

    def cases(self) -> Sequence[str]:
        """`TABLE:N`, which exchanges every fifteenth pair of the table, from pair N on.

        How many pairs there are is not known before the tables are made.
        """
        return [f"{name}:{n}" for n in range(CASES_PER_TABLE) for name in TABLES]

    def run(self, case: str, folder: Path) -> Outcome:
        """Exchange one pair after the other."""
        name, _, number = case.rpartition(":")
        chosen = pairs(name)[int(number) :: CASES_PER_TABLE]

        def work() -> None:
            counts: Counter[str] = Counter()
            failures: list[str] = []
            for one, other in chosen:
                with copied(prepared(name)) as root:
                    changes = {one: (root / other).read_bytes(), other: (root / one).read_bytes()}
                    trial = Trial(name, root, counts, failures)
                    trial.damaged(f"{one} exchanged with {other}", changes, writes=True)
            (folder / "found.json").write_text(json.dumps([counts, failures]))

        whole(name)
        return told(case, bounded(work, folder), folder)


CAMPAIGN = Exchanges()
