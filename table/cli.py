"""`keymark table`: tables from the command line."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from keymark.indexes.installed import default_index, specs
from keymark.table.errors import InputError, InvalidOptionError, TableWarning
from keymark.table.index.protocol import LookupStats
from keymark.table.properties.options import STORAGE_SETTINGS
from keymark.table.rows.files import RowWriter, read_data, read_frame, read_keys
from keymark.table.runtime.bar import Bar
from keymark.table.table import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Create, write and read tables.")

_INDEX = default_index().name
PathArg = Annotated[str, typer.Argument(metavar="PATH", help="The table's folder or URL.")]
DataArg = Annotated[
    list[Path], typer.Argument(metavar="DATA", help="Parquet, CSV or JSON lines files.")
]
OptionOpt = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="K=V", help="A hoodie.* or keymark.* option."),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
KeysOpt = Annotated[
    Path | None, typer.Option("--keys", metavar="FILE", help="Keys: Parquet, or a key per line.")
]
KeyOpt = Annotated[
    list[str] | None, typer.Option("--key", metavar="K", help="One encoded record key.")
]
MasterOpt = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master for large work.")
]


@app.command()
def create(
    path: PathArg,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="COLS", help="Record key columns; keys are made without."),
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
    """Make an empty table; it takes --master, as all commands of tables do, and needs no Spark."""
    del master
    table = Table.create(
        path,
        name=name,
        record_key=key,
        partition_path=partition,
        ordering=ordering,
        index=index,
        options=_options(option),
    )
    _answer(
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
    """Add rows; keys that exist are refused, dropped or doubled as the dup.policy option says."""
    _write("insert", _open(path, option, master), data, as_json=as_json)


@app.command()
def upsert(
    path: PathArg,
    data: DataArg,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Add rows with new keys, replace the rows of known ones."""
    _write("upsert", _open(path, option, master), data, as_json=as_json)


