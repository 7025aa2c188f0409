"""Event logs that exist already into a run folder: counters, stages, and times of applications.

The name of an application is its step, and applications of one name are repetitions in the order of
their time. Nothing is run and nothing verified. The numbers of a log that is cut off are kept and
marked as not valid, so that no statistic takes them for those of the whole.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from keymark.harness.errors import RunFolderError
from keymark.harness.job.run import Finished
from keymark.harness.job.sides import ONE
from keymark.harness.job.trial import counted
from keymark.harness.measure import environment
from keymark.harness.measure.counters import label_of, stage_lines
from keymark.harness.measure.event_log import LoggedApplication, read_application
from keymark.harness.redaction import redact_arguments, redact_text
from keymark.harness.store.results import Sample, Stage
from keymark.harness.store.run_record import CellRecord, RunRecord, ScenarioRecord
from keymark.harness.store.store import RunFolder
from keymark.harness.store.units import METRICS

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 60
_UNVERIFIED = "The numbers are those of event logs; nothing was run or verified."


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveRequest:
    """What was asked for on the command line.

    Attributes:
        logs: event logs, or folders of logs that Spark rolled into parts.
        name: of the job, by which runs are compared.
        step: name of the step that all logs are of; empty for the names of the applications.
        out: the run folder; None for `runs/<time>-<name>`.
    """

    logs: tuple[Path, ...]
    name: str
    step: str = ""
    out: Path | None = None


def observe(request: ObserveRequest) -> Finished:
    """Make a run folder of event logs.

    Raises:
        RunFolderError: a log is none or cannot be read, a name is unfit, or the folder is taken.
    """
    for name in filter(None, (request.name, request.step)):
        if _step_name(name) != name:
            raise RunFolderError(f"{name!r} has other letters than letters, digits, _, . and -")
    read = [(log, _read(log)) for log in request.logs]
    read.sort(key=lambda each: (each[1].began, each[0].name))
    now = datetime.now(UTC)
    path = request.out or Path("runs") / f"{now:%Y%m%dT%H%M%S}-{request.name}"
    folder = RunFolder.create(path)
    steps: Counter[str] = Counter()
    samples: list[Sample] = []
    stages: list[Stage] = []
    notes = [_UNVERIFIED]
    for _, found in read:
        step = request.step or _step_name(found.name)
        lines, did = _measured(found, request.name, step, steps[step])
        samples += [replace(each, run_id=path.name) for each in lines]
        stages += did
        steps[step] += 1
        notes += [f"{step}: {note}." for note in (found.missing, *found.notes) if note]
    folder.append(samples)
    folder.write_stages(stages)
    spark = dict.fromkeys(found.spark for _, found in read if found.spark)
    document = {
        "name": request.name,
        "engines": [ONE],
        "indexes": [request.name],
        "workload": {"steps": sorted(steps)},
        "job": {"verify": []},
    }
    notes = [redact_text(note) for note in dict.fromkeys(notes)]
    record = RunRecord(
        run_id=path.name,
        started=now.isoformat(timespec="seconds"),
        command=redact_arguments(environment.command()),
        scenario=ScenarioRecord.model_validate(document),
        cells=[CellRecord(cell=f"{ONE}/{request.name}", index=request.name)],
        versions={
            "keymark": version("keymark"),
            "python": platform.python_version(),
            **({"spark": ", ".join(spark)} if spark else {}),
        },
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        repetitions=max(steps.values()),
        notes=notes,
    )
    folder.finish(record)
    return Finished(folder=folder, failed={}, notes=tuple(notes))


def _read(log: Path) -> LoggedApplication:
    if not log.exists():
        raise RunFolderError(f"there is no event log {log}")
    found = read_application(log)
    if not found.spark and not found.counters.phases:
        raise RunFolderError(f"{log} holds no events of Spark")
    return found


def _step_name(name: str) -> str:
    return _UNFIT.sub("-", name).strip("-.")[:_LONGEST] or "application"


def _measured(
    found: LoggedApplication, name: str, step: str, repetition: int
) -> tuple[Sequence[Sample], Iterator[Stage]]:
    """The samples of an application, its time last, and its stages."""
    seconds = (found.ended - found.began) / 1000 if found.began and found.ended else 0.0
    whole = Sample(
        run_id="",
        cell=f"{ONE}/{name}",
        engine=ONE,
        index=name,
        step=step,
        round=0,
        repetition=repetition,
        warmup=False,
        phase="total",
        metric="wall_s",
        unit=METRICS["wall_s"].unit,
        value=max(seconds, 0.0),
        verified=True,
        valid=True,
        reason="",
    )
    by_label = {label_of(whole): found.counters}
    samples = [*counted(whole, by_label), whole]
    if found.missing:
        samples = [replace(each, valid=False, reason=found.missing) for each in samples]
    return samples, stage_lines([whole], by_label)
