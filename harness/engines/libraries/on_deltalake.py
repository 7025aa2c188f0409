"""Tables of the library deltalake (delta-rs), in `child`: its own calls, as its users make them.

An upsert and a delete are one `DeltaTable.merge` each. Rows are read by `QueryBuilder`, the
library's DataFusion. Its Arrow dataset finds the files of keys: no query names the file of a row.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, WriterProperties, write_deltalake

PROPERTIES = "delta."
_STREAMED, _SPILL = "merge.streamed_exec", "merge.max_spill_size"
_BY_PARTITION = "merge.by_partition"
_CODEC, _LEVEL = "writer.compression", "writer.compression_level"
_SIZE, _COMPACTED = "write.target_file_size", "optimize.target_size"
_Z_ORDER = "optimize.z_order"
SETTINGS = (_STREAMED, _SPILL, _BY_PARTITION, _CODEC, _LEVEL, _SIZE, _COMPACTED, _Z_ORDER)
"""Arguments of the library's calls; a table's own properties begin with `delta.`.

With `merge.by_partition` an upsert looks for a key in its row's partition only, as the library's
guide advises; a row that moves to another one would be there twice. With `optimize.z_order` a load
ends with rewriting all files along a Z-order curve of the key, and so does a compaction.
"""

_FILE = "__filename"
_SIGNS = {"<": "<", "<=": "<=", ">": ">", ">=": ">="}


class Table:
    """A table; see `child.Handle`.

    Args:
        description: what `child.Session` knows of it.
    """

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._settings: Mapping[str, str] = description["settings"]
        for each in self._settings:
            if each not in SETTINGS and not each.startswith(PROPERTIES):
                known = ", ".join(SETTINGS)
                raise ValueError(f"no setting {each!r} (there are {known} and {PROPERTIES}*)")
        self._path, self._name = str(description["path"]), str(description["name"])
        self._partitions = list(description["partition_path"])
        self._ordered_by = [
            each for each in description["record_key"] if each not in self._partitions
        ]
        self._writer = _writer(self._settings)
        keys = [_name(each) for each in description["record_key"]]
        # A key of one column has no null; of several, nulls are parts like others.
        sign = "=" if len(keys) == 1 else "IS NOT DISTINCT FROM"
        self._match = " AND ".join(f"(target.{key} {sign} source.{key})" for key in keys)
        self._newer: str | None = None
        if description["keeps_newer"] and description["ordering"] is not None:
            column = _name(description["ordering"])
            self._newer = f"coalesce(source.{column} >= target.{column}, true)"
        self._table: DeltaTable

    def open(self) -> None:
        """Read the log of a table that is there."""
        self._table = DeltaTable(self._path)

    def load(self, rows: pa.RecordBatchReader) -> tuple[int, dict[str, float]]:
        """Make the table, of these rows."""
        write_deltalake(
            self._path,
            rows,
            partition_by=self._partitions or None,
            mode="append",
            name=self._name,
            configuration={
                each: value for each, value in self._settings.items() if each.startswith(PROPERTIES)
            },
            target_file_size=self._number(_SIZE),
            writer_properties=self._writer,
        )
        self.open()
        if self._flag(_Z_ORDER):
            self._order()
        return pa.table(self._table.get_add_actions()).num_rows, {}

    def upsert(self, rows: pa.Table) -> tuple[int, dict[str, float]]:
        """Insert or update rows, one of each key."""
        began = time.perf_counter()
        match = f"{self._match}{self._own_partitions(rows)}"
        merger = self._merger(rows, match).when_matched_update_all(predicate=self._newer)
        metrics = merger.when_not_matched_insert_all().execute()
        return _told(metrics, time.perf_counter() - began)

    def delete(self, keys: pa.Table) -> tuple[int, dict[str, float]]:
        """Delete the rows of some keys."""
        began = time.perf_counter()
        metrics = self._merger(keys, self._match).when_matched_delete().execute()
        return _told(metrics, time.perf_counter() - began)

    def _own_partitions(self, rows: pa.Table) -> str:
        """Conditions by which files of other partitions than the batch's are left out."""
        if not self._flag(_BY_PARTITION):
            return ""
        found = []
        for column in self._partitions:
            held, name = rows.column(column).unique().to_pylist(), _name(column)
            values = [_literal(each) for each in held if each is not None]
            among = [f"target.{name} IN ({', '.join(values)})"] if values else []
            among += [f"target.{name} IS NULL"] if None in held else []
            found.append(f"(target.{name} IS NOT DISTINCT FROM source.{name})")
            found.append(f"({' OR '.join(among)})")
        return "".join(f" AND {each}" for each in found)

    def _merger(self, rows: pa.Table, match: str) -> Any:
        given = {
            "streamed_exec": self._flag(_STREAMED),
            "max_spill_size": self._number(_SPILL),
            "writer_properties": self._writer,
        }
        return self._table.merge(
            source=rows,
            predicate=match,
            source_alias="source",
            target_alias="target",
            **{key: value for key, value in given.items() if value is not None},
        )

    def compact(self) -> None:
        """Put small files together, or rewrite all of them in order."""
        if self._flag(_Z_ORDER):
            self._order()
            return
        self._table.optimize.compact(
            target_size=self._number(_COMPACTED), writer_properties=self._writer
        )

    def _order(self) -> None:
        """Put the rows of each partition along a Z-order curve of the key."""
        self._table.optimize.z_order(
            self._ordered_by,
            target_size=self._number(_COMPACTED) or self._number(_SIZE),
            writer_properties=self._writer,
        )

    def schema(self) -> pa.Schema:
        """Its columns."""
        return pa.schema(self._table.schema().to_arrow())

    def find(self, tests: Sequence[tuple[str, str, list[Any]]]) -> pa.Table:
        """The rows that pass all tests."""
        return self._query("*", tests).read_all()

    def opened(self) -> list[str]:
        """The library does not tell."""
        return []

    def batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        """Some columns of all rows."""
        yield from self._query(", ".join(map(_name, columns)), ())

    def places(
        self, columns: Sequence[str], tests: Sequence[tuple[str, str, list[Any]]]
    ) -> Iterator[tuple[pa.Table, str]]:
        """Some columns of all rows, each part with its file's name.

        The tests are left aside: the dataset's own statistics fail against texts of a filter (texts
        that are views, deltalake 1.6.6 with pyarrow 26).
        """
        del tests
        scanner = self._table.to_pyarrow_dataset().scanner(columns=[*columns, _FILE])
        for batch in scanner.to_batches():
            if batch.num_rows:
                file = PurePosixPath(batch.column(_FILE)[0].as_py()).stem
                yield pa.Table.from_batches([batch]).select(list(columns)), file

    def _query(
        self, wanted: str, tests: Sequence[tuple[str, str, list[Any]]]
    ) -> pa.RecordBatchReader:
        conditions = [_condition(*test) for test in tests]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        query = QueryBuilder().register("rows", self._table)
        found = query.execute(f"SELECT {wanted} FROM rows{where}")  # noqa: S608 - our own words
        return pa.RecordBatchReader.from_stream(found)

    def _number(self, name: str) -> int | None:
        return int(self._settings[name]) if name in self._settings else None

    def _flag(self, name: str) -> bool | None:
        return self._settings[name].lower() == "true" if name in self._settings else None