@app.command("bulk-insert")
def bulk_insert(
    path: PathArg,
    data: DataArg,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Add many rows as new files; with --master, executors read and write Parquet DATA."""
    _write("bulk_insert", _open(path, option, master), data, as_json=as_json)


@app.command()
def delete(
    path: PathArg,
    data: Annotated[list[Path] | None, typer.Argument(metavar="[DATA]")] = None,
    keys: KeysOpt = None,
    key: KeyOpt = None,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Take keys away, given as rows with the key columns, a keys file or single keys."""
    table = _open(path, option, master)
    if bool(data) + (keys is not None) + bool(key) != 1:
        raise InputError("delete takes either DATA, --keys or --key")
    gone = read_data(data, table) if data else _keys(table, keys, key)
    _answer(dataclasses.asdict(table.delete(gone)), as_json=as_json)


@app.command()
def purge(
    path: PathArg,
    keys: Annotated[
        Path, typer.Option("--keys", metavar="FILE", help="Keys: Parquet, or a key per line.")
    ],
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Erase keys from every file, older ones and indexes too, and prove it; exit 1 if any is left.

    Older instants that needed an erased file cannot be read any more. Savepoints that keep a key
    are named, and have to be dropped first.
    """
    table = _open(path, option, master)
    with Bar() as bar:
        report = table.purge(read_keys(keys, table), bar)
    _answer(dataclasses.asdict(report), as_json=as_json)
    if not report.proven:
        raise typer.Exit(1)


@app.command()
def read(
    path: PathArg,
    keys: KeysOpt = None,
    key: KeyOpt = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="A,B")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="T", help="An instant.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Parquet, CSV or JSON lines.")
    ] = None,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Read rows; without --out the first 20 are printed."""
    table = _open(path, option, master)
    asked = _keys(table, keys, key) if keys is not None or key else None
    chosen = None if columns is None else [name for name in columns.split(",") if name]
    plan = table.scan(asked, chosen, as_of)
    count, shown = 0, []
    with RowWriter(out, plan.schema) as writer:
        for rows in plan.tables():
            if out is None and count < 20 and not as_json:
                shown.append(rows.slice(0, 20 - count))
            writer.write(rows)
            count += rows.num_rows
    answer = {
        "rows": count,
        "files_total": plan.files_total,
        "files_read": len(plan.files),
        "out": None if out is None else str(out),
    }
    if shown:
        lines = pa.concat_tables(shown).to_pandas().to_string(index=False).split("\n")
        print("\n".join(map(_visible, lines)))
    _answer(answer, as_json=as_json)


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
    table = _open(path, option, master)
    stats = LookupStats()
    found = table.lookup(_keys(table, keys, key), stats=stats)
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
        _print_json({"keys": answers, **dataclasses.asdict(stats)})
        return
    for answer in answers:
        place = "absent"
        if answer["found"]:
            place = f"{answer['partition_path'] or '.'} {answer['file_id']}"
        print(f"{_visible(str(answer['record_key']))}\t{place}")


@app.command()
def info(
    path: PathArg, option: OptionOpt = None, master: MasterOpt = None, as_json: JsonOpt = False
) -> None:
    """Show what the table is made of."""
    _answer(dataclasses.asdict(_open(path, option, master).info()), as_json=as_json)


@app.command()
def check(
    path: PathArg, option: OptionOpt = None, master: MasterOpt = None, as_json: JsonOpt = False
) -> None:
    """Compare the table with itself, beside pending work; exit 1 if anything differs."""
    with Bar() as bar:
        result = _open(path, option, master).check(bar)
    _answer({"ok": result.ok, **dataclasses.asdict(result)}, as_json=as_json)
    if not result.ok:
        raise typer.Exit(1)


@app.command()
def recover(
    path: PathArg,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say it.")] = False,
    option: OptionOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Go back to the last whole commit, where files of the newest commits are empty, cut or gone.

    Torn files and later commits are moved aside, into .hoodie/.keymark/torn, and named.
    """
    with Bar() as bar:
        report = Table.recover(path, dry_run=dry_run, options=_options(option), progress=bar)
    _answer(dataclasses.asdict(report), as_json=as_json)


@app.command()
def accept(
    path: PathArg,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say it.")] = False,
    option: OptionOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Take the present values of hoodie.properties as the table's own, if they fit its files.

    Writes refuse values that differ from those that were sealed before.
    """
    with warnings.catch_warnings():
        # The command says the same.
        warnings.simplefilter("ignore", TableWarning)
        table = _open(path, option, None)
    accepted = table.accept(dry_run=dry_run)
    _answer({"accepted": accepted, "done": not dry_run}, as_json=as_json)


INDEX_ACTIONS = ("list", "use", "build", "schedule", "run", "abort", "drop", "repair")
SERVICES = ("compact", "clean", "archive", "rollback", "savepoint", "restore")


@app.command("index")
def index_command(
    action: Annotated[str, typer.Argument(metavar="ACTION", help=", ".join(INDEX_ACTIONS))],
    path: PathArg,
    name: Annotated[str, typer.Argument(metavar="[NAME]")] = "record_index",
    shard: Annotated[int | None, typer.Option("--shard", metavar="N", help="For repair.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="For use: only say it.")] = False,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """List, build, drop or repair a partition of the metadata table (record_index by default).

    build needs the table for itself; schedule and run build while others write, abort gives that
    up; repair builds one shard of the record index anew. use gives the table another index: NAME
    is record, global_simple and so on.
    """
    if action == "use":
        # Only options tell that a table of Hudi's is one of buckets.
        lays_out = name in specs() and specs()[name].owns_layout
        first = [o for o in option or [] if lays_out or o.startswith(STORAGE_SETTINGS)]
        table = _open(path, first, master)
        _use_index(path, table, name, _options(option), dry_run=dry_run, as_json=as_json)
        return
    table = _open(path, option, master)
    answer: dict[str, Any] = {"partition": name}
    with Bar() as bar:
        if action == "list":
            answer = {"partitions": [dataclasses.asdict(part) for part in table.indexes()]}
        elif action == "build":
            answer["built"] = table.build_index(name, bar)
        elif action == "schedule":
            answer["instant"] = table.schedule_index(name)
        elif action == "run":
            answer["instant"] = table.run_index(name, bar)
        elif action == "abort":
            table.abort_index(name)
        elif action == "drop":
            table.drop_index(name)
        elif action == "repair":
            if shard is None:
                raise InputError("repair needs --shard N, as `table check` names it")
            answer["keys"] = table.repair_shard(shard, bar)
        else:
            raise InputError(f"no action {action!r}: one of {', '.join(INDEX_ACTIONS)}")
    _answer(answer, as_json=as_json)


@app.command()
def rewrite(
    path: PathArg,
    virtual_keys: Annotated[
        str, typer.Option("--virtual-keys", metavar="on|off|ignore", help="What becomes of keys.")
    ],
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Write a table anew without stored record keys, or with them; what was cut off goes on.

    on: keys are made from their columns. off: they are stored. ignore: they are stored, and readers
    make them all the same, so that older readers and newer ones can use the table.
    """
    with Bar() as bar:
        report = _open(path, option, master).rewrite(virtual_keys, bar)
    _answer(dataclasses.asdict(report), as_json=as_json)


@app.command()
def services(
    path: PathArg,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help=", ".join(SERVICES))],
    instant: Annotated[str | None, typer.Option("--instant", metavar="T")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Give the savepoint up.")] = False,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Run a table service: compact the metadata table, clean, archive, or go back in time.

    rollback takes the latest commit back, named by --instant; without one only what dead writers
    left. savepoint keeps a commit, restore goes back to one.
    """
    table = _open(path, option, master)
    if service == "restore" or drop:
        if instant is None:
            raise InputError(f"{service} needs --instant T, a savepoint of the table")
        made = table.drop_savepoint(instant) if drop else table.restore(instant)
    elif service in ("rollback", "savepoint"):
        made = getattr(table, service)(instant)
    elif service in SERVICES:
        made = getattr(table, service)()
    else:
        raise InputError(f"no service {service!r}: one of {', '.join(SERVICES)}")
    _answer({"service": service, "instant": made}, as_json=as_json)


def _use_index(
    path: str,
    table: Table,
    name: str,
    options: Mapping[str, str],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    with Bar() as bar:
        switch = table.use_index(name, options, dry_run=dry_run, progress=bar)
    done = bool(switch.steps) and not dry_run
    if as_json:
        _print_json({**dataclasses.asdict(switch), "done": done})
        return
    if not switch.steps:
        print(f"{path} has the index {switch.after} already: nothing to do")
        return
    print(f"{'was' if done else 'would be'} done to change {path} from {switch.before} to {name}:")
    print("\n".join(f"  {n}. {step}" for n, step in enumerate(switch.steps, 1)))
    print("from then on:")
    print("\n".join(f"  - {text}" for text in switch.meaning))


def _open(path: str, option: list[str] | None, master: str | None) -> Table:
    """The table; with a master, what is worth distributing runs there."""
    table = Table.open(path, options=_options(option))
    if master is None:
        return table
    from keymark.table.runtime.spark import session  # noqa: PLC0415  most calls need no Spark

    return Table.open(path, options=_options(option), spark=session(master, {}))


def _write(operation: str, table: Table, data: list[Path], *, as_json: bool) -> None:
    rows = None
    if operation == "bulk_insert" and table.has_session:
        rows = read_frame(data, table.session())
    if rows is None:
        rows = read_data(data, table)
    _answer(dataclasses.asdict(getattr(table, operation)(rows)), as_json=as_json)


def _options(given: list[str] | None) -> dict[str, str]:
    options = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidOptionError(f"option {text!r} is not of the form name=value")
        options[name.strip()] = value.strip()
    return options


def _keys(table: Table, file: Path | None, single: list[str] | None) -> pa.Array | list[str]:
    if (file is None) == (not single):
        raise InputError("give either --keys FILE or --key K")
    return list(single or []) if file is None else read_keys(file, table)


def _answer(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        _print_json(document)
        return
    width = max(len(name) for name in document)
    for name, value in document.items():
        if isinstance(value, list | tuple):
            print(f"{name:<{width}}  {len(value)}")
            for item in value:
                print(f"{'':<{width}}  {_visible(_line(item))}")
        else:
            print(f"{name:<{width}}  {_visible(_line(value))}")


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name} {_line(item)}" for name, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _visible(text: str) -> str:
    """Text for a terminal: control characters, which could steer it, are shown escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _print_json(document: dict[str, Any]) -> None:
    json.dump(document, sys.stdout, ensure_ascii=False)
    print()
