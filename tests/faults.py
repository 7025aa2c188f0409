"""A storage that fails when told to, in front of a real one.

Every mutating call (put, replace, delete, delete_tree) has a number. From number `at` on, the
storage refuses to store anything more (a full disk: deletes still work), refuses every change (a
disk gone read-only), or does nothing at all any more, as if the process had been killed just before
that call. Dying after call n is dying before call n + 1, so one loop over n sees every state that a
death between two calls can leave.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from keymark.table.errors import StorageError
from keymark.table.layout.naming import STAGING
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import FileStatus, Obstacle, RangeReader, Storage

FULL, FROZEN, DEAD = "disk full", "read-only", "killed"


class Killed(BaseException):
    """The process is gone: nothing in it can do anything about that."""


@dataclass
class FaultStorage:
    """Counts the mutating calls; from the call numbered `at` on, they fail as `kind` says.

    `struck` tells whether one did. A staged storage counts with the one that it came from.
    """

    inner: Storage
    kind: str = FULL
    at: int = 0
    calls: int = 0
    struck: bool = False
    log: list[str] = field(default_factory=list)
    counter: FaultStorage | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def root(self) -> str:
        return self.inner.root

    def open(self, path: str) -> RangeReader:
        return self.inner.open(path)

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def list(self, path: str) -> list[FileStatus]:
        return self.inner.list(path)

    def walk(self, path: str) -> Iterator[FileStatus]:
        return self.inner.walk(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def sweep(self) -> None:
        self._count("sweep", "", stores=False)
        self.inner.sweep()

    def guard(self) -> AbstractContextManager[bool]:
        return self.inner.guard()

    def hold(self, path: str) -> AbstractContextManager[None]:
        return self.inner.hold(path)

    def held(self, path: str) -> bool:
        return self.inner.held(path)

    def put(self, path: str, data: bytes) -> None:
        self._count("put", path, stores=True)
        self.inner.put(path, data)

    def commit(self, path: str, data: bytes) -> None:
        self._count("put", path, stores=True)
        self.inner.commit(path, data)

    def move(self, source: str, target: str) -> None:
        self._count("move", target, stores=True)
        self.inner.move(source, target)

    def keep(self, path: str) -> None:
        self.inner.keep(path)

    def sync(self) -> None:
        self.inner.sync()

    def survey(self, path: str) -> Iterator[FileStatus | Obstacle]:
        return self.inner.survey(path)

    def staged(self, name: str) -> Storage:
        staged = copy.copy(self)
        staged.inner, staged.counter = self.inner.staged(name), self.counter or self
        return staged

    def replace(self, path: str, data: bytes) -> None:
        self._count("replace", path, stores=True)
        self.inner.replace(path, data)

    def delete(self, path: str) -> None:
        self._count("delete", path, stores=False)
        self.inner.delete(path)

    def delete_tree(self, path: str) -> None:
        self._count("delete_tree", path, stores=False)
        self.inner.delete_tree(path)

    def _count(self, call: str, path: str, *, stores: bool) -> None:
        if self.counter is not None:
            self.counter._count(call, path, stores=stores)
            return
        if path.endswith(".until") or path.startswith(f"{STAGING}/"):
            # The release of the lease: when it fails, the end of the process releases it.
            return
        with self._lock:
            self.calls += 1
            self.log.append(f"{call} {path}")
            failing = 0 < self.at <= self.calls and (stores or self.kind != FULL)
            self.struck |= failing
        if failing and self.kind == DEAD:
            raise Killed
        if failing:
            reason = "No space left on device" if self.kind == FULL else "Read-only file system"
            raise StorageError(f"cannot {call} {path}: {reason}")


def every_fault(
    kind: str, root: Callable[[], str], limit: int = 200
) -> Iterator[tuple[int, FaultStorage]]:
    """Storages over a fresh copy of a table each, failing at call 1, 2, ... until none fails.

    The last storage handed out is the one that nothing happened to.
    """
    for number in range(1, limit):
        storage = FaultStorage(LocalStorage.at(root()), kind, number)
        yield number, storage
        if not storage.struck:
            return
    raise AssertionError(f"still failing after {limit} calls")
