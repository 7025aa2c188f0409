"""What was written to the local disk and would not survive a power cut yet.

A write puts many files and then one that makes them visible. Syncing each file on its own would
wait for the disk once a file. So a put only notes its file and its folder here, and `sync` writes
all of them out, in parallel, before the file that makes them visible appears.

The notes belong to this process. A Spark task that puts files syncs them before it ends. What a
process has put that died before is noted by the one that counts on it (`Storage.keep`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import google_crc32c

from keymark.table.errors import StorageError
from keymark.table.storage.local_files import read_fully
from keymark.table.storage.spool import Content, pieces

# A disk works on several syncs at once; more threads than this gain nothing.
_THREADS = 16
_NOTHING_STRANGE = os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(slots=True)
class Unsynced:
    """The files and folders below one root that `sync` has to write out.

    A file whose sync failed may have lost data that a second sync would not notice. The next sync
    writes its content again, if that can still be read and has the checksum that it was put with;
    else every sync fails until the file is deleted. A folder is synced again: its entries are in
    the journal of the file system, which accepts nothing more if it lost any.

    Attributes:
        files: path -> CRC32C of the content; None for a file that another process put.
        folders: paths.
        failed: files whose sync failed, as in `files`.
    """

    files: dict[str, int | None] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    failed: dict[str, int | None] = field(default_factory=dict)
    _notes: threading.Lock = field(default_factory=threading.Lock)
    _syncing: threading.Lock = field(default_factory=threading.Lock)

    def note_file(self, file: str, data: Content) -> None:
        """Remember a file whose content is not on the disk yet."""
        checksum = 0
        for piece in pieces(data):
            checksum = google_crc32c.extend(checksum, piece)
        with self._notes:
            self.files[file] = checksum

    def note_found(self, file: str, root: str) -> None:
        """Remember a file that is there, whoever put it, and all folders from the root to it."""
        with self._notes:
            if file not in self.failed:
                self.files.setdefault(file, None)
            while len(file) > len(root):
                file = os.path.dirname(file)  # noqa: PTH120
                self.folders.add(file)

    def note_folders(self, folders: Iterable[str]) -> None:
        """Remember folders whose entries are not on the disk yet."""
        with self._notes:
            self.folders.update(folders)

    def __contains__(self, file: str) -> bool:
        """Whether the content of a file that this process put is not on the disk yet."""
        with self._notes:
            return self.files.get(file, self.failed.get(file)) is not None

    def forget(self, file: str) -> None:
        """Drop a file that was deleted."""
        with self._notes:
            self.files.pop(file, None)
            self.failed.pop(file, None)

    def forget_below(self, folder: str) -> None:
        """Drop all that is in a folder which is about to be deleted."""
        with self._notes:
            below = f"{folder}/"
            for files in (self.files, self.failed):
                for path in [path for path in files if path.startswith(below)]:
                    del files[path]
            self.folders = {
                path for path in self.folders if path != folder and not path.startswith(below)
            }

    def sync(self) -> None:
        """Write everything noted out; a second caller waits until the first is through.

        Raises:
            StorageError: a file or folder cannot be synced.
        """
        with _WAITED.measured(), self._syncing:
            with self._notes:
                files, again, folders = self.files, self.failed, self.folders
                self.files, self.failed, self.folders = {}, {}, set()
            rewritten = {path: _write_again(path, checksum) for path, checksum in again.items()}
            lost = {path: reason for path, reason in rewritten.items() if reason}
            lost |= _sync_all(sorted(files))
            unwritten = _sync_all(sorted(folders))
            with self._notes:
                self.failed |= {path: (again | files)[path] for path in lost}
                self.folders |= unwritten.keys()
                for path, reason in (lost | unwritten).items():
                    raise StorageError(f"cannot sync {path}: {reason}")


@dataclass(slots=True)
class _Waited:
    """How long callers of `sync` have waited; each of several threads and tasks counts."""

    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, seconds: float) -> None:
        with self._lock:
            self.seconds += seconds

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.add(time.monotonic() - started)


_WAITED = _Waited()


def seconds_synced() -> float:
    """Seconds that this process and the Spark tasks that it ran have spent on syncing so far."""
    return _WAITED.seconds


def count_synced(seconds: float) -> None:
    """Add what a Spark task has spent on syncing; the task tells it with its answer."""
    _WAITED.add(seconds)


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
        fd = os.open(path, os.O_RDONLY | _NOTHING_STRANGE)
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


def _write_again(path: str, checksum: int | None) -> str | None:
    """Write a file's own content over itself and sync it; why that failed, as `_sync` tells.

    No reader sees another content. A write marks all of it as to be written to the disk, which a
    failed sync may have ended. Without a checksum nothing tells whether the content is whole.
    """
    try:
        fd = os.open(path, os.O_RDWR | _NOTHING_STRANGE)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror
    try:
        data = read_fully(fd, 0, os.fstat(fd).st_size)
        if google_crc32c.value(data) != checksum:
            return "its content was lost at an earlier sync"
        done = 0
        while done < len(data):
            done += os.pwrite(fd, data[done:], done)
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
