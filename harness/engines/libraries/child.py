"""The process of an engine without Spark: one library and its tables, which gets calls over a pipe.

Run as a file, by the interpreter of the library's own environment. Keymark is not installed there,
so what is taken and given is built of Python's own types, and rows come and go as files (Parquet
and Arrow's streams). `on_deltalake` and `on_pyiceberg` beside it speak to the libraries: each has a
class `Table` with the methods of `Handle`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

KEPT = 16
"""Tables that stay open, those that were used last: after each step another one is opened to verify
the one that is measured."""

NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_PLACE = "__keymark_place"

Test = tuple[str, str, list[Any]]
"""A column, `in`, `<`, `<=`, `>` or `>=`, and values of the column's type."""


class Handle(Protocol):
    """An open table of a library; what a write gives back is its files and seconds by phase."""

    def load(self, rows: pa.RecordBatchReader) -> tuple[int, dict[str, float]]:
        """Make the table, of these rows."""

    def upsert(self, rows: pa.Table) -> tuple[int, dict[str, float]]:
        """Insert or update rows, one of each key."""

    def delete(self, keys: pa.Table) -> tuple[int, dict[str, float]]:
        """Delete the rows of some keys; columns of the record key."""

    def compact(self) -> None:
        """Put small files together."""

    def schema(self) -> pa.Schema:
        """Its columns."""

    def find(self, tests: Sequence[Test]) -> pa.Table:
        """The rows that pass all tests."""

    def opened(self) -> list[str]:
        """The files that the last `find` opened; none where the library does not tell."""

    def batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        """Some columns of all rows."""

    def places(self, columns: Sequence[str], tests: Sequence[Test]) -> Iterator[tuple[Any, str]]:
        """Some columns of rows that may pass the tests, each part with its file's name.

        The name is without its ending.
        """


