"""Kills at every storage call, and damages: a check raises no false alarm and misses nothing.

`kill <index>, <operation>, <fault>, <part>`: the operation dies, or its disk is full, at every
n-th storage call. Right after that, a check finds no difference and names the pending work, and the
rows are those before or after. Then one write recovers the table: nothing is pending any more.

`damage <index>, <number>`: valid files with wrong content, made by the package's own writers, some
of them right after a kill. A check tells each one.
"""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign import Outcome
from crafted_damage import BY_WRITE, DAMAGES, NotHereError
from faults import DEAD, FULL, FaultStorage, Killed
from kill_tables import (
    INDEXES,
    OPERATIONS,
    copied,
    key_rows,
    make,
    options_of,
    prepared,
    served,
)
from table_cases import rows

from keymark import Table
from keymark.table.errors import CorruptFileError, NotATableError, TableError
from keymark.table.storage.local_storage import LocalStorage

PARTS = 6
CALLS_MAX = 400
REFUSED = (("bucket", "bulk insert"),)
DAMAGE_CASES = 24
DAMAGES_EACH = 8
HARMLESS = ("savepoint", "clean", "compact", "archive", "insert")
KILLED = tuple(n for n in OPERATIONS if n not in ("create", "rewrite", "bulk insert"))


@dataclass(frozen=True)
class KillCampaign:
    """See the module."""

    seed: int = 18
    seconds: float = 120
    share: int = 4

    def cases(self) -> Sequence[str]:
        kills = [
            f"kill {index}, {name}, {kind}, {part}"
            for part in range(PARTS)
            for name in OPERATIONS
            for index in INDEXES
            for kind in (DEAD, FULL)
            if (index, name) not in REFUSED
        ]
        damages = [
            f"damage {index}, {number}" for number in range(DAMAGE_CASES) for index in INDEXES
        ]
        chosen = kills + damages
        random.Random(self.seed).shuffle(chosen)
        return chosen

    def run(self, case: str, folder: Path) -> Outcome:
        outcome = Outcome()
        kind, _, rest = case.partition(" ")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "kill":
                index, name, fault, part = rest.split(", ")
                for at in range(int(part) + 1, CALLS_MAX, PARTS):
                    if not _kill(index, name, fault, at, folder / "t", outcome):
                        break
            else:
                index, _ = rest.split(", ")
                rng = random.Random(f"{self.seed} {case}")
                for turn in range(DAMAGES_EACH):
                    _damage(index, rng, folder / f"{turn}", outcome)
        return outcome


@functools.cache
def _after(index: str, name: str) -> dict[str, Any]:
    """The rows after an operation that nothing happens to."""
    start = prepared(index, name)
    if name == "create":
        return {}
    root = copied(start, start.root.with_name(f"{index} {name} done"))
    with served(start.entries):
        _run(index, name, LocalStorage.at(root))
        return key_rows(_opened(root, index))


@functools.cache
def _before(index: str, name: str) -> dict[str, Any]:
    start = prepared(index, name)
    if name == "create":
        return {}
    with served(start.entries):
        return key_rows(_opened(str(start.root), index))


def _run(index: str, name: str, storage: Any) -> None:
    if name == "create":
        make(storage.root, index, storage)
        return
    OPERATIONS[name].run(Table(storage, options_of(index, name)), index)


def _opened(root: str, index: str) -> Table:
    given = {name: value for name, value in options_of(index).items() if "bucket" not in name}
    return Table(LocalStorage.at(root), given)


def _struck(index: str, name: str, storage: FaultStorage) -> bool:
    """Run an operation that may die; whether anything happened to it."""
    try:
        _run(index, name, storage)
    except Killed:
        assert storage.kind == DEAD
    except (TableError, OSError):
        if not storage.struck:
            raise
    return storage.struck


def _kill(index: str, name: str, fault: str, at: int, folder: Path, outcome: Outcome) -> bool:
    """One schedule; whether the operation makes so many storage calls."""
    start = prepared(index, name)
    root = copied(start, folder)
    with served(start.entries):
        storage = FaultStorage(LocalStorage.at(root), fault, at)
        struck = _struck(index, name, storage)
        where = f"{index}, {name}, {fault} at {at} ({storage.log[at - 1] if struck else 'never'})"
        outcome.counts["schedules" if struck else "operations that went through"] += 1
        try:
            table = _opened(root, index)
        except NotATableError:
            assert name == "create", where
            outcome.counts["answers: not a table yet"] += 1
            make(root, index)
            table = _opened(root, index)
        checked = table.check()
        if not checked.ok:
            outcome.failures.append(f"{where}: false alarm: {checked}")
        outcome.counts["answers: ok"] += checked.ok
        outcome.counts["answers: pending work named"] += bool(checked.pending)
        if key_rows(table) not in (_before(index, name), _after(index, name)):
            outcome.failures.append(f"{where}: the rows are neither those before nor after")
        _opened(root, index).upsert(rows(["k0"], ts=50))
        checked = _opened(root, index).check()
        if not checked.ok or checked.pending:
            outcome.failures.append(f"{where}: after one more write: {checked}")
        outcome.counts["recovered by one write"] += checked.ok and not checked.pending
    return struck


def _damage(index: str, rng: random.Random, folder: Path, outcome: Outcome) -> None:
    """One damage, made on a table that is whole or right after a kill."""
    killed = rng.random() < 0.5
    for turn in range(40):
        what = rng.choice(sorted(DAMAGES))
        # A write would recover the table: such a damage comes before the kill.
        names = HARMLESS if what in BY_WRITE else KILLED
        name = rng.choice(names) if killed else "upsert"
        start = prepared(index, name)
        root = copied(start, folder / f"{turn}")
        with served(start.entries):
            fault, at = rng.choice((DEAD, FULL)), rng.randrange(1, 40)
            storage = FaultStorage(LocalStorage.at(root), fault, at)
            try:
                if what in BY_WRITE:
                    detail = DAMAGES[what](_opened(root, index), rng)
                if killed and what not in BY_WRITE:
                    _struck(index, name, storage)
                elif killed and _refused(index, name, storage):
                    outcome.counts["damages"] += 1
                    outcome.counts["damages told by a typed error"] += 1
                    return
                if what not in BY_WRITE:
                    detail = DAMAGES[what](_opened(root, index), rng)
            except NotHereError:
                continue
            state = f"{name}, {fault} at {at}" if killed else "no kill"
            _tell(f"{index}, {what} ({detail}), {state}", root, index, outcome)
            outcome.counts["damages beside a kill"] += killed
            return
    outcome.failures.append(f"{index}: no damage fits")


def _refused(index: str, name: str, storage: FaultStorage) -> bool:
    """Run an operation that may die, on a damaged table; whether it saw the damage first."""
    try:
        _struck(index, name, storage)
    except CorruptFileError:
        return True
    return False


def _tell(where: str, root: str, index: str, outcome: Outcome) -> None:
    outcome.counts["damages"] += 1
    try:
        checked = _opened(root, index).check()
    except TableError:
        outcome.counts["damages told by a typed error"] += 1
        return
    outcome.counts["damages told by the check"] += not checked.ok
    if checked.ok:
        outcome.failures.append(f"{where}: missed: {checked}")


CAMPAIGN = KillCampaign()
