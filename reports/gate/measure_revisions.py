"""Both sides of a gate measured now: two revisions of Keymark, in turns, in one run.

The run is that of a process of its own, with one engine for each revision; what is judged is its
run folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from keymark.harness.store import run_folder_mirror
from keymark.reports import own_process
from keymark.reports.errors import ReportError
from keymark.reports.render.text import clean

WORKTREE = "worktree"
"""What stands for the code of the work tree, instead of a revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRevisions:
    """A run with two engines.

    Attributes:
        folder: the run folder.
        base: engine of the base.
        candidate: engine of the candidate.
    """

    folder: Path
    base: str
    candidate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """What is measured.

    Attributes:
        scenario: built-in name or file; None for the kernels, without tables.
        sets: `key=value` laid over it.
        when_quiet: for how long it waits until the machine is quiet, as `30m`; None: it only warns.
        resume: go on with the run that was cut off.
    """

    scenario: str | None
    sets: tuple[str, ...] = ()
    when_quiet: str | None = None
    resume: bool = False

    def words(self, base: str, candidate: str) -> list[str]:
        """The command that measures two revisions."""
        engines = [f"native@{name}" for name in (base, candidate)]
        rest = [word for text in self.sets for word in ("--set", text)]
        rest += [] if self.when_quiet is None else ["--when-quiet", self.when_quiet]
        rest += ["--resume"] * self.resume
        if self.scenario is None:
            return ["kernels", *engines, "--json", *rest]
        named = [word for engine in engines for word in ("--engine", engine)]
        return ["run", self.scenario, "--json", *named, *rest]


def new_folder(asked: MeasureRequest) -> str:
    """The run folder of a gate for which none is named."""
    return f"runs/{datetime.now(UTC):%Y%m%dT%H%M%S}-{Path(asked.scenario or 'kernels').stem}"


def measure(base: str, candidate: str, asked: MeasureRequest, out: str) -> TwoRevisions:
    """Measure two revisions.

    Args:
        base: a revision as git knows it, or `WORKTREE`.
        candidate: the same.
        asked: what is measured.
        out: the run folder, a path or URL.

    Raises:
        ReportError: the two are one commit, or the run was killed or left nothing to judge.
        typer.Exit: the run could not be made; it has said why.
    """
    own_process.measure([*asked.words(base, candidate), "--out", out], called_by="gate")
    try:
        return kept(run_folder_mirror.local(out))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"the run of both revisions left nothing to judge: {clean(error)}"
        ) from error


def measured_once(base: str, candidate: str, asked: MeasureRequest, folder: Path) -> TwoRevisions:
    """Measure two revisions into a folder, go on with what is there, or take it as it is.

    Raises:
        ReportError: as `measure`.
        typer.Exit: as `measure`.
    """
    try:
        status = json.loads((folder / "run.json").read_text("utf-8"))["status"]
    except FileNotFoundError:
        return measure(base, candidate, asked, str(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{clean(folder)} is no run folder: {clean(error)}") from error
    if status != "complete":
        return measure(base, candidate, replace(asked, resume=True), str(folder))
    return kept(folder)


def kept(folder: Path) -> TwoRevisions:
    """A run of two revisions that was measured before.

    Raises:
        OSError: it is not there.
        ValueError: its `run.json` is damaged; KeyError, TypeError: or says something else.
    """
    ours, theirs = json.loads((folder / "run.json").read_text("utf-8"))["scenario"]["engines"]
    return TwoRevisions(folder=folder, base=ours, candidate=theirs)
