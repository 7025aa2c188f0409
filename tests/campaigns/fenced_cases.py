"""What the campaigns of writers that lost the table share: a far storage, readings, left-overs."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hudi import HudiTableBuilder
from table_cases import SHARDS, SMALL_BLOOMS, data_rows

from keymark import Table
from keymark.table.layout.naming import (
    HOODIE,
    LEASE,
    METADATA,
    PROPERTIES,
    parse_base_file,
    parse_log_file,
)
from keymark.table.properties.config import load_config
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import BytesReader, FileStatus, NoLocking, RangeReader, Storage
from keymark.table.timeline.archived import decode_archive
from keymark.table.timeline.timeline import Timeline

OPTIONS = {
    **SHARDS,
    **SMALL_BLOOMS,
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}


@dataclass
class SteadyClock:
    """A clock that goes on by a millisecond whenever somebody looks, and by sleeping."""

    now: float = 1_700_000_000.0

    def millis(self) -> int:
        self.now += 0.001
        return int(self.now * 1000)

    def seconds(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class FarStorage(NoLocking):
    """A store in memory: nobody can be kept out, no process is known, a put is one request."""

    root: str
    files: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Any) -> FarStorage:
        found = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        return cls(f"far://{folder.name}", {p: d for p, d in found.items() if LEASE not in p})

    def copy(self) -> FarStorage:
        return FarStorage(self.root, dict(self.files))

    def state(self) -> Any:
        return frozenset((path, id(data)) for path, data in self.files.items())

    def open(self, path: str) -> RangeReader:
        return BytesReader(name=path, data=self.read(path))

    def read(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def put(self, path: str, data: bytes) -> None:
        if path in self.files:
            raise FileExistsError(path)
        self.files[path] = bytes(data)

    def replace(self, path: str, data: bytes) -> None:
        self.files[path] = bytes(data)

    def move(self, source: str, target: str) -> None:
        self.put(target, self.read(source))
        self.delete(source)

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def delete_tree(self, path: str) -> None:
        for name in [name for name in self.files if name.startswith(f"{path}/")]:
            del self.files[name]

    def list(self, path: str) -> list[FileStatus]:
        prefix = f"{path}/" if path else ""
        return [s for s in self.walk(path) if "/" not in s.path[len(prefix) :]]

    def walk(self, path: str) -> Iterator[FileStatus]:
        prefix = f"{path}/" if path else ""
        found = sorted(name for name in self.files if name.startswith(prefix))
        return iter([FileStatus(path=name, size=len(self.files[name])) for name in found])

    def exists(self, path: str) -> bool:
        return path in self.files or any(name.startswith(f"{path}/") for name in self.files)

    def sweep(self) -> None:
        pass

    @contextlib.contextmanager
    def guard(self) -> Iterator[bool]:
        yield False


def rows_of(storage: Storage) -> dict[str, Any]:
    """The rows that Keymark reads; a key that comes twice is an error."""
    table = Table(storage, OPTIONS)
    if table.config.stores_meta:
        return data_rows(table)
    found: dict[str, Any] = {}
    for part in table.scan().tables():
        for row in part.to_pylist():
            assert row["k"] not in found, f"{row['k']} comes twice"
            found[row["k"]] = row["v"]
    return found


def hudi_rs_keys(root: str) -> Counter[str]:
    """How often hudi-rs reads each key, by the column that it is made of."""
    keys: Counter[str] = Counter()
    for batch in HudiTableBuilder.from_base_uri(root).build().read():
        keys.update(pa.Table.from_batches([batch])["k"].to_pylist())
    return keys


def listed_keys(storage: Storage) -> Counter[str]:
    """How often each key is in the files that a reader sees who lists storage.

    As of Hudi, a file whose instant lies before the timeline counts as archived.
    """
    done = _completed(storage)
    start = min(done, default="")
    latest: dict[tuple[str, str], Any] = {}
    for status in storage.walk(""):
        partition, _, name = status.path.rpartition("/")
        file = parse_base_file(partition, name, status.size)
        if file is None or status.path.startswith(f"{HOODIE}/"):
            continue
        if file.instant_time in done or file.instant_time < start:
            key = (partition, file.file_id)
            if key not in latest or latest[key].instant_time < file.instant_time:
                latest[key] = file
    keys: Counter[str] = Counter()
    for file in latest.values():
        found = pq.ParquetFile(pa.BufferReader(storage.read(file.path))).read(columns=["k"])
        keys.update(found["k"].to_pylist())
    return keys


def _completed(storage: Storage) -> set[str]:
    timeline = Timeline.load(storage)
    return {i.time for i in timeline.completed({"commit", "replacecommit"})}


def archived_times(storage: Storage) -> set[str]:
    """Instants that the archive of the data's timeline holds as completed."""
    found = set()
    for status in storage.list(f"{HOODIE}/archived"):
        for entry in decode_archive(storage.open(status.path)):
            if entry.state == "completed":
                found.add(entry.time)
    return found


