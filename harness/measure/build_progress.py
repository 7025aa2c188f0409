"""The progress of a long build over all its processes: what is done, time taken, time left.

A build that is cut off resumes in another process. What it took so far is kept in a file of its
own, written at each mark of progress; what a process did behind its last mark is not counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from keymark.harness.measure.environment import peak_memory
from keymark.harness.run.time_left import duration

# What a key costs in each part of a build of mappings, measured.
_PARTS = {"tasks of the key scan": 1.0, "shards": 6.0}


class BuildProgress:
    """Progress of one build, shown with the time left.

    Args:
        path: the file that is kept.
        clock: monotonic seconds.
        show: receives progress in words.

    Attributes:
        seconds: that the build took, up to the last mark.
        peak: most bytes of memory that one of its processes held, up to the last mark.
        starts: processes that worked on it.
    """

    def __init__(self, path: Path, clock: Callable[[], float], show: Callable[[str], None]) -> None:
        known = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self.seconds: float = known.get("seconds", 0.0)
        self.peak: int = known.get("peak", 0)
        self.starts: int = known.get("starts", 0)
        self._share: float = known.get("share", 0.0)
        self._path, self._clock, self._show = path, clock, show
        self._began = 0.0

    def begin(self) -> None:
        """This process continues the build."""
        self._began = self._clock() - self.seconds
        if not self.done:
            self.starts += 1
            self._keep()

    @property
    def done(self) -> bool:
        """Whether the build came to its end."""
        return self._share == 1.0

    def show(self, done: int, total: int, unit: str) -> None:
        """A `keymark.table.runtime.runner.Progress`."""
        share = _share(unit, done / total if total else 1.0)
        # What an earlier process did comes back at once: that says nothing about the time left.
        if share > self._share:
            self._mark(share)
        words = f"{done:,} of {total:,} {unit}"
        if 0 < self._share < 1:
            left = self.seconds / self._share * (1 - self._share)
            words += f", about {duration(left)} left"
        self._show(words)

    def end(self) -> None:
        """The build is done."""
        if not self.done:
            self._mark(1.0)

    def _mark(self, share: float) -> None:
        self._share = share
        self.seconds = self._clock() - self._began
        self.peak = max(self.peak, peak_memory())
        self._keep()

    def _keep(self) -> None:
        document = {
            "seconds": self.seconds,
            "share": self._share,
            "peak": self.peak,
            "starts": self.starts,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(document), "utf-8")
        temporary.replace(self._path)


def _share(unit: str, part: float) -> float:
    """How much of the whole build is done, with so much of one of its parts."""
    before = 0.0
    for name, cost in _PARTS.items():
        if name == unit:
            # The last step, after all parts, is the commit.
            return min((before + cost * part) / sum(_PARTS.values()), 0.999)
        before += cost
    return 0.0
