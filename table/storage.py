"""The one door to files: a small protocol, and the local file system behind it.

Paths are relative to the storage's root, `/` separated, without a leading slash. Every write of a
table goes through `put`, so that a test can replace the storage and see, fail or stop each one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol

from table.errors import LockHeldError, StorageError
from table.naming import HOODIE, STAGING

# Sections under the guard take milliseconds: this long, their process is stopped.
_GUARD_SECONDS = 60.0
_POLL_SECONDS = 0.002
# Readers ask for many small ranges close to each other: headers, footers, blocks.
_WINDOW_BYTES = 128 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file found by a listing: path relative to the root, size in bytes."""

    path: str
    size: int

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]


class RangeReader(Protocol):
    """Random access to the bytes of one file; what the format readers ask for."""

    @property
    def name(self) -> str:
        """The file's path, for errors."""

    @property
    def size(self) -> int:
        """Length of the file in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from `offset`, or fewer at the end of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesReader:
    """A RangeReader over bytes in memory."""

    name: str
    data: bytes

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.data)

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes of the range, cut at the end."""
        return self.data[offset : offset + length]


@dataclass(slots=True)
class WindowReader:
    """Ranged reads of a file far away; small ones fetch their surroundings at once.

    Attributes:
        name: the file's path.
        size: its length in bytes.
        fetch: bytes of a file that it has, by path, offset and length.
    """

    name: str
    size: int
    fetch: Callable[[str, int, int], bytes]
    _window: tuple[int, bytes] = (0, b"")

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes of the range, cut at the end."""
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        if length >= _WINDOW_BYTES:
            return self.fetch(self.name, offset, length)
        start, data = self._window
        if not start <= offset <= offset + length <= start + len(data):
            # What is read of the end first, a footer, has the rest of it before it.
            start = min(offset, max(0, self.size - _WINDOW_BYTES))
            end = min(self.size, max(offset + length, start + _WINDOW_BYTES))
            data = self.fetch(self.name, start, end - start)
            self._window = start, data
        return data[offset - start : offset - start + length]


class Storage(Protocol):
    """What a table needs of a file system or object store."""

    @property
    def root(self) -> str:
        """The absolute path or URL of the root, as Spark takes it."""

    def open(self, path: str) -> RangeReader:
        """Open a file for ranged reads; FileNotFoundError if absent."""

    def read(self, path: str) -> bytes:
        """The whole content of a file; FileNotFoundError if absent."""

    def put(self, path: str, data: bytes) -> None:
        """Create the file, whole or not at all; FileExistsError if the path exists."""

    def replace(self, path: str, data: bytes) -> None:
        """Write the file, whole or not at all, over what was there."""

    def delete(self, path: str) -> None:
        """Delete a file; nothing if absent."""

    def delete_tree(self, path: str) -> None:
        """Delete a folder with all that is in it; nothing if absent."""

    def list(self, path: str) -> list[FileStatus]:
        """The files directly in a folder, sorted by name; empty if absent."""

    def walk(self, path: str) -> Iterator[FileStatus]:
        """All files below a folder."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that path is there."""

    def sweep(self) -> None:
        """Delete what killed processes left of files that they were putting."""

    def guard(self) -> AbstractContextManager[bool]:
        """Keep all other processes out for a moment; waits for its turn.

        Yields False where nobody can be kept out, and puts if absent are all there is.
        """

    def hold(self, path: str) -> AbstractContextManager[None]:
        """Show that a file's owner is alive, until the end or the death of this process."""

    def held(self, path: str) -> bool:
        """Whether a living process holds the file; True where nobody can tell."""


class Unwatched:
    """The part of a far storage that knows of no processes: the lease does without."""

    __slots__ = ()

    @contextlib.contextmanager
    def hold(self, path: str) -> Iterator[None]:
        """Show nothing."""
        del path
        yield

    def held(self, path: str) -> bool:
        """True: nobody can tell."""
        del path
        return True


def segments(path: str) -> list[str]:
    """The names in a path below a table's folder, where no file system resolves it.

    Raises:
        StorageError: it leads out of the folder.
    """
    names = path.split("/")
    if ".." in names or "." in names or path.startswith("/"):
        raise StorageError(f"path {path!r} leaves the table")
    return names


