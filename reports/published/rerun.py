"""A published run measured again on this machine, by the command that it was measured by."""

from __future__ import annotations

import difflib
import shlex
from datetime import UTC, datetime
from pathlib import Path

from keymark.reports.errors import ReportError
from keymark.reports.model import facts, projection
from keymark.reports.published.run import INFO
from keymark.reports.render.text import clean

_LEFT_OUT = "…/"
"""What a published run has in place of folders of the machine that measured."""


def published(run_id: str, root: Path) -> Path:
    """The folder of a published run.

    Args:
        run_id: its id, or the path of its folder.
        root: the folder of published runs.

    Raises:
        ReportError: there is none; the nearest id is named.
    """
    for folder in (root / run_id, Path(run_id)):
        if "\0" not in run_id and (folder / INFO).is_file():
            return folder
    known = sorted(path.parent.name for path in root.glob(f"*/{INFO}"))
    near = difflib.get_close_matches(run_id, known, n=1, cutoff=0.4)
    hint = f"; did you mean {clean(near[0])}?" if near else f" ({len(known)} runs are published)"
    raise ReportError(f"{clean(root)} has no run {clean(run_id)}{hint}")


def command(folder: Path) -> list[str]:
    """The words after the program's name that measured a run.

    Raises:
        ReportError: the run cannot be read, was not made by `run`, or its command names a path of
            the machine that measured it.
    """
    (run,) = projection.load([folder])
    try:
        words = shlex.split(facts.command(run))
    except ValueError as error:
        mistake = f"the command of {run.run_id} cannot be read: {error}"
        raise ReportError(clean(mistake)) from error
    if "run" not in words:
        raise ReportError(f"{clean(run.run_id)} was not made by `run`, and is not repeated")
    words = words[words.index("run") :]
    absent = next((word for word in words if _LEFT_OUT in word), None)
    if absent is not None:
        raise ReportError(
            f"{clean(run.run_id)} was measured with {clean(absent)}, which is not here; measure it "
            "yourself and name the run with --compare"
        )
    return words


def new_folder(run_id: str) -> Path:
    """The run folder of a repetition for which none is named."""
    return Path("runs") / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-rerun-{run_id}"
