"""All that a table can be asked, on small tables prepared once a process, for fault campaigns."""

from __future__ import annotations

import contextlib
import functools
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from history_storage import TickingClock, same_each_time
from table_cases import (
    MOVES,
    SHARDS,
    SMALL_BLOOMS,
    latest_files,
    rows,
)

from keymark import Table
from keymark.table.runtime.clock import Clock
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import Storage

INDEXES = ("record", "global_simple", "global_bloom", "simple", "bloom", "bucket", "compact")
GLOBAL = (*INDEXES[:3], "compact")
OPTIONS = {
    **SMALL_BLOOMS,
    MOVES: "true",
    "hoodie.write.lock.wait_time_ms": "3000",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "100",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.bucket.index.num.buckets": "2",
    "keymark.index.fallback": "global_simple",
}
STATISTICS, RECORD_INDEX = "column_stats", "record_index"

Rows = dict[str, tuple[Any, ...]]


def _of(method: str, **arguments: Any) -> Callable[[Table], Any]:
    return lambda table: getattr(table, method)(**arguments)


def some(numbers: Sequence[int], ts: int = 1, value: str = "v") -> pa.Table:
    """Rows of these keys, each in the partition of its number."""
    return rows(numbers, ts=ts, partition=[f"p{n % 3}" for n in numbers], value=value)


def _upsert(table: Table) -> Any:
    parts = [(some([0, 1], 50, "new "), False), (some([20, 21, 29]), False), (some([9], 50), True)]
    if table.choice.name in GLOBAL:
        parts.append((rows([2], ts=50, partition="p7", value="moved "), False))
    flagged = [
        part.append_column("_hoodie_is_deleted", pa.array([flag] * part.num_rows))
        for part, flag in parts
    ]
    return table.upsert(pa.concat_tables(flagged))


def table_rows(table: Table) -> Rows:
    """Key -> row, as `scan` reads them; without meta columns, which may be empty."""
    parts = list(table.scan(columns=["k", "p", "ts", "v"]).tables())
    found = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    by_key = {row[0]: row for row in found}
    assert len(by_key) == len(found), "a key occurs twice"
    return by_key


def stored_rows(root: str) -> Rows:
    """Key -> row, by a listing of storage."""
    found = []
    for path in latest_files(root).values():
        found += pq.ParquetFile(f"{root}/{path}").read(["k", "p", "ts", "v"]).to_pylist()
    by_key = {row["k"]: tuple(row.values()) for row in found}
    assert len(by_key) == len(found), "a key is stored twice"
    return by_key


def _instants(table: Table, action: str) -> list[str]:
    names = sorted(status.name for status in table.storage.list(".hoodie"))
    return [name.partition(".")[0] for name in names if name.endswith(f".{action}")]


@dataclass(frozen=True)
class Operation:
    """Something that a table is asked.

    Attributes:
        run: asks it.
        first: what is done to the table before.
        indexes: of the tables that can be asked.
        reads: whether it only reads; its answer is then compared.
    """

    run: Callable[[Table], Any]
    first: tuple[Callable[[Table], Any], ...] = ()
    indexes: tuple[str, ...] = INDEXES
    reads: bool = False


def _looked_up(table: Table) -> Any:
    return table.lookup(["k0", "k3", "absent", "k7"]).to_pylist()


def _drop_savepoint(table: Table) -> Any:
    left = _instants(table, "savepoint")
    # A try that failed after the file that counts was gone has done it.
    return table.drop_savepoint(left[-1]) if left else None


OPERATIONS = {
    "upsert": Operation(_upsert),
    "insert": Operation(_of("insert", rows=some([30, 31, 38]))),
    "bulk_insert": Operation(_of("bulk_insert", rows=some([30, 31, 38])), indexes=INDEXES[:5]),
    "delete": Operation(_of("delete", keys=some([3, 4]))),
    "scan": Operation(lambda t: sorted(table_rows(t)), reads=True),
    "scan of keys": Operation(
        lambda t: [part.to_pylist() for part in t.scan(["k0", "k3", "absent"]).tables()],
        reads=True,
    ),
    "lookup": Operation(_looked_up, reads=True),
    "check": Operation(lambda t: t.check(), indexes=("record",), reads=True),
    "info": Operation(lambda t: (t.info(), t.indexes()), reads=True),
    "compact": Operation(_of("compact")),
    "clean": Operation(_of("clean")),
    "archive": Operation(_of("archive"), (_drop_savepoint, _of("compact"))),
    "savepoint": Operation(_of("savepoint")),
    "drop savepoint": Operation(_drop_savepoint),
    "rollback": Operation(lambda t: t.rollback(_instants(t, "commit")[-1])),
    "restore": Operation(lambda t: t.restore(_instants(t, "savepoint")[-1])),
    "purge": Operation(_of("purge", keys=["k3", "absent"]), (_drop_savepoint,)),
    "build statistics": Operation(_of("build_index", partition=STATISTICS)),
    "build record index": Operation(_of("build_index"), indexes=INDEXES[1:]),
    "schedule": Operation(_of("schedule_index", partition=STATISTICS)),
    "run": Operation(
        _of("run_index", partition=STATISTICS), (_of("schedule_index", partition=STATISTICS),)
    ),
    "abort": Operation(
        _of("abort_index", partition=STATISTICS), (_of("schedule_index", partition=STATISTICS),)
    ),
    "drop": Operation(
        _of("drop_index", partition=STATISTICS), (_of("build_index", partition=STATISTICS),)
    ),
    "drop record index": Operation(_of("drop_index"), indexes=("record",)),
    "repair": Operation(_of("repair_shard", number=0), indexes=("record",)),
    "use index": Operation(_of("use_index", name="global_simple"), indexes=("record", "simple")),
    "rewrite": Operation(_of("rewrite", virtual_keys="on")),
    "create": Operation(lambda _: None),
}


