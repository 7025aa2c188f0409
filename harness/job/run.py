"""A run of a job from its file to a complete run folder, like that of a scenario.

Two sides take turns: base, candidate, then candidate, base, and so on, so that each repetition is a
pair. A repetition is appended as one block; a run that was cut off resumes with the first one that
is not complete.
"""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from keymark.harness.engines import revisions
from keymark.harness.errors import HarnessError, RunFolderError
from keymark.harness.job.document import JobSection
from keymark.harness.job.sides import Repository, Side
from keymark.harness.job.trial import SideRun
from keymark.harness.measure import environment
from keymark.harness.measure.canary import Canary
from keymark.harness.redaction import redact_arguments, redact_document, redact_text
from keymark.harness.run.runner import Progress
from keymark.harness.run.target import RunTarget, now
from keymark.harness.run.time_left import TimeLeft, TrialKind
from keymark.harness.store.results import Sample
from keymark.harness.store.run_record import (
    RUNNING,
    CellRecord,
    MachineRecord,
    RunRecord,
    ScenarioRecord,
)
from keymark.harness.store.store import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest(RunTarget):
    """What was asked for on the command line.

    Attributes:
        job: what is measured.
        sides: that take turns.
        repository: of the job file.
    """

    job: JobSection
    sides: tuple[Side, ...]
    repository: Repository

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.job.name

    def described(self) -> dict[str, Any]:
        """The job as run.json holds it: JSON types only, secrets left out."""
        section = self.job.model_dump(
            mode="json", exclude={"name", "description", "step", "values"}
        )
        commands = {step.name: step.command for step in self.job.step}
        document = {
            "name": self.job.name,
            "description": self.job.description,
            "engines": [side.name for side in self.sides],
            "indexes": [self.job.name],
            "workload": {"steps": list(commands)},
            "schedule": {
                "repetitions": section.pop("repetitions"),
                "warmups": section.pop("warmups"),
                "loads": 1,
            },
            "job": {**section, "step": commands},
            "sides": {
                side.name: {"values": dict(side.values), "commit": side.commit or "the work tree"}
                for side in self.sides
            },
        }
        return dict(redact_document(document))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that came to its end.

    Attributes:
        folder: where its numbers are.
        failed: reasons by cell.
        notes: what a reader must know.
    """

    folder: RunFolder
    failed: Mapping[str, str]
    notes: tuple[str, ...]


def measure(request: JobRequest, progress: Progress) -> Finished:
    """Measure a job into a run folder.

    Raises:
        RunFolderError: the folder is taken, or holds a run of another job.
        HarnessError: a command of `set_up` failed, or a revision cannot be unpacked.
    """
    folder, record = _begin(request)
    work = folder.path.resolve() / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        record = request.begin_when_quiet(record, progress, threads=environment.machine()["cores"])
        sides = [_side_run(request, side, folder, str(record.run_id)) for side in request.sides]
        for side in sides:
            progress.begin(f"{side.cell}: set up")
            side.set_up()
        failed = _repeat(request.job, sides, folder, progress)
    except HarnessError:
        if not folder.samples_file.stat().st_size:
            shutil.rmtree(folder.path, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    notes = [redact_text(note) for side in sides for note in side.notes]
    if not request.job.verify:
        notes.append("The job has no command that verifies: no answer was checked.")
    described = {side.side.name: _described(side) for side in sides}
    spark = ", ".join(sorted({each for side in sides for each in side.spark}))
    versions = {**record.versions, **({"spark": spark} if spark else {})}
    done = {"finished": now(), "repetitions": request.job.repetitions, "failed": failed}
    folder.finish(record.but(**done, notes=notes, processes=described, versions=versions))
    return Finished(folder=folder, failed=failed, notes=tuple(notes))


def _repeat(
    job: JobSection, sides: list[SideRun], folder: RunFolder, progress: Progress
) -> dict[str, str]:
    """Take all trials that are not there yet; why sides failed, by cell."""
    failed: dict[str, str] = {}
    samples, steps = folder.samples(), frozenset(step.name for step in job.step)
    taken = _taken(samples, job)
    canary = Canary(
        folder,
        folder.path / "work" / "canary",
        threads=environment.machine()["cores"],
        clock=time.perf_counter,
    )
    trials = [(side.cell, warmup, number) for number, warmup in _numbers(job) for side in sides]
    time_left = TimeLeft()
    time_left.learn(samples)
    time_left.plan(TrialKind(trial[0], steps) for trial in trials if trial not in taken)
    progress.plan(len(trials))
    for number, warmup in _numbers(job):
        for side in sides if number % 2 == 0 else sides[::-1]:
            name = f"{side.cell}|{'w' if warmup else 'r'}{number}"
            if side.cell not in failed and (side.cell, warmup, number) not in taken:
                what = f"{side.cell}: {'warm-up' if warmup else 'repetition'} {number + 1}"
                progress.begin(what, time_left.seconds(failed))
                canary.beat(name)
                time_left.begin()
                found = side.take(number, warmup=warmup)
                time_left.end(TrialKind(side.cell, steps))
                if not warmup:
                    folder.write_stages([*folder.stages(), *found.stages])
                folder.append(found.samples)
                if found.failure:
                    failed[side.cell] = found.failure
            progress.end()
    return failed


def _numbers(job: JobSection) -> Iterator[tuple[int, bool]]:
    """(number, whether it is a warm-up) of all repetitions."""
    yield from ((number, True) for number in range(job.warmups))
    yield from ((number, False) for number in range(job.repetitions))


def _begin(request: JobRequest) -> tuple[RunFolder, RunRecord]:
    """A new folder with what is known so far, or the one to go on with."""
    described = request.described()
    if request.resume:
        return _resumed(request, described)
    folder = RunFolder.create(request.folder, request.kept)
    revision = request.repository.revision
    record = RunRecord(
        run_id=request.run_id,
        started=now(),
        status=RUNNING,
        command=redact_arguments(environment.command()),
        scenario=ScenarioRecord.model_validate(described),
        cells=[
            CellRecord(cell=f"{side.name}/{request.job.name}", index=request.job.name)
            for side in request.sides
        ],
        machine=MachineRecord.model_validate(
            {**environment.machine(), "disk": environment.disk(folder.path)}
        ),
        versions={
            "keymark": version("keymark"),
            "python": platform.python_version(),
            **({"revision": revision} if revision else {}),
        },
    )
    folder.write_record(record)
    return folder, record


def _resumed(request: JobRequest, described: Mapping[str, Any]) -> tuple[RunFolder, RunRecord]:
    folder = request.resumed_folder()
    record = folder.read_record()
    if record.scenario.document != described:
        raise RunFolderError(f"{request.out} holds a run of another job; it is not resumed")
    folder.events.mkdir(exist_ok=True)
    done = _taken(folder.samples(), request.job)
    folder.keep_only(lambda each: (each.cell, each.warmup, each.repetition) in done)
    folder.write_stages(
        stage for stage in folder.stages() if (stage.cell, False, stage.repetition) in done
    )
    record = record.but(status=RUNNING, sessions=record.sessions + 1)
    folder.write_record(record)
    return folder, record


def _taken(samples: list[Sample], job: JobSection) -> set[tuple[str, bool, int]]:
    """(cell, whether a warm-up, number) of the repetitions whose steps are all there and right."""
    timed: dict[tuple[str, bool, int], set[str]] = {}
    for each in samples:
        if each.metric == "wall_s" and each.phase == "total" and each.verified:
            timed.setdefault((each.cell, each.warmup, each.repetition), set()).add(each.step)
    every = {step.name for step in job.step}
    return {trial for trial, steps in timed.items() if steps == every}


def _side_run(request: JobRequest, side: Side, folder: RunFolder, run_id: str) -> SideRun:
    """What runs the commands of a side, with the files of its revision unpacked."""
    repository, root = request.repository, folder.path.resolve()
    code = repository.root
    if side.commit is not None:
        code = root / "work" / f"code-{side.commit[:12]}"
        if not code.exists():
            revisions.unpack(side.commit, code, repository.root)
    if not (code / repository.below).is_dir():
        raise HarnessError(f"{side.title} has no folder {repository.below}, where the job file is")
    return SideRun(
        job=request.job,
        side=side,
        run_id=run_id,
        code=code,
        folder=code / repository.below,
        work=root / "work" / side.name,
        scratch=root / "work" / f"{side.name}-scratch",
        events=root / "events",
        output=root / "output",
    )


def _described(side: SideRun) -> dict[str, Any]:
    """What `run.json` says about a side."""
    spark = ", ".join(sorted(side.spark))
    title = redact_text(side.side.title)
    return {"title": title, "cell": side.cell, **({"spark": spark} if spark else {})}
