"""Bytes that grow: in memory while they are few, then in a local file.

A file of the table is put whole, and may be larger than what a task may hold. So it is made here,
and a storage that can copies it piece by piece.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from keymark.table.errors import StorageError
from keymark.table.storage.local_files import storage_errors

_PIECE_BYTES = 1 << 20


class LocalFile:
    """A file on the local disk that has no name: it is gone with the object, or the process.

    Args:
        what: it is for, for errors.

    Raises:
        StorageError: the disk is full; from every method.
    """

    def __init__(self, what: str) -> None:
        folder = _folder()
        self.name = f"the temporary file of {what} in {folder}"
        self.size = 0
        with storage_errors("make", self.name):
            file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            self._file = file

    def __len__(self) -> int:
        return self.size

    def append(self, data: bytes | memoryview | pa.Buffer) -> int:
        """Write a buffer at the end; how many bytes that were."""
        left = memoryview(data).cast("B")
        count = len(left)
        with storage_errors("write", self.name):
            while left:
                done = os.pwrite(self._file.fileno(), left, self.size)
                self.size, left = self.size + done, left[done:]
        return count

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of a range, cut at the end."""
        parts = []
        with storage_errors("read", self.name):
            while length > 0 and (part := os.pread(self._file.fileno(), length, offset)):
                parts.append(part)
                offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


Content = bytes | LocalFile
"""What a file is to hold."""


def pieces(content: Content) -> Iterator[bytes]:
    """The content of a file: bytes at once, a local file a MiB at a time."""
    if not isinstance(content, LocalFile):
        yield content
        return
    for offset in range(0, content.size, _PIECE_BYTES):
        yield content.read(offset, _PIECE_BYTES)


def whole(content: Content) -> bytes:
    """The content in memory, for a storage that takes it in one go."""
    return content.read(0, content.size) if isinstance(content, LocalFile) else content


class Spool:
    """Bytes written one behind the other.

    Args:
        what: they are, for errors.
        memory: how many of them stay in memory; None for all.
    """

    def __init__(self, what: str, memory: int | None = None) -> None:
        self._memory = memory
        self._what = what
        self._held = io.BytesIO()
        self._file: LocalFile | None = None

    def tell(self) -> int:
        """How many bytes there are."""
        return self._held.tell() if self._file is None else self._file.size

    def write(self, data: bytes) -> int:
        """Append bytes; how many.

        Raises:
            StorageError: the local disk is full.
        """
        if self._file is not None:
            return self._file.append(data)
        if self._memory is None or self._held.tell() + len(data) <= self._memory:
            return self._held.write(data)
        self._file = LocalFile(self._what)
        self._file.append(self._held.getbuffer())
        self._held = io.BytesIO()
        return self._file.append(data)

    def content(self) -> Content:
        """All of it."""
        # Unlike a join of pieces, this hands out the buffer itself.
        return self._held.getvalue() if self._file is None else self._file


def _folder() -> str:
    """Where Spark has its own temporary files, else where the system has them."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    if os.path.isdir(given):  # noqa: PTH112
        return given
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        # Python has tried to write to each: their disk may be full. No file of a table is missing.
        raise StorageError(f"cannot make temporary files: {error.strerror}") from error