@dataclass
class Prepared:
    """A table before an operation, and what the operation does to it undisturbed.

    Attributes:
        files: path -> content of the table before.
        before: its rows before.
        after: its rows after.
        answer: what the operation answers, if it only reads.
        calls: which calls it makes; filled by who counts them.
    """

    files: dict[str, bytes]
    before: Rows
    after: Rows
    answer: Any
    calls: dict[str, list[str]] = field(default_factory=dict)


def pairs() -> list[tuple[str, str]]:
    """(operation, index) of all cases."""
    return [(name, index) for name, found in OPERATIONS.items() for index in found.indexes]


def opened(storage: Storage, clock: Clock | None = None) -> Table:
    """A handle whose clock is the same each time."""
    return Table(storage, OPTIONS, clock=clock or clock_of(storage))


def clock_of(storage: Storage, later: int = 0) -> TickingClock:
    """A clock that is later than the table's newest instant, and the same each time.

    Args:
        storage: the table's.
        later: by how many milliseconds more; time goes by between a power cut and what follows.
    """
    names = [status.name.partition(".")[0] for status in storage.list(".hoodie")]
    digits = [int(name[8:]) for name in names if name.isdigit()]
    return TickingClock(ticks=1000 * len(digits) + later)


def make(root: str, index: str, storage: Storage | None = None) -> Table:
    """An empty table."""
    return Table.create(
        root,
        name="t",
        record_key="k",
        partition_path="p",
        ordering="ts",
        index=index,
        options={**SHARDS, **OPTIONS} if index == "record" else OPTIONS,
        storage=storage,
        clock=TickingClock(),
    )


def _grown(root: str, index: str) -> None:
    make(root, index)
    storage = LocalStorage.at(root)
    opened(storage).bulk_insert(rows(range(10)))
    opened(storage).upsert(some([4, 10], 2, "second "))
    opened(storage).savepoint()
    for number in range(11, 16):
        opened(storage).upsert(some([number, 5, 3], number, "later "))


@contextlib.contextmanager
def quietly(seed: object) -> Iterator[None]:
    """One thread, file ids by the seed, no warnings."""
    with same_each_time(random.Random(str(seed))), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@functools.cache
def grown_files(index: str) -> dict[str, bytes]:
    """A table with some commits and a savepoint, file by file."""
    with tempfile.TemporaryDirectory() as folder, quietly(index):
        _grown(folder, index)
        return packed(folder)


@functools.cache
def without_savepoint(index: str) -> dict[str, bytes]:
    """The same table, whose savepoint was given up."""
    with tempfile.TemporaryDirectory() as folder, quietly(index):
        unpack(grown_files(index), folder)
        _drop_savepoint(opened(LocalStorage.at(folder)))
        return packed(folder)


@functools.cache
def prepared(name: str, index: str) -> Prepared:
    """The table before an operation, and its effect."""
    operation = OPERATIONS[name]
    if name == "create":
        return Prepared({}, {}, {}, None)
    with tempfile.TemporaryDirectory() as folder, quietly((name, index)):
        unpack(grown_files(index), folder)
        storage = LocalStorage.at(folder)
        for step in operation.first:
            step(opened(storage))
        files, before = packed(folder), table_rows(opened(storage))
        answer = operation.run(opened(storage))
        return Prepared(files, before, table_rows(opened(storage)), answer)


def packed(root: str) -> dict[str, bytes]:
    """Path -> content of all files."""
    paths = (path for path in Path(root).rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(paths)}


def unpack(files: dict[str, bytes], root: str) -> None:
    """Write these files."""
    for path, content in files.items():
        full = Path(root, path)
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content)


# After these there are files that no commit of the active timeline names.
LEAVING = ("schedule", "abort", "archive")
