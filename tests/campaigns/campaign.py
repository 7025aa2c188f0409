"""What a fault campaign is: many independent cases, each with its own seed, and what they found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass
class Outcome:
    """What one case did.

    Attributes:
        counts: how often something happened ("schedules", "answers: typed error", ...).
        failures: one line for each broken promise; empty if the case passed.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class Campaign(Protocol):
    """A fault campaign. The module `tests/campaigns/campaign_<name>.py` holds it as `CAMPAIGN`.

    Attributes:
        seed: what the cases are drawn from.
        seconds: how long one case may take; a case that takes longer is a hang, and a failure.
        share: how many of the cases the test suite runs.
    """

    seed: int
    seconds: float
    share: int

    def cases(self) -> Sequence[str]:
        """The names of all cases, always the same, in an order that spreads kinds evenly."""

    def run(self, case: str, folder: Path) -> Outcome:
        """Run one case in an empty folder. The name alone decides what happens."""
