"""Runs in processes of their own: this package sees files only, so `keymark run` measures there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import typer

from keymark.reports.errors import ReportError
from keymark.terminal import CALLED_BY, InterruptionError


def measure(words: Sequence[str], *, called_by: str) -> None:
    """Run a command that measures into a run folder; it tells its progress on standard error.

    Args:
        words: of the command, behind the program's name.
        called_by: the command that calls it, which reports an interruption.

    Raises:
        ReportError: the run was killed.
        KeyboardInterrupt: the run was interrupted.
        typer.Exit: it could not be made; it has said why.
    """
    made = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-P", "-m", "keymark", *words],
        stdout=subprocess.DEVNULL,
        check=False,
        env={**os.environ, CALLED_BY: called_by},
    )
    if made.returncode < 0:
        raise ReportError(f"the run was killed by signal {-made.returncode}")
    if made.returncode == InterruptionError.exit_code:
        raise KeyboardInterrupt
    # 1: cells failed, which the judgement reports.
    if made.returncode not in (0, 1):
        raise typer.Exit(made.returncode)
