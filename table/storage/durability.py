"""What was written to the local disk and would not survive a power cut yet.

A write puts many files and then one that makes them visible. Syncing each file on its own would
wait for the disk once a file. So a put only notes its file and its folder here, and `sync` writes
all of them out, in parallel, before the file that makes them visible appears.

The notes belong to this process. A Spark task that puts files syncs them before it ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from keymark.table.errors import StorageError

# A disk works on several syncs at once; more threads than this gain nothing.
_THREADS = 16


@dataclass(slots=True)
class Unsynced:
    """The files and folders below one root that `sync` has to write out.

    A file whose sync failed may have lost data that a second sync would not notice. It stays in
    `failed`, and every sync fails, until the file is deleted. A folder is synced again: its entries
    are in the journal of the file system, which accepts nothing more if it lost any.
    """

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    _notes: threading.Lock = field(default_factory=threading.Lock)
    _syncing: threading.Lock = field(default_factory=threading.Lock)

    def note(self, *, file: str | None = None, folders: Iterable[str] = ()) -> None:
        """Remember a file whose content, and folders whose entries, are not on the disk yet."""
        with self._notes:
            if file is not None:
                self.files.add(file)
            self.folders.update(folders)

    def forget(self, file: str) -> bool:
        """Drop a file that is about to be deleted; whether it was noted here."""
        with self._notes:
            noted = file in self.files or file in self.failed
            self.files.discard(file)
            self.failed.pop(file, None)
            return noted

    def forget_below(self, folder: str) -> None:
        """Drop all that is in a folder which is about to be deleted."""
        with self._notes:
            below = f"{folder}/"
            self.files = {path for path in self.files if not path.startswith(below)}
            self.folders = {
                path for path in self.folders if path != folder and not path.startswith(below)
            }
            for path in [path for path in self.failed if path.startswith(below)]:
                del self.failed[path]

    def sync(self) -> None:
        """Write everything noted out; a second caller waits until the first is through.

        Raises:
            StorageError: a file or folder cannot be synced, now or at an earlier call.
        """
        with self._syncing:
            with self._notes:
                files, folders = self.files, self.folders
                self.files, self.folders = set(), set()
            lost, unwritten = _sync_all(sorted(files)), _sync_all(sorted(folders))
            with self._notes:
                self.failed |= lost
                self.folders |= unwritten.keys()
                for path, reason in (self.failed | unwritten).items():
                    raise StorageError(f"cannot sync {path}: {reason}")


def _sync_all(paths: list[str]) -> dict[str, str]:
    """Sync files or folders; what could not be synced, and why."""
    if len(paths) < 2:
        reasons = [_sync(path) for path in paths]
    else:
        with ThreadPoolExecutor(min(len(paths), _THREADS)) as pool:
            reasons = list(pool.map(_sync, paths))
    return {path: reason for path, reason in zip(paths, reasons, strict=True) if reason}


def _sync(path: str) -> str | None:
    """Sync one file or folder; why it failed, None if it did not or the path is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror
    try:
        os.fsync(fd)
    except OSError as error:
        return error.strerror
    finally:
        os.close(fd)
    return None


_BY_ROOT: dict[str, Unsynced] = {}
_REGISTER = threading.Lock()


def unsynced(root: str) -> Unsynced:
    """The notes of this process for a root."""
    with _REGISTER:
        return _BY_ROOT.setdefault(root, Unsynced())


def sync_all() -> None:
    """Sync what this process wrote below any root: the end of a task."""
    with _REGISTER:
        known = list(_BY_ROOT.values())
    for each in known:
        each.sync()
