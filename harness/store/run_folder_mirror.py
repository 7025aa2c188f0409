"""Run folders by path or URL. Those of a URL are worked in and read as local folders.

During a run the store gets every block before the next one is measured:

    run.json, stages.jsonl                         whole, whenever they are written
    .parts/<file>/<session>-<offset>               what samples.jsonl, canary.jsonl and the files
                                                   of events/ grew by

The parts of a file that count are those of its last session that has a part at offset 0: a resumed
run begins a session with all that it keeps. Objects appear whole, so a run killed at any moment
loses at most what it was measuring. At the end the files of the folder take the place of the parts.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from keymark.harness.engines import jars
from keymark.harness.errors import RunFolderError
from keymark.harness.store.store import unwatched

if TYPE_CHECKING:
    from keymark.table.storage.storage import FileStatus, Storage

PARTS = ".parts"
_INFO, _STAGES, _SAMPLES, _CANARY = "run.json", "stages.jsonl", "samples.jsonl", "canary.jsonl"
_EVENTS, _UNFINISHED, _WORK = "events/", ".inprogress", "work"
_READ = (_INFO, _STAGES, _SAMPLES, _CANARY)


def is_url(name: str) -> bool:
    """Whether a run folder is on a store, not on this machine's disk."""
    return "://" in name and not name.startswith("file://")


def beside(name: str, other: str) -> str:
    """The path or URL of a folder in the one that a run folder is in."""
    if is_url(name):
        return f"{name.rstrip('/').rpartition('/')[0]}/{other}"
    return str(_path(name).resolve().parent / other)


def local(name: str) -> Path:
    """The path of a run folder or summary for reading; of a URL a copy, without event logs.

    Raises:
        RunFolderError: there is no run folder at that URL.
        StorageError: the store cannot be read.
    """
    if not is_url(name):
        return _path(name)
    if ".." in name.split("/"):
        raise RunFolderError(f"{name} is not the URL of a run folder")
    target = Path(_scratch().name) / name.replace("://", "/").rstrip("/")
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".json"):
        folder, _, file = name.rpartition("/")
        target.write_bytes(_read(_storage(folder), file, name))
        return target
    _fetch(_storage(name), target, lambda file: file in _READ)
    if not (target / _INFO).exists():
        raise RunFolderError(f"{name} is not a run folder: it has no {_INFO}")
    return target


@contextlib.contextmanager
def writing(name: str) -> Iterator[Path]:
    """A folder to write to; at the end, what is in it is on the store if the name is a URL."""
    if not is_url(name):
        yield _path(name)
        return
    with tempfile.TemporaryDirectory(prefix="keymark-") as scratch:
        folder = Path(scratch) / name.rstrip("/").rpartition("/")[2]
        folder.mkdir()
        yield folder
        _put(folder, _storage(name))


@contextlib.contextmanager
def working(name: str | None, *, resume: bool) -> Iterator[tuple[Path | None, Callable[[], None]]]:
    """The folder to run in, and what to call when its files tell more; None is passed through.

    Raises:
        RunFolderError: the URL holds other files, or a process of this machine is at it.
    """
    if name is None or not is_url(name):
        yield (None if name is None else _path(name)), unwatched
        return
    folder = jars.folder().parent / "runs" / hashlib.sha256(name.encode()).hexdigest()[:16]
    with _alone(folder, name):
        mirror = RunFolderMirror(folder, _storage(name))
        mirror.begin(name, resume=resume)
        try:
            yield folder, mirror.keep
        except RunFolderError as error:
            raise RunFolderError(str(error).replace(str(folder), name)) from error
        mirror.finish()
        shutil.rmtree(folder)


