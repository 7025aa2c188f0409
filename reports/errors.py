"""What can go wrong while a report is made: the input is not a run folder, or is damaged.

ReportError             root; a run folder or summary cannot be used; one line that names the thing
+-- SettingsError       a file of a user's settings cannot be used; its text lists every mistake
    +-- PolicyError     a policy of a gate
    +-- PriceError      a price file of a plan
    +-- ProvenanceError what says where published runs come from
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from keymark.harness.errors import listed


class ReportError(Exception):
    """A run folder cannot be reported on; its text is one line that names the thing."""

    exit_code: ClassVar[int] = 2


class SettingsError(ReportError):
    """A file of a user's settings that cannot be used.

    Args:
        source: the file that was read.
        mistakes: `key: what is wrong` each.
    """

    def __init__(self, source: str, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(listed(source, self.mistakes))


class PolicyError(SettingsError):
    """A policy that cannot be used."""


class PriceError(SettingsError):
    """A price file that cannot be used."""


class ProvenanceError(SettingsError):
    """A file on where published runs come from that cannot be used."""