def late_files(storage: Storage) -> list[str]:
    """Base files that no listing names and whose instants are neither completed nor pending.

    With hoodie.properties, if that names a metadata partition without files.
    """
    timeline = Timeline.load(storage)
    known = {i.time for i in timeline.instants} | archived_times(storage)
    found = []
    for status in storage.walk(""):
        partition, _, name = status.path.rpartition("/")
        file = parse_base_file(partition, name, status.size)
        if file is None or status.path.startswith(f"{HOODIE}/"):
            continue
        if file.instant_time not in known:
            found.append(status.path)
    named = set(load_config(storage).metadata_partitions) - {"files"}
    if any(not storage.list(f"{METADATA}/{name}") for name in named):
        found.append(PROPERTIES)
    return found


_ALLOWED = re.compile(
    rf"^{re.escape(HOODIE)}/(hoodie\.properties|archived/.*|\.keymark/fenced/.*|\.keymark/lease/.*)$"
)


def strays(storage: Storage) -> list[str]:
    """Files that nothing names: data, logs, markers, begun instants, temporaries."""
    state = TableState.load(storage)
    listed = {f"{p}/{n}" if p else n for p, names in state.listing.items() for n in names}
    named: set[str] = set()
    found = [f"pending {instant}" for instant in state.timeline.pending()]
    if state.metadata is not None:
        named = {f"{METADATA}/{path}" for path in state.metadata.recorded}
        found += [f"pending in metadata {i}" for i in state.metadata.timeline.pending()]
    leases = [status.path for status in storage.walk(LEASE)]
    if len(leases) > 2:
        found.append(f"leases {leases}")
    return found + _unnamed(storage, state, listed, named)


def _unnamed(storage: Storage, state: TableState, listed: set[str], named: set[str]) -> list[str]:
    """Files that neither the listing nor a commit of the metadata table names."""
    folders = {path.rpartition("/")[0] for path in listed}
    done = state.metadata.timeline.completed() if state.metadata is not None else ()
    start = min((instant.time for instant in done), default="")
    found = []
    for status in storage.walk(""):
        path = status.path
        folder, _, name = path.rpartition("/")
        if _ALLOWED.match(path) or folder in (HOODIE, f"{METADATA}/{HOODIE}"):
            if name.endswith((".backup", ".crc")):
                found.append(path)
            continue
        if path.startswith(f"{METADATA}/"):
            if _is_stray_of_metadata(path, named, start, state.config.maintained):
                found.append(path)
        elif name == ".hoodie_partition_metadata":
            if folder not in folders and not folder.startswith(HOODIE):
                found.append(path)
        elif path not in listed:
            found.append(path)
    return found


def _is_stray_of_metadata(path: str, named: set[str], start: str, maintained: Any) -> bool:
    inner = path.removeprefix(f"{METADATA}/")
    folder, _, name = inner.rpartition("/")
    if folder.startswith(".hoodie"):
        return False
    if folder not in maintained:
        return True
    base, log = parse_base_file(folder, name, 0), parse_log_file(folder, name, 0)
    if base is None and log is None:
        return name != ".hoodie_partition_metadata"
    if path in named or (log is not None and log.version == 1 and log.write_token == "0-0-0"):
        return False
    time = base.instant_time if base is not None else log.base_instant_time  # type: ignore[union-attr]
    return not time < start
