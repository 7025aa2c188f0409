"""What can go wrong while a report is made: the input is not a run folder, or is damaged."""

from __future__ import annotations

from typing import ClassVar


class ReportError(Exception):
    """A run folder cannot be reported on; its text is one line that names the thing."""

    exit_code: ClassVar[int] = 2
