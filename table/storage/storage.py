"""The one door to files: a small protocol.

Paths are relative to the storage's root, `/` separated, without a leading slash. Every write of a
table goes through `put`, so that a test can replace the storage and see, fail or stop each one.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from keymark.table.errors import StorageError
from keymark.table.storage.spool import Content

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A place that a listing cannot look into, and why: unreadable, a link, no plain file."""

    path: str
    reason: str


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


@runtime_checkable
class Mappable(RangeReader, Protocol):
    """A file that can be read as memory: pages of it are fetched when they are looked at."""

    def map(self) -> mmap.mmap:
        """The whole file; not for an empty one."""


@runtime_checkable
class Foretold(RangeReader, Protocol):
    """A file whose system fetches announced stretches while its reader does something else."""

    def foretell(self, offset: int, length: int) -> None:
        """Say that bytes will be read soon; says nothing about whether they are there."""


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


@contextlib.contextmanager
def bytes_of_file(file: RangeReader) -> Iterator[memoryview]:
    """All bytes of a file: mapped where it is on a local disk, else read."""
    if not isinstance(file, Mappable) or not file.size:
        yield memoryview(file.read(0, file.size))
        return
    mapped = file.map()
    try:
        yield memoryview(mapped)
    finally:
        # Where a part of it is still in use, as by an error, the system takes it back later.
        with contextlib.suppress(BufferError):
            mapped.close()


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


@runtime_checkable
class ReadsRanges(Protocol):
    """A storage far away: opening a file there is a request for its size."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file that it has."""


@runtime_checkable
class DeletesListed(Protocol):
    """A storage without folders: it lists what is in one, and deletes that by its names."""

    def delete_listed(self, path: str, check: Callable[[], None]) -> None:
        """As `Storage.delete_tree`; `check` is called before each request to delete."""


class Storage(Protocol):
    """What a table needs of a file system or object store.

    Every call that fails raises a StorageError that names the path.
    """

    @property
    def root(self) -> str:
        """The absolute path or URL of the root, as Spark takes it."""

    def open(self, path: str) -> RangeReader:
        """Open a file for ranged reads; MissingFileError if absent."""

    def read(self, path: str) -> bytes:
        """The whole content of a file; MissingFileError if absent."""

    def put(self, path: str, data: Content) -> None:
        """Create the file, whole or not at all; FileTakenError if the path exists."""

    def commit(self, path: str, data: bytes) -> None:
        """Like `put`, for the file that makes what was put before it visible.

        All of that survives a power cut before the file appears, and so does the file before this
        returns.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Write the file, whole or not at all, over what was there; survives a power cut."""

    def move(self, source: str, target: str) -> None:
        """Give a file another path; FileTakenError if that exists.

        Its content was synced before; where it is survives a power cut with the next commit. A
        failure may leave the file in both places.
        """

    def keep(self, path: str) -> None:
        """Have a file that is there survive a power cut from the next commit on.

        The process that put it may have died before it synced it, or may have put it as one of
        those that need not last. A `put` that finds its path taken does this by itself.
        """

    def sync(self) -> None:
        """Make all that this process put and deleted survive a power cut."""

    def delete(self, path: str) -> None:
        """Delete a file; nothing if absent."""

    def delete_tree(self, path: str) -> None:
        """Delete a folder with all that is in it; nothing if absent."""

    def list(self, path: str) -> list[FileStatus]:
        """The files directly in a folder, sorted by name; empty if absent."""

    def walk(self, path: str) -> Iterator[FileStatus]:
        """All files below a folder; StorageError where they cannot be listed."""

    def survey(self, path: str) -> Iterator[FileStatus | Obstacle]:
        """All files below a folder, and every place that could hide one."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that path is there."""

    def sweep(self) -> None:
        """Delete what others left of files that they were putting.

        Call it under the table's lease: all others that staged puts lost the lease or are dead.
        """

    def staged(self, name: str) -> Storage:
        """The same storage for one holder of the lease, whose puts fail once another sweeps.

        Where puts need no staging, this storage itself.
        """

    def guard(self) -> AbstractContextManager[bool]:
        """Keep all other processes out for a moment; waits for its turn.

        Yields False where there are no locks and a put can only be made conditional.
        """

    def hold(self, path: str) -> AbstractContextManager[None]:
        """Show that a file's owner is alive, until the end or the death of this process."""

    def held(self, path: str) -> bool:
        """Whether a living process holds the file; True where it is not known."""


@runtime_checkable
class Dated(Protocol):
    """A storage that can say what time it is by its own files or clock."""

    def time(self, since: int) -> int:
        """The newest time that the storage tells, in epoch milliseconds.

        A time not before `since` is enough: then nothing more is asked.
        """


class NoLocking:
    """What all far storages have in common.

    They know of no processes, so the lease does without. What they acknowledge survives a power
    cut, and a put needs no staging folder of ours.
    """

    __slots__ = ()

    def commit(self: Storage, path: str, data: bytes) -> None:
        """Put the file."""
        self.put(path, data)

    def keep(self, path: str) -> None:
        """Nothing to do."""

    def sync(self) -> None:
        """Nothing to do."""

    def survey(self: Storage, path: str) -> Iterator[FileStatus | Obstacle]:
        """All files below a folder."""
        yield from self.walk(path)

    def staged(self: Storage, name: str) -> Storage:
        """This storage."""
        del name
        return self

    @contextlib.contextmanager
    def hold(self, path: str) -> Iterator[None]:
        """Show nothing."""
        del path
        yield

    def held(self, path: str) -> bool:
        """True: it is not known."""
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
