"""The command `advise`; only modules named `cli` print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from keymark.reports.advise import advice, render
from keymark.reports.advise.log_split import split_log
from keymark.reports.advise.situation import Asked
from keymark.reports.plan import calibration as calibrations
from keymark.reports.plan import render as plan_text
from keymark.reports.plan.cli import print_lines, print_table
from keymark.reports.plan.flags import Engine, count
from keymark.reports.render.text import clean
from keymark.table.cli.arguments import OptionOpt, PathArg, options_of
from keymark.table.storage.stores import storage_at
from keymark.table.survey.survey import survey


def advise(
    path: PathArg,
    index: Annotated[str | None, typer.Option(help="index that the writer's options name")] = None,
    batch: Annotated[
        int | None,
        typer.Option(parser=count, metavar="N", help="rows of a batch; default: the table's own"),
    ] = None,
    executors: Annotated[int, typer.Option(min=1, help="executors of the writer")] = 1,
    cores: Annotated[
        int | None, typer.Option(min=1, help="cores of an executor; default: the calibration's")
    ] = None,
    keys_stay: Annotated[
        bool, typer.Option(help="a key never changes its partition: compare local indexes, too")
    ] = False,
    commits: Annotated[
        int | None, typer.Option(min=1, help="read the newest N commits only")
    ] = None,
    option: OptionOpt = None,
    engine: Engine = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a saved fit of `plan --save`")
    ] = None,
    event_log: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Spark event log of a write: where its time went"),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write a page to this file")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Read a Hudi table in place, and say what to change; nothing is written to it."""
    known = calibrations.load_for(engine, calibration)
    asked = Asked(
        index=index,
        batch=batch,
        executors=executors,
        cores=cores or known.cores,
        keys_stay=keys_stay,
    )
    log = split_log(event_log) if event_log else None
    found = survey(path, storage_at(path, options_of(option)), commits=commits)
    made = advice.advise(found, asked, known, log)
    if html is not None:
        from keymark.reports.advise import page  # noqa: PLC0415  templates, only for a page

        html.write_text(page.html(made), encoding="utf-8")
    if as_json:
        print(json.dumps(advice.document(made), indent=2, allow_nan=False))
        return
    print_lines(render.lines(made))
    if made.plan is not None:
        print("\nwhat each index would cost")
        print(plan_text.about(made.plan.calibration.engine))
        print_lines(plan_text.lines(made.plan))
        print_table(*plan_text.table(made.plan))
    if html is not None:
        print(f"page: {clean(html)}")
