"""git, asked about a checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

from keymark.harness.errors import GitError, HarnessError

CLONE = Path(__file__).parents[2]
"""The clone that this code runs from, where it runs from one."""

_SECONDS = 60


def git(root: Path, *words: str) -> bytes:
    """What git answers.

    Args:
        root: the checkout.
        words: the command; options end before what a user gave.

    Raises:
        GitError: git refuses.
        HarnessError: there is no git, or it does not end.
    """
    try:
        asked = subprocess.run(  # noqa: S603 - no shell, and options end before what is given
            ["git", "-C", str(root), *words],  # noqa: S607 - the git that is installed
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"git {words[0]}: {error}") from error
    if asked.returncode != 0:
        error_lines = asked.stderr.decode(errors="replace").strip().splitlines() or ["it failed"]
        raise GitError(f"git {words[0]}: {error_lines[-1]}")
    return asked.stdout
