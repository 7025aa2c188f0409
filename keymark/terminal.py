"""The console that commands print to, and the command line that they were called by."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from rich.console import Console

CALLED_BY = "KEYMARK_CALLED_BY"
"""Environment variable of a command that another one calls, which reports an interruption."""
_FILE_WIDTH = 250


def console() -> Console:
    """As wide as the terminal or as COLUMNS says; wide and unfolded where it is a file."""
    fits = Console().is_terminal or "COLUMNS" in os.environ
    width = None if fits else _FILE_WIDTH
    return Console(highlight=False, markup=False, soft_wrap=not fits, width=width)


class InterruptionError(Exception):
    """Ctrl-C; the text says what is kept of the command."""

    exit_code = 130


def going_on(folder: str | os.PathLike[str]) -> str:
    """What is kept of an interrupted command, and the same command to go on with it."""
    words = iter(sys.argv[1:])
    kept = []
    for word in words:
        if word == "--out":
            next(words, None)
        elif word != "--resume" and not word.startswith("--out="):
            kept.append(word)
    program = Path(sys.argv[0]).name
    started = [".venv/bin/python", program] if program == "run_bench.py" else ["keymark"]
    again = shlex.join([*started, *kept, "--resume", "--out", os.fspath(folder)])
    return f"what was measured is kept in {os.fspath(folder)}; go on with: {again}"
