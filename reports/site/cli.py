"""The command `site`; only modules named `cli` print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from keymark.reports.render.text import clean
from keymark.reports.site.build import build


def site(
    results: Annotated[
        Path, typer.Argument(metavar="[RESULTS]", help="the folder of published runs")
    ] = Path("results"),
    out: Annotated[Path, typer.Option(help="folder to write to")] = Path("public"),
) -> None:
    """Make a static site of all published runs."""
    made = build(results, out)
    for path, reason in made.left_out:
        print(f"left out: {clean(path, 4000)}: {reason}", file=sys.stderr)
    runs = f"{len(made.runs)} run{'' if len(made.runs) == 1 else 's'}"
    print(f"site of {runs}: {clean(made.index, 4000)}")
