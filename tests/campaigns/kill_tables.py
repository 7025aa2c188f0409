"""Tables of every index, and operations on them, for campaigns that kill.

`prepared` makes the table that an operation starts from, once per process. `copied` gives a fresh
copy of it. The entries of an HBase index are in a fake of its server: they are copied, too.
"""

from __future__ import annotations

import atexit
import copy
import functools
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from hbase_fake import QUICK, FakeHBase
from table_cases import SHARDS, SMALL_BLOOMS, rows

from keymark import Table
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS, RECORD_INDEX
from keymark.table.storage.local_storage import LocalStorage

INDEXES = (
    "record",
    "global_simple",
    "global_bloom",
    "compact",
    "simple",
    "bloom",
    "bucket",
    "hbase",
)
OPTIONS = {
    **SHARDS,
    **SMALL_BLOOMS,
    # New rows get file groups of their own: partitions hold several.
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.bucket.index.num.buckets": "2",
    "keymark.index.fallback": "global_simple",
}
RETAINED = {"hoodie.cleaner.commits.retained": "1"}
ARCHIVE = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", **RETAINED}
HAS = {
    "record": COLUMN_STATS,
    "global_simple": COLUMN_STATS,
    "global_bloom": BLOOM_FILTERS,
    "simple": COLUMN_STATS,
    "bloom": BLOOM_FILTERS,
    "bucket": COLUMN_STATS,
    "hbase": BLOOM_FILTERS,
    "compact": COLUMN_STATS,
}
BUILDS = {
    "record": BLOOM_FILTERS,
    "global_simple": RECORD_INDEX,
    "global_bloom": RECORD_INDEX,
    "simple": BLOOM_FILTERS,
    "bloom": COLUMN_STATS,
    "bucket": BLOOM_FILTERS,
    "hbase": RECORD_INDEX,
    "compact": "compact",
}
USES = {
    "record": "global_simple",
    "global_simple": "record",
    "global_bloom": "global_simple",
    "simple": "global_bloom",
    "bloom": "simple",
    "bucket": "simple",
    "hbase": "global_bloom",
    "compact": "record",
}


def _purge(table: Table, index: str) -> None:
    del index
    table.purge(["k2"])


def _restore(table: Table, index: str) -> None:
    del index
    table.restore(_times(table, "savepoint")[-1])


def _rollback(table: Table, index: str) -> None:
    del index
    table.rollback(_times(table, "commit")[-1])


def _times(table: Table, action: str) -> list[str]:
    found = Path(table.storage.root, ".hoodie").glob(f"*.{action}")
    return sorted(path.name.partition(".")[0] for path in found)


def _before_archive(table: Table, index: str) -> None:
    del index
    table.drop_savepoint(_times(table, "savepoint")[-1])
    table.compact()


def _nothing(table: Table, index: str) -> None:
    del table, index


@dataclass(frozen=True)
class Operation:
    """What is done to a table, and what must be done before.

    Attributes:
        run: the operation.
        first: prepares the table for it.
        options: of the handle.
    """

    run: Callable[[Table, str], Any]
    first: Callable[[Table, str], None] = _nothing
    options: tuple[tuple[str, str], ...] = ()


OPERATIONS = {
    "upsert": Operation(lambda t, _: t.upsert(rows(["k0", "k1", "k2", "new"], ts=9))),
    "insert": Operation(lambda t, _: t.insert(rows(["new 1", "new 2"], ts=9))),
    "bulk insert": Operation(lambda t, _: t.bulk_insert(rows(["new 1", "new 2"], ts=9))),
    "delete": Operation(lambda t, _: t.delete(rows(["k3", "k4"]))),
    "compact": Operation(lambda t, _: t.compact()),
    "clean": Operation(lambda t, _: t.clean(), options=tuple(RETAINED.items())),
    "archive": Operation(
        lambda t, _: t.archive(), first=_before_archive, options=tuple(ARCHIVE.items())
    ),
    "savepoint": Operation(lambda t, _: t.savepoint()),
    "rollback": Operation(_rollback),
    "restore": Operation(_restore),
    "purge": Operation(_purge, first=_before_archive),
    "index build": Operation(lambda t, index: t.build_index(BUILDS[index])),
    "index drop": Operation(lambda t, index: t.drop_index(HAS[index])),
    "index use": Operation(lambda t, index: t.use_index(USES[index])),
    "rewrite": Operation(lambda t, _: t.rewrite("on")),
    "create": Operation(lambda t, _: t),
}


@dataclass(frozen=True)
class Start:
    """A prepared table, and the entries that its index keeps outside of it."""

    root: Path
    entries: dict[str, Any]


@functools.cache
def _folder() -> Path:
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="kill-tables-", dir=shm if shm.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def options_of(index: str, name: str = "") -> dict[str, str]:
    """The options of handles on a table of an index."""
    own = QUICK if index == "hbase" else {}
    return {**OPTIONS, **own, **dict(OPERATIONS[name].options if name else ())}


def make(root: str, index: str, storage: Any = None) -> Table:
    """Create the empty table."""
    return Table.create(
        root,
        name="t",
        record_key="k",
        partition_path="p",
        ordering="ts",
        index=index,
        options=options_of(index),
        storage=storage or LocalStorage.at(root, create=True),
    )


@functools.cache
def prepared(index: str, name: str) -> Start:
    """The table that an operation starts from: five commits, two slices of most file groups."""
    root = _folder() / f"{index} {name}"
    if name == "create":
        return Start(root, {})
    if name != "upsert" and OPERATIONS[name].first is _nothing:
        return prepared(index, "upsert")
    with served({}) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = make(str(root), index)
        table.bulk_insert(rows(range(9)))
        table.insert(rows(range(9, 15)))
        table.build_index(HAS[index])
        table.upsert(rows(range(6), ts=2))
        table.savepoint()
        table.upsert(rows(range(12), ts=3))
        table.delete(rows(["k8"], partition="p2"))
        OPERATIONS[name].first(table, index)
    return Start(root, server.tables)


def copied(start: Start, folder: Path) -> str:
    """A fresh copy of a prepared table: its path."""
    shutil.rmtree(folder, ignore_errors=True)
    if start.root.exists():
        shutil.copytree(start.root, folder)
    else:
        folder.mkdir()
    return str(folder)


def served(entries: dict[str, Any]) -> Any:
    """A context in which a fake of HBase serves a copy of some entries."""
    return _Served(FakeHBase(copy.deepcopy(entries)))


class _Served:
    def __init__(self, server: FakeHBase) -> None:
        self.server = server
        self.patch = mock.patch("keymark.indexes.hbase.client.connected", server.connected)

    def __enter__(self) -> FakeHBase:
        self.patch.start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.patch.stop()


def key_rows(table: Table) -> dict[str, tuple[Any, ...]]:
    """Key -> values of the data columns; a key that is in two rows fails."""
    found: dict[str, tuple[Any, ...]] = {}
    for part in table.scan().tables():
        for row in part.select(["k", "p", "ts", "v"]).to_pylist():
            assert row["k"] not in found, f"{row['k']} is in two rows"
            found[row["k"]] = tuple(row.values())
    return found
