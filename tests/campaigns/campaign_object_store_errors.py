"""Errors of an object store at every request of every operation, on a store in memory.

A case takes one operation of one table and a share of its requests. Each of these requests fails
once, on a fresh copy of the table: by a timeout, a status of the service, an answer that is lost
after the work was done, or a short body; in every third attempt those that follow fail, too. The
error must be a `TableError`, the table as before or as after, and the next write must work.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import obstore
import operations as ops
from campaign import Outcome
from obstore.exceptions import GenericError, PermissionDeniedError
from operations import OPERATIONS, Prepared

from keymark.table.errors import TableError
from keymark.table.storage import object_storage
from keymark.table.storage.storage import Storage
from keymark.table.storage.stores import storage_at

TIMEOUT, BUSY, BROKEN, DENIED = "timeout", "503", "500", "403"
LOST, SHORT, SLOW = "answer lost", "short body", "slow"
KINDS = (TIMEOUT, BUSY, BROKEN, DENIED, LOST, SHORT, SLOW)
READING = ("head", "get", "get_range", "list", "list_with_delimiter")
WRITING = ("put", "delete")
ASKED = (
    *("upsert", "insert", "delete", "bulk_insert", "lookup", "scan", "scan of keys", "check"),
    *("compact", "clean", "purge", "archive", "rollback", "restore"),
)
PARTS = 6
SECONDS = 20.0
VALIDITY = 400.0
_BUCKETS = itertools.count()


def _error(kind: str) -> Exception:
    if kind == DENIED:
        return PermissionDeniedError("status code: 403 Forbidden <Code>AccessDenied</Code>")
    texts = {BUSY: "status code: 503 Service Unavailable", BROKEN: "status code: 500 Internal"}
    return GenericError(texts.get(kind, "HTTP error: operation timed out"))


class _Short:
    """An answer whose body ends early."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.attributes = answer.attributes

    def bytes(self) -> bytes:
        return bytes(self._answer.bytes())[:-3]


@dataclass
class Faults:
    """In front of obstore's functions: the requests from number `at` to `until` - 1 fail."""

    kind: str = TIMEOUT
    at: int = 0
    until: int = 0
    log: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """A function of obstore, failing as planned."""
        real = getattr(obstore, name)
        if name not in (*READING, *WRITING):
            return real

        def call(store: Any, key: Any, *rest: Any, **named: Any) -> Any:
            # The release of the lease: when it fails, the lease ends by time, as at a death.
            released = str(key).endswith(".until")
            self.log.append(f"{name} {key}")
            if released or not self.at <= len(self.log) < self.until:
                return real(store, key, *rest, **named)
            self.struck.append(self.log[-1])
            if self.kind == SLOW:
                time.sleep(0.02)
                return real(store, key, *rest, **named)
            if self.kind == LOST and name in WRITING:
                real(store, key, *rest, **named)
            if self.kind == SHORT and name in ("get", "get_range"):
                answer = real(store, key, *rest, **named)
                return answer[:-3] if name == "get_range" else _Short(answer)
            raise _error(self.kind)

        return call


@contextmanager
def _failing(faults: Faults) -> Iterator[None]:
    object_storage.obstore = faults  # type: ignore[assignment]
    try:
        yield
    finally:
        object_storage.obstore = obstore


@dataclass
class Attempt:
    """One operation with one planned failure, and what came of it."""

    name: str
    index: str
    faults: Faults
    answer: str = ""
    failures: list[str] = field(default_factory=list)

    def fail(self, text: object) -> None:
        """A promise is broken."""
        where = self.faults.struck[0] if self.faults.struck else "nowhere"
        start = f"{self.name}-{self.index} {self.faults.kind} at request {self.faults.at}"
        self.failures.append(f"{start} to {self.faults.until} ({where}): {text}")

    def run(self, start: Prepared) -> None:
        """Ask the operation while requests fail, and compare the table."""
        url = f"memory://bucket{next(_BUCKETS)}/t"
        storage = storage_at(url, {})
        for path, content in start.files.items():
            storage.replace(path, content)
        clock, found, begun = ops.clock_of(storage), None, time.monotonic()
        try:
            with _failing(self.faults), ops.quietly((self.name, self.index)):
                found = OPERATIONS[self.name].run(ops.opened(storage, clock))
            self.answer = "done"
        except TableError as error:
            self.answer = "a typed error"
            if not self.faults.struck:
                self.fail(f"refused without a cause: {error}")
        except Exception as error:  # noqa: BLE001  the finding
            self.answer = "an untyped error"
            self.fail(f"{type(error).__name__}: {error}")
        if time.monotonic() - begun > SECONDS:
            self.fail(f"took longer than {SECONDS:.0f} s")
        try:
            self._compare(storage, start, found)
        except Exception as error:  # noqa: BLE001  the finding
            self.fail(f"afterwards {type(error).__name__}: {error}")

    def _compare(self, storage: Storage, start: Prepared, found: Any) -> None:
        reads = OPERATIONS[self.name].reads
        if reads and self.answer == "done" and found != start.answer:
            self.fail(f"wrong answer: {str(found)[:200]}")
        with ops.quietly("after"):
            # Where the release failed, too, the lease has to run out.
            later = ops.clock_of(storage)
            later.sleep(VALIDITY)
            rows = ops.table_rows(ops.opened(storage))
            if rows not in (start.before, start.after):
                self.fail(f"rows changed: {sorted(rows)}")
            if self.answer == "done" and rows != start.after:
                self.fail("said to be done, and is not")
            ops.opened(storage, later).upsert(ops.some([40, 41], 90))
            table = ops.opened(storage)
            new = {row["k"]: tuple(row.values()) for row in ops.some([40, 41], 90).to_pylist()}
            # A commit that was decided and whose answer was lost is completed by the next writer.
            wanted = ops.table_rows(table)
            if wanted not in (rows | new, start.after | new):
                self.fail("rows are not right after the next write")
            lost = [
                row["record_key"]
                for row in table.lookup([*wanted, "absent"]).to_pylist()
                if row["file_id"] is None
            ]
            if lost != ["absent"]:
                self.fail(f"lookup lost {lost}")
            if not table.check().ok:
                self.fail("check finds differences")


@dataclass(frozen=True)
class ObjectStoreErrors:
    """The campaign."""

    seed: int = 36
    seconds: float = 240.0
    share: int = 4

    def cases(self) -> Sequence[str]:
        """Every operation on tables with the record index and one without, in parts."""
        return [
            f"{name}-{index}-{part}"
            for part in range(PARTS)
            for index in ("record", "global_bloom")
            for name in ASKED
            if index in OPERATIONS[name].indexes
        ]

    def run(self, case: str, folder: Path) -> Outcome:
        """Let each request of the case's share fail."""
        del folder
        name, index, part = case.rsplit("-", 2)
        start = ops.prepared(name, index)
        counted = Attempt(name, index, Faults())
        counted.run(start)
        outcome = Outcome(Counter({"answers: undisturbed": 1}), counted.failures)
        calls = len(counted.faults.log)
        step = PARTS if index == "record" else 3 * PARTS
        for at in range(1 + int(part), calls + 1, step):
            kind = KINDS[(at // step + int(part)) % len(KINDS)]
            until = at + 1 if (at // step) % 3 else at + 12
            tried = Attempt(name, index, Faults(kind, at, until))
            tried.run(start)
            outcome.counts["requests that fail"] += bool(tried.faults.struck)
            outcome.counts[f"answers: {tried.answer}"] += 1
            outcome.failures += tried.failures
        return outcome


CAMPAIGN = ObjectStoreErrors()
