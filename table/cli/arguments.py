"""Arguments that the commands of tables share, and what is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from keymark.table.errors import InputError, InvalidOptionError
from keymark.table.rows.files import read_keys
from keymark.table.table import Table

PathArg = Annotated[str, typer.Argument(metavar="PATH", help="The table's folder or URL.")]
DataArg = Annotated[
    list[Path], typer.Argument(metavar="DATA", help="Parquet, CSV or JSON lines files.")
]
OptionOpt = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="K=V", help="A hoodie.* or keymark.* option; repeatable."),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DryRunOpt = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
KeysOpt = Annotated[
    Path | None, typer.Option("--keys", metavar="FILE", help="Keys: Parquet, or a key per line.")
]
KeyOpt = Annotated[
    list[str] | None, typer.Option("--key", metavar="K", help="One encoded record key; repeatable.")
]
MasterOpt = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master for large work.")
]


def open_table(path: str, option: list[str] | None, master: str | None) -> Table:
    """The table; with a master, what is worth distributing runs there."""
    table = Table.open(path, options=options_of(option))
    if master is None:
        return table
    from keymark.table.runtime.spark import session  # noqa: PLC0415  most calls need no Spark

    return Table.open(path, options=options_of(option), spark=session(master, {}))


def options_of(texts: list[str] | None) -> dict[str, str]:
    """Options of `name=value` texts."""
    options = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidOptionError(f"option {text!r} is not of the form name=value")
        options[name.strip()] = value.strip()
    return options


def keys_of(table: Table, file: Path | None, single: list[str] | None) -> pa.Array | list[str]:
    """The keys of a file or of single `--key` options."""
    if (file is None) == (not single):
        raise InputError("give either --keys FILE or --key K")
    return list(single or []) if file is None else read_keys(file, table)
