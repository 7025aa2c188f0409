"""Storage calls that fail: at the protocol of `Storage`, and at the operating system below it."""

from __future__ import annotations

import builtins
import contextlib
import errno
import fcntl
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from history_storage import PassingStorage

from keymark.table.errors import FileTakenError, MissingFileError, StorageError
from keymark.table.storage.storage import FileStatus, Obstacle, RangeReader, Storage

ABSENT, TAKEN, REFUSED, LOST, SHORT = "absent", "taken", "refused", "answer lost", "short"
# What each call of the protocol may answer instead of what it was asked for.
_READS = {"open": (REFUSED, ABSENT), "read": (REFUSED, ABSENT, SHORT), "range": (REFUSED, SHORT)}
_CHANGES = {
    "put": (REFUSED, LOST, TAKEN),
    "commit": (REFUSED, LOST, TAKEN),
    "replace": (REFUSED, LOST),
    "delete": (REFUSED, LOST),
}
PROTOCOL = _READS | _CHANGES | {"hold": (REFUSED, ABSENT)}
ERRNOS = ("EACCES", "EIO", "EEXIST", "ESTALE", "ELOOP", "ENOTDIR", "ENOSPC", "ETIMEDOUT")


@dataclass
class Plan:
    """Which calls fail, and how; counts all calls.

    Attributes:
        at: number of the first call that fails; 0 for none.
        until: number of the last one.
        kind: how; a number chooses one of those that a call of the protocol may answer.
        log: the calls so far.
        struck: the calls that failed.
    """

    at: int = 0
    until: int = 0
    kind: str | int = 0
    log: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)

    def fails(self, call: str, path: str) -> bool:
        """Count a call, and say whether it fails."""
        self.log.append(f"{call} {path}")
        failing = self.at <= len(self.log) <= self.until
        if failing:
            self.struck.append(self.log[-1])
        return failing


