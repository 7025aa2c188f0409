"""The local file system behind the Storage protocol."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from keymark.table.errors import (
    FileTakenError,
    LeaseLostError,
    LockHeldError,
    MissingFileError,
    StorageError,
)
from keymark.table.layout.naming import BUILD, HOODIE, LEASE, RESHARD, STAGING, TEMP
from keymark.table.storage.durability import unsynced
from keymark.table.storage.local_files import (
    LINK_REFUSED,
    NOT_PLAIN,
    LocalReader,
    NameTakenError,
    delete_folder,
    link,
    newest_time,
    open_plain,
    read_fully,
    refuse_links,
    refuse_mounts,
    scan,
    storage_errors,
)
from keymark.table.storage.spool import Content, pieces
from keymark.table.storage.storage import FileStatus, Obstacle, RangeReader

# Sections under the guard take milliseconds: this long, their process is stopped.
_GUARD_SECONDS = 60.0
_POLL_SECONDS = 0.002
# Staging folders that are being deleted.
_GONE = ".gone-"


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """The local file system.

    A put writes a temporary into the staging folder and links it to its name: the name appears
    with its whole content or not at all, and never over an existing file. A temporary is locked as
    long as its process lives, so that what a killed one left is recognized and swept.

    Symbolic links below the root are refused, whatever is asked of them.

    Attributes:
        root: absolute path of the folder.
        durable: whether what a commit makes visible survives a power cut (durability.py).
        staging: the folder for temporaries, relative to the root. One that `staged` made is never
            made again: without it, puts fail.
    """

    root: str
    durable: bool = True
    staging: str = STAGING

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], *, create: bool = False, durable: bool = True
    ) -> LocalStorage:
        """The storage of a folder given as a path or file URL."""
        path = os.fspath(path)
        if "://" in path and not path.startswith("file://"):
            raise StorageError(f"{path} is not on the local file system")
        root = os.path.abspath(path.removeprefix("file://"))  # noqa: PTH100
        storage = cls(root, durable)
        if create:
            try:
                storage._make_folder(root)
            except (OSError, ValueError) as error:
                raise StorageError(f"cannot create {root}: {error}") from error
        return storage

    def _path(self, path: str) -> str:
        full = os.path.normpath(f"{self.root}/{path}")
        if full != self.root and not full.startswith(self.root.rstrip("/") + "/"):
            raise StorageError(f"path {path!r} leaves the table")
        return full

    def open(self, path: str) -> RangeReader:
        """Open a file for ranged reads."""
        with storage_errors("read", path):
            fd = open_plain(self.root, self._path(path))
            return LocalReader(path, os.fstat(fd).st_size, fd)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        with storage_errors("read", path):
            fd = open_plain(self.root, self._path(path))
            try:
                return read_fully(fd, 0, os.fstat(fd).st_size)
            finally:
                os.close(fd)

    def put(self, path: str, data: Content) -> None:
        """Create a file by write-aside and link."""
        full = self._path(path)
        with self._written_aside(path, data) as temporary:
            try:
                link(temporary, full)
            except NameTakenError:
                # Who put it may have died before it was synced.
                if self._lasts(path):
                    self.keep(path)
                raise
            if self._lasts(path):
                # An empty file has no content to lose: its folder's entry is all of it.
                if len(data):
                    unsynced(self.root).note_file(full, data)
                unsynced(self.root).note_folders([os.path.dirname(full)])  # noqa: PTH120

    def commit(self, path: str, data: bytes) -> None:
        """Sync what was put before and the content of the file, name it, sync its folder."""
        full, known = self._path(path), unsynced(self.root)
        with self._written_aside(path, data) as temporary:
            if self.durable and len(data):
                known.note_file(temporary, data)
            try:
                self.sync()
            finally:
                known.forget(temporary)
            link(temporary, full)
        known.note_folders([os.path.dirname(full)])  # noqa: PTH120
        self.sync()

    def replace(self, path: str, data: bytes) -> None:
        """Write a file by write-aside and rename; drops Hadoop's checksum side-car."""
        full = Path(self._path(path))
        lasts = self._lasts(path)
        if lasts:
            self.sync()
        with self._written_aside(path, data, sync=lasts) as temporary:
            # A stale side-car makes the new content unreadable to Hadoop's local file system.
            (full.parent / f".{full.name}.crc").unlink(missing_ok=True)
            Path(temporary).replace(full)
        if lasts:
            unsynced(self.root).note_folders([str(full.parent)])
            self.sync()

    def move(self, source: str, target: str) -> None:
        """Link a file, and unlink its former name."""
        at, full = self._path(source), self._path(target)
        with storage_errors("write", target):
            refuse_links(self.root, at)
            refuse_links(self.root, full)
            self._make_folder(os.path.dirname(full))  # noqa: PTH120
            try:
                link(at, full)
            except NameTakenError:
                raise FileTakenError.of(target) from None
            os.unlink(at)  # noqa: PTH108
        unsynced(self.root).note_folders([os.path.dirname(full)])  # noqa: PTH120

    def keep(self, path: str) -> None:
        """Note a file and the folders above it; links, pipes and folders are left alone."""
        full = Path(self._path(path))
        with storage_errors("read", path):
            if self.durable and full.is_file() and not full.is_symlink():
                unsynced(self.root).note_found(str(full), self.root)

    def sync(self) -> None:
        """Sync every file and folder that this process changed since the last time."""
        if self.durable:
            unsynced(self.root).sync()

    def _lasts(self, path: str) -> bool:
        """Whether a file has to survive a power cut.

        A lease ends with its process anyway, and markers are of no use after the commit. A build
        sees what is wrong with its own files, and begins anew. What a re-sharding makes is moved
        into the metadata table as it is.
        """
        passing = path.startswith((f"{LEASE}/", f"{TEMP}/", f"{BUILD}/"))
        return self.durable and (not passing or path.startswith(f"{RESHARD}/"))

    @contextlib.contextmanager
    def _written_aside(self, path: str, data: Content, *, sync: bool = False) -> Iterator[str]:
        """A new file in the staging folder with that content; it is gone at the end."""
        full, staging = self._path(path), self._path(self.staging)
        temporary = ""
        try:
            refuse_links(self.root, full)
            refuse_links(self.root, f"{staging}/")
            if self.staging == STAGING:
                self._make_folder(staging)
            with _locked_new(staging) as file:
                temporary = file.name
                self._make_folder(os.path.dirname(full))  # noqa: PTH120
                for piece in pieces(data):
                    file.write(piece)
                file.flush()
                if sync and len(data):
                    os.fsync(file.fileno())
                yield temporary
        except StorageError:
            raise
        except NameTakenError:
            raise FileTakenError.of(path) from None
        except FileNotFoundError as error:
            self._check_staging("write", path)
            raise StorageError(f"cannot write {path}: a folder was deleted meanwhile") from error
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror}") from error
        except ValueError as error:
            raise StorageError(f"cannot write {path!r}: {error}") from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108

    def _check_staging(self, verb: str, path: str) -> None:
        """LeaseLostError where the staging folder is gone: its owner may change nothing more."""
        if self.staging != STAGING and not os.path.isdir(self._path(self.staging)):  # noqa: PTH112
            raise LeaseLostError(f"cannot {verb} {path}: another writer took the table over")

    def _make_folder(self, folder: str) -> None:
        """Make a folder and those above it; whatever is new has to be synced."""
        made = []
        while not os.path.isdir(folder):  # noqa: PTH112
            made.append(folder)
            folder = os.path.dirname(folder)  # noqa: PTH120
        for new in reversed(made):
            with contextlib.suppress(FileExistsError):
                os.mkdir(new)  # noqa: PTH102
        lasting = [new for new in made if self._lasts(f"{new[len(self.root) + 1 :]}/")]
        if lasting:
            above = {os.path.dirname(new) for new in lasting}  # noqa: PTH120
            unsynced(self.root).note_folders(above.union(lasting))

    def delete(self, path: str) -> None:
        """Delete a file and its Hadoop checksum side-car.

        What was put before lasts first: it may be the reason for which this file goes. A file of
        which nothing is on the disk yet was put by this writer, who takes it back.
        """
        full = Path(self._path(path))
        known, lasts = unsynced(self.root), self._lasts(path)
        with contextlib.suppress(MissingFileError), storage_errors("delete", path):
            refuse_links(self.root, str(full))
            if lasts and str(full) not in known and known.files:
                known.sync()
            try:
                self._unlink(path, full)
            finally:
                # Noted before, it could be taken by a sync of another thread that comes too early.
                if lasts:
                    known.note_folders([str(full.parent)])
            known.forget(str(full))
            (full.parent / f".{full.name}.crc").unlink(missing_ok=True)

    def _unlink(self, path: str, full: Path) -> None:
        """Delete a file. The holder of a lease moves it into its staging folder first.

        That is one step, and it fails once a successor took the folder away.
        """
        if self.staging == STAGING:
            full.unlink()
            return
        aside = Path(f"{self._path(self.staging)}/{secrets.token_hex(8)}")
        try:
            full.rename(aside)
        except FileNotFoundError:
            self._check_staging("delete", path)
            raise
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # A full disk may have no room for a name; a delete must go on there.
            self._check_staging("delete", path)
            full.unlink()
            return
        aside.unlink()

    def _moved_aside(self, path: str, full: str) -> str:
        """Where a folder is now that is to be deleted, as `_unlink` does with a file."""
        if self.staging == STAGING or not os.path.isdir(full):  # noqa: PTH112
            return full
        aside = f"{self._path(self.staging)}/{secrets.token_hex(8)}"
        try:
            os.rename(full, aside)  # noqa: PTH104
        except FileNotFoundError:
            self._check_staging("delete", path)
            return full
        return aside

    def delete_tree(self, path: str) -> None:
        """Delete a folder with all that is in it; links in it go, and not what they lead to."""
        full = self._path(path)
        known = unsynced(self.root)
        known.forget_below(full)
        lasts = self._lasts(f"{path}/")
        if lasts:
            known.sync()
        with storage_errors("delete", path):
            refuse_links(self.root, f"{full}/")
            refuse_mounts(self.root, full)
            try:
                failed = delete_folder(self._moved_aside(path, full))
            finally:
                if lasts:
                    known.note_folders([os.path.dirname(full)])  # noqa: PTH120
            if failed:
                raise failed[0]

    def list(self, path: str) -> list[FileStatus]:
        """The files directly in a folder, sorted by name."""
        full, found, entries = self._path(path), [], []
        with contextlib.suppress(MissingFileError), storage_errors("list", path):
            refuse_links(self.root, f"{full}/")
            entries = list(scan(full))
        for name, size, reason in entries:
            place = f"{path}/{name}" if path else name
            if size is not None:
                found.append(FileStatus(path=place, size=size))
            elif reason == LINK_REFUSED:
                raise StorageError(f"{place} {reason}")
        return found

    def walk(self, path: str) -> Iterator[FileStatus]:
        """All files below a folder; links and unreadable folders are a StorageError."""
        for found in self.survey(path):
            if isinstance(found, FileStatus):
                yield found
            elif found.reason != NOT_PLAIN:
                raise StorageError(f"{found.path} {found.reason}")

    def survey(self, path: str) -> Iterator[FileStatus | Obstacle]:
        """All files below a folder, and what cannot be looked into."""
        left = [path]  # folders may be nested more deeply than calls of Python
        while left:
            folder, folders = left.pop(), []
            full = self._path(folder)
            try:
                with storage_errors("list", folder):
                    refuse_links(self.root, f"{full}/")
                    entries = list(scan(full))
            except FileNotFoundError:
                continue
            except StorageError as error:
                reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else error
                yield Obstacle(path=folder, reason=f"cannot be listed: {reason}")
                continue
            for name, size, reason in entries:
                place = f"{folder}/{name}" if folder else name
                if size is not None:
                    yield FileStatus(path=place, size=size)
                elif reason is not None:
                    yield Obstacle(path=place, reason=reason)
                else:
                    folders.append(place)
            left += reversed(folders)

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that path is there."""
        full = self._path(path)
        try:
            with storage_errors("read", path):
                refuse_links(self.root, full)
                os.lstat(full)
        except FileNotFoundError:
            return False
        return True

    def sweep(self) -> None:
        """Delete staging folders of earlier names, and temporaries that no process has locked."""
        staging, entries = self._path(STAGING), []
        with contextlib.suppress(MissingFileError), storage_errors("list", STAGING):
            entries = list(scan(staging))
        for name, size, _ in entries:
            path = f"{STAGING}/{name}"
            if size is not None:
                with contextlib.suppress(FileNotFoundError, LockHeldError), self.hold(path):
                    self.delete(path)
            elif path < self.staging:
                self._remove_staging(path)

    def _remove_staging(self, path: str) -> None:
        """Take a staging folder away: renamed first, so that no put finds its temporary."""
        gone = f"{STAGING}/{_GONE}{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError), storage_errors("delete", path):
            os.rename(self._path(path), self._path(gone))  # noqa: PTH104
        # What cannot be deleted is out of the way; the next sweep tries again.
        with contextlib.suppress(StorageError):
            self.delete_tree(gone)

    def time(self, since: int) -> int:
        """The newest time of a file in the `.hoodie` folder, or of one that is written now."""
        folder, newest = self._path(HOODIE), 0
        with contextlib.suppress(MissingFileError), storage_errors("list", HOODIE):
            refuse_links(self.root, f"{folder}/")
            newest = newest_time(folder, since)
        if not newest:
            with (
                storage_errors("list", HOODIE),
                tempfile.TemporaryFile(dir=self.root) as file,
            ):
                newest = int(os.fstat(file.fileno()).st_mtime * 1000)
        return newest

    def staged(self, name: str) -> LocalStorage:
        """A storage whose puts stage in a folder of their own, made here and never again."""
        staging = f"{STAGING}/{name}"
        with storage_errors("write", staging):
            refuse_links(self.root, self._path(staging))
            self._make_folder(self._path(staging))
        return replace(self, staging=staging)

    @contextlib.contextmanager
    def guard(self) -> Iterator[bool]:
        """Hold an flock on the `.hoodie` folder: it ends with the process."""
        folder = self._path(HOODIE)
        try:
            refuse_links(self.root, f"{folder}/")
            # A table to be created has none.
            self._make_folder(folder)
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
        with storage_errors("read", path):
            fd = open_plain(self.root, self._path(path))
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
    sweep will delete the first one.
    """
    while True:
        path = f"{folder}/{secrets.token_hex(8)}"
        file = open(path, "xb")  # noqa: PTH123, SIM115  handed out
        try:
            if _flock(file.fileno()) and os.fstat(file.fileno()).st_nlink:
                return file
        except BaseException:
            file.close()
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108
            raise
        file.close()


def _flock(fd: int) -> bool:
    """Lock a file exclusively without waiting; False if another has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise StorageError(f"cannot lock a file: {error.strerror}") from error
    return True
