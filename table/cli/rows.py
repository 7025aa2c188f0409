"""Commands that create, write and read."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from keymark.indexes.installed import default_index
from keymark.table.cli.arguments import (
    DataArg,
    JsonOpt,
    KeyOpt,
    KeysOpt,
    MasterOpt,
    OptionOpt,
    PathArg,
    keys_of,
    open_table,
    options_of,
)
from keymark.table.cli.output import answer, print_json, print_rows, visible
from keymark.table.errors import InputError
from keymark.table.format.schema import META_COLUMNS
from keymark.table.index.protocol import LookupStats
from keymark.table.read.skipping import ReadStats
from keymark.table.rows.arrow import to_arrow
from keymark.table.rows.files import RowWriter, read_data, read_frame
from keymark.table.runtime.bar import Bar
from keymark.table.table import Table

app = typer.Typer()

_INDEX = default_index().name
_SHOWN = 20


@app.command()
def create(
    path: PathArg,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="COLS", help="Record key columns; without them keys are generated."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Table name.")] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", metavar="COLS", help="Partition columns.")
    ] = None,
    ordering: Annotated[
        str | None, typer.Option("--ordering", metavar="COL", help="Ordering column.")
    ] = None,
    index: Annotated[str, typer.Option("--index", help="Index of the table.")] = _INDEX,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Make an empty table; --master is accepted, as by all table commands, and not needed."""
    del master
    table = Table.create(
        path,
        name=name,
        record_key=key,
        partition_path=partition,
        ordering=ordering,
        index=index,
        options=options_of(option),
    )
    answer(
        {"path": table.storage.root, "name": table.config.name, "index": table.choice.name},
        as_json=as_json,
    )


@app.command()
def insert(
    path: PathArg,
    data: DataArg,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Add rows; hoodie.datasource.insert.dup.policy says what becomes of keys that exist."""
    _write("insert", open_table(path, option, master), data, as_json=as_json)


@app.command()
def upsert(
    path: PathArg,
    data: DataArg,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Insert rows with new keys, and replace or keep the rows of keys that exist."""
    _write("upsert", open_table(path, option, master), data, as_json=as_json)


@app.command("bulk-insert")
def bulk_insert(
    path: PathArg,
    data: DataArg,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Add many rows as new files; with --master, executors read and write Parquet DATA."""
    _write("bulk_insert", open_table(path, option, master), data, as_json=as_json)


@app.command()
def delete(
    path: PathArg,
    data: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DATA]", help="Files of rows with the key columns."),
    ] = None,
    keys: KeysOpt = None,
    key: KeyOpt = None,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Delete keys, given as rows with the key columns, a keys file or single keys."""
    table = open_table(path, option, master)
    if bool(data) + (keys is not None) + bool(key) != 1:
        raise InputError("delete takes either DATA, --keys or --key")
    gone = read_data(data, table) if data else keys_of(table, keys, key)
    answer(dataclasses.asdict(table.delete(gone)), as_json=as_json)


@app.command()
def purge(
    path: PathArg,
    keys: KeysOpt = None,
    key: KeyOpt = None,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Erase keys from every file, older ones and indexes too, and prove it; exit 1 if any is left.

    Older instants that needed an erased file cannot be read any more. If savepoints keep a key, the
    error names them: drop them first.
    """
    table = open_table(path, option, master)
    with Bar() as bar:
        report = table.purge(keys_of(table, keys, key), bar)
    answer(dataclasses.asdict(report), as_json=as_json)
    if not report.proven:
        raise typer.Exit(1)


@app.command()
def read(
    path: PathArg,
    keys: KeysOpt = None,
    key: KeyOpt = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="A condition in Spark's SQL; starts Spark."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="T", help="The table as of this instant.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Parquet, CSV or JSON lines.")
    ] = None,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Read rows; without --out print the first 20, or a row for each key if keys are given."""
    table = open_table(path, option, master)
    wanted = keys_of(table, keys, key) if keys is not None or key else None
    chosen = None if columns is None else [name for name in columns.split(",") if name]
    stats = ReadStats()
    if where is None:
        plan = table.scan(wanted, chosen, as_of)
        stats = ReadStats(files_total=plan.files_total, files_read=len(plan.files))
        schema, parts = plan.schema, plan.tables()
    else:
        # The rows that pass are collected: a condition is for few of many.
        found = to_arrow(table.read(wanted, where, chosen, as_of, stats=stats))
        schema, parts = found.schema, iter([found])
    listed = as_json and out is None and (wanted is not None or where is not None)
    count, most = 0, sys.maxsize if listed else max(_SHOWN, 0 if wanted is None else len(wanted))
    first = pa.table({}) if schema is None else schema.empty_table()
    with RowWriter(out, schema) as writer:
        for rows in parts:
            first = pa.concat_tables([first, rows.slice(0, max(0, most - count))])
            writer.write(rows)
            count += rows.num_rows
    counts = {
        "rows": count,
        "files_total": stats.files_total,
        "files_read": stats.files_read,
        "out": None if out is None else str(out),
    }
    if as_json:
        print_json(counts | ({"records": first.to_pylist()} if listed else {}))
        return
    if out is None:
        # A person sees the meta columns if --columns asks for them.
        hidden = [] if chosen else [name for name in first.column_names if name in META_COLUMNS]
        print_rows(first.drop_columns(hidden))
    answer(counts, as_json=False)


@app.command()
def lookup(
    path: PathArg,
    keys: KeysOpt = None,
    key: KeyOpt = None,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Say in which file group each key is."""
    table = open_table(path, option, master)
    stats = LookupStats()
    found = table.lookup(keys_of(table, keys, key), stats=stats)
    assert isinstance(found, pa.Table)
    answers = [
        {
            "record_key": row["record_key"],
            "found": row["file_id"] is not None,
            "partition_path": row["partition_path"],
            "file_id": row["file_id"],
            "instant_time": row["instant_time"],
        }
        for row in found.to_pylist()
    ]
    if as_json:
        print_json({"keys": answers, **dataclasses.asdict(stats)})
        return
    for each in answers:
        place = "absent"
        if each["found"]:
            place = f"{each['partition_path'] or '.'} {each['file_id']}"
        print(f"{visible(str(each['record_key']))}\t{visible(place)}")


def _write(operation: str, table: Table, data: list[Path], *, as_json: bool) -> None:
    rows = None
    if operation == "bulk_insert" and table.has_session:
        rows = read_frame(data, table.session())
    if rows is None:
        rows = read_data(data, table)
    answer(dataclasses.asdict(getattr(table, operation)(rows)), as_json=as_json)
