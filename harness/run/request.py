"""What a run was asked for, and the run folder that it begins or continues."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from keymark.datasets.errors import DatasetError
from keymark.harness.errors import HarnessError, RunFolderError
from keymark.harness.measure import environment
from keymark.harness.measure.counters import unfinished
from keymark.harness.redaction import redact_arguments
from keymark.harness.run import workload
from keymark.harness.run.runner import TrialKey, complete_trials
from keymark.harness.run.target import RunTarget, now
from keymark.harness.run.until import LEAST, MOST, Until, widest_of
from keymark.harness.scenario.planned import cell_records, describe
from keymark.harness.scenario.scenario import Scenario
from keymark.harness.store.results import Sample
from keymark.harness.store.run_record import (
    RUNNING,
    MachineRecord,
    RunRecord,
    ScenarioRecord,
)
from keymark.harness.store.store import RunFolder, is_run_name
from keymark.indexes.installed import measured_specs
from keymark.indexes.spec import spec_data
from keymark.table.errors import TableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(RunTarget):
    """What was asked for on the command line.

    Attributes:
        scenario: resolved.
        budget_s: time that chooses the number of repetitions.
        half_width: of the widest interval, as a share of its median, below which there are enough
            repetitions.
    """

    scenario: Scenario
    budget_s: float | None = None
    half_width: float | None = None

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self.scenario.name

    def deadline(self, began: float) -> float | None:
        """When a run that began at a time has used its budget up; None without a budget."""
        return None if self.budget_s is None else began + self.budget_s

    def until(self, folder: Path) -> Until | None:
        """When the run in a folder has enough repetitions; None where their number is given."""
        if self.half_width is None:
            return None
        asked = self.scenario.schedule.repetitions
        return Until(
            half_width=self.half_width,
            most=asked if asked > LEAST else MOST,
            widest=lambda: widest_of(folder),
        )


def begin(request: Request, skipped: Mapping[str, str]) -> tuple[RunFolder, RunRecord]:
    """Write `run.json` into a new folder, or into the one to go on with.

    Args:
        request: what was asked for.
        skipped: engines, and indexes of engines, that are not there, with the reason.

    Raises:
        RunFolderError: the folder is taken, or does not fit the scenario that is resumed.
    """
    folder, record = _opened(request)
    record = record.but(status=RUNNING, skipped=dict(skipped))
    folder.write_record(record)
    return folder, record


@contextlib.contextmanager
def unmeasured_removed(folder: RunFolder) -> Iterator[None]:
    """A run that fails before it measured anything leaves no folder; an interrupted one does."""
    try:
        yield
    except (HarnessError, DatasetError, TableError):
        if not folder.samples_file.stat().st_size:
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _opened(request: Request) -> tuple[RunFolder, RunRecord]:
    """A new folder with what is known so far, or the one to go on with."""
    described = describe(request.scenario)
    if request.resume and not (request.out and RunFolder(request.out).is_blank):
        return _resumed(request, described)
    folder = RunFolder.create(request.folder, request.kept)
    return folder, RunRecord(
        run_id=request.run_id,
        started=now(),
        command=redact_arguments(environment.command()),
        scenario=ScenarioRecord.model_validate(described),
        cells=cell_records(request.scenario),
        indexes={name: spec_data(measured_specs()[name]) for name in request.scenario.indexes},
        seeds={"dataset": request.scenario.dataset.seed},
        machine=MachineRecord.model_validate(
            {**environment.machine(), "disk": environment.disk(folder.path)}
        ),
    )


def _resumed(request: Request, described: Mapping[str, Any]) -> tuple[RunFolder, RunRecord]:
    folder = request.resumed_folder()
    record = folder.read_record()
    before, after = (_without_repetitions(each) for each in (record.scenario.document, described))
    if before != after:
        raise RunFolderError(f"{request.out} holds a run of another scenario; it is not resumed")
    planned, wanted = record.scenario.schedule.repetitions, request.scenario.schedule.repetitions
    if wanted < planned:
        raise RunFolderError(
            f"{request.out} was planned with schedule.repetitions={planned}; it is resumed with as "
            f"many or more, not with {wanted}"
        )
    if not is_run_name(record.run_id):
        # It names the folder of the tables, which is deleted at the end.
        raise RunFolderError(f"{folder.info_file} has no run_id that can name a folder")
    # Git keeps no empty folder of a run that was committed.
    folder.events.mkdir(exist_ok=True)
    steps = workload.steps(request.scenario.workload)
    names = [name for step in steps for name in step.measured]
    samples = folder.samples()
    done, torn = complete_trials(samples, steps), unfinished(samples)
    # A load that was measured once stays. A later try to get its table back may have failed: the
    # sample of that failure goes.
    folder.keep_only(
        lambda sample: (
            sample.verified and TrialKey.of_sample(sample, names) in done and not torn(sample)
        )
    )
    if wanted > planned or request.half_width is not None:
        # A report names the command that measures the same again.
        command = redact_arguments(environment.command())
        record = record.but(scenario=described, command=command)
    # What had failed is taken again.
    return folder, record.but(sessions=record.sessions + 1, failed={})


def _without_repetitions(described: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario as run.json holds it, but for the number of repetitions."""
    schedule = {**described.get("schedule", {})}
    schedule.pop("repetitions", None)
    return {**described, "schedule": schedule}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """An earlier run of a scenario.

    Attributes:
        folder: of the run.
        began: when it began.
        seconds: that it took.
    """

    folder: RunFolder
    began: datetime
    seconds: float


def past_run(request: Request) -> PastRun | None:
    """The latest run of the same scenario that stands beside the folder; None if there is none.

    How long a resumed run rested is not known.
    """
    described, found = describe(request.scenario), []
    beside = request.folder.absolute().parent
    for path in beside.glob("*/run.json"):
        with contextlib.suppress(RunFolderError, ValueError):
            folder = RunFolder(path.parent)
            record = folder.read_record()
            if record.sessions == 1 and record.scenario.document == described:
                began, ended = map(datetime.fromisoformat, (record.started, record.finished))
                seconds = (ended - began).total_seconds()
                found.append(PastRun(folder=folder, began=began, seconds=seconds))
    return max(found, key=lambda each: each.began, default=None)


def past_samples(request: Request) -> list[Sample]:
    """The samples of that run; none where there is none, or they cannot be read."""
    past = past_run(request)
    with contextlib.suppress(RunFolderError):
        return past.folder.samples() if past else []
    return []
