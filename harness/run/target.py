"""Where a run goes: what runs of scenarios and of jobs are asked alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from keymark.harness.errors import RunFolderError
from keymark.harness.store.store import RunFolder, unwatched


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTarget(ABC):
    """Where a run goes.

    Attributes:
        out: the run folder; None for `runs/<run_id>`.
        resume: go on with the run that is in `out`.
        kept: called whenever the folder's files tell more than before.
        asked: when it was asked for.
    """

    out: Path | None = None
    resume: bool = False
    kept: Callable[[], None] = unwatched
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


def now() -> str:
    """The time, as run.json tells it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
