"""The command `report`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keymark import terminal
from keymark.harness.store import run_folder_mirror
from keymark.reports.errors import ReportError
from keymark.reports.model import interval_width, projection
from keymark.reports.model.interval_width import IntervalWidth
from keymark.reports.publish import Published, publish
from keymark.reports.render.format_values import digits
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
            help="run with a larger table, which is shown as the largest size",
        ),
    ] = None,
    widest: Annotated[
        bool,
        typer.Option(help="say how wide the widest interval of a headline time is; write nothing"),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="print summary.json instead of the comparison")
    ] = False,
) -> None:
    """Make a page, charts, tables and files out of run folders."""
    if widest and (len(runs) > 1 or out or with_):
        raise ReportError("--widest is about one run and writes nothing")
    target = out or (runs[0] if len(runs) == 1 else f"{runs[0].rstrip('/')}/comparison")
    paths = [run_folder_mirror.local(run) for run in runs]
    if widest:
        (run,) = projection.load(paths)
        show_widest(interval_width.widest(run), as_json=as_json)
        return
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


def show_widest(found: IntervalWidth | None, *, as_json: bool) -> None:
    """Print the widest interval in a sentence, or as one JSON document (empty where none is)."""
    if as_json:
        print(json.dumps({} if found is None else asdict(found), allow_nan=False))
    elif found is None:
        print("No headline time was repeated.")
    else:
        width = digits(100 * found.half_width)
        print(f"The widest interval is ±{width} % (n = {found.n}): {found.what}.")


def _comparison(console: Console, found: Report) -> None:
    for run in found.runs:
        if run.label:
            console.print(Text(run.name))
        if run.headline:
            headline = run.headline
            console.print(Text(" ".join([headline.sentence, *headline.more, headline.noise])))
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
