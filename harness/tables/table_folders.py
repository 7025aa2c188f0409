"""Where the tables under test are: in the run folder, or at a URL with copies in the run folder.

The harness looks at the files of a table without an engine: listings, an independent reading,
copies for repetitions. For a table at a URL it looks at a copy here, which is brought up to date
off the clock before each look. Files on storage are read through the storage object, whatever they
hold: the harness takes bytes from it, and reads them in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from keymark.harness.tables import snapshot
from keymark.harness.tables.probes import Listing
from keymark.table.errors import MissingFileError, StorageError
from keymark.table.properties.options import REQUEST_LOG
from keymark.table.storage import requests
from keymark.table.storage.storage import Storage
from keymark.table.storage.stores import storage_at

_REQUESTS = 8
"""At the same time, to a store."""


class Tables(Protocol):
    """Where tables are; each has a path of its own in the run folder, by which it is known."""

    @property
    def options(self) -> Mapping[str, str]:
        """Options with which an engine of Keymark reaches them and counts its requests."""

    def requests(self) -> Mapping[str, int]:
        """The requests of Keymark's engines so far, by kind; empty where there are none."""

    def of(self, path: Path) -> str:
        """The same folder as engines know it: a path, or a URL."""

    def seen(self, path: Path) -> Path:
        """The path, with the table's files as they are now."""

    def copy(self, source: Path, path: Path) -> None:
        """Make a table of a folder that is somebody's."""

    def restore(self, kept: Path, path: Path) -> None:
        """Make a table as a copy of another one."""

    def remove(self, path: Path) -> None:
        """Delete a table; nothing if there is none."""

    def clear(self) -> None:
        """Delete what is not in the run folder.

        Raises:
            StorageError: the store cannot be reached.
        """


class LocalTables:
    """The run folder: engines write where the harness looks."""

    options: Mapping[str, str] = MappingProxyType({})

    def requests(self) -> Mapping[str, int]:
        """A disk has none."""
        return {}

    def of(self, path: Path) -> str:
        """The path itself."""
        return str(path)

    def seen(self, path: Path) -> Path:
        """The path itself."""
        return path

    def copy(self, source: Path, path: Path) -> None:
        """Copy a folder."""
        snapshot.copy(source, path)

    def restore(self, kept: Path, path: Path) -> None:
        """Copy a table; immutable files are shared."""
        snapshot.restore(kept, path)

    def remove(self, path: Path) -> None:
        """Delete a folder."""
        snapshot.remove(path)

    def clear(self) -> None:
        """There is nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTables:
    """A folder at a URL.

    Attributes:
        url: of the folder; nobody else uses it.
        work: the folder here that holds the copies.
        connection: options of the connection.
        request_log: the folder here where the engines' requests are counted.
    """

    url: str
    work: Path
    connection: Mapping[str, str]
    request_log: Path

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the connection, and the folder for the counts of requests."""
        self.request_log.mkdir(parents=True, exist_ok=True)
        return {**self.connection, REQUEST_LOG: str(self.request_log)}

    def requests(self) -> Mapping[str, int]:
        """What Keymark's engines asked of the store; what the harness asks is not counted."""
        return requests.counted(self.request_log) if self.request_log.is_dir() else {}

    def of(self, path: Path) -> str:
        """The URL of a table."""
        return f"{self.url}/{path.relative_to(self.work).as_posix()}"

    def _storage(self, path: Path) -> Storage:
        return storage_at(self.of(path), self.connection)

    def seen(self, path: Path) -> Path:
        """Fetch what the copy lacks; take away what the table no longer has."""
        storage = self._storage(path)
        there = {status.path: status.size for status in storage.walk("")}
        here = Listing.of(path).sizes
        for name in here.keys() - there.keys():
            (path / name).unlink()

        def fetch(name: str) -> None:
            if not (path / name).resolve().is_relative_to(path.resolve()):
                raise StorageError(f"{storage.root} holds {name!r}, which leads out of the table")
            try:
                data = storage.read(name)
            except MissingFileError:
                if there[name]:
                    raise
                # The mark of an empty folder, whose key ends with a slash.
                (path / name).mkdir(parents=True, exist_ok=True)
                return
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)

        lacking = (
            name
            for name, size in there.items()
            if not (name.endswith(snapshot.IMMUTABLE) and here.get(name) == size)
        )
        _each(fetch, lacking)
        return path

    def copy(self, source: Path, path: Path) -> None:
        """Copy a folder here, and send it."""
        self.remove(path)
        snapshot.copy(source, path)
        self._send(path)

    def restore(self, kept: Path, path: Path) -> None:
        """Copy a table here, as it is now, and send it."""
        self.remove(path)
        snapshot.restore(self.seen(kept), path)
        self._send(path)

    def _send(self, path: Path) -> None:
        storage = self._storage(path)
        _each(
            lambda name: storage.replace(name, (path / name).read_bytes()), Listing.of(path).sizes
        )

    def remove(self, path: Path) -> None:
        """Delete a table and its copy."""
        self._storage(path).delete_tree("")
        snapshot.remove(path)

    def clear(self) -> None:
        """Delete all tables."""
        storage_at(self.url, self.connection).delete_tree("")


def _each(call: Callable[[str], None], names: Iterable[str]) -> None:
    """Do something to each of some files, some at a time."""
    with ThreadPoolExecutor(_REQUESTS) as pool:
        for _ in pool.map(call, names):
            pass