class Session:
    """A library, and tables by number.

    A table is described by the `path` of its folder, `name`, columns of the `record_key` and of the
    `partition_path`, the `ordering` column or None, whether it `keeps_newer` rows that are stored,
    and `settings` of the library, by name.
    """

    def __init__(self) -> None:
        self._library: ModuleType
        self._tables: OrderedDict[int, Handle] = OrderedDict()
        self._descriptions: dict[int, Mapping[str, Any]] = {}
        self._count = 0
        self._keys: list[str] = []
        self._found: list[tuple[pa.Table, str]] = []
        self._found_by: Sequence[str] = ()
        self._queried: Handle | None = None

    def start(self, *, library: str, cores: int) -> dict[str, dict[str, str]]:
        """Load the library and tell it how many cores to use; versions of what matters."""
        use_cores(cores)
        self._library = module_beside(Path(__file__).with_name(f"on_{library}.py"))
        names = (library, "pyarrow")
        versions = {name: importlib.metadata.version(name) for name in names}
        return {"versions": {**versions, "python": platform.python_version()}}

    def create(self, *, table: Mapping[str, Any]) -> int:
        """A table that the first load makes; its number."""
        return self._keep(self._library.Table(table), table)

    def open(self, *, table: Mapping[str, Any]) -> int:
        """A table that is there; its number."""
        handle = self._library.Table(table)
        handle.open()
        return self._keep(handle, table)

    def write(self, *, table: int, operation: str, files: Sequence[str]) -> dict[str, Any]:
        """Write the rows of files: `bulk_insert`, `upsert` or `delete`."""
        handle, description = self._table(table), self._descriptions[table]
        began = time.perf_counter()
        if operation == "bulk_insert":
            written, phases = handle.load(stream(files))
            return {"files_written": written, "phases": phases}
        rows, key = read(files), list(description["record_key"])
        if operation == "delete":
            rows = rows.select(key).group_by(key).aggregate([])
            prepared = time.perf_counter() - began
            written, phases = handle.delete(rows)
        else:
            rows = one_row_a_key(rows, key, description["ordering"])
            prepared = time.perf_counter() - began
            written, phases = handle.upsert(rows)
        return {"files_written": written, "phases": {"prepare": prepared, **phases}}

    def find(
        self, *, table: int, keys: Sequence[str] | None, where: Sequence[Test] | None
    ) -> list[dict[str, Any]]:
        """The rows of some keys, or those that pass tests whose values are numbers or texts."""
        self._queried = handle = self._table(table)
        if keys is None:
            return list(plainly(handle.find(_typed(where or (), handle.schema()))).to_pylist())
        fields = list(self._descriptions[table]["record_key"])
        rows = plainly(handle.find(key_tests(keys, fields, handle.schema())))
        if len(fields) > 1:
            rows = rows.filter(pc.is_in(key_texts(rows, fields), value_set=pa.array(keys)))
        return list(rows.to_pylist())

    def opened(self) -> list[str]:
        """The files that the last `find` opened."""
        return self._queried.opened() if self._queried is not None else []

    def hold_keys(self, *, keys: Sequence[str]) -> None:
        """Keep the keys of the next lookup."""
        self._keys = list(keys)

    def lookup(self, *, table: int) -> None:
        """Find the file of each held key."""
        handle, description = self._table(table), self._descriptions[table]
        fields = list(description["record_key"])
        columns = [*dict.fromkeys([*fields, *description["partition_path"]])]
        wanted = pa.array(self._keys, pa.string())
        self._found, self._found_by = [], description["partition_path"]
        tests = key_tests(self._keys, fields, handle.schema())
        for rows, file in handle.places(columns, tests):
            texts = key_texts(rows, fields)
            mask = pc.is_in(texts, value_set=wanted)
            if pc.any(mask).as_py():
                named = rows.append_column(_PLACE, texts)
                self._found.append((named.filter(mask), file))

    def places(self) -> dict[str, tuple[str, str]]:
        """The answer of the last lookup: partition path and file name of each key found."""
        return {
            row[_PLACE]: (partition_path(row, self._found_by), file)
            for rows, file in self._found
            for row in rows.to_pylist()
        }

    def dump(self, *, table: int, columns: Sequence[str], file: str) -> None:
        """Write some columns of all rows to a file, as a stream of Arrow's."""
        handle = self._table(table)
        schema = plain(pa.schema([handle.schema().field(name) for name in columns]))
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(file, "wb") as out, pa.ipc.new_stream(out, schema, options=options) as to:
            for batch in handle.batches(columns):
                to.write_table(pa.Table.from_batches([batch]).select(columns).cast(schema))

    def compact(self, *, table: int) -> None:
        """Put small files together."""
        self._table(table).compact()

    def cancel(self) -> None:
        """End what runs, and with it the process; called beside it."""
        os._exit(1)

    def close(self) -> None:
        """Nothing is left open that matters."""

    def _table(self, number: int) -> Handle:
        self._tables.move_to_end(number)
        return self._tables[number]

    def _keep(self, handle: Handle, description: Mapping[str, Any]) -> int:
        self._count += 1
        self._tables[self._count], self._descriptions[self._count] = handle, description
        if len(self._tables) > KEPT:
            oldest, _ = self._tables.popitem(last=False)
            del self._descriptions[oldest]
        return self._count


