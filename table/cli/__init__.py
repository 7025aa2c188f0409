"""`keymark table`: tables from the command line."""

from __future__ import annotations

import typer

from keymark.table.cli import index, rows, services

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Create, write and read tables.")
app.add_typer(rows.app)
app.add_typer(services.app)
app.add_typer(index.app, name="index", help="Build, drop and repair indexes, or use another one.")
