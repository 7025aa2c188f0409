"""A model of a disk that forgets what was not synced, in any way that a real one may.

It watches the calls to the operating system below one folder and knows for each moment what is on
the disk for certain: the entries of a folder as they were when the folder was synced, the content
of a file once the file was synced. All else may be there or not after a power cut, each entry and
each file on its own; a file that is there may be empty, cut, whole, or full of zeros.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

FOLDER = 0
_STAGING = "/.hoodie/.temp/.put"


@dataclass
class Disk:
    """What is on the disk, and what may be.

    Attributes:
        entries: folder -> name -> number of a file, as last synced; 0 is a folder.
        pending: folder -> changes since then: (name, number), None for a deletion.
        contents: number -> content.
        synced: the numbers of files whose content is on the disk.
    """

    entries: dict[str, dict[str, int]] = field(default_factory=dict)
    pending: dict[str, list[tuple[str, int | None]]] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    synced: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, root: str) -> Disk:
        """All that is below a folder, synced."""
        disk = cls()
        for folder, folders, names in os.walk(root):
            listed = dict.fromkeys(folders, FOLDER)
            for name in names:
                listed[name] = number = len(disk.contents) + 1
                disk.contents[number] = Path(folder, name).read_bytes()
                disk.synced.add(number)
            disk.entries[folder.removeprefix(root)] = listed
        return disk

    def change(self, folder: str, name: str, number: int | None) -> None:
        """A name in a folder means something else from now on."""
        self.pending.setdefault(folder, []).append((name, number))

    def sync_folder(self, folder: str) -> None:
        """The entries of a folder are on the disk."""
        listed = self.entries.setdefault(folder, {})
        _apply(listed, self.pending.pop(folder, []))

    def copy(self) -> Disk:
        """The disk at this moment. Contents never change."""
        entries, pending = copy.deepcopy((self.entries, self.pending))
        return Disk(entries, pending, self.contents, set(self.synced))

    def cut(self, root: str, rng: random.Random) -> None:
        """Write what is left after a power cut to a new folder."""
        kept = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        whole = rng.choice((0.0, 0.5, 1.0))
        left = {}
        for folder in self.entries.keys() | self.pending.keys():
            listed = dict(self.entries.get(folder, {}))
            changes = self.pending.get(folder, [])
            _apply(listed, [change for change in changes if rng.random() < kept])
            left[folder] = listed
        self._write("", root, left, lambda data: _torn(data, whole, rng))

    def _write(
        self,
        folder: str,
        root: str,
        left: dict[str, dict[str, int]],
        tear: Callable[[bytes], bytes],
    ) -> None:
        Path(root + folder).mkdir()
        for name, number in sorted(left.get(folder, {}).items()):
            if number == FOLDER:
                self._write(f"{folder}/{name}", root, left, tear)
                continue
            data = self.contents[number]
            whole = data if number in self.synced else tear(data)
            Path(f"{root}{folder}/{name}").write_bytes(whole)


def _apply(listed: dict[str, int], changes: list[tuple[str, int | None]]) -> None:
    for name, number in changes:
        if number is None:
            listed.pop(name, None)
        else:
            listed[name] = number


def _torn(data: bytes, whole: float, rng: random.Random) -> bytes:
    """What is left of a file that was not synced."""
    if rng.random() < whole:
        return data
    cut = rng.choice((0, 0, rng.randint(0, len(data))))
    return rng.choice((data[:cut], data[:cut] + b"\0" * (len(data) - cut)))


@dataclass
class Watch:
    """Keeps a model up to date while a process works, and moments of it.

    Attributes:
        root: the folder.
        disk: the model.
        rng: chooses the moments.
        keep: how many moments are kept.
        label: what to note with a moment.
        moments: (label, disk) of the moments kept.
        numbers: inode -> number of the file that has it now. Inodes are used again, numbers not.
        synced_aside: inodes of synced files that have no name outside the staging folder yet.
    """

    root: str
    disk: Disk
    rng: random.Random
    keep: int
    label: Any = None
    moments: list[tuple[Any, Disk]] = field(default_factory=list)
    calls: int = 0
    numbers: dict[int, int] = field(default_factory=dict)
    synced_aside: set[int] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def moment(self) -> None:
        """A moment passes. Each has the same chance to be kept."""
        self.calls += 1
        if len(self.moments) < self.keep:
            self.moments.append((self.label, self.disk.copy()))
        elif (place := self.rng.randrange(self.calls)) < self.keep:
            self.moments[place] = (self.label, self.disk.copy())

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the calls of this process."""
        with contextlib.ExitStack() as stack:
            for name in ("link", "replace", "unlink", "mkdir", "rmdir", "rename", "fsync"):
                after = getattr(self, f"_{name}")
                wrapped = self._wrapped(getattr(os, name), after)
                stack.enter_context(mock.patch.object(os, name, wrapped))
            stack.enter_context(mock.patch.object(builtins, "open", self._opening(builtins.open)))
            # In one thread, so that the same seed gives the same moments.
            stack.enter_context(mock.patch("keymark.table.storage.durability._THREADS", 1))
            yield

    def _wrapped(self, function: Callable[..., Any], after: Callable[..., None]) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                paths = [_path(target, named.get("dir_fd")) for target in arguments]
                mine = [p.removeprefix(self.root) for p in paths if p.startswith(self.root)]
                staged = [path for path in mine if path.startswith(_STAGING)]
                if not mine or (staged == mine and function.__name__ != "fsync"):
                    return function(*arguments, **named)
                self.moment()
                found = function(*arguments, **named)
                if mine[-1] in staged and len(mine) == 2:
                    # Moved into the staging folder, to be deleted there.
                    self._unlink(mine[0])
                else:
                    after(*mine)
                return found

        return call

    def _opening(self, function: Callable[..., Any]) -> Any:
        """Nothing below the folder is written in place: new files begin in the staging folder."""

        def call(target: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            path = _path(target, None)
            if path.startswith(self.root) and set(mode) & set("wax+"):
                assert path.startswith(self.root + _STAGING), f"{path} is written in place"
            return function(target, mode, *arguments, **named)

        return call

    def _link(self, source: str, path: str) -> None:
        folder, _, name = path.rpartition("/")
        inode = Path(self.root + path).stat().st_ino
        if source.startswith(_STAGING) or inode not in self.numbers:
            self.numbers[inode] = number = len(self.disk.contents) + 1
            self.disk.contents[number] = Path(self.root + path).read_bytes()
            if inode in self.synced_aside:
                self.synced_aside.discard(inode)
                self.disk.synced.add(number)
        self.disk.change(folder, name, self.numbers[inode])

    _replace = _rename = _link

    def _unlink(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        self.disk.change(folder, name, None)

    def _rmdir(self, path: str) -> None:
        self._unlink(path)

    def _mkdir(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        self.disk.change(folder, name, FOLDER)
        # A folder of that name that was deleted before was another one.
        self.disk.entries.pop(path, None)
        self.disk.pending.pop(path, None)

    def _fsync(self, path: str) -> None:
        full = self.root + path
        if Path(full).is_dir():
            self.disk.sync_folder(path)
        else:
            inode = Path(full).stat().st_ino
            if path.startswith(_STAGING):
                self.synced_aside.add(inode)
            elif inode in self.numbers:
                self.disk.synced.add(self.numbers[inode])


def _path(target: Any, folder: int | None) -> str:
    """The path that a call names; "" for none."""
    if isinstance(target, bool):
        return ""
    if isinstance(target, int):
        with contextlib.suppress(OSError):
            return str(Path(f"/proc/self/fd/{target}").readlink())
        return ""
    if not isinstance(target, (str, os.PathLike)):
        return ""
    path = os.fspath(target)
    return f"{_path(folder, None)}/{path}" if folder is not None else os.path.abspath(path)  # noqa: PTH100
