"""Tables of the library pyiceberg, in `child`: its own calls, as its users make them.

Each table has a catalog of its own, an SQLite file in its folder, which is the one that the
library's guide begins with. The paths in a table's metadata are relative to its folder, so that a
copy of the folder is a table; every call is made from within it.

`Table.upsert` knows no ordering column. Where a stored row is to stay because it is newer, the rows
of the batch that are older are taken out before, by a scan of the stored values.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import Transaction
from pyiceberg.table.upsert_util import create_match_filter

PREFIXES = ("write.", "commit.", "history.", "format-version")
"""What names of the table's properties begin with."""

_NAME = ("keymark", "rows")
_CATALOG = "sqlite:///catalog.db"
_HERE = "."
_PLACE, _STORED = "__keymark_place", "__keymark_stored"
_TESTS = {
    "<": expressions.LessThan,
    "<=": expressions.LessThanOrEqual,
    ">": expressions.GreaterThan,
    ">=": expressions.GreaterThanOrEqual,
}


class Table:
    """A table; see `child.Handle`.

    Args:
        description: what `child.Session` knows of it.
    """

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._settings = dict(description["settings"])
        for each in self._settings:
            if not each.startswith(PREFIXES):
                known = ", ".join(f"{prefix}*" for prefix in PREFIXES)
                raise ValueError(f"no setting {each!r} (there are {known})")
        self._path = str(description["path"])
        self._key = list(description["record_key"])
        self._partitions = list(description["partition_path"])
        # Rows of one key whose key holds the ordering column are equally new.
        is_timed = description["keeps_newer"] and description["ordering"] not in self._key
        self._ordering: str | None = description["ordering"] if is_timed else None
        self._table: IcebergTable
        self._scanned: Any = None

    def open(self) -> None:
        """Read the metadata of a table that is there."""
        with contextlib.chdir(self._path):
            self._table = _catalog().load_table(_NAME)

    def load(self, rows: pa.RecordBatchReader) -> tuple[int, dict[str, float]]:
        """Make the table, of these rows; those of a partitioned table are held in memory.

        The library takes a stream for tables without partitions only.
        """
        Path(self._path).mkdir(parents=True, exist_ok=True)
        with contextlib.chdir(self._path):
            catalog = _catalog()
            catalog.create_namespace_if_not_exists(_NAME[0])
            made = catalog.create_table_transaction(
                _NAME, schema=rows.schema, location=_HERE, properties=self._settings
            )
            with made.update_spec() as spec:
                for column in self._partitions:
                    spec.add_identity(column)
            made.append(rows.read_all() if self._partitions else rows)
            made.commit_transaction()
            self._table = catalog.load_table(_NAME)
        return self._added(()), {}

    def upsert(self, rows: pa.Table) -> tuple[int, dict[str, float]]:
        """Insert or update rows, one of each key.

        The library finds stored rows and writes files in one call, `write` here; `tag` is the scan
        for rows that came too late, if there is one.
        """
        with contextlib.chdir(self._path):
            phases = {}
            if self._ordering is not None:
                began = time.perf_counter()
                rows = self._in_time(rows, self._ordering)
                phases["tag"] = time.perf_counter() - began
            if not rows.num_rows:
                return 0, phases
            # The library compares columns by their place.
            rows = rows.select(self.schema().names)
            files, others = self._changed(lambda tx: tx.upsert(rows, join_cols=self._key))
        return files, phases | others

    def delete(self, keys: pa.Table) -> tuple[int, dict[str, float]]:
        """Delete the rows of some keys."""
        with contextlib.chdir(self._path):
            return self._changed(lambda tx: tx.delete(create_match_filter(keys, self._key)))

    def _changed(self, change: Callable[[Transaction], object]) -> tuple[int, dict[str, float]]:
        """Stage a change and commit it, as the table's own shorthands do."""
        before = [snapshot.snapshot_id for snapshot in self._table.metadata.snapshots]
        began = time.perf_counter()
        staged: Transaction = self._table.transaction()
        change(staged)
        written = time.perf_counter()
        staged.commit_transaction()
        phases = {"write": written - began, "commit": time.perf_counter() - written}
        return self._added(before), phases

    def _added(self, before: Sequence[int]) -> int:
        """The data files of the snapshots that were not there before."""
        new = [each for each in self._table.metadata.snapshots if each.snapshot_id not in before]
        return sum(int((each.summary or {}).get("added-data-files") or 0) for each in new)

    def _in_time(self, rows: pa.Table, ordering: str) -> pa.Table:
        """The rows whose ordering value is not below the stored one of their key."""
        scan = self._table.scan(
            row_filter=create_match_filter(rows, self._key),
            selected_fields=(*self._key, ordering),
        )
        kinds = {name: rows.schema.field(name).type for name in (*self._key, ordering)}
        stored = scan.to_arrow().select(list(kinds)).cast(pa.schema(kinds.items()))
        if not stored.num_rows:
            return rows
        stored = stored.rename_columns([*self._key, _STORED])
        mine = rows.select([*self._key, ordering])
        mine = mine.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
        both = mine.join(stored, keys=self._key, join_type="inner")
        late = both.filter(pc.less(both.column(ordering), both.column(_STORED))).column(_PLACE)
        places = pa.array(range(rows.num_rows), pa.int64())
        return rows.filter(pc.invert(pc.is_in(places, value_set=late.combine_chunks())))

    def compact(self) -> None:
        """The library has nothing for it."""
        raise NotImplementedError("pyiceberg has no compaction; rewrite_data_files is Spark's")

    def schema(self) -> pa.Schema:
        """Its columns."""
        return self._table.schema().as_arrow()

    def find(self, tests: Sequence[tuple[str, str, list[Any]]]) -> pa.Table:
        """The rows that pass all tests."""
        with contextlib.chdir(self._path):
            self._scanned = self._table.scan(row_filter=_filter(tests))
            return self._scanned.to_arrow()

    def opened(self) -> list[str]:
        """The files that the last `find` opened."""
        with contextlib.chdir(self._path):
            return [task.file.file_path for task in self._scanned.plan_files()]

    def batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        """Some columns of all rows."""
        with contextlib.chdir(self._path):
            yield from self._table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader()

    def places(
        self, columns: Sequence[str], tests: Sequence[tuple[str, str, list[Any]]]
    ) -> Iterator[tuple[pa.Table, str]]:
        """Some columns of the rows that pass the tests, each part with its file's name."""
        with contextlib.chdir(self._path), ThreadPoolExecutor(os.cpu_count()) as threads:
            condition = _filter(tests)
            scan = self._table.scan(row_filter=condition, selected_fields=tuple(columns))
            reader = ArrowScan(self._table.metadata, self._table.io, scan.projection(), condition)
            tasks = list(scan.plan_files())
            parts = threads.map(lambda task: reader.to_table([task]), tasks)
            for task, rows in zip(tasks, parts, strict=True):
                yield rows.select(list(columns)), PurePosixPath(task.file.file_path).stem


def _catalog() -> SqlCatalog:
    """The catalog in the current folder."""
    return SqlCatalog("keymark", uri=_CATALOG, warehouse=_HERE)


def _filter(tests: Sequence[tuple[str, str, list[Any]]]) -> Any:
    """Tests as the library's expression; all rows pass none."""
    parts = [
        expressions.In(column, values) if op == "in" else _TESTS[op](column, values[0])
        for column, op, values in tests
    ]
    return functools.reduce(operator.and_, parts, expressions.AlwaysTrue())
