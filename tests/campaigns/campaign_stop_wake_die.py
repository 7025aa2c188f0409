"""Stop, wake, die: a writer stops at every storage call past its lease, wakes, and dies later.

While it stands still, another writer takes the table, sweeps and commits. Then the first one goes
on. After each of its following calls it may die: what is on storage then is a state of its own. A
state that has been looked at is not looked at again, so most schedules cost nothing: on a disk no
call of a writer that lost the table changes anything.

A case is one operation on one kind of table and storage, and every n-th call to stop at.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import random
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from campaign import Outcome
from fenced_cases import (
    OPTIONS,
    FarStorage,
    SteadyClock,
    hudi_rs_keys,
    late_files,
    listed_keys,
    rows_of,
    strays,
)
from histories.history_storage import same_each_time
from table_cases import create, rows

from keymark import Table
from keymark.table.errors import LockHeldError, TableError
from keymark.table.storage import local_storage as local
from keymark.table.storage.lease_files import expires_at, highest_number, lease_number, lease_path
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import FileStatus, Obstacle, RangeReader, Storage
from keymark.table.timeline.timeline import Timeline

T = TypeVar("T")
_PAST_THE_LEASE = 400.0
# A purge makes five times the calls of others.
_BATCHES, _OF_PURGE = 32, 128
_STORES = ("disk", "far")
Operation = Callable[[Table], Any]

SHARED = [9, 10]
"""Keys that the writer and its successor both insert, the successor with other values."""


def _written(number: int) -> Any:
    return rows([1, *SHARED, f"x{number}"], ts=50, value="late ")


OPERATIONS: dict[str, tuple[str, Operation]] = {
    "upsert": ("plain", lambda table: table.upsert(_written(1))),
    "insert": ("plain", lambda table: table.insert(rows([*SHARED, "x1"], ts=50, value="late "))),
    "bulk_insert": (
        "plain",
        lambda table: table.bulk_insert(rows([*SHARED, "x1"], ts=50, value="late ")),
    ),
    "delete": ("plain", lambda table: table.delete(["k2", "k3"])),
    "compact": ("plain", lambda table: table.compact()),
    "clean": ("plain", lambda table: table.clean()),
    "archive": ("plain", lambda table: table.archive()),
    "rollback": ("plain", lambda table: table.rollback(_latest(table))),
    "savepoint": ("plain", lambda table: table.savepoint()),
    "restore": ("saved", lambda table: table.restore(_saved(table))),
    "purge": ("plain", lambda table: table.purge(["k2"])),
    "build": ("plain", lambda table: table.build_index("column_stats")),
    "build_record": ("bloom", lambda table: table.build_index("record_index")),
    "drop": ("both", lambda table: table.drop_index("record_index")),
    "rewrite": ("plain", lambda table: table.rewrite("on")),
    "upsert_bloom": ("bloom", lambda table: table.upsert(_written(1))),
    "upsert_services": ("services", lambda table: table.upsert(_written(1))),
}


def _latest(table: Table) -> str:
    return max(i.time for i in Timeline.load(table.storage).completed({"commit"}))


def _saved(table: Table) -> str:
    (found,) = Timeline.load(table.storage).completed({"savepoint"})
    return found.time


@dataclass
class Script:
    """Counts the calls of one writer; before the call `stop` the world goes on without it."""

    stop: int
    succeed: Callable[[], None]
    changed: Callable[[], None]
    calls: int = 0
    depth: int = 0
    awake: bool = False
    again: bool = False
    guarded: bool = False
    following: int = 0

    def count(self) -> None:
        self.calls += 1
        if self.awake:
            self.following += 1
        if self.calls == self.stop:
            self.guarded = self.depth > 0
            self.succeed()
            self.awake = True

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        self.count()
        try:
            yield
        finally:
            if self.awake:
                self.changed()


@dataclass
class SlowStorage:
    """The storage of the writer that stops."""

    inner: Storage
    script: Script

    @property
    def root(self) -> str:
        return self.inner.root

    def open(self, path: str) -> RangeReader:
        self.script.count()
        return self.inner.open(path)

    def read(self, path: str) -> bytes:
        self.script.count()
        return self.inner.read(path)

    def list(self, path: str) -> list[FileStatus]:
        self.script.count()
        return self.inner.list(path)

    def walk(self, path: str) -> Iterator[FileStatus]:
        self.script.count()
        return self.inner.walk(path)

    def survey(self, path: str) -> Iterator[FileStatus | Obstacle]:
        self.script.count()
        return self.inner.survey(path)

    def exists(self, path: str) -> bool:
        self.script.count()
        return self.inner.exists(path)

    def put(self, path: str, data: bytes) -> None:
        with self.script.change():
            self.inner.put(path, data)
            # It holds the table once more: what it does now, it does in its turn.
            number = lease_number(path.rpartition("/")[2])
            self.script.again |= bool(self.script.awake and number and path == lease_path(number))

    def commit(self, path: str, data: bytes) -> None:
        with self.script.change():
            self.inner.commit(path, data)

    def replace(self, path: str, data: bytes) -> None:
        with self.script.change():
            self.inner.replace(path, data)

    def move(self, source: str, target: str) -> None:
        with self.script.change():
            self.inner.move(source, target)

    def delete(self, path: str) -> None:
        with self.script.change():
            self.inner.delete(path)

    def delete_tree(self, path: str) -> None:
        with self.script.change():
            self.inner.delete_tree(path)

    def keep(self, path: str) -> None:
        self.inner.keep(path)

    def sync(self) -> None:
        self.inner.sync()

    def sweep(self) -> None:
        with self.script.change():
            self.inner.sweep()

    def staged(self, name: str) -> Storage:
        with self.script.change():
            return SlowStorage(self.inner.staged(name), self.script)

    @contextlib.contextmanager
    def guard(self) -> Iterator[bool]:
        self.script.count()
        with self.inner.guard() as alone:
            self.script.depth += alone
            try:
                yield alone
            finally:
                self.script.depth -= alone

    def hold(self, path: str) -> AbstractContextManager[None]:
        self.script.count()
        return self.inner.hold(path)

    def held(self, path: str) -> bool:
        self.script.count()
        return self.inner.held(path)


@functools.cache
def _templates() -> str:
    """Where the prepared tables of this process are."""
    base = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="stop-wake-die-", dir=base if base.is_dir() else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def template(kind: str) -> str:
    """A prepared table of nine commits: every service has something to do."""
    root = f"{_templates()}/{kind}"
    options = {**OPTIONS, "hoodie.clean.automatic": "false"}
    index = "global_bloom" if kind in ("bloom", "both") else "record"
    more = {}
    if kind == "both":
        more["hoodie.metadata.record.index.enable"] = "true"
    clock = SteadyClock()
    with same_each_time(random.Random(kind)):
        create(Path(root), {**options, **more}, index=index)
        table = Table(LocalStorage.at(root, durable=False), {**options, **more}, clock=clock)
        for number in range(9):
            table.upsert(rows(range(1, 9), ts=number + 1, value=f"{number} "))
            if number == 3 and kind == "saved":
                table.savepoint()
    return root


@dataclass
class Schedule:
    """One place to stop at, and everything that may follow."""

    store: str
    operation: str
    stop: int
    folder: Path
    outcome: Outcome
    storage: Any = None
    clock: SteadyClock = field(default_factory=lambda: SteadyClock(1_750_000_000.0))
    seen: set[Any] = field(default_factory=set)
    before: dict[str, Any] = field(default_factory=dict)
    successor: str = ""
    holding: bool = False
    states: int = 0
    script: Any = None

    @property
    def name(self) -> str:
        return f"{self.store} {self.operation} stop {self.stop}"

    def fail(self, text: str) -> None:
        self.outcome.failures.append(f"{self.name}: {text}")

    def run(self) -> bool:
        """Whether the operation has a call of that number."""
        kind, operation = OPERATIONS[self.operation]
        root = self.folder / f"t{self.stop}"
        shutil.copytree(template(kind), root)
        if self.store == "disk":
            self.storage = LocalStorage.at(str(root), durable=False)
        else:
            self.storage = FarStorage.of(root)
        options = dict(OPTIONS)
        if kind == "services":
            options.update({"hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true"})
        self.script = script = Script(self.stop, self.succeed, self.look)
        seed = random.Random(self.name)
        with same_each_time(seed), mock.patch.object(local, "_GUARD_SECONDS", 0.0):
            self.before = rows_of(self.storage)
            slow = Table(SlowStorage(self.storage, script), options, clock=self.clock)
            script.calls = 0
            answer = self._operate(operation, slow)
        if not script.awake:
            shutil.rmtree(root)
            return False
        with same_each_time(seed):
            self.verify(last=True)
        counts = self.outcome.counts
        counts[f"{self.store}: {self.operation}"] += 1 + script.following
        counts["schedules"] += 1 + script.following
        counts["stops"] += 1
        counts["states looked at"] += self.states
        counts[f"answers: {answer}"] += 1
        if script.guarded:
            counts["stops with other processes kept out"] += 1
        elif self.holding and self.store == "disk" and answer not in ("LeaseLostError", "done"):
            self.fail(f"it answered {answer}")
        shutil.rmtree(root)
        return True

    def _operate(self, operation: Operation, table: Table) -> str:
        try:
            operation(table)
        except TableError as error:
            self.answer = str(error)
            return type(error).__name__
        except Exception as error:  # noqa: BLE001  whatever it is, it is the finding
            self.fail(f"untyped {error!r}")
            return "untyped"
        return "done"

    def succeed(self) -> None:
        """Another writer comes when the lease has run out, and commits."""
        number = highest_number(self.storage)
        self.holding = bool(number) and expires_at(self.storage, number) > self.clock.millis()
        self.clock.sleep(_PAST_THE_LEASE)
        table = Table(self.storage, OPTIONS, clock=self.clock)
        try:
            table.upsert(rows([*SHARED, "y1"], ts=60, value="next "))
        except LockHeldError:
            self.successor = "kept out"
            return
        except TableError as error:
            self.fail(f"the successor failed: {error!r}")
            return
        self.successor = "committed"
        self.seen.add(self._state())

    def _state(self) -> Any:
        if self.store == "far":
            return self.storage.state()
        found = []
        for folder, _, names in os.walk(self.storage.root):
            for name in names:
                status = (Path(folder) / name).stat()
                found.append((folder, name, status.st_ino, status.st_size, status.st_mtime_ns))
        return zlib.crc32(repr(sorted(found)).encode())

    def look(self) -> None:
        """After a call of the writer that woke: is anything different?"""
        state = self._state()
        if state in self.seen or self.successor != "committed":
            return
        self.seen.add(state)
        if not self.holding or self.script.again:
            return
        if self.store == "disk":
            self.fail("a call of the writer that lost the table changed a file")
        self.verify()

    def verify(self, *, last: bool = False) -> None:
        """What readers see, what `check` says, and what one further write leaves."""
        if not last and not self.holding:
            return
        self.states += 1
        copied = self._copy()
        late = late_files(copied)
        if self.store == "disk" and late:
            self.fail(f"late files {late}")
        self._compare("read", rows_of(copied))
        self._check(copied, late)
        if self.store == "disk":
            self._compare("listed", listed_keys(copied))
            if self.stop % 4 == 0:
                self._compare("hudi-rs", hudi_rs_keys(copied.root))
        clock = SteadyClock(self.clock.now + _PAST_THE_LEASE)
        table = Table(copied, OPTIONS, clock=clock)
        try:
            table.upsert(rows(["z1"], ts=70))
        except TableError as error:
            self.fail(f"one further write failed: {error!r}")
            return
        left = strays(copied)
        if left:
            self.fail(f"left over after one further write: {left}")
        self._check(copied, [])
        self._compare("listed after one further write", listed_keys(copied))

    def _copy(self) -> Any:
        if self.store == "far":
            return self.storage.copy()
        root = f"{self.storage.root}-{self.states}-{random.getrandbits(32)}"
        shutil.copytree(self.storage.root, root)
        return LocalStorage.at(root, durable=False)

    def _check(self, storage: Any, late: Sequence[str]) -> None:
        if "record_index" not in Table(storage, OPTIONS).config.metadata_partitions:
            return
        try:
            found = Table(storage, OPTIONS).check()
        except TableError as error:
            self.fail(f"check raised {error!r}")
            return
        if not late and not found.ok:
            self.fail(f"check: {found}")
        if late and set(late) - set(found.late_paths):
            self.fail(f"check does not name {late}")

    def _compare(self, what: str, found: Any) -> None:
        """Every key at most once, and all that must be there."""
        counts = found if isinstance(found, Counter) else dict.fromkeys(found, 1)
        twice = [key for key, count in counts.items() if count > 1]
        if twice:
            self.fail(f"{what}: twice {twice}")
        keys = set(found) - {"z1"}
        known = set(self.before) | {f"k{n}" for n in SHARED} | {"x1", "y1"}
        if keys - known:
            self.fail(f"{what}: unknown {sorted(keys - known)}")
        in_turn = not self.holding or self.script.again
        if self.successor == "committed" and not (in_turn and self.operation == "restore"):
            wanted = {"k9", "k10", "y1"}
            if self.operation not in ("delete", "purge"):
                wanted |= set(self.before) if self.operation != "restore" else set()
            if wanted - keys:
                self.fail(f"{what}: lost {sorted(wanted - keys)}")


def _batches(operation: str) -> int:
    return _OF_PURGE if operation == "purge" else _BATCHES


@dataclass(frozen=True)
class StopWakeDie:
    """The campaign."""

    seed: int = 1
    seconds: float = 300.0
    share: int = 4

    def cases(self) -> Sequence[str]:
        return [
            f"{store} {operation} {batch}"
            for batch in range(_OF_PURGE)
            for store in _STORES
            for operation in OPERATIONS
            if batch < _batches(operation)
        ]

    def run(self, case: str, folder: Path) -> Outcome:
        store, operation, batch = case.split()
        outcome, stop = Outcome(), int(batch) + 1
        while Schedule(store, operation, stop, folder, outcome).run():
            stop += _batches(operation)
        return outcome


CAMPAIGN = StopWakeDie()
