"""The errors of a run, in one tree.

HarnessError            root; carries the exit code; its text is one line that names the thing
+-- ScenarioError       a scenario that cannot be run; its text lists every mistake
+-- RunFolderError      a run folder that is not one, is damaged or belongs to another scenario
+-- CellError           a cell could not be measured; fails the cell, not the run
|   +-- LimitError      an engine would have taken more memory than it may; nothing is wrong
+-- GitError            git refuses
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class HarnessError(Exception):
    """Root of the errors of this package; its text is one line that names the thing."""

    exit_code: ClassVar[int] = 2


class ScenarioError(HarnessError):
    """A scenario that cannot be run.

    Args:
        source: the file or built-in name that was read.
        mistakes: `key: what is wrong` each.
    """

    def __init__(self, source: str, mistakes: Sequence[str]) -> None:
        self.source = source
        self.mistakes = tuple(mistakes)
        super().__init__(listed(source, self.mistakes))


def listed(source: str, mistakes: Sequence[str]) -> str:
    """All mistakes of a file, on one line."""
    if len(mistakes) == 1:
        return f"{source}: {mistakes[0]}"
    return f"{source}: {len(mistakes)} mistakes: {'; '.join(mistakes)}"


class RunFolderError(HarnessError):
    """The folder is no run folder, is damaged, or belongs to another scenario."""


class CellError(HarnessError):
    """A cell could not be measured, with the reason."""


class LimitError(CellError):
    """An engine was ended because it would have taken more than it may, with what that is."""


class GitError(HarnessError):
    """Git refuses, with the last line of what it says."""


def raise_interrupt(error: BaseException) -> None:
    """Raise the KeyboardInterrupt that `error` has taken the place of; return if there is none.

    Ctrl-C makes PySpark cancel its jobs. Its clean-up then raises the jobs' failure in place of
    the interrupt, which stays in the error's context.
    """
    earlier = error.__context__
    while earlier is not None:
        if isinstance(earlier, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        earlier = earlier.__context__
