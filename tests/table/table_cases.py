"""What the tests of tables share: tables to start from, and readings that the package does not do.

Nothing here reads a table through the package: `by_listing` finds the rows by listing storage and
the completed commits, `left_over` the files that nothing names, `by_hudi_rs` asks hudi-rs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

DATA = Path(__file__).parents[1] / "data"
SHARDS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
}
# Bloom filters of Hudi's default size are 431 KB in every file: too much for so many files.
SMALL_BLOOMS = {
    "hoodie.index.bloom.num_entries": "20",
    "hoodie.bloom.index.filter.dynamic.max.entries": "100",
}
MOVES = "hoodie.record.index.update.partition.path"
EVENT_TIME = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
PAYLOAD = "hoodie.datasource.write.payload.class"
DUP_POLICY = "hoodie.datasource.insert.dup.policy"

_BASE = re.compile(r"^([^_.][^_]*)_\d+-\d+-\d+_(\d+)\.parquet$")
_DONE = re.compile(r"^(\d+)\.(commit|replacecommit|deltacommit)$")
_LOG = re.compile(r"^\..*\.log\.(\d+)_(\d+-\d+-\d+)$")

Location = tuple[str, str]


def unpack(archive: str, folder: Path) -> Path:
    """Unpack a fixture of tests/data into a folder."""
    with tarfile.open(DATA / archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def rows(keys: Any, *, ts: int = 1, partition: Any = None, value: str = "v") -> pa.Table:
    """Rows of the tables that `create` makes: k, p, ts, v."""
    names = [f"k{key}" if isinstance(key, int) else key for key in keys]
    paths = [f"p{i % 3}" for i in range(len(names))] if partition is None else partition
    paths = [paths] * len(names) if isinstance(paths, str) else list(paths)
    return pa.table(
        {
            "k": pa.array(names, pa.string()),
            "p": pa.array(paths, pa.string()),
            "ts": pa.array([ts] * len(names), pa.int64()),
            "v": pa.array([f"{value}{name}" for name in names], pa.string()),
        }
    )


def create(path: Path, options: dict[str, str] | None = None, **changes: Any) -> Any:
    """An empty table of rows k, p, ts, v with two shards and small bloom filters."""
    from keymark import Table

    identity = {"name": "t", "record_key": "k", "partition_path": "p", "ordering": "ts", **changes}
    given = {**SHARDS, **SMALL_BLOOMS, **(options or {})}
    return Table.create(str(path), options=given, **identity)


class CutOffError(Exception):
    """Raised between the split of a re-sharding and its switch."""


def begin_reshard(table: Any, shards: int) -> None:
    """Do all of a re-sharding but the switch."""
    from keymark.table.services.index.reshard import Resharder

    stop = mock.patch.object(Resharder, "_switch", side_effect=CutOffError)
    with stop, contextlib.suppress(CutOffError):
        table.reshard_index(shards)


def data_rows(table: Any, **reading: Any) -> dict[str, tuple[Any, ...]]:
    """Record key -> values of the data columns, as `scan` reads them; keys must be unique."""
    found: dict[str, tuple[Any, ...]] = {}
    for part in table.scan(**reading).tables():
        assert part["_hoodie_record_key"].null_count == 0
        found.update(_by_key(part, found))
    return found


def _by_key(part: pa.Table, known: Any = ()) -> dict[str, tuple[Any, ...]]:
    keys = part["_hoodie_record_key"].to_pylist()
    data = part.select([c for c in part.column_names if not c.startswith("_hoodie_")])
    values = {key: tuple(row.values()) for key, row in zip(keys, data.to_pylist(), strict=True)}
    assert len(values) == len(keys), "a key occurs twice in one file"
    assert not values.keys() & set(known), "a key occurs in two files"
    return values


def by_hudi_rs(root: Any) -> list[tuple[str, str, str]]:
    """(record key, partition path, file name) of every row that hudi-rs reads, sorted."""
    from hudi import HudiTableBuilder

    batches = HudiTableBuilder.from_base_uri(str(root)).build().read()
    names = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")
    found: list[tuple[str, str, str]] = []
    for batch in batches:
        part = pa.Table.from_batches([batch])
        columns = [part[name].cast(pa.string()).to_pylist() for name in names]
        found.extend(zip(*columns, strict=True))
    return sorted(found)


def latest_files(root: Any, as_of: str | None = None) -> dict[Location, str]:
    """(partition path, file id) -> path of its latest completed file, by listing storage."""
    timeline = Path(root) / ".hoodie"
    done: dict[str, str] = {}
    gone: set[Location] = set()
    for name in _names(timeline):
        match = _DONE.match(name)
        if match is None:
            continue
        done[match[1]] = match[2]
        if match[2] == "replacecommit":
            replaced = json.loads((timeline / name).read_bytes())["partitionToReplaceFileIds"]
            gone |= {(path, file_id) for path, ids in replaced.items() for file_id in ids}
    start = min(done, default="")
    latest: dict[Location, tuple[str, str]] = {}
    for path in files(root):
        partition, _, name = path.rpartition("/")
        match = _BASE.match(name)
        if match is None or path.startswith(".hoodie/"):
            continue
        location, time = (partition, match[1]), match[2]
        if as_of is not None and time > as_of:
            continue
        if (time in done or time < start) and location not in gone:
            latest[location] = max(latest.get(location, ("", "")), (time, path))
    return {location: path for location, (_, path) in latest.items()}


def by_listing(root: Any, as_of: str | None = None) -> dict[str, tuple[Location, tuple[Any, ...]]]:
    """Record key -> where it is and its data columns, by listing storage; keys must be unique."""
    found: dict[str, tuple[Location, tuple[Any, ...]]] = {}
    for location, path in latest_files(root, as_of).items():
        part = pq.ParquetFile(f"{root}/{path}").read()
        for key, values in _by_key(part, found).items():
            found[key] = (location, values)
    return found


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def files(root: Any) -> list[str]:
    """Paths of all files of a table relative to it, checksum side-cars and leases aside."""
    found = []
    for folder, _, names in os.walk(root):
        relative = os.path.relpath(folder, root)
        if relative == ".hoodie/.keymark/lease":
            continue
        prefix = "" if relative == "." else f"{relative}/"
        found.extend(f"{prefix}{name}" for name in names if not name.endswith(".crc"))
    return sorted(found)


def left_over(root: Any) -> list[str]:
    """Files that nothing completed names: data, logs, markers, begun instants, temporaries."""
    root = Path(root)
    named = _named(root / ".hoodie", "")
    named |= _named(root / ".hoodie/metadata/.hoodie", ".hoodie/metadata/")
    opened = {path.rpartition("/")[0] for path in named}
    # Runs of hashes are named by nothing: they name base files.
    is_compact = "index.type=COMPACT" in (root / ".hoodie/hoodie.properties").read_text()
    runs = ".hoodie/.keymark/hashes" if is_compact else None
    found = []
    for path in files(root):
        folder, _, name = path.rpartition("/")
        if folder in (".hoodie", ".hoodie/metadata/.hoodie"):
            begun = re.match(r"^\d+\.", name) and not _completed(root / folder, name)
            if begun or name == "hoodie.properties.backup":
                found.append(path)
        elif name == ".hoodie_partition_metadata":
            if not folder.startswith(".hoodie/") and folder not in opened:
                found.append(path)
        elif path not in named and folder != runs and not _opens_group(path):
            found.append(path)
    return found


def _named(timeline: Path, prefix: str) -> set[str]:
    """Paths that the completed commits of a timeline name."""
    named: set[str] = set()
    for name in filter(_DONE.match, _names(timeline)):
        for stats in json.loads((timeline / name).read_bytes())["partitionToWriteStats"].values():
            named |= {prefix + stat["path"] for stat in stats}
    return named


def _completed(timeline: Path, name: str) -> bool:
    time, _, rest = name.partition(".")
    action = rest.partition(".")[0].replace("inflight", "commit")
    action = {"compaction": "commit", "logcompaction": "deltacommit"}.get(action, action)
    return (timeline / f"{time}.{action}").exists()


def _opens_group(path: str) -> bool:
    """The first log file of each file group of the metadata table: no commit names it."""
    match = _LOG.match(path.rpartition("/")[2])
    return match is not None and match[1] == "1" and match[2] == "0-0-0"


def files_listed(table: Any) -> dict[str, int]:
    """Path -> size of the live base files that the metadata table lists."""
    from keymark.table.state.table_state import TableState

    metadata = TableState.load(table.storage).metadata
    return {
        f"{partition}/{name}" if partition else name: size
        for partition, names in metadata.listing().items()
        for name, size in names.items()
    }


def files_stored(root: Any) -> dict[str, int]:
    """Path -> size of the base files on storage."""
    return {
        path: (Path(root) / path).stat().st_size
        for path in files(root)
        if not path.startswith(".hoodie/") and path.endswith(".parquet")
    }
