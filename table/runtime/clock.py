"""The one door to the time, so that tests can set it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock for instants, monotonic clock for durations."""

    def millis(self) -> int:
        """Milliseconds since the epoch."""

    def seconds(self) -> float:
        """Seconds of a clock that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


class SystemClock:
    """The machine's clocks."""

    def millis(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def seconds(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)
