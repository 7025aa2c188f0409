"""The commands `results` and `rerun`; only modules named `cli` print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from keymark import terminal
from keymark.reports import own_process
from keymark.reports.errors import ReportError
from keymark.reports.published import add as add_
from keymark.reports.published import check as check_
from keymark.reports.published import rerun as rerun_
from keymark.reports.published.agreement import agreement, document
from keymark.reports.published.check import Checked
from keymark.reports.render.text import clean
from keymark.terminal import InterruptionError

app = typer.Typer(help="Check published runs, and publish a run.", add_completion=False)

_LONGEST_LIST = 100


@app.command()
def check(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="a published run, or a folder of them"),
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Derive every number of published runs again from their samples: exit 0 right, 1 refused."""
    made = [each for folder in folders for each in check_.check(folder)]
    show(made, as_json=as_json)
    if any(each.findings for each in made):
        raise typer.Exit(1)


@app.command()
def add(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run that has ended")],
    to: Annotated[Path, typer.Option(help="the folder of published runs")] = Path("results"),
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Publish a run: packed, without paths of the machine, and checked."""
    made = add_.add(run, to)
    show([made], as_json=as_json)
    if made.findings:
        raise typer.Exit(1)


def rerun(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="the published run to repeat")],
    *,
    results: Annotated[Path, typer.Option(help="the folder of published runs")] = Path("results"),
    compare: Annotated[
        Path | None, typer.Option(metavar="RUN", help="compare this run; measure nothing")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="run folder of the repetition")] = None,
    when_quiet: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="wait at most this long until the machine is quiet: 30m"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Repeat a published run and say whether both agree: exit 0 they do, 1 they do not."""
    first = rerun_.published(run_id, results)
    for option, given in (("--out", out), ("--when-quiet", when_quiet)):
        if compare is not None and given is not None:
            raise ReportError(f"--compare measures nothing: leave out {option}")
    second = compare or out or rerun_.new_folder(first.resolve().name)
    if compare is None:
        words = rerun_.command(first)
        words += [] if when_quiet is None else ["--when-quiet", when_quiet]
        try:
            own_process.measure([*words, "--json", "--out", str(second)], called_by="rerun")
        except KeyboardInterrupt as stop:
            raise InterruptionError(f"what was measured is kept in {second}") from stop
    found = agreement(first, second)
    if as_json:
        print(json.dumps(document(found), indent=2, allow_nan=False))
    else:
        console = terminal.console()
        for warning in found.warnings:
            console.print(Text(f"warning: {warning}"))
        for sentence in found.sentences()[:_LONGEST_LIST]:
            console.print(Text(sentence))
        console.print(Text(found.finding()))
        console.print(Text(f"run: {clean(second, 4000)}"))
    if not found.agrees:
        raise typer.Exit(1)


def show(made: Sequence[Checked], *, as_json: bool) -> None:
    """Print what was found, for people or as one JSON document."""
    if as_json:
        print(json.dumps({"runs": [_document(each) for each in made]}, indent=2))
        return
    console = terminal.console()
    for each in made:
        name = clean(each.path, 4000)
        for finding in each.findings[:_LONGEST_LIST]:
            console.print(Text(f"{name}: {finding}"))
        if len(each.findings) > _LONGEST_LIST:
            left = len(each.findings) - _LONGEST_LIST
            console.print(Text(f"{name}: ... and {left:,} more (--json has all of them)"))
        if each.findings:
            many = "" if len(each.findings) == 1 else "s"
            console.print(Text(f"refused: {name}, {len(each.findings):,} finding{many}"))
        else:
            basis = f"{each.samples:,} samples give every number; {each.provenance.label}"
            console.print(Text(f"right: {name}, {basis}"))


def _document(made: Checked) -> dict[str, Any]:
    return {
        "folder": clean(made.path, 4000),
        "right": not made.findings,
        "samples": made.samples,
        "provenance": made.provenance.label,
        "findings": [
            {"file": each.file, "place": each.place, "said": each.mistake} for each in made.findings
        ],
    }