@dataclass(slots=True)
class _LocalReader:
    """Ranged reads of one local file by pread; the descriptor is closed with the object."""

    name: str
    size: int
    _fd: int

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._fd, length, offset)

    def __reduce__(self) -> NoReturn:
        """Another process would read, and close, what it has open under that number."""
        raise TypeError(f"{self.name} is open in this process and cannot travel to another")

    def __del__(self) -> None:
        os.close(self._fd)


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Tell a file that cannot be read from one that is absent."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """The local file system. Writes are fsynced where `durable` is set.

    A put writes a temporary into the staging folder and links it to its name: the name appears
    with its whole content or not at all, and never over an existing file. A temporary is locked as
    long as its process lives, so that what a killed one left can be told and swept.
    """

    root: str
    durable: bool = False

    @classmethod
    def at(cls, path: str | os.PathLike[str], *, create: bool = False) -> LocalStorage:
        """The storage of a folder given as a path or file URL."""
        path = os.fspath(path)
        if "://" in path and not path.startswith("file://"):
            raise StorageError(f"{path} is not on the local file system")
        root = os.path.abspath(path.removeprefix("file://"))  # noqa: PTH100
        try:
            if create:
                os.makedirs(root, exist_ok=True)  # noqa: PTH103
        except OSError as error:
            raise StorageError(f"cannot create {root}: {error.strerror}") from error
        return cls(root)

    def _path(self, path: str) -> str:
        full = os.path.normpath(f"{self.root}/{path}")
        if full != self.root and not full.startswith(self.root.rstrip("/") + "/"):
            raise StorageError(f"path {path!r} leaves the table")
        return full

    def open(self, path: str) -> RangeReader:
        """Open a file for ranged reads."""
        with _reading(path):
            fd = os.open(self._path(path), os.O_RDONLY)
        return _LocalReader(path, os.fstat(fd).st_size, fd)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        with _reading(path):
            return Path(self._path(path)).read_bytes()

    def put(self, path: str, data: bytes) -> None:
        """Create a file by write-aside and link."""
        with self._written_aside(path, data) as temporary:
            os.link(temporary, self._path(path))

    def replace(self, path: str, data: bytes) -> None:
        """Write a file by write-aside and rename; drops Hadoop's checksum side-car."""
        full = Path(self._path(path))
        with self._written_aside(path, data) as temporary:
            # A stale side-car makes the new content unreadable to Hadoop's local file system.
            (full.parent / f".{full.name}.crc").unlink(missing_ok=True)
            Path(temporary).replace(full)

    @contextlib.contextmanager
    def _written_aside(self, path: str, data: bytes) -> Iterator[str]:
        full = self._path(path)
        staging = self._path(STAGING)
        temporary = ""
        try:
            os.makedirs(staging, exist_ok=True)  # noqa: PTH103
            os.makedirs(os.path.dirname(full), exist_ok=True)  # noqa: PTH103, PTH120
            with _locked_new(staging) as file:
                temporary = file.name
                file.write(data)
                file.flush()
                if self.durable:
                    os.fsync(file.fileno())
                yield temporary
        except FileExistsError:
            raise
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108

    def delete(self, path: str) -> None:
        """Delete a file and its Hadoop checksum side-car."""
        full = Path(self._path(path))
        try:
            full.unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"cannot delete {path}: {error.strerror}") from error
        (full.parent / f".{full.name}.crc").unlink(missing_ok=True)

    def delete_tree(self, path: str) -> None:
        """Delete a folder with all that is in it."""
        shutil.rmtree(self._path(path), ignore_errors=True)

    def list(self, path: str) -> list[FileStatus]:
        """The files directly in a folder, sorted by name."""
        try:
            with os.scandir(self._path(path)) as entries:
                found = [
                    FileStatus(path=f"{path}/{entry.name}" if path else entry.name, size=size)
                    for entry in entries
                    if entry.is_file() and (size := _size(entry)) is not None
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(found, key=lambda status: status.path)

    def walk(self, path: str) -> Iterator[FileStatus]:
        """All files below a folder; symbolic links to folders are not followed."""
        for folder, folders, names in os.walk(self._path(path)):
            folders.sort()
            relative = os.path.relpath(folder, self.root)
            for name in sorted(names):
                try:
                    size = os.lstat(f"{folder}/{name}").st_size
                except FileNotFoundError:
                    continue
                yield FileStatus(path=name if relative == "." else f"{relative}/{name}", size=size)

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that path is there."""
        return Path(self._path(path)).exists()

    def sweep(self) -> None:
        """Delete the temporaries that no living process has locked."""
        for status in self.list(STAGING):
            with contextlib.suppress(FileNotFoundError, LockHeldError), self.hold(status.path):
                self.delete(status.path)

    @contextlib.contextmanager
    def guard(self) -> Iterator[bool]:
        """Hold an flock on the `.hoodie` folder: it ends with the process."""
        folder = self._path(HOODIE)
        try:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103  a table to be created has none
            fd = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise StorageError(f"cannot lock {self.root}: {error.strerror}") from error
        try:
            until = time.monotonic() + _GUARD_SECONDS
            while not _flock(fd):
                if time.monotonic() > until:
                    raise LockHeldError(f"another process keeps {self.root} locked")
                time.sleep(_POLL_SECONDS)
            yield True
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def hold(self, path: str) -> Iterator[None]:
        """Hold an flock on the file."""
        with _reading(path):
            fd = os.open(self._path(path), os.O_RDONLY)
        try:
            if not _flock(fd):
                raise LockHeldError(f"another process holds {path}")
            yield
        finally:
            os.close(fd)

    def held(self, path: str) -> bool:
        """Whether a living process has an flock on the file."""
        try:
            with self.hold(path):
                return False
        except FileNotFoundError:
            return False
        except LockHeldError:
            return True


def _locked_new(folder: str) -> BinaryIO:
    """A new file in a folder, locked.

    A sweep between the two steps has locked or deleted it: then another name is tried, since the
    sweep goes on to delete the first one.
    """
    while True:
        file = open(f"{folder}/{secrets.token_hex(8)}", "xb")  # noqa: PTH123, SIM115  handed out
        if _flock(file.fileno()) and os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


def _size(entry: os.DirEntry[str]) -> int | None:
    """The size of a file found by a listing; None if it was deleted meanwhile."""
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return None


def _flock(fd: int) -> bool:
    """Lock a file exclusively without waiting; False if another has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True
