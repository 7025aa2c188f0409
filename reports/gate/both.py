"""Both sides of a gate measured now: two revisions of Keymark, in turns, in one run.

This package sees files only, so `run_bench.py run` measures in a process of its own, with one
engine for each revision; what is judged is its run folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from reports.errors import ReportError
from reports.text import clean

RUN_BENCH = Path(__file__).parents[2] / "run_bench.py"
WORKTREE = "worktree"
"""What stands for the code as it lies there, instead of a revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """A run with two engines.

    Attributes:
        folder: the run folder.
        base: engine of the base.
        candidate: engine of the candidate.
    """

    folder: Path
    base: str
    candidate: str


def measure(
    base: str, candidate: str, *, scenario: str, sets: Sequence[str], out: Path | None
) -> Both:
    """Measure two revisions.

    Args:
        base: a revision as git knows it, or `WORKTREE`.
        candidate: the same.
        scenario: built-in name or file.
        sets: `key=value` laid over it.
        out: the run folder; None for `runs/<run_id>`.

    Raises:
        ReportError: the two are one commit, or the run left nothing to judge.
        typer.Exit: the run could not be made; it has said why.
    """
    words = ["run", scenario, "--json"]
    words += [word for name in (base, candidate) for word in ("--engine", f"native@{name}")]
    words += [word for text in sets for word in ("--set", text)]
    words += ["--out", str(out)] if out else []
    made = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, str(RUN_BENCH), *words], stdout=subprocess.PIPE, check=False
    )
    if made.returncode not in (0, 1):
        raise typer.Exit(made.returncode)
    try:
        folder = out or Path("runs") / str(json.loads(made.stdout)["run_id"])
        engines = json.loads((folder / "run.json").read_text("utf-8"))["scenario"]["engines"]
        ours, theirs = engines
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"the run of both revisions left nothing to judge: {clean(error)}"
        ) from error
    return Both(folder=folder, base=ours, candidate=theirs)
