"""Opening and listing local files so that nothing in a hostile folder is followed or waited for.

A symbolic link below a table's root could lead anywhere, so it is refused. A FIFO, socket or device
is never opened: reading one could block forever.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from keymark.table.errors import MissingFileError, StorageError

NOT_PLAIN = "is not a plain file"
# A folder, and no link to one.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 200
_Raised = tuple[type[BaseException], BaseException, TracebackType]
LINK_REFUSED = "is a symbolic link, which a table must not contain; use a bind mount instead"


@contextlib.contextmanager
def storage_errors(verb: str, path: str) -> Iterator[None]:
    """Turn an OSError into a StorageError that names the path.

    What is below a file is absent. Where no file is in the way, "not a directory" is a failure: a
    folder that is there must not pass for an empty one.
    """
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError.of(path) from error
    except OSError as error:
        itself = verb == "list"
        if isinstance(error, NotADirectoryError) and _below_a_file(error.filename, itself=itself):
            raise MissingFileError.of(path) from error
        raise StorageError(f"cannot {verb} {path}: {error.strerror or error}") from error
    except ValueError as error:
        # A NUL character, or a lone surrogate, in a name.
        raise StorageError(f"cannot {verb} {path!r}: {error}") from error


def _below_a_file(path: object, *, itself: bool) -> bool:
    """Whether an absolute path, or something above it, exists and is not a folder."""
    if not isinstance(path, str):
        return False
    path = path if itself else os.path.dirname(path)  # noqa: PTH120
    while path not in ("", "/"):
        try:
            return not stat.S_ISDIR(os.lstat(path).st_mode)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            path = os.path.dirname(path)  # noqa: PTH120
    return False


def refuse_links(root: str, path: str) -> None:
    """StorageError if a folder on the way from the root to a path is a symbolic link.

    Args:
        root: absolute path of the table; links may lead to it.
        path: absolute, the root or below it.
    """
    end = path.find("/", len(root) + 1)
    while end > 0:
        try:
            mode = os.lstat(path[:end]).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISLNK(mode):
            raise StorageError(f"{path[len(root) + 1 : end]} {LINK_REFUSED}")
        end = path.find("/", end + 1)


def refuse_mounts(root: str, path: str) -> None:
    """StorageError if something is mounted on a folder or below it: that may be the table itself.

    Args:
        root: absolute path of the table.
        path: of the folder, absolute.
    """
    folder = os.path.realpath(path)
    for place in mount_points():
        if f"{place}/".startswith(f"{folder}/"):
            name = os.path.relpath(place, os.path.realpath(root))
            raise StorageError(f"{name} is a mount, and what is mounted is not deleted: unmount it")


def mount_points() -> list[str]:
    """The folders that something is mounted on; Linux alone tells."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except FileNotFoundError:
        return []
    octal = re.compile(rb"\\([0-7]{3})")
    places = (octal.sub(lambda code: bytes([int(code[1], 8)]), line.split()[4]) for line in lines)
    return [os.fsdecode(place) for place in places]


def delete_folder(folder: str) -> list[OSError]:
    """Delete a folder with all that is in it; links in it go, and not what they lead to.

    Returns:
        What could not be deleted, and why.
    """
    failed: list[OSError] = []

    def note(_function: object, _path: str, raised: _Raised) -> None:
        error = raised[1]
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            failed.append(error)

    try:
        shutil.rmtree(folder, onerror=note)
    except RecursionError:
        # Each level is a call of Python's.
        top = os.open(folder, _FOLDER)
        try:
            while _bring_up(top, top, 1):
                pass
        finally:
            os.close(top)
        shutil.rmtree(folder, onerror=note)
    return failed


def _bring_up(top: int, at: int, depth: int) -> bool:
    """Move what is nested deeply below a folder into it; whether there was any.

    Args:
        top: a descriptor of the folder.
        at: of one in it. By descriptors no link is followed that was put there meanwhile.
        depth: of that one.
    """
    with os.scandir(at) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    moved = False
    for name in names:
        if depth == _DEEPEST:
            os.rename(name, secrets.token_hex(8), src_dir_fd=at, dst_dir_fd=top)
            moved = True
            continue
        inner = os.open(name, _FOLDER, dir_fd=at)
        try:
            moved |= _bring_up(top, inner, depth + 1)
        finally:
            os.close(inner)
    return moved


def open_plain(root: str, path: str) -> int:
    """A descriptor for reading a plain file; anything else is refused without waiting."""
    refuse_links(root, path)
    name = path[len(root) + 1 :]
    if os.path.islink(path):  # noqa: PTH114
        raise StorageError(f"{name} {LINK_REFUSED}")
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StorageError(f"{name} {NOT_PLAIN}")
    return fd


def read_fully(fd: int, offset: int, length: int) -> bytes:
    """Exactly `length` bytes from an offset, or fewer at the end of the file."""
    data = os.pread(fd, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]
    done = len(data)
    while done < length and (data := os.pread(fd, length - done, offset + done)):
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def scan(folder: str) -> Iterator[tuple[str, int | None, str | None]]:
    """What is in a folder, sorted by name: name, size of a plain file, why it is neither.

    A folder has neither size nor reason. What is deleted meanwhile is left out.
    """
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield entry.name, None, None
        elif stat.S_ISREG(status.st_mode):
            yield entry.name, status.st_size, None
        elif stat.S_ISLNK(status.st_mode):
            yield entry.name, None, LINK_REFUSED
        else:
            yield entry.name, None, NOT_PLAIN


def newest_time(folder: str, since: int) -> int:
    """The newest time of a plain file in a folder, in epoch milliseconds; 0 without a file.

    A copied file keeps its time of change, so the time at which it was made counts, too.

    Args:
        folder: its absolute path.
        since: a time not before this one is enough.
    """
    newest = 0
    # Instants ascend by name, so that one of the first is mostly new enough.
    for name in sorted(os.listdir(folder), reverse=True):  # noqa: PTH208
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(f"{folder}/{name}")
            if stat.S_ISREG(found.st_mode):
                newest = max(newest, int(max(found.st_mtime, found.st_ctime) * 1000))
        if newest >= since:
            break
    return newest


@dataclass(slots=True)
class LocalReader:
    """Ranged reads of one local file by pread; the descriptor is closed with the object."""

    name: str
    size: int
    _fd: int

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of a range, cut at the end."""
        with storage_errors("read", self.name):
            return read_fully(self._fd, offset, length)

    def foretell(self, offset: int, length: int) -> None:
        """Have bytes read into the system's cache; not every system can be asked."""
        with contextlib.suppress(OSError, AttributeError):
            os.posix_fadvise(self._fd, offset, length, os.POSIX_FADV_WILLNEED)

    def map(self) -> mmap.mmap:
        """The whole file as memory."""
        with storage_errors("read", self.name):
            return mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)

    def __reduce__(self) -> NoReturn:
        """Another process would read, and close, what it has open under that number."""
        raise TypeError(f"{self.name} is open in this process and cannot travel to another")

    def __del__(self) -> None:
        os.close(self._fd)


class NameTakenError(Exception):
    """The name that a file is to get is taken; other FileExistsErrors are failures."""


def link(file: str, name: str) -> None:
    """Give a file a further name; NameTakenError if it is taken."""
    try:
        os.link(file, name)
    except FileExistsError:
        raise NameTakenError from None