@dataclass
class FailingStorage(PassingStorage):
    """A storage whose calls fail as planned, each as a store may fail it."""

    plan: Plan = field(default_factory=Plan)

    def _answer(self, call: str, path: str) -> str:
        """How this call fails; "" if it does not."""
        if not self.plan.fails(call, path):
            return ""
        possible = PROTOCOL.get(call, (REFUSED,))
        kind = possible[int(self.plan.kind) % len(possible)]
        if kind == ABSENT:
            raise MissingFileError.of(path)
        if kind == REFUSED:
            raise StorageError(f"cannot {call} {path}: the store timed out")
        return kind

    def open(self, path: str) -> RangeReader:
        self._answer("open", path)
        return _FailingReader(self, self.inner.open(path))

    def read(self, path: str) -> bytes:
        kind = self._answer("read", path)
        data = self.inner.read(path)
        return data[: len(data) // 2] if kind == SHORT else data

    def list(self, path: str) -> list[FileStatus]:
        self._answer("list", path)
        return self.inner.list(path)

    def walk(self, path: str) -> Iterator[FileStatus]:
        self._answer("walk", path)
        yield from self.inner.walk(path)
        self._answer("walk to the end", path)

    def exists(self, path: str) -> bool:
        self._answer("exists", path)
        return self.inner.exists(path)

    def held(self, path: str) -> bool:
        self._answer("held", path)
        return self.inner.held(path)

    def sweep(self) -> None:
        self._answer("sweep", "")
        self.inner.sweep()

    @contextlib.contextmanager
    def guard(self) -> Iterator[bool]:
        self._answer("guard", "")
        with self.inner.guard() as alone:
            yield alone

    @contextlib.contextmanager
    def hold(self, path: str) -> Iterator[None]:
        self._answer("hold", path)
        with self.inner.hold(path):
            yield

    def put(self, path: str, data: bytes) -> None:
        self._change("put", path, lambda: self.inner.put(path, data))

    def commit(self, path: str, data: bytes) -> None:
        self._change("commit", path, lambda: self.inner.commit(path, data))

    def sync(self) -> None:
        self._change("sync", "", self.inner.sync)

    def staged(self, name: str) -> Storage:
        self._answer("staged", name)
        return super().staged(name)

    def survey(self, path: str) -> Iterator[FileStatus | Obstacle]:
        self._answer("survey", path)
        yield from self.inner.survey(path)

    def replace(self, path: str, data: bytes) -> None:
        self._change("replace", path, lambda: self.inner.replace(path, data))

    def delete(self, path: str) -> None:
        self._change("delete", path, lambda: self.inner.delete(path))

    def delete_tree(self, path: str) -> None:
        self._change("delete_tree", path, lambda: self.inner.delete_tree(path))

    def _change(self, call: str, path: str, change: Callable[[], None]) -> None:
        kind = self._answer(call, path)
        if kind in (LOST, TAKEN):
            # The store did it, and the answer to the client's second try is what arrives.
            change()
            if kind == TAKEN:
                raise FileTakenError.of(path)
            raise StorageError(f"cannot {call} {path}: the connection broke")
        change()


@dataclass
class _FailingReader:
    """Ranged reads of a file that fail as planned."""

    storage: FailingStorage
    inner: RangeReader

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def size(self) -> int:
        return self.inner.size

    def read(self, offset: int, length: int) -> bytes:
        kind = self.storage._answer("range", self.inner.name)
        data = self.inner.read(offset, length)
        return data[: len(data) // 2] if kind == SHORT else data


# Functions of `os` that take a path or a descriptor first; those of the first group change nothing.
_FUNCTIONS = (
    *("open", "read", "pread", "readv", "scandir", "listdir", "stat", "lstat", "fstat", "access"),
    *("write", "pwrite", "link", "rename", "replace", "unlink", "remove", "rmdir", "mkdir"),
    *("fsync", "fdatasync", "utime", "ftruncate", "close"),
)
_SHORT = ("read", "pread", "write", "pwrite")
_DONE_FIRST = ("link", "rename", "replace", "unlink", "remove", "rmdir", "mkdir")


@contextlib.contextmanager
def failing_system(root: str, plan: Plan) -> Iterator[None]:
    """Functions of the operating system fail as planned for files below a folder.

    The kind of the plan is a name of `errno`, or "short": half of what a read or write may do. A
    name with `+` behind it does the change first: its answer came twice, as on a network.
    """
    with contextlib.ExitStack() as stack:
        for name in _FUNCTIONS:
            if hasattr(os, name):
                wrapped = _Call(root, plan, name, getattr(os, name))
                stack.enter_context(mock.patch.object(os, name, wrapped))
        flock = _Call(root, plan, "flock", fcntl.flock)
        stack.enter_context(mock.patch.object(fcntl, "flock", flock))
        opening = _Call(root, plan, "open file", io.open)
        stack.enter_context(mock.patch.object(io, "open", opening))
        stack.enter_context(mock.patch.object(builtins, "open", opening))
        yield


@dataclass
class _Call:
    root: str
    plan: Plan
    name: str
    function: Callable[..., Any]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        path = _path_of(arguments[0] if arguments else named.get("path", "."), named.get("dir_fd"))
        if not path.startswith(self.root) or self.name == "close":
            return self.function(*arguments, **named)
        if not self.plan.fails(self.name, path.removeprefix(self.root)):
            return self.function(*arguments, **named)
        kind = str(self.plan.kind)
        if kind == SHORT:
            return self._short(arguments, named)
        if kind.endswith("+") and self.name in _DONE_FIRST:
            self.function(*arguments, **named)
        number = getattr(errno, kind.removesuffix("+"))
        if isinstance(arguments[0], int):
            raise OSError(number, os.strerror(number))
        raise OSError(number, os.strerror(number), path)

    def _short(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Half of what was asked for: the others of these calls are not changed."""
        if self.name in ("read", "pread"):
            fd, length, *rest = arguments
            return self.function(fd, max(1, length // 2), *rest, **named)
        if self.name in ("write", "pwrite"):
            fd, data, *rest = arguments
            return self.function(fd, bytes(data)[: max(1, len(data) // 2)], *rest, **named)
        return self.function(*arguments, **named)


def _path_of(target: Any, folder: int | None) -> str:
    """The path that a call is about; "" for what is none."""
    if hasattr(target, "fileno"):
        target = target.fileno()
    if isinstance(target, int):
        try:
            return str(Path(f"/proc/self/fd/{target}").readlink())
        except OSError:
            return ""
    try:
        path = os.fsdecode(target)
    except TypeError:
        return ""
    if folder is not None:
        return f"{_path_of(folder, None)}/{path}"
    return path
