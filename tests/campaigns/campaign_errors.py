"""Errors at every storage call, reads too, of every operation on tables with every index.

A case takes one operation of one table and a share of its storage calls. Each of these calls fails
once, on a fresh copy of the table, with one of the errors that the protocol of `Storage` allows or
that the operating system below `LocalStorage` returns; in every third attempt the calls that follow
fail, too. The error must be a `TableError`; the table must be as it was or as the operation leaves
it; the next write must work and leave nothing behind.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import failing_storage as failing
import operations as ops
from campaign import Outcome
from operations import OPERATIONS, Prepared
from table_cases import files_listed, files_stored, left_over

from keymark import Table
from keymark.table.errors import TableError
from keymark.table.storage.local_storage import LocalStorage

PROTOCOL, SYSTEM = "protocol", "system"
KINDS = {
    PROTOCOL: (0, 1, 2),
    SYSTEM: (*failing.ERRNOS, failing.SHORT, "EEXIST+", "EIO+", "ETIMEDOUT+"),
}
PARTS = {PROTOCOL: 8, SYSTEM: 24}
# Of the calls on tables with the record index a case makes all, or every second; of others fewer.
STEPS = {PROTOCOL: (1, 3), SYSTEM: (2, 6)}
SECONDS = 20.0


class ErrorCampaign:
    seed = 1
    seconds = 240.0
    share = 4

    def cases(self) -> Sequence[str]:
        return [
            f"{name}-{index}-{level}-{part}"
            for part in range(PARTS[SYSTEM])
            for level in (PROTOCOL, SYSTEM)
            if part < PARTS[level]
            for name, index in ops.pairs()
        ]

    def run(self, case: str, folder: Path) -> Outcome:
        name, index, level, part = case.split("-")
        start = ops.prepared(name, index)
        calls = len(_attempt(case, start, folder / "count", failing.Plan()).plan.log)
        outcome = Outcome()
        number, kinds = ops.INDEXES.index(index), KINDS[level]
        parts, step = PARTS[level], STEPS[level][number > 0]
        for turn, at in enumerate(range(1 + int(part) + number * parts, calls + 1, parts * step)):
            kind = kinds[(turn + number + int(part)) % len(kinds)]
            until = at if (at + int(part)) % 3 else at + 3
            tried = _attempt(case, start, folder / str(at), failing.Plan(at, until, kind))
            if tried.plan.struck:
                outcome.counts["errors injected"] += 1
                outcome.counts[f"answers: {tried.answer}"] += 1
                outcome.counts["states looked at"] += tried.compared
            outcome.failures += tried.failures
        return outcome


CAMPAIGN = ErrorCampaign()
# Tokens and names of staged files are drawn anew each time.
_DRAWN = re.compile(rb"\b[0-9a-f]{32}\b|\b[0-9a-f]{16}\b|\b1700\d{9}\b")
_seen: set[tuple[str, ...]] = set()
"""States that this process has found in order: most errors leave the table as it was."""


class Attempt:
    """One operation with one planned failure, and what came of it."""

    def __init__(self, case: str, root: str, plan: failing.Plan) -> None:
        self.name, self.index, self.level, _ = case.split("-")
        self.root, self.plan = root, plan
        self.answer = ""
        self.compared = False
        self.failures: list[str] = []

    def fail(self, text: object) -> None:
        where = self.plan.struck[0] if self.plan.struck else "nowhere"
        start = f"{self.name}-{self.index}-{self.level} {self.plan.kind} at call {self.plan.at}"
        self.failures.append(f"{start} to {self.plan.until} ({where}): {text}")

    def ask(self) -> Any:
        """Ask the operation while calls fail."""
        storage: Any = LocalStorage.at(self.root, create=True)
        self.clock = ops.clock_of(storage)
        below: Any = nullcontext()
        if self.level == PROTOCOL:
            storage = failing.FailingStorage(storage, self.plan)
        else:
            below = failing.failing_system(self.root, self.plan)
        started = time.monotonic()
        try:
            with below:
                found = self._asked(storage)
            self.answer = "done" if self.plan.struck else "not struck"
        except TableError as error:
            self.answer, found = "a typed error", error
            if not self.plan.struck:
                self.fail(f"refused without a cause: {error}")
        except Exception as error:  # noqa: BLE001  the finding
            self.answer, found = "an untyped error", error
            self.fail(f"{type(error).__name__}: {error}")
        if time.monotonic() - started > SECONDS:
            self.fail("took longer than 20 s")
        return found

    def _asked(self, storage: Any) -> Any:
        with ops.quietly((self.name, self.index)):
            if self.name == "create":
                return ops.make(self.root, self.index, storage)
            return OPERATIONS[self.name].run(ops.opened(storage, self.clock))

    def state(self) -> tuple[str, ...]:
        """All that `compare` depends on."""
        digest = hashlib.sha256()
        for path, content in ops.packed(self.root).items():
            owned = "/.keymark/lease/" in path or "/.temp/.put/" in path
            both = f"{path}\0{len(content)}\0".encode() + content
            digest.update(_DRAWN.sub(b"", both) if owned else both)
        return self.name, self.index, self.answer, digest.hexdigest()

    def compare(self, start: Prepared) -> None:
        """The table is as before or as after; the operation and a write work."""
        storage = LocalStorage.at(self.root)
        with ops.quietly("after"):
            if self.name == "create":
                self._create_again(storage)
            found = ops.table_rows(ops.opened(storage))
            if found not in (start.before, start.after):
                self.fail(f"rows changed: {sorted(found)}")
            if self.answer == "done" and found != start.after:
                self.fail("said to be done, and is not")
            going_back = self.name in ("rollback", "restore")
            if ops.stored_rows(self.root) != found and not going_back:
                self.fail("rows by a listing differ")
            if self.answer == "a typed error" and self.name != "create":
                self._again(storage, start, done=found != start.before)
            self._write(storage)

    def _create_again(self, storage: LocalStorage) -> None:
        if not storage.exists(".hoodie/hoodie.properties"):
            ops.make(self.root, self.index)

    def _again(self, storage: LocalStorage, start: Prepared, *, done: bool) -> None:
        """What failed can be asked again; where it was done after all, it may say so."""
        if done:
            return
        try:
            OPERATIONS[self.name].run(ops.opened(storage))
        except TableError as error:
            if start.before != start.after:
                self.fail(f"cannot be asked again: {error}")
        if ops.table_rows(ops.opened(storage)) != start.after:
            self.fail("asked again, and the rows are not right")

    def _write(self, storage: LocalStorage) -> None:
        before = ops.table_rows(ops.opened(storage))
        ops.opened(storage).upsert(ops.some([40, 41], 90))
        table = ops.opened(storage)
        found = ops.table_rows(table)
        wanted = before | {
            row["k"]: tuple(row.values()) for row in ops.some([40, 41], 90).to_pylist()
        }
        if found != wanted or ops.stored_rows(self.root) != wanted:
            self.fail("rows are not right after the next write")
        if self.name not in ops.LEAVING and left_over(self.root):
            self.fail(f"left over: {left_over(self.root)[:3]}")
        if files_listed(table) != files_stored(self.root):
            self.fail("the listing differs from storage")
        self._check(table, wanted)

    def _check(self, table: Table, wanted: ops.Rows) -> None:
        keys = [*wanted, "absent"]
        places = table.lookup(keys).to_pylist()
        lost = [row["record_key"] for row in places if row["file_id"] is None]
        if lost != ["absent"] and self.index != "bucket":
            self.fail(f"lookup lost {lost}")
        if ops.RECORD_INDEX in table.config.metadata_partitions and not table.check().ok:
            self.fail("check finds differences")


def _attempt(case: str, start: Prepared, folder: Path, plan: failing.Plan) -> Attempt:
    folder.mkdir()
    ops.unpack(start.files, str(folder))
    attempt = Attempt(case, str(folder), plan)
    found = attempt.ask()
    try:
        if OPERATIONS[attempt.name].reads:
            if attempt.answer == "done" and found != start.answer:
                attempt.fail(f"wrong answer: {found}")
            if plan.at and ops.packed(str(folder)).keys() != start.files.keys():
                attempt.fail("a reader changed files")
        state = attempt.state()
        if (plan.struck or not plan.at) and state not in _seen:
            attempt.compare(start)
            attempt.compared = True
            if not attempt.failures:
                _seen.add(state)
    except Exception as error:  # noqa: BLE001  the finding
        attempt.fail(f"afterwards {type(error).__name__}: {error}")
    return attempt


def counted(failures: Sequence[str]) -> Counter[str]:
    """How many failures there are of each operation."""
    return Counter(failure.partition("-")[0] for failure in failures)
