"""Commands about a table as a whole: what it is, whether it is sound, its services."""

from __future__ import annotations

import dataclasses
import warnings
from enum import StrEnum
from typing import Annotated

import typer

from keymark.table.cli.arguments import (
    DryRunOpt,
    JsonOpt,
    MasterOpt,
    OptionOpt,
    PathArg,
    open_table,
    options_of,
)
from keymark.table.cli.output import answer
from keymark.table.errors import InputError, TableWarning
from keymark.table.index.choice import options_seen
from keymark.table.properties.config import load_config
from keymark.table.runtime.bar import Bar
from keymark.table.storage.stores import storage_at
from keymark.table.table import Table

app = typer.Typer()


class Service(StrEnum):
    """What `table services` runs."""

    COMPACT = "compact"
    CLEAN = "clean"
    ARCHIVE = "archive"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"


@app.command()
def info(
    path: PathArg, option: OptionOpt = None, master: MasterOpt = None, as_json: JsonOpt = False
) -> None:
    """Show rows, index and shards; a bucket table of Hudi's is recognised by its files' names."""
    options = options_of(option)
    storage = storage_at(path, options)
    seen = options_seen(load_config(storage), options, storage)
    named = [*(option or []), *(f"{name}={value}" for name, value in seen.items())]
    found = open_table(path, named, master).info()
    if seen:
        reason = f"the names of its files; another command needs options {' and '.join(named)}"
        found = dataclasses.replace(found, index_reason=reason)
    answer(dataclasses.asdict(found), as_json=as_json)


@app.command()
def check(
    path: PathArg, option: OptionOpt = None, master: MasterOpt = None, as_json: JsonOpt = False
) -> None:
    """Compare the index, the metadata table and the files; exit 1 if anything differs."""
    with Bar() as bar:
        result = open_table(path, option, master).check(bar)
    answer({"ok": result.ok, **dataclasses.asdict(result)}, as_json=as_json)
    if not result.ok:
        raise typer.Exit(1)


@app.command()
def recover(
    path: PathArg,
    dry_run: DryRunOpt = False,
    option: OptionOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Go back to the last whole commit, where files of the newest commits are empty, cut or gone.

    Torn files and later commits are moved aside, into .hoodie/.keymark/torn, and named.
    """
    with Bar() as bar:
        report = Table.recover(path, dry_run=dry_run, options=options_of(option), progress=bar)
    answer(dataclasses.asdict(report), as_json=as_json)


@app.command()
def accept(
    path: PathArg,
    dry_run: DryRunOpt = False,
    option: OptionOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Take the present values of hoodie.properties as the table's own, if they fit its files.

    Writes refuse values that differ from those that were sealed before.
    """
    with warnings.catch_warnings():
        # The command says the same.
        warnings.simplefilter("ignore", TableWarning)
        table = open_table(path, option, None)
    accepted = table.accept(dry_run=dry_run)
    answer({"accepted": accepted, "done": not dry_run}, as_json=as_json)


@app.command()
def rewrite(
    path: PathArg,
    virtual_keys: Annotated[
        str, typer.Option("--virtual-keys", metavar="on|off|ignore", help="See above.")
    ],
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Write a table anew without stored record keys, or with them; resumes what was cut off.

    on: keys are made from their columns. off: they are stored. ignore: they are stored, and readers
    make them all the same, so that older readers and newer ones can use the table.
    """
    with Bar() as bar:
        report = open_table(path, option, master).rewrite(virtual_keys, bar)
    answer(dataclasses.asdict(report), as_json=as_json)


@app.command()
def services(
    path: PathArg,
    service: Service,
    instant: Annotated[
        str | None, typer.Option("--instant", metavar="T", help="A commit or a savepoint.")
    ] = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="Give up the savepoint that --instant names.")
    ] = False,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Run a table service: compact the metadata table, clean, archive, or go back in time.

    rollback takes the latest commit back, which --instant must name; without --instant it only
    removes what dead writers left. savepoint keeps a commit: the latest, or that of --instant.
    restore goes back to the savepoint that --instant names.
    """
    if drop and service is not Service.SAVEPOINT:
        raise InputError(f"--drop is for savepoint, and {service} has none")
    if instant is not None and service in (Service.COMPACT, Service.CLEAN, Service.ARCHIVE):
        raise InputError(f"{service} is about the whole table and takes no --instant")
    if instant is None and (drop or service is Service.RESTORE):
        raise InputError(f"{service} needs --instant T, a savepoint of the table")
    table = open_table(path, option, master)
    if service is Service.RESTORE or drop:
        assert instant is not None
        made = table.drop_savepoint(instant) if drop else table.restore(instant)
    elif service in (Service.ROLLBACK, Service.SAVEPOINT):
        made = getattr(table, service)(instant)
    else:
        made = getattr(table, service)()
    answer({"service": service, "instant": made}, as_json=as_json)
