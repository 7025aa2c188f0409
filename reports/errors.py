"""What can go wrong while a report is made: the input is not a run folder, or is damaged.

ReportError             root; a run folder or summary cannot be used; one line that names the thing
+-- PolicyError         a policy of a gate cannot be used; its text lists every mistake
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class ReportError(Exception):
    """A run folder cannot be reported on; its text is one line that names the thing."""

    exit_code: ClassVar[int] = 2


class PolicyError(ReportError):
    """A policy that cannot be used.

    Args:
        source: the file that was read.
        mistakes: `key: what is wrong` each.
    """

    def __init__(self, source: str, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        if len(self.mistakes) == 1:
            super().__init__(f"{source}: {self.mistakes[0]}")
        else:
            listed = "; ".join(self.mistakes)
            super().__init__(f"{source}: {len(self.mistakes)} mistakes: {listed}")
