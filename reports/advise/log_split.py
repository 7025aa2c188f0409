"""Where the time of a user's own write went, by the event log of its Spark application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.measure.event_log import read_whole
from keymark.reports.errors import ReportError

PHASES = ("prepare", "tag", "write", "index", "commit", "services")
"""In the order of a write, as `harness/engines/hudi_phases.py` tells them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSplit:
    """What Hudi's stages in an event log took.

    Attributes:
        path: the log.
        seconds: for how long a stage of each phase ran.
        shuffle_bytes: written by the stages of each phase.
        untold_seconds: of stages that are no phase's, or of which Hudi does not say, added up.
    """

    path: str
    seconds: Mapping[str, float]
    shuffle_bytes: Mapping[str, int]
    untold_seconds: float

    @property
    def whole(self) -> float:
        """Seconds of all stages; what the driver did between them is in no event log."""
        return sum(self.seconds.values()) + self.untold_seconds


def split_log(path: Path) -> LogSplit:
    """Split an event log by what Hudi says about its stages.

    Raises:
        ReportError: there is no such log, or none with stages of Hudi's.
    """
    if not path.exists():
        raise ReportError(f"there is no event log {path}")
    step = read_whole(path)
    phases = [phase for phase in PHASES if phase in step.spans]
    if not phases:
        raise ReportError(
            f"{path} has no stage of Hudi's that is recognised; logs are read plain or compressed "
            "with zstd, lz4 or snappy (spark.eventLog.compression.codec)"
        )
    untold = (sums.seconds for (phase, _), sums in step.stages.items() if phase not in phases)
    return LogSplit(
        path=str(path),
        seconds={phase: step.seconds(phase) for phase in phases},
        shuffle_bytes={
            phase: step.phases[phase].shuffle_write_bytes
            for phase in phases
            if phase in step.phases
        },
        untold_seconds=sum(untold),
    )
