"""Storages and a clock that make a history the same each time, and watch what it does."""

from __future__ import annotations

import contextlib
import copy
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar
from unittest import mock

from keymark.table.runtime.runner import LocalRunner
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import FileStatus, Obstacle, RangeReader, Storage

T = TypeVar("T")
_START = 1_700_000_000_000
# What is there to be changed: properties are replaced, leases renewed. What a re-sharding to fewer
# shards took out leaves the commit that says so, once it is deleted.
_REPLACED = (".hoodie/hoodie.properties", ".hoodie/hoodie.properties.backup")
_ENDS = (".until", ".replacecommit")


@dataclass
class TickingClock:
    """A clock that goes on by a millisecond whenever somebody looks."""

    ticks: int = 0

    def millis(self) -> int:
        self.ticks += 1
        return _START + self.ticks

    def seconds(self) -> float:
        self.ticks += 1
        return self.ticks / 1000

    def sleep(self, seconds: float) -> None:
        self.ticks += int(seconds * 1000)


@dataclass
class PassingStorage:
    """All calls go to the storage inside."""

    inner: Storage

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
        self.inner.sweep()

    def guard(self) -> AbstractContextManager[bool]:
        return self.inner.guard()

    def hold(self, path: str) -> AbstractContextManager[None]:
        return self.inner.hold(path)

    def held(self, path: str) -> bool:
        return self.inner.held(path)

    def put(self, path: str, data: bytes) -> None:
        self.inner.put(path, data)

    def commit(self, path: str, data: bytes) -> None:
        self.inner.commit(path, data)

    def move(self, source: str, target: str) -> None:
        self.inner.move(source, target)

    def keep(self, path: str) -> None:
        self.inner.keep(path)

    def sync(self) -> None:
        self.inner.sync()

    def survey(self, path: str) -> Iterator[FileStatus | Obstacle]:
        return self.inner.survey(path)

    def staged(self, name: str) -> Storage:
        staged = copy.copy(self)
        staged.inner = self.inner.staged(name)
        return staged

    def replace(self, path: str, data: bytes) -> None:
        self.inner.replace(path, data)

    def delete(self, path: str) -> None:
        self.inner.delete(path)

    def delete_tree(self, path: str) -> None:
        self.inner.delete_tree(path)


@dataclass
class WatchedStorage(PassingStorage):
    """Remembers the content of every file put: none may change afterwards (I10)."""

    contents: dict[str, int] = field(default_factory=dict)

    def put(self, path: str, data: bytes) -> None:
        self.inner.put(path, data)
        self.contents[path] = hash(bytes(data))

    def commit(self, path: str, data: bytes) -> None:
        self.inner.commit(path, data)
        self.contents[path] = hash(bytes(data))

    def replace(self, path: str, data: bytes) -> None:
        assert path in _REPLACED or path.endswith(_ENDS), f"{path} is replaced"
        self.inner.replace(path, data)
        self.contents.pop(path, None)

    def move(self, source: str, target: str) -> None:
        self.inner.move(source, target)
        self.contents[target] = self.contents.pop(source)

    def changed(self) -> list[str]:
        """Files whose content is no longer what was put."""
        found = []
        for path, content in self.contents.items():
            with contextlib.suppress(FileNotFoundError):
                if path not in _REPLACED and hash(self.inner.read(path)) != content:
                    found.append(path)
        return found


@dataclass
class HookStorage(PassingStorage):
    """Calls `work` before the storage calls of those numbers, as soon as nobody holds the lease."""

    points: tuple[int, ...] = ()
    work: Callable[[], None] = lambda: None
    calls: int = 0
    done: int = 0
    _depth: int = 0

    def _count(self) -> None:
        self.calls += 1
        due = self.done < len(self.points) and self.calls >= self.points[self.done]
        if due and not self._depth:
            self.done += 1
            self._depth += 1
            try:
                self.work()
            finally:
                self._depth -= 1

    @contextlib.contextmanager
    def _inside(self, section: AbstractContextManager[T]) -> Iterator[T]:
        with section as entered:
            self._depth += 1
            try:
                yield entered
            finally:
                self._depth -= 1

    def guard(self) -> AbstractContextManager[bool]:
        return self._inside(self.inner.guard())

    def hold(self, path: str) -> AbstractContextManager[None]:
        # A plan says who works on it, and keeps nobody from writing.
        held = self.inner.hold(path)
        return held if path.endswith("plan.json") else self._inside(held)

    def open(self, path: str) -> RangeReader:
        self._count()
        return self.inner.open(path)

    def read(self, path: str) -> bytes:
        self._count()
        return self.inner.read(path)

    def list(self, path: str) -> list[FileStatus]:
        self._count()
        return self.inner.list(path)

    def put(self, path: str, data: bytes) -> None:
        self._count()
        self.inner.put(path, data)

    def commit(self, path: str, data: bytes) -> None:
        self._count()
        self.inner.commit(path, data)

    def delete(self, path: str) -> None:
        self._count()
        self.inner.delete(path)


@contextlib.contextmanager
def same_each_time(rng: random.Random) -> Iterator[None]:
    """One thread instead of many, and file ids by the seed."""

    def identity() -> uuid.UUID:
        return uuid.UUID(int=rng.getrandbits(128), version=4)

    with (
        mock.patch.object(LocalRunner.__init__, "__defaults__", (1,)),
        mock.patch.object(uuid, "uuid4", identity),
    ):
        yield


def watched(root: str) -> WatchedStorage:
    return WatchedStorage(LocalStorage.at(root))
