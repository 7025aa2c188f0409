"""HDFS behind the Storage protocol, through Hadoop's own client in a JVM (table/runtime/jvm.py).

A put writes a temporary, synced on the data nodes, and renames it. FileContext.rename without
OVERWRITE is one step of the name node and refuses an existing destination
(ClientProtocol.rename2); FileSystem.rename would answer false, or move the file into a folder of
that name. Where the answer to a rename is lost, the temporary is deleted: if that finds it, nothing
was renamed, nor ever will be; if not, the file is there.

As on object stores, there are no locks, and it is unknown whether a writer is alive: the lease does
without (table/storage/lease.py).
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from keymark.table.errors import FileTakenError, MissingFileError, StorageError
from keymark.table.layout.naming import HOODIE, KEYMARK, STAGING
from keymark.table.runtime import jvm
from keymark.table.storage.hadoop import SMALL, Hadoop, class_and_message, connect, java_error
from keymark.table.storage.spool import Content, whole
from keymark.table.storage.storage import FileStatus, NoLocking, RangeReader, WindowReader, segments

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_ALL = (1 << 63) - 1
# What is left of a put after that was a dead writer's.
_DEAD_AFTER_MS = 24 * 3600 * 1000
_ABSENT = ("FileNotFoundException", "PathNotFoundException", "ParentNotDirectoryException")
_EXISTS = ("FileAlreadyExistsException",)
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class HadoopStorage(NoLocking):
    """A folder of a file system that Hadoop knows.

    Attributes:
        root: its URL; without a host the one of Hadoop's configuration.
        settings: Hadoop's, by its names of them, over those of the configuration files. They
            may hold secrets, and are neither printed nor compared.
    """

    root: str
    settings: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    def __reduce__(self) -> tuple[Any, ...]:
        """Tasks connect by themselves."""
        return type(self), (self.root, dict(self.settings))

    @property
    def _hadoop(self) -> Hadoop:
        """The connection, shared by all of this process."""
        with _LOCK:
            return connect(self.root, tuple(sorted(self.settings.items())), jvm.gateway())

    def _absolute(self, path: str) -> str:
        names = segments(path)
        folder = self.root.partition("://")[2].partition("/")[2]
        return "/" + "/".join(part for part in (*folder.split("/"), *names) if part)

    def open(self, path: str) -> RangeReader:
        """Open a file for ranged reads."""
        with self._asking("read", path) as (hadoop, file):
            size = hadoop.context.getFileStatus(file).getLen()
        return WindowReader(path, size, self.read_range)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        return self.read_range(path, 0, _ALL)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file from an offset, at most `length`."""
        with self._asking("read", path) as (hadoop, file):
            stream = hadoop.context.open(file)
            try:
                if offset:
                    stream.seek(offset)
                head = bytes(stream.readNBytes(min(length, SMALL)))
                if len(head) < SMALL or length == SMALL:
                    return head
                return head + hadoop.rest(stream, length - SMALL)
            finally:
                stream.close()

    def put(self, path: str, data: Content) -> None:
        """Create a file by a temporary and a rename that refuses an existing file."""
        self._write(path, whole(data), over=False)

    def replace(self, path: str, data: bytes) -> None:
        """Write a file by a temporary and a rename over what was there."""
        self._write(path, data, over=True)

    def move(self, source: str, target: str) -> None:
        """Rename a file; an existing one is refused."""
        try:
            self._rename(source, target, over=False)
        except FileNotFoundError:
            self._make_folder(target)
            self._rename(source, target, over=False)

    def _write(self, path: str, data: bytes, *, over: bool) -> None:
        self._absolute(path)
        temporary = f"{STAGING}/{secrets.token_hex(16)}"
        try:
            with self._asking("write", path, at=temporary) as (hadoop, file):
                hadoop.create(file, data)
        except BaseException:
            with contextlib.suppress(StorageError):
                self.delete(temporary)
            raise
        self._move(temporary, path, data, over=over)

    def _move(self, temporary: str, path: str, data: bytes, *, over: bool) -> None:
        """Rename a temporary, or delete it and raise."""
        try:
            try:
                self._rename(temporary, path, over=over)
            except FileNotFoundError:
                # As a rule its folder is there, and one request is enough.
                self._make_folder(path)
                self._rename(temporary, path, over=over)
        except FileExistsError:
            self.delete(temporary)
            raise
        except StorageError as error:
            why = error
            if isinstance(error, FileNotFoundError):
                why = StorageError(f"cannot write {self.root}/{path}: there is no folder for it")
            self._settle(temporary, path, data, why)

    def _settle(self, temporary: str, path: str, data: bytes, error: Exception) -> None:
        """Return if a rename that raised took place; raise if not, and then it never will."""
        unknown = StorageError(f"{error}; it is unknown whether it was done")
        try:
            taken_back = self._delete(temporary)
            # What is gone was renamed, unless it was taken for a dead writer's.
            done = not taken_back and self.read(path) == data
        except StorageError:
            raise unknown from None
        if not done:
            raise error if taken_back else unknown

    def _rename(self, temporary: str, path: str, *, over: bool) -> None:
        with self._asking("write", path) as (hadoop, file):
            how = hadoop.renames[over]
            hadoop.context.rename(hadoop.path(self._absolute(temporary)), file, how)

    def _make_folder(self, path: str) -> None:
        folder = self._absolute(path).rpartition("/")[0]
        try:
            with self._asking("write", path) as (hadoop, _):
                hadoop.make_folder(hadoop.path(folder))
        except FileExistsError:
            raise StorageError(f"cannot write {self.root}/{path}: its folder is a file") from None

    def delete(self, path: str) -> None:
        """Delete a file; nothing if absent."""
        self._delete(path)

    def _delete(self, path: str, *, tree: bool = False) -> bool:
        """Delete a file; whether it was there."""
        with (
            contextlib.suppress(FileNotFoundError),
            self._asking("delete", path) as (hadoop, file),
        ):
            return bool(hadoop.context.delete(file, tree))
        return False

    def delete_tree(self, path: str) -> None:
        """Delete a folder with all that is in it."""
        self._delete(path, tree=True)

    def list(self, path: str) -> list[FileStatus]:
        """The files directly in a folder, sorted by name."""
        found = [entry.status for entry in self._entries(path) if entry.is_file]
        return sorted(found, key=lambda status: status.path)

    def walk(self, path: str) -> Iterator[FileStatus]:
        """All files below a folder, a folder's own before those of its folders."""
        # Folders may be nested more deeply than calls of Python.
        left = [path]
        while left:
            entries = sorted(self._entries(left.pop()), key=lambda entry: entry.status.path)
            yield from (entry.status for entry in entries if entry.is_file)
            left += [entry.status.path for entry in reversed(entries) if not entry.is_file]

    def _entries(self, path: str) -> Sequence[_Entry]:
        """What is in a folder; nothing where it is absent or a file."""
        folder = self._absolute(path).rstrip("/")
        try:
            with self._asking("list", path) as (hadoop, file):
                listed = hadoop.listing(file)
        except FileNotFoundError:
            return []
        found = []
        for at, size, modified, is_file in listed:
            parent, _, name = at.rpartition("/")
            if parent == folder:
                status = FileStatus(path=f"{path}/{name}" if path else name, size=size)
                found.append(_Entry(status, modified, is_file))
        return found

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that path is there."""
        try:
            with self._asking("read", path) as (hadoop, file):
                hadoop.context.getFileStatus(file)
        except FileNotFoundError:
            return False
        return True

    def time(self, since: int) -> int:
        """The name node's time of the newest file in the `.hoodie` folder, or of one put now."""
        times = [entry.modified for entry in self._entries(HOODIE) if entry.is_file]
        if max(times, default=0) < since:
            folder, name = f"{KEYMARK}/probe", secrets.token_hex(8)
            self.put(f"{folder}/{name}", b"")
            times += [entry.modified for entry in self._entries(folder)]
            self.delete(f"{folder}/{name}")
        return max(times, default=0)

    def sweep(self) -> None:
        """Delete temporaries that are a day old: no writer takes so long over one."""
        old = time.time_ns() // 1_000_000 - _DEAD_AFTER_MS
        for entry in self._entries(STAGING):
            if entry.modified < old:
                self.delete(entry.status.path)

    @contextlib.contextmanager
    def guard(self) -> Iterator[bool]:
        """Lock nothing."""
        yield False

    @contextlib.contextmanager
    def _asking(self, verb: str, path: str, *, at: str = "") -> Iterator[tuple[Hadoop, JavaObject]]:
        """The connection and the path (a Java Path, of `at` if given); one line per error."""
        place = f"{self.root}/{path}"
        try:
            hadoop = self._hadoop
            yield hadoop, hadoop.path(self._absolute(at or path))
        except Exception as error:
            java = java_error(error)
            if isinstance(error, OSError) and not isinstance(error, StorageError):
                # Of a local file that bytes go through: nothing is missing in the file system.
                raise StorageError(f"cannot {verb} {place}: {error.strerror or error}") from error
            if java is None and not isinstance(error, Py4JError):
                raise
            name, words = (
                class_and_message(java) if java is not None else 2 * (type(error).__name__,)
            )
            if name in _ABSENT:
                raise MissingFileError.of(path) from None
            if name in _EXISTS:
                raise FileTakenError.of(path) from None
            raise StorageError(f"cannot {verb} {place}: {words}") from None


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a listing says about a file or folder; modified in epoch milliseconds."""

    status: FileStatus
    modified: int
    is_file: bool
