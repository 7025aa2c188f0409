"""The command `history`; only modules named `cli` print."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from keymark import terminal
from keymark.harness.store import run_folder_mirror
from keymark.reports.errors import ReportError
from keymark.reports.history.chart import history_chart, said
from keymark.reports.history.series import History, read
from keymark.reports.render.charts import Lettering
from keymark.reports.render.files import make_folder, write
from keymark.reports.render.format_values import amount
from keymark.reports.render.text import clean, markdown

_LONGEST_TABLE = 40


def history(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN RUN...", help="run folders or summaries, in order; or URLs"),
    ],
    out: Annotated[
        str | None, typer.Option(help="folder to write to; default history beside the last run")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Find where numbers changed over many runs, and draw them."""
    found = read([run_folder_mirror.local(run) for run in runs])
    target = out or run_folder_mirror.beside(runs[-1], "history")
    document = answer(found)
    with run_folder_mirror.writing(target) as folder:
        try:
            make_folder(folder, folder)
            drawing = history_chart(found)
            runs_named = f"{clean(found.runs[0])} to {clean(found.runs[-1])}"
            lettering = Lettering(subtitle=f"{len(found.runs):,} runs: {runs_named}")
            svg, png = drawing.alone(lettering)
            write(folder / "history.svg", svg)
            write(folder / "history.png", png)
            write(folder / "history.json", json.dumps(document, indent=2, allow_nan=False) + "\n")
            write(folder / "history.md", page(found))
        except OSError as error:
            raise ReportError(f"{clean(folder)} cannot be written: {error.strerror}") from error
    if as_json:
        print(json.dumps(document, indent=2, allow_nan=False))
    else:
        show(found, target)


def answer(found: History) -> dict[str, Any]:
    """A history as one JSON document."""
    return {
        "runs": list(found.runs),
        "series": len(found.series),
        "warnings": list(found.warnings),
        "begins": [
            {
                "step": each.step,
                "run": each.run,
                "run_id": found.runs[each.run],
                "words": each.words,
            }
            for each in found.begins
        ],
        "changes": [
            {
                "cell": clean(series.key.cell),
                "step": clean(series.key.step),
                "phase": clean(series.key.phase),
                "metric": clean(series.key.metric),
                "unit": clean(series.unit),
                "run": series.runs[change.at],
                "run_id": found.runs[series.runs[change.at]],
                "before": change.before,
                "after": change.after,
                "ratio": change.ratio,
                "p": change.p,
            }
            for series in found.changed
            for change in series.changes
        ],
    }


def page(found: History) -> str:
    """A history as Markdown."""
    lines = [f"# {len(found.runs)} runs", "", _sentence(found), ""]
    lines += ["| first run of it | what | before | after | change |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(map(markdown, row))} |" for row in _rows(found)]
    lines += ["", "![the history](history.svg)", ""]
    lines += [f"- {markdown(words)}" for words in _begun(found)]
    return "\n".join(lines + [f"- {markdown(warning)}" for warning in found.warnings])


def show(found: History, target: str) -> None:
    """Print the changes for people."""
    console = terminal.console()
    for warning in found.warnings:
        console.print(Text(f"warning: {warning}"))
    rows = list(_rows(found))
    if rows:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for head in ("first run of it", "what", "before", "after", "change"):
            table.add_column(head, overflow="fold")
        for row in rows[:_LONGEST_TABLE]:
            table.add_row(*map(Text, row))
        console.print(table)
    for words in _begun(found):
        console.print(Text(words))
    console.print(Text(_sentence(found)))
    print(f"chart: {clean(target.rstrip('/'))}/history.svg")


def _begun(found: History) -> list[str]:
    """Where steps begin anew, a sentence each."""
    return [f"From {found.runs[each.run]} on {each.words}." for each in found.begins]


def _sentence(found: History) -> str:
    changes = sum(len(series.changes) for series in found.changed)
    return f"{changes} changes of level in {len(found.series)} numbers over {len(found.runs)} runs"


def _rows(found: History) -> Iterable[tuple[str, str, str, str, str]]:
    for series in found.changed:
        for change in series.changes:
            yield (
                found.runs[series.runs[change.at]],
                clean(" ".join(series.key)),
                amount(change.before, series.unit),
                amount(change.after, series.unit),
                said(change.ratio),
            )
