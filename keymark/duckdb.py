"""Tables in DuckDB: only files that can hold a matching row are opened (extra `duckdb`).

    import duckdb
    import keymark.duckdb

    con = duckdb.connect()
    trips = keymark.duckdb.read(con, "/data/trips", "uuid = '0b7c…'")
    con.sql("SELECT city, sum(fare) FROM trips GROUP BY city")

DuckDB reads the Parquet files of a local table itself. It gets the rows in Arrow, in memory, where
the table is in an object store, or where the files' types are not those of the table.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace

import duckdb
import pyarrow as pa

from keymark.table.errors import InputError
from keymark.table.read.arrow import ReadPlan, hidden_columns, open_base
from keymark.table.read.matching import matching_files
from keymark.table.read.predicate import ANYTHING, Condition
from keymark.table.read.sql import sql_condition
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.table import Table

_GLOB = re.compile(r"[*?\[]")
_NUMBERS = {"tinyint", "smallint", "integer", "bigint", "float", "double"}


def read(
    con: duckdb.DuckDBPyConnection,
    table: Table | str | os.PathLike[str],
    where: str | None = None,
    *,
    as_of: str | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return the rows of a table's snapshot that pass a condition, as a relation.

    Args:
        con: the connection.
        table: the table, or its path.
        where: a condition in DuckDB's SQL. Record keys in it choose files by the record index,
            ranges of columns by the column statistics; DuckDB applies it to the rows.
        as_of: the instant of an older snapshot.

    Raises:
        InputError: the table has no schema yet.
        duckdb.Error: `where` is no condition over the table's columns.
    """
    table = table if isinstance(table, Table) else Table.open(table)
    plan = table.scan(as_of=as_of)
    schema = plan.known_schema()
    condition = _condition(con, where, schema)
    plan = replace(plan, files=matching_files(table, plan, condition))
    rows = _by_parquet(con, plan, schema)
    if rows is None:
        rows = con.from_arrow(plan.to_arrow())
    return rows if where is None else rows.filter(where)


def _condition(con: duckdb.DuckDBPyConnection, where: str | None, schema: pa.Schema) -> Condition:
    """What files are skipped by; nothing where DuckDB compares texts by a collation."""
    collation = con.execute("SELECT current_setting('default_collation')").fetchall()
    if collation != [("",)]:
        return ANYTHING
    try:
        return sql_condition(where, schema, "duckdb")
    except InputError:
        # DuckDB knows more SQL, and names what is wrong in it.
        return ANYTHING


def _by_parquet(
    con: duckdb.DuckDBPyConnection, plan: ReadPlan, schema: pa.Schema
) -> duckdb.DuckDBPyRelation | None:
    """The rows as DuckDB reads them from the files; None where it cannot, or takes other types."""
    storage = plan.state.storage
    if not isinstance(storage, LocalStorage) or not plan.files:
        return None
    paths = [f"{storage.root}/{file.path}" for file in plan.files]
    if any(map(_GLOB.search, paths)):
        return None
    for file in plan.files:
        open_base(storage, file)
    found = con.read_parquet(paths, union_by_name=True, hive_partitioning=False)
    stored = dict(zip(found.columns, found.types, strict=True))
    hidden = hidden_columns(plan.state.config)
    empty = con.from_arrow(schema.empty_table())
    columns = []
    for name, kind in zip(empty.columns, empty.types, strict=True):
        quoted = '"' + name.replace('"', '""') + '"'
        value = "NULL" if name in hidden or name not in stored else quoted
        alike = value == "NULL" or stored[name] == kind
        if not alike and not {stored[name].id, kind.id} <= _NUMBERS:
            return None
        columns.append(f"CAST({value} AS {kind}) AS {quoted}")
    return found.project(", ".join(columns))
