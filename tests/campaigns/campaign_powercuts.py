"""Power cuts at random moments: what was acknowledged is there, and the table works.

`model` cases run on the model of a disk that forgets what was not synced (forgetful_disk.py): a
session of random operations, and cuts at some of its moments. `unsynced` cases are the same with
syncing off; they only count what is lost. `ext4` cases cut the power of a real file system: ext4 on
a loop device, with `noauto_da_alloc`, is shut down without a flush of its journal while a process
writes. They need the rights to mount and count themselves as not possible without.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any

import loop_disk
import operations as ops
from campaign import Outcome
from forgetful_disk import Disk, Watch
from table_cases import files_listed, files_stored

from keymark import Table
from keymark.table.errors import TableError
from keymark.table.storage.local_storage import LocalStorage

MODEL, UNSYNCED, EXT4, EXT4_UNSYNCED = "model", "unsynced", "ext4", "ext4 unsynced"
COUNTS = {MODEL: 300, UNSYNCED: 30, EXT4: 60, EXT4_UNSYNCED: 6}
STEPS, MOMENTS, REAL_CUTS = 8, 12, 10


class PowerCutCampaign:
    seed = 1
    seconds = 240.0
    share = 4

    def cases(self) -> Sequence[str]:
        numbered = [
            ((number + 0.5) / count, f"{kind}-{number}")
            for kind, count in COUNTS.items()
            for number in range(count)
        ]
        return [name for _, name in sorted(numbered)]

    def run(self, case: str, folder: Path) -> Outcome:
        kind, _, number = case.partition("-")
        rng = random.Random(f"{self.seed} {number}")
        outcome = Outcome()
        if kind in (EXT4, EXT4_UNSYNCED):
            self._real(kind, rng, folder, outcome)
        else:
            self._modelled(kind, rng, folder, outcome)
        return outcome

    def _modelled(self, kind: str, rng: random.Random, folder: Path, outcome: Outcome) -> None:
        index = rng.choice(ops.INDEXES)
        with ops.quietly(case := f"{kind} {index} {rng.random()}"):
            for number, (allowed, disk, steps) in enumerate(session(kind, index, rng, folder)):
                root = str(folder / f"cut{number}")
                disk.cut(root, rng)
                tell(Cut(root, index, allowed, f"{case} {steps}"), kind, outcome)

    def _real(self, kind: str, rng: random.Random, folder: Path, outcome: Outcome) -> None:
        index = rng.choice(ops.INDEXES)
        with loop_disk.made(folder) as disk, ops.quietly(index):
            if disk is None:
                outcome.counts["ext4 on a loop device: not possible here"] += 1
                return
            with disk.mounted():
                ops.unpack(ops.without_savepoint(index), disk.table)
            for number in range(REAL_CUTS):
                asked = (rng.random(), disk.table, index, kind == EXT4)
                writer = loop_disk.Writer(write_until_cut, asked)
                done, allowed = disk.cut(writer, rng.uniform(0.05, 1.0))
                with disk.mounted():
                    cut = Cut(disk.table, index, allowed, f"{kind} {index} cut {number} {done}")
                    if not tell(cut, kind, outcome):
                        return


CAMPAIGN = PowerCutCampaign()


@dataclass(frozen=True)
class Step:
    """One operation of a session: its name, how to ask it, and the rows after it."""

    name: str
    run: Callable[[Table], Any]
    after: ops.Rows


@dataclass(frozen=True)
class Cut:
    """A table after a power cut.

    Attributes:
        root: where it is.
        index: the table's.
        allowed: rows after the last acknowledged operation, and after the one under way.
        told: what happened, for a finding.
    """

    root: str
    index: str
    allowed: tuple[ops.Rows, ...]
    told: str


def steps(rng: random.Random, rows: ops.Rows, index: str) -> Iterator[Step]:
    """Random operations without end."""
    # Keys that no earlier session has used.
    number = 100 + max(int(key[1:]) for key in rows)
    before: ops.Rows | None = None
    saved: ops.Rows | None = None
    while True:
        number += 10
        kind = rng.choice(_possible(index, undo=before is not None, saved=saved is not None))
        after, previous, before = dict(rows), before, None
        if kind in ("upsert", "bulk_insert"):
            numbers = [number, number + 1]
            if kind == "upsert":
                numbers += rng.sample([int(key[1:]) for key in rows], 2)
            batch = ops.some(numbers, number, f"{kind} {number} ")
            after |= {row["k"]: tuple(row.values()) for row in batch.to_pylist()}
            run: Callable[[Table], Any] = methodcaller(kind, batch)
            before = rows
        elif kind in ("delete", "purge"):
            if len(rows) < 6:
                continue
            key = rng.choice(sorted(rows))
            del after[key]
            batch = ops.some([int(key[1:])])
            keys = batch if kind == "delete" else [key]
            run = methodcaller(kind, keys)
            before = rows if kind == "delete" else None
        else:
            run = _SERVICES[kind]
            if kind == "rollback":
                assert previous is not None
                after = previous
            elif kind == "savepoint":
                saved = rows
            elif kind in ("restore", "drop savepoint"):
                assert saved is not None
                after, saved = (saved if kind == "restore" else rows), None
        yield Step(kind, run, after)
        rows = after


def _possible(index: str, *, undo: bool, saved: bool) -> list[str]:
    """The operations that a table can be asked now, those that write more often than others."""
    found = ["upsert"] * 4 + ["delete", "compact", "clean", "archive"]
    found += [] if index == "bucket" else ["bulk_insert"]
    found += ["rollback"] if undo else []
    # A savepoint keeps keys from a purge; a restore would take a younger index away.
    return found + (
        ["restore", "drop savepoint"] if saved else ["savepoint", "purge", "statistics"]
    )


def _toggle_statistics(table: Table) -> None:
    if ops.STATISTICS in table.config.metadata_partitions:
        table.drop_index(ops.STATISTICS)
    else:
        table.build_index(ops.STATISTICS)


def _toggle_virtual_keys(table: Table) -> None:
    table.rewrite("off" if not table.config.stores_meta else "on")


def _restore_and_forget(table: Table) -> None:
    """Back to the savepoint, which keeps nothing from then on."""
    ops.OPERATIONS["restore"].run(table)
    ops.OPERATIONS["drop savepoint"].run(table)


_SERVICES: dict[str, Callable[[Table], Any]] = {
    "compact": lambda table: table.compact(),
    "clean": lambda table: table.clean(),
    "archive": lambda table: table.archive(),
    "statistics": _toggle_statistics,
    "rewrite": _toggle_virtual_keys,
    "rollback": ops.OPERATIONS["rollback"].run,
    "savepoint": ops.OPERATIONS["savepoint"].run,
    "drop savepoint": ops.OPERATIONS["drop savepoint"].run,
    "restore": _restore_and_forget,
}


def session(
    kind: str, index: str, rng: random.Random, folder: Path
) -> Iterator[tuple[tuple[ops.Rows, ...], Disk, list[str]]]:
    """Some operations on a table; moments of it: the rows allowed, the disk, what was done."""
    root = str(folder / "table")
    Path(root).mkdir()
    ops.unpack(ops.without_savepoint(index), root)
    storage = LocalStorage.at(root, durable=kind != UNSYNCED)
    rows = ops.table_rows(ops.opened(storage))
    watch = Watch(root, Disk.of(root), rng, MOMENTS)
    done: list[str] = []
    acknowledged = []
    for _, step in zip(range(STEPS), steps(rng, rows, index), strict=False):
        watch.label = ((rows, step.after), [*done, f"during {step.name}"])
        clock = ops.clock_of(storage)
        with watch.watching():
            step.run(ops.opened(storage, clock))
        rows = step.after
        done.append(step.name)
        if rng.random() < 0.5:
            acknowledged.append((((rows,), list(done)), watch.disk.copy()))
    for (allowed, told), disk in [*watch.moments, *acknowledged]:
        yield allowed, disk, told


def write_until_cut(
    tell_parent: Callable[[Any], None], seed: float, root: str, index: str, durable: bool
) -> None:
    """Random operations until the power is cut; each is told before and after."""
    storage = LocalStorage.at(root, durable=durable)
    with ops.quietly(seed):
        rng = random.Random(seed)
        rows = ops.table_rows(ops.opened(storage))
        tell_parent(("", (rows,)))
        for step in steps(rng, rows, index):
            tell_parent((f"during {step.name}", (rows, step.after)))
            step.run(ops.opened(storage))
            rows = step.after
            tell_parent((step.name, (rows,)))


def tell(cut: Cut, kind: str, outcome: Outcome) -> bool:
    """Look at a table after a power cut: True if it works."""
    counts: Counter[str] = outcome.counts
    counts[f"{kind}: cuts"] += 1
    found = findings(cut, kind, counts)
    if kind in (UNSYNCED, EXT4_UNSYNCED):
        lost = next((text for text in found), "")
        if lost:
            counts[f"{kind}: {'commits lost' if lost.startswith('rows') else 'tables broken'}"] += 1
    else:
        outcome.failures += [f"{cut.told}: {text}" for text in found]
    return not found


def findings(cut: Cut, kind: str, counts: Counter[str]) -> list[str]:
    """What is not as promised."""
    storage = LocalStorage.at(cut.root)
    try:
        if ops.table_rows(ops.opened(storage)) not in cut.allowed:
            seen = ops.table_rows(ops.opened(storage))
            return [f"rows as a reader sees them: {_difference(seen, cut.allowed)}"]
        counts[f"{kind}: readable at once"] += 1
    except (TableError, AssertionError) as error:
        counts[f"{kind}: readable after the next write"] += 1
        unread = f"{type(error).__name__}: {error}"
    else:
        unread = ""
    try:
        ops.opened(storage, ops.clock_of(storage, 500)).upsert(ops.some([40, 41], 10**6))
        table = ops.opened(storage)
        found = ops.table_rows(table)
    except Exception as error:  # noqa: BLE001  the finding
        return [
            f"the next write: {type(error).__name__}: {error}; before it {unread or 'readable'}"
        ]
    fresh = {row["k"]: tuple(row.values()) for row in ops.some([40, 41], 10**6).to_pylist()}
    wrong = []
    if found not in [rows | fresh for rows in cut.allowed]:
        wanted = tuple(rows | fresh for rows in cut.allowed)
        return [f"rows after the next write: {_difference(found, wanted)}"]
    if ops.stored_rows(cut.root) != found:
        wrong.append("a listing finds other rows")
    if files_listed(table) != files_stored(cut.root):
        wrong.append("the listing differs from storage")
    try:
        checked = table.check()
        if not checked.ok:
            wrong.append(f"check: {checked}")
    except TableError as error:
        wrong.append(f"check: {error}")
    return wrong


def _difference(found: ops.Rows, allowed: Sequence[ops.Rows]) -> str:
    """How rows differ from what is allowed."""
    told = []
    for rows in allowed:
        lost, extra = sorted(rows.keys() - found.keys()), sorted(found.keys() - rows.keys())
        changed = [key for key in rows.keys() & found.keys() if rows[key] != found[key]]
        told.append(f"lost {lost}, extra {extra}, changed {sorted(changed)}")
    return " or ".join(told)
