"""The command `history`; only modules named `cli` print."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from keymark import terminal
from keymark.harness.store import run_folder_mirror
from keymark.reports.errors import ReportError
from keymark.reports.history.chart import change_words, drawn_words, history_chart
from keymark.reports.history.headline_chart import WorkCharts, headline_charts, lettering
from keymark.reports.history.headlines import WorkHistory, read_all
from keymark.reports.history.series import History, read
from keymark.reports.published.check import folders
from keymark.reports.render.charts import Lettering
from keymark.reports.render.figures import write_charts
from keymark.reports.render.files import make_folder, write
from keymark.reports.render.format_values import amount
from keymark.reports.render.grids import markdown_table
from keymark.reports.render.text import clean, markdown

_LONGEST_TABLE = 40


def history(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN...|DIR",
            help="run folders or summaries, in order, or URLs; or a folder of published runs",
        ),
    ],
    out: Annotated[
        str | None, typer.Option(help="folder to write to; default history beside the last run")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Find where numbers changed over many runs, and draw them.

    For a folder of runs of any scenarios, such as results, each headline is drawn over the runs of
    the same work on the same machine.
    """
    target = out or run_folder_mirror.beside(runs[-1], "history")
    if len(runs) == 1 and not run_folder_mirror.is_url(runs[0]) and _is_folder_of_runs(runs[0]):
        _history_of_all(Path(runs[0]), target, as_json=as_json)
        return
    found = read([run_folder_mirror.local(run) for run in runs])
    document = answer(found)
    with run_folder_mirror.writing(target) as folder, _naming(folder):
        drawing = history_chart(found)
        runs_named = f"{clean(found.runs[0])} to {clean(found.runs[-1])}"
        subtitle = f"{len(found.runs):,} runs: {runs_named}"
        pictures = drawing.pictures(Lettering(subtitle=subtitle))
        write(folder / "history.svg", pictures.svg)
        write(folder / "history.png", pictures.png)
        write(folder / "history.json", json.dumps(document, indent=2, allow_nan=False) + "\n")
        write(folder / "history.md", page(found))
    if as_json:
        print(json.dumps(document, indent=2, allow_nan=False))
    else:
        show(found, target)


def _is_folder_of_runs(name: str) -> bool:
    return Path(name).is_dir() and not (Path(name) / "run.json").exists()


def _history_of_all(path: Path, target: str, *, as_json: bool) -> None:
    """The history of each headline of all runs below a folder."""
    works = read_all(folders(path))
    document, drawn = {"works": [_work(each) for each in works]}, list(headline_charts(works))
    with run_folder_mirror.writing(target) as folder, _naming(folder):
        for work, charts in drawn:
            write_charts(folder, [chart for _, chart in charts], lettering(work))
        write(folder / "history.json", json.dumps(document, indent=2, allow_nan=False) + "\n")
        write(folder / "history.md", _page_of_all(works, drawn))
    if as_json:
        print(json.dumps(document, indent=2, allow_nan=False))
        return
    console = terminal.console()
    for each in works:
        console.print(Text(_words(each)))
        for headline in each.headlines:
            console.print(Text(f"  {headline.title}: {headline.finding}"))
            for row in _rows(headline.history):
                console.print(Text(f"    {' | '.join(row)}"))
    print(f"charts: {clean(target.rstrip('/'))}/history.md")


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Make the folder to write to; a failure is one line that names it."""
    try:
        make_folder(folder, folder)
        yield
    except OSError as error:
        raise ReportError(f"{clean(folder)} cannot be written: {error.strerror}") from error


def _words(work: WorkHistory) -> str:
    """A work in a line: how often it was measured, and where."""
    many = len(work.runs)
    alone = "; a history needs two" if many == 1 else ""
    return f"{work.scenario}: {many} run{'s' if many > 1 else ''} on {work.machine}{alone}"


def _work(work: WorkHistory) -> dict[str, Any]:
    return {
        "scenario": work.scenario,
        "machine": work.machine,
        "runs": list(work.runs),
        "headlines": [
            {"measure": clean(each.key), "finding": each.finding, **answer(each.history)}
            for each in work.headlines
        ],
    }


def _page_of_all(works: Sequence[WorkHistory], drawn: Sequence[WorkCharts]) -> str:
    """The histories of all headlines as Markdown, with their charts."""
    lines = [f"# {sum(len(each.runs) for each in works)} runs", ""]
    for work, charts in drawn:
        lines += [f"## {markdown(_words(work))}", ""]
        for headline, chart in charts:
            lines += [f"**{markdown(headline.title)}.** {headline.finding}", ""]
            lines += [f"- {' | '.join(map(markdown, row))}" for row in _rows(headline.history)]
            lines += ["", f"![{markdown(chart.title)}]({chart.key}.svg)", ""]
            if not_all := drawn_words(headline.history):
                lines += [f"{not_all}; the table has all.", "", *markdown_table(chart.grid, "cell")]
                lines.append("")
    lines += [f"- {markdown(_words(each))}" for each in works if not each.headlines]
    return "\n".join([*lines, ""])


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
    if not_all := drawn_words(found):
        lines += [f"{not_all}; the table has every change.", ""]
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
    if not_all := drawn_words(found):
        console.print(Text(f"{not_all}; the table in history.md has every change"))
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
                change_words(change.ratio),
            )
