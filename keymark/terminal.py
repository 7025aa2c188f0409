"""The console that commands print to."""

from __future__ import annotations

import os

from rich.console import Console

_FILE_WIDTH = 250


def console() -> Console:
    """As wide as the terminal or as COLUMNS says; wide and unfolded where it is a file."""
    fits = Console().is_terminal or "COLUMNS" in os.environ
    width = None if fits else _FILE_WIDTH
    return Console(highlight=False, markup=False, soft_wrap=not fits, width=width)
