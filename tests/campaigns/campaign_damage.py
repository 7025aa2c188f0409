"""Every kind of file of a table is flipped, cut, zeroed, or replaced by another; reads and upserts.

Each answer is the right one or a typed error, in little memory.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bounded import bounded
from campaign import Outcome
from damage_tables import TABLES, Trial, copied, damageable, kind, prepared, told, whole

PER_CASE = 100
ROUNDS = 21
WRITES = 10
"""One damage in so many is followed by an upsert"""
_ENDS = 700


def _flipped(data: bytes, draw: random.Random) -> bytes:
    # Footers, trailers and headers lie at the ends.
    near = min(len(data), _ENDS)
    places = (draw.randrange(len(data)), len(data) - 1 - draw.randrange(near), draw.randrange(near))
    place = draw.choice(places)
    return data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]


def _zeroed(data: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(data))
    length = min(len(data) - start, draw.choice([1, 8, 64, 512, 4096]))
    return data[:start] + bytes(length) + data[start + length :]


def damage(
    root: Path, paths: list[str], draw: random.Random
) -> tuple[str, dict[str, bytes | None]]:
    """A damage: what it is, and the content that files get."""
    kinds = defaultdict(list)
    for path in paths:
        kinds[kind(path)].append(path)
    members = kinds[draw.choice(sorted(kinds))]
    path = draw.choice(members)
    data = (root / path).read_bytes()
    how = draw.choice(["flip"] * 5 + ["cut", "zero", "zero", "stale", "copy"])
    if how == "stale" and len(members) > 1:
        other = draw.choice([each for each in members if each != path])
        return f"{path} is {other}", {path: (root / other).read_bytes()}
    if how == "copy":
        name = _another_name(path, draw)
        return f"{path} is also {name}", {name: data}
    if not data:
        return f"{path} is not empty", {path: b"\0" * draw.randrange(1, 99)}
    if how == "cut":
        return f"{path} is cut", {path: data[: draw.randrange(len(data))]}
    if how == "zero":
        return f"{path} has zeroes", {path: _zeroed(data, draw)}
    flipped = _flipped(data, draw)
    place = next(i for i, (a, b) in enumerate(zip(data, flipped, strict=True)) if a != b)
    return f"{path} is flipped at {place} ({data[place]} {flipped[place]})", {path: flipped}


def _another_name(path: str, draw: random.Random) -> str:
    """A name of the same kind: one of its digits is another."""
    start = path.rfind("/") + 1
    places = [i for i in range(start, len(path)) if path[i].isdigit()] or [len(path) - 1]
    place = draw.choice(places)
    return path[:place] + str((ord(path[place]) + 1) % 10) + path[place + 1 :]


@dataclass(frozen=True)
class Damages:
    """A hundred damages of a table are a case."""

    seed: int = 2
    seconds: float = 600
    share: int = 1

    def cases(self) -> Sequence[str]:
        """`TABLE:N`."""
        return [f"{name}:{number}" for number in range(ROUNDS) for name in TABLES]

    def run(self, case: str, folder: Path) -> Outcome:
        """One damage after the other."""
        name = case.rpartition(":")[0]

        def work() -> None:
            draw = random.Random(f"{self.seed} {case}")
            counts: Counter[str] = Counter()
            failures: list[str] = []
            paths = damageable(prepared(name))
            with copied(prepared(name)) as root:
                trial = Trial(name, root, counts, failures)
                for number in range(PER_CASE):
                    what, changes = damage(root, paths, draw)
                    (folder / "at").write_text(what)
                    if number % WRITES:
                        trial.damaged(what, changes, writes=False)
                        continue
                    with copied(prepared(name)) as other:
                        writing = Trial(name, other, counts, failures)
                        writing.damaged(what, changes, writes=True)
            (folder / "found.json").write_text(json.dumps([counts, failures]))

        whole(name)
        return told(case, bounded(work, folder), folder)


CAMPAIGN = Damages()
