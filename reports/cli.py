"""The command `report`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keymark import terminal
from keymark.harness.store import run_folder_mirror
from keymark.reports.publish import Published, publish
from keymark.reports.render.grids import Grid
from keymark.reports.render.text import clean
from keymark.reports.sections.page import Report

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.command()
def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="run folders, paths or URLs")],
    out: Annotated[str | None, typer.Option(help="folder to write to, a path or URL")] = None,
    *,
    with_: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="RUN",
            help="run with a larger table: the last size of tables that grow",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print summary.json instead of the comparison")
    ] = False,
) -> None:
    """Make a page, charts, tables and files out of run folders."""
    target = out or (runs[0] if len(runs) == 1 else f"{runs[0].rstrip('/')}/comparison")
    paths = [run_folder_mirror.local(run) for run in runs]
    larger = None if with_ is None else run_folder_mirror.local(with_)
    with run_folder_mirror.writing(target) as folder:
        published = publish(paths, folder, larger)
    show(published, target, as_json=as_json)


def show(published: Published, target: str, *, as_json: bool) -> None:
    """Print the comparison and where the page is, or the summary as one JSON document."""
    if as_json:
        print(json.dumps(published.summary, indent=2, allow_nan=False))
        return
    console = terminal.console()
    _comparison(console, published.report)
    print(f"report: {clean(target.rstrip('/'), 4000)}/report/index.html")


def _comparison(console: Console, found: Report) -> None:
    for run in found.runs:
        if run.label:
            console.print(Text(run.name))
        if run.headline:
            told = run.headline
            console.print(Text(" ".join([told.sentence, *told.more, told.noise])))
        for answer in run.answers:
            if answer.where:
                console.print(Text(answer.where))
            console.print(_table(answer.table))
            for each in answer.words:
                console.print(Text(f"- {each.topic}: {each.words}"))
    if found.verified and not found.unchecked:
        console.print(f"verified: all {found.checked} cells")
    for label, reasons in found.failed:
        console.print(Text(f"FAILED {label}: {'; '.join(reasons)}"))
    for label, limit in found.ended:
        console.print(Text(f"ENDED {label}: {limit}"))


def _table(answer: Grid) -> Table:
    is_marked = any(entry.mark for row in answer.rows for entry in row.entries)
    caption = "* best or joint best" if is_marked else None
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=caption)
    shown.add_column("index", overflow="fold")
    rows = [[e.value + ("*" if e.mark else "") for e in row.entries] for row in answer.rows]
    for head, values in zip(answer.heads, zip(*rows, strict=True), strict=True):
        shown.add_column(head, justify="right", min_width=max(map(len, values)))
    for row, texts in zip(answer.rows, rows, strict=True):
        shown.add_row(Text(row.label), *map(Text, texts))
    return shown