@dataclass(slots=True)
class RunFolderMirror:
    """A run folder that a process works in, and what is on the store of it.

    Attributes:
        folder: the run folder.
        storage: where it is kept.
    """

    folder: Path
    storage: Storage
    _session: int = 0
    _kept: dict[str, int] = field(default_factory=dict)
    _whole: dict[str, bytes] = field(default_factory=dict)

    def begin(self, name: str, *, resume: bool) -> None:
        """Make the folder empty but for what is to be resumed, and what that run works with."""
        stored = list(self.storage.walk(""))
        # A run that was killed before it began leaves empty files.
        if any(status.size for status in stored) and not resume:
            raise RunFolderError(f"{name} exists and is not empty; choose another --out")
        for each in self.folder.iterdir() if self.folder.exists() else ():
            if each.is_file():
                each.unlink()
            elif each.name != _WORK or not stored:
                shutil.rmtree(each)
        self.folder.mkdir(parents=True, exist_ok=True)
        if stored:
            _fetch(
                self.storage, self.folder, lambda file: file in _READ or file.startswith(_EVENTS)
            )
            (self.folder / _EVENTS).mkdir(exist_ok=True)
        self._session = 1 + max(
            (part.session for status in stored if (part := _Part.of(status))), default=0
        )

    def keep(self) -> None:
        """Bring the store up to date; samples after the events that they were counted from."""
        events = sorted(path for path in (self.folder / _EVENTS).glob("*") if path.is_file())
        for path in (*events, self.folder / _CANARY, self.folder / _SAMPLES):
            if path.is_file():
                self._grow(str(path.relative_to(self.folder)), path)
        for file in (_STAGES, _INFO):
            path = self.folder / file
            if path.is_file() and (content := path.read_bytes()) != self._whole.get(file):
                self.storage.replace(file, content)
                self._whole[file] = content

    def finish(self) -> None:
        """Put the folder's files in the place of the parts."""
        _put(self.folder, self.storage)
        self._drop_parts("")

    def _grow(self, file: str, path: Path) -> None:
        offset = self._kept.get(file, 0)
        with path.open("rb") as source:
            source.seek(offset)
            added = source.read()
        if added or not offset:
            part = _Part(file=file, session=self._session, offset=offset, size=len(added))
            self.storage.replace(part.path, added)
            if not offset:
                self._drop_parts(file)
        self._kept[file] = offset + len(added)

    def _drop_parts(self, file: str) -> None:
        """Delete what earlier sessions kept of a file; everything where none is named.

        In ascending order: no session counts any more of which a part is gone.
        """
        for status in sorted(self.storage.walk(f"{PARTS}/{file}"), key=lambda each: each.path):
            part = _Part.of(status)
            if not file or (part is not None and part.session < self._session):
                self.storage.delete(status.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A stretch of a file that grows."""

    file: str
    session: int
    offset: int
    size: int

    @property
    def path(self) -> str:
        return f"{PARTS}/{self.file}/{self.session:06d}-{self.offset:015d}"

    @classmethod
    def of(cls, status: FileStatus) -> _Part | None:
        """The part that a file of the store is."""
        file, _, name = status.path.removeprefix(f"{PARTS}/").rpartition("/")
        session, _, offset = name.partition("-")
        if file == status.path or not (session.isdecimal() and offset.isdecimal()):
            return None
        return cls(file=file, session=int(session), offset=int(offset), size=status.size)


def _fetch(storage: Storage, folder: Path, wanted: Callable[[str], bool]) -> None:
    """Copy files of a run folder from a store; of those in parts, what the parts say."""
    stored = list(storage.walk(""))
    parts: dict[str, list[_Part]] = {}
    for status in stored:
        part = _Part.of(status)
        if part is not None:
            parts.setdefault(part.file, []).append(part)
    sources = {
        status.path: [status.path] for status in stored if not status.path.startswith(f"{PARTS}/")
    }
    for file, found in parts.items():
        if counting := _counting(found):
            sources[file] = [part.path for part in counting]
    for file in filter(wanted, sources):
        if file.endswith(_UNFINISHED) and file.removesuffix(_UNFINISHED) in sources:
            continue  # an event log that was renamed when it was complete
        target = folder / file
        if not target.resolve().is_relative_to(folder.resolve()):
            raise RunFolderError(f"{storage.root} holds {file!r}, which is not a file of a run")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as sink:
            for path in sources[file]:
                sink.write(_read(storage, path, f"{storage.root}/{path}"))


def _counting(parts: list[_Part]) -> list[_Part]:
    """The parts that count, in order, as far as they are without a gap."""
    last = max((part.session for part in parts if not part.offset), default=None)
    found, end = [], 0
    for part in sorted(parts, key=lambda part: part.offset):
        if part.session == last and part.offset == end:
            found.append(part)
            end += part.size
    return found


def _put(folder: Path, storage: Storage) -> None:
    """Put the files of a folder; the folders in it take the place of those that were there."""
    files = _files(folder)
    for file in files:
        storage.replace(file, (folder / file).read_bytes())
    for inner in {file.partition("/")[0] for file in files if "/" in file}:
        for status in storage.walk(inner):
            if status.path not in files:
                storage.delete(status.path)


def _files(folder: Path) -> list[str]:
    """Files of a folder, but for hidden ones and those that a run works with."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = (path.relative_to(folder).parts for path in paths)
    return ["/".join(n) for n in names if n[0] != _WORK and not n[-1].startswith(".")]


def _read(storage: Storage, path: str, name: str) -> bytes:
    try:
        return storage.read(path)
    except FileNotFoundError:
        raise RunFolderError(f"{name} is not there") from None


def _path(name: str) -> Path:
    return Path(name.removeprefix("file://"))


@contextlib.contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Keep other processes of this machine out of a folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderError(f"another process works at {name}") from None
        yield


def _storage(url: str) -> Storage:
    from keymark.table.storage.stores import storage_at  # noqa: PLC0415  only where a store is named

    return storage_at(url, {})


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder of this process for what it fetches; it goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="keymark-")
