"""`keymark table index`: the partitions of the metadata table, and the table's index."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from keymark import counts
from keymark.indexes.installed import specs
from keymark.table.cli.arguments import (
    DryRunOpt,
    JsonOpt,
    MasterOpt,
    OptionOpt,
    PathArg,
    open_table,
    options_of,
)
from keymark.table.cli.output import answer, print_json
from keymark.table.errors import InputError
from keymark.table.properties.options import STORAGE_SETTINGS
from keymark.table.runtime.bar import Bar

app = typer.Typer(no_args_is_help=True)

PartitionArg = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]",
        help="record_index, column_stats, bloom_filters, files, the table's index, or secondary",
    ),
]
ColumnOpt = Annotated[
    str | None, typer.Option("--column", metavar="NAME", help="Column of a secondary index.")
]
_RECORD_INDEX = "record_index"
_SECONDARY = "secondary"


@app.command("list")
def list_partitions(
    path: PathArg, option: OptionOpt = None, master: MasterOpt = None, as_json: JsonOpt = False
) -> None:
    """List the partitions of the metadata table, and the indexes beside them."""
    found = open_table(path, option, master).indexes()
    answer({"partitions": [dataclasses.asdict(part) for part in found]}, as_json=as_json)


@app.command()
def use(
    path: PathArg,
    name: Annotated[str, typer.Argument(metavar="NAME", help="record, global_simple, ...")],
    dry_run: DryRunOpt = False,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Change the index of the table."""
    # Only options tell that a table of Hudi's is one of buckets.
    lays_out = name in specs() and specs()[name].owns_layout
    first = [o for o in option or [] if lays_out or o.startswith(STORAGE_SETTINGS)]
    table = open_table(path, first, master)
    with Bar() as bar:
        switch = table.use_index(name, options_of(option), dry_run=dry_run, progress=bar)
    done = bool(switch.steps) and not dry_run
    if as_json:
        print_json({**dataclasses.asdict(switch), "done": done})
        return
    if not switch.steps:
        print(f"{path} has the index {switch.after} already: nothing to do")
        return
    print(f"{'was' if done else 'would be'} done to change {path} from {switch.before} to {name}:")
    print("\n".join(f"  {n}. {step}" for n, step in enumerate(switch.steps, 1)))
    print("from then on:")
    print("\n".join(f"  - {text}" for text in switch.meaning))


@app.command()
def build(
    path: PathArg,
    name: PartitionArg = _RECORD_INDEX,
    *,
    column: ColumnOpt = None,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Build a partition, the table's own index or a secondary one; no other writer may write."""
    secondary = _secondary_column(name, column)
    table = open_table(path, option, master)
    with Bar() as bar:
        if secondary is not None:
            table.build_secondary(secondary, bar)
            built = True
        else:
            built = table.build_index(name, bar)
    answer({"partition": name, "built": built}, as_json=as_json)


@app.command()
def schedule(
    path: PathArg,
    name: PartitionArg = _RECORD_INDEX,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Plan to build a partition while others write; `run` builds it."""
    instant = open_table(path, option, master).schedule_index(name)
    answer({"partition": name, "instant": instant}, as_json=as_json)


@app.command()
def run(
    path: PathArg,
    name: PartitionArg = _RECORD_INDEX,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Build what was scheduled."""
    table = open_table(path, option, master)
    with Bar() as bar:
        instant = table.run_index(name, bar)
    answer({"partition": name, "instant": instant}, as_json=as_json)


@app.command()
def abort(
    path: PathArg,
    name: PartitionArg = _RECORD_INDEX,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Give up a scheduled build."""
    open_table(path, option, master).abort_index(name)
    answer({"partition": name}, as_json=as_json)


@app.command()
def drop(
    path: PathArg,
    name: PartitionArg = _RECORD_INDEX,
    *,
    column: ColumnOpt = None,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Remove a partition of the metadata table, the table's own index or a secondary index."""
    secondary = _secondary_column(name, column)
    table = open_table(path, option, master)
    if secondary is not None:
        table.drop_secondary(secondary)
    else:
        table.drop_index(name)
    answer({"partition": name}, as_json=as_json)


@app.command()
def repair(
    path: PathArg,
    name: PartitionArg = _RECORD_INDEX,
    *,
    shard: Annotated[
        int, typer.Option("--shard", metavar="N", help="Its number, as `table check` names it.")
    ],
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Build one shard of the record index anew."""
    if name != _RECORD_INDEX:
        raise InputError(f"only {_RECORD_INDEX} has shards to repair, not {name}")
    table = open_table(path, option, master)
    with Bar() as bar:
        keys = table.repair_shard(shard, bar)
    answer({"partition": name, "keys": keys}, as_json=as_json)


@app.command()
def reshard(
    path: PathArg,
    *,
    shards: Annotated[
        str | None, typer.Option("--shards", metavar="N|auto", help="The new number of shards.")
    ] = None,
    give_up: Annotated[bool, typer.Option("--abort", help="Give up what was begun.")] = False,
    option: OptionOpt = None,
    master: MasterOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Change the number of shards of the record index beside writers; resumes after a kill."""
    table = open_table(path, option, master)
    if give_up or shards is None:
        if not give_up or shards is not None:
            raise InputError("give either --shards N, --shards auto or --abort")
        table.abort_reshard()
        answer({"aborted": True}, as_json=as_json)
        return
    with Bar() as bar:
        done = table.reshard_index(_groups(shards), bar)
    answer(dataclasses.asdict(done), as_json=as_json)


def _secondary_column(name: str, column: str | None) -> str | None:
    """The column whose secondary index is meant; None for a partition of the metadata table."""
    if (name == _SECONDARY) != (column is not None):
        raise InputError("a secondary index is named with its column: `secondary --column NAME`")
    return column


def _groups(text: str) -> int | None:
    """A number of file groups; None for `auto`."""
    if text == "auto":
        return None
    number = counts.count(text)
    if number is None:
        raise InputError(f"--shards {text!r} is neither a number nor auto")
    return number
