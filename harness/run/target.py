"""Where a run goes and when it begins: what runs of scenarios and of jobs are asked alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from keymark.harness.errors import RunFolderError
from keymark.harness.measure.noise_check import NoiseCheck
from keymark.harness.run.runner import Progress
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder, unwatched


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTarget(ABC):
    """Where a run goes, and when it begins.

    Attributes:
        out: the run folder; None for `runs/<run_id>`.
        resume: go on with the run that is in `out`.
        kept: called whenever the folder's files tell more than before.
        noise: what it does on a noisy machine; None: it does not look.
        asked: when it was asked for.
    """

    out: Path | None = None
    resume: bool = False
    kept: Callable[[], None] = unwatched
    noise: NoiseCheck | None = None
    asked: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the scenario or job."""

    @property
    def run_id(self) -> str:
        """The id of a new run."""
        return f"{self.asked:%Y%m%dT%H%M%S}-{self.name}"

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.out or Path("runs") / self.run_id

    def resumed_folder(self) -> RunFolder:
        """The folder of the run to go on with.

        Raises:
            RunFolderError: there is none, or nothing can be added to it.
        """
        if self.out is None:
            raise RunFolderError("--resume needs --out, the folder of the run to go on with")
        folder = RunFolder.open(self.out, self.kept)
        folder.refuse_links()
        if folder.is_packed:
            raise RunFolderError(f"{self.out} is packed; `gunzip` its files to go on with it")
        return folder

    def begin_when_quiet(self, record: RunRecord, progress: Progress, *, threads: int) -> RunRecord:
        """Look at the machine's noise before the first step; the record of the run that begins.

        Args:
            record: of the run.
            progress: receives what is done.
            threads: cores that the run uses.

        Raises:
            HarnessError: the machine was not quiet in time.
        """
        if self.noise is None:
            return record
        self.noise.warn_or_wait(progress, threads=threads, runs=self.folder.absolute().parent)
        # The time of the waiting is none of the run's.
        return record.but(started=now()) if record.sessions == 1 else record


def now() -> str:
    """The time, as run.json tells it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