def _writer(settings: Mapping[str, str]) -> WriterProperties | None:
    """How Parquet files are written; None for as the library does by default."""
    if _CODEC not in settings:
        return None
    level = int(settings[_LEVEL]) if _LEVEL in settings else None
    return WriterProperties(compression=settings[_CODEC].upper(), compression_level=level)


def _told(metrics: Mapping[str, Any], took: float) -> tuple[int, dict[str, float]]:
    """Files and phases of a merge.

    `scan_time_ms` is reading the target, joining it with the batch and passing on rows;
    `rewrite_time_ms` is writing files; `execution_time_ms` is both and planning, up to the commit.
    """
    phases = {
        "tag": metrics["scan_time_ms"] / 1000,
        "write": metrics["rewrite_time_ms"] / 1000,
        "commit": max(took - metrics["execution_time_ms"] / 1000, 0.0),
    }
    return int(metrics["num_target_files_added"]), phases


def _condition(column: str, op: str, values: Sequence[Any]) -> str:
    if op == "in":
        return f"{_name(column)} IN ({', '.join(map(_literal, values))})" if values else "false"
    return f"{_name(column)} {_SIGNS[op]} {_literal(values[0])}"


def _literal(value: object) -> str:
    """A value in DataFusion's SQL."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat()}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    text = str(value).replace("'", "''")
    return f"'{text}'"


def _name(column: str) -> str:
    """A column's name in DataFusion's SQL."""
    doubled = column.replace("`", "``")
    return f"`{doubled}`"