def use_cores(cores: int) -> None:
    """Limit the cores of this process and of Arrow; to be called before there are threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    pa.set_cpu_count(cores)


def read(files: Sequence[str]) -> pa.Table:
    """The rows of Parquet files, in the order of the files."""
    return plainly(pq.read_table(list(files), partitioning=None))


def stream(files: Sequence[str]) -> pa.RecordBatchReader:
    """The rows of Parquet files, some at a time."""
    reader = ds.dataset(list(files), format="parquet").scanner().to_reader()
    return reader.cast(plain(reader.schema))


def one_row_a_key(rows: pa.Table, key: Sequence[str], ordering: str | None) -> pa.Table:
    """One row for each key: the one with the highest ordering value, the last of equal ones."""
    fields = list(key)
    if rows.select(fields).group_by(fields).aggregate([]).num_rows == rows.num_rows:
        return rows
    placed = rows.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    if ordering is not None:
        # Stable, so that of equal values the last stays the last.
        by = [(ordering, "ascending", "at_start"), (_PLACE, "ascending", "at_end")]
        rows = rows.take(pc.sort_indices(placed, sort_keys=by))
        placed = rows.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    last = placed.group_by(fields).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
    return rows.take(last)


def key_texts(rows: pa.Table, fields: Sequence[str]) -> pa.Array:
    """The record keys of rows, as Hudi's generators spell them: see `harness.tables.key_text`."""
    texts = [rows.column(name).cast(pa.string()).combine_chunks() for name in fields]
    if len(texts) == 1:
        return texts[0]
    shown = [
        pc.fill_null(pc.if_else(pc.equal(text, ""), "__empty__", text), "__null__")
        for text in texts
    ]
    parts = [
        pc.binary_join_element_wise(pa.scalar(name), text, ":")
        for name, text in zip(fields, shown, strict=True)
    ]
    return pc.binary_join_element_wise(*parts, ",")


def key_tests(keys: Sequence[str], fields: Sequence[str], schema: pa.Schema) -> list[Test]:
    """Tests that the rows of some record keys pass, by which files can be left out.

    For a key of several columns each column is compared by itself: other combinations pass, too.
    """
    texts = [list(keys)] if len(fields) == 1 else _columns(keys, fields)
    return _typed(
        [(name, "in", values) for name, values in zip(fields, texts, strict=True)], schema
    )


def _columns(keys: Sequence[str], fields: Sequence[str]) -> list[list[str]]:
    """The values of each key column, from keys `name:text,name:text`."""
    found: list[list[str]] = [[] for _ in fields]
    for key in keys:
        rest = f",{key}"
        for place in reversed(range(len(fields))):
            rest, mark, text = rest.rpartition(f",{fields[place]}:")
            if not mark:
                raise ValueError(f"{key!r} is no key of {', '.join(fields)}")
            if text == "__null__":
                raise ValueError(f"{key!r}: a null is not looked for")
            found[place].append("" if text == "__empty__" else text)
    return found


def _typed(tests: Iterable[Test], schema: pa.Schema) -> list[Test]:
    """Tests with distinct values of the column's type."""
    found = []
    for column, op, values in tests:
        kind = plain_type(schema.field(column).type)
        typed = pa.array(values).cast(kind).unique()
        found.append((column, op, typed.to_pylist()))
    return found


def partition_path(row: Mapping[str, Any], fields: Sequence[str]) -> str:
    """The values of the partition columns, joined by slashes."""
    return "/".join(NO_PARTITION if row[name] is None else str(row[name]) for name in fields)


def plainly(rows: pa.Table) -> pa.Table:
    """The same rows in types that both formats, and every reader, have."""
    return rows.cast(plain(rows.schema))


def plain(schema: pa.Schema) -> pa.Schema:
    """A schema in such types (see `plain_type`), all of whose columns may be null."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """A type without large, viewed and encoded values, with times in microseconds.

    A time in nanoseconds is Spark's INT96: a point in time, in UTC.
    """
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.unit == "ns" or kind.tz else None)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    return _plain_nested(kind) if pa.types.is_nested(kind) else _PLAIN.get(kind, kind)


_PLAIN = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def _plain_nested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    return pa.list_(kind.value_field.with_type(plain_type(kind.value_type)))


def module_beside(path: Path) -> ModuleType:
    """A module of ours, which no package here has, from its file."""
    spec = importlib.util.spec_from_file_location(f"keymark_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise AssertionError(f"{path} is a file of Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def explain(error: Exception) -> str:
    """Kind and first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def main() -> None:
    """Serve the parent."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    pipe = module_beside(Path(__file__).parents[1] / "pipe_server.py")
    pipe.serve(Session(), explain=explain)


if __name__ == "__main__":
    main()
