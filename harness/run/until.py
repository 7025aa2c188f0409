"""Repetitions until the intervals of a run are narrow.

How wide they are is a matter of statistics, which is `reports`' part: it is asked between two
repetitions, in a process of its own that sees nothing but the run folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.errors import HarnessError
from keymark.harness.redaction import terminal_text

LEAST = 6
"""Repetitions that are always taken: fewer values have no interval of 95 % (`reports/stats`)."""

MOST = 60
"""Repetitions at which a run ends anyway, if its scenario asks for no more than `LEAST`."""


def percent(share: float) -> str:
    """A half-width for readers: `±14 %`."""
    return f"±{100 * share:.{0 if share >= 0.1 else 1}f} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Widest:
    """The widest interval of a run's headlines.

    Attributes:
        half_width: half of it as a share of the median.
        what: the number that it is of.
    """

    half_width: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """When a run has enough repetitions.

    Attributes:
        half_width: that every interval must be below, as a share of its median.
        most: repetitions at which the run ends anyway.
        widest: looks how wide the widest one is; None where no number was repeated.
    """

    half_width: float
    most: int
    widest: Callable[[], Widest | None]

    def first_look(self, there: int) -> int:
        """Repetitions after which it looks for the first time.

        A continued run takes one more than the number that is `there`.
        """
        return min(max(LEAST, there + 1), max(self.most, there))

    def unreached(self, repetitions: int, notes: list[str], *, is_over: bool) -> Widest | None:
        """The widest interval, if it asks for one more repetition; None where the run ends.

        Args:
            repetitions: that every cell has.
            notes: get how it ended.
            is_over: whether nothing more can be taken.
        """
        widest = self.widest()
        if widest is None:
            return None
        if is_over or repetitions >= self.most or widest.half_width < self.half_width:
            notes.append(self.outcome(widest, repetitions))
            return None
        return widest

    def outcome(self, widest: Widest, repetitions: int) -> str:
        """How it ended, for readers of the report."""
        reached = percent(widest.half_width)
        every = "every" if widest.half_width < self.half_width else "not every"
        return (
            f"After {repetitions} repetitions {every} interval is narrower than "
            f"{percent(self.half_width)}; the widest is {reached}: {widest.what}."
        )


def widest_of(folder: Path) -> Widest | None:
    """The widest interval of a run folder, as `keymark report --widest` tells it.

    Raises:
        HarnessError: the folder could not be read.
    """
    made = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-P", "-m", "keymark", "report", str(folder), "--widest", "--json"],
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        reason = terminal_text(made.stderr.strip()).removeprefix("error: ")
        raise HarnessError(f"the intervals of {folder} are not known: {reason}")
    found = json.loads(made.stdout)
    return Widest(half_width=found["half_width"], what=found["what"]) if found else None
