"""Spark event logs to counters of (trial, step, phase).

An event log is one JSON object a line (`log_files.py` opens it). `SparkListenerStageSubmitted`
carries the local properties under which a stage was submitted: the harness put the trial and step
there, the table its phase (job group or description `keymark/<phase>`). `SparkListenerTaskEnd`
carries the metrics, `SparkListenerJobStart` the stages of a job.
Engines with jars of their own do not know our phases: `stage_phases.py` tells them from what is
said about a stage, and the time of a phase is the time during which one of its stages ran.

The log of a killed process ends anywhere: what is complete is used, the rest is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from keymark.harness.measure import log_files
from keymark.harness.measure.stage_phases import (
    HUDI,
    engine_of,
    first_phase_of,
    phase_of,
    stable_description,
)
from keymark.harness.measure.stages import stage_name
from keymark.harness.store.results import PHASES

STEP_PROPERTY = "keymark.step"
"""Local property that names the trial and the step: `<trial label>|<step>`."""

PHASE_PREFIX = "keymark/"
_EXECUTION = "spark.sql.execution.id"

_PHASE_PROPERTIES = ("spark.jobGroup.id", "spark.job.description")
_ABOUT = ("SparkListenerLogStart", "SparkListenerApplicationStart", "SparkListenerApplicationEnd")
_KNOWN_SPARK = ("3.", "4.")
_LATEST = 1 << 53
"""Milliseconds that a float holds"""
_BAD_EVENT = (KeyError, TypeError, ValueError, AttributeError)


@dataclass(slots=True)
class Counters:
    """Sums over the tasks of a step or phase; bytes and records as Spark counts them.

    Steps and phases have `jobs`, stages have none. `task_records_max` is no sum: it is the records
    that the largest task read, of files and of shuffles. Only whole phases have
    `largest_tasks_records`; see `StepCounters.counters`. `cpu_ns` is the time that threads of the
    JVM spent on tasks, in nanoseconds, without Python workers.
    """

    tasks: int = 0
    failed_tasks: int = 0
    jobs: int = 0
    input_bytes: int = 0
    shuffle_write_bytes: int = 0
    shuffle_write_records: int = 0
    shuffle_read_bytes: int = 0
    shuffle_read_records: int = 0
    task_records_max: int = 0
    largest_tasks_records: int = 0
    output_bytes: int = 0
    output_records: int = 0
    spill_bytes: int = 0
    cpu_ns: int = field(default=0, compare=False)

    def add(self, other: Counters) -> None:
        """Add the tasks of another to these."""
        largest = max(self.task_records_max, other.task_records_max)
        for item in fields(self):
            name = item.name
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.task_records_max = largest


@dataclass(slots=True)
class StageCounters:
    """Sums over the stages of a step that do the same.

    Attributes:
        stages: how many there were.
        seconds: for how long they ran, added up.
        counters: over their tasks.
    """

    stages: int = 0
    seconds: float = 0.0
    counters: Counters = field(default_factory=Counters)


@dataclass(frozen=True, slots=True)
class StepCounters:
    """Counters of one step.

    Attributes:
        phases: counters; `phases["total"]` is over all its tasks, labelled or not.
        spans: begin and end of each stage in milliseconds, by phase; of engines that do not
            tell the times of their phases.
        stages: by phase (`total` where none is known) and name.
    """

    phases: dict[str, Counters] = field(default_factory=dict)
    spans: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    stages: dict[tuple[str, str], StageCounters] = field(default_factory=dict)

    def seconds(self, phase: str) -> float:
        """For how long at least one stage of a phase ran."""
        end, busy = 0, 0
        for start, stop in sorted(self.spans[phase]):
            busy += max(stop, end) - max(start, end)
            end = max(stop, end)
        return busy / 1000

    def counters(self, phase: str) -> Counters:
        """Counters of a phase; zeros if it has no tasks.

        `largest_tasks_records` adds up what the largest task of each stage read. A stage that is
        forced into one task shows in it, even where another stage has a task as large.
        """
        largest = sum(
            stage.counters.task_records_max
            for (place, _), stage in self.stages.items()
            if phase in ("total", place)
        )
        return replace(self.phases.get(phase, Counters()), largest_tasks_records=largest)

    def add(self, stage: _Stage, counters: Counters) -> None:
        """Count a task in its stage, in its phase and in the total."""
        self._add(stage, counters)
        self.stage(stage).counters.add(counters)

    def add_job(self, last: _Stage) -> None:
        """Count a job in the total and in the phase of its last stage."""
        self._add(last, Counters(jobs=1))

    def _add(self, stage: _Stage, counters: Counters) -> None:
        for name in {"total", stage.counted}:
            self.phases.setdefault(name, Counters()).add(counters)

    def stage(self, stage: _Stage) -> StageCounters:
        """The sums that a stage belongs to."""
        return self.stages.setdefault((stage.counted, stage.name), StageCounters())

    def include(self, other: StepCounters) -> None:
        """Add what another application counted in the same step."""
        for name, counters in other.phases.items():
            self.phases.setdefault(name, Counters()).add(counters)
        for name, spans in other.spans.items():
            self.spans.setdefault(name, []).extend(spans)
        for key, theirs in other.stages.items():
            sums = self.stages.setdefault(key, StageCounters())
            sums.stages += theirs.stages
            sums.seconds += theirs.seconds
            sums.counters.add(theirs.counters)


@dataclass(frozen=True, slots=True)
class _Stage:
    """Which step and phase a stage belongs to, and what it does.

    Attributes:
        first_phase: the phase whose time it is where it is the first of its write that has one: it
            does work that the later ones find done.
    """

    label: str
    phase: str | None
    name: str
    first_phase: str | None = None

    @property
    def counted(self) -> str:
        """The phase that its tasks count in; `total` where it is unknown.

        Stages that share work are of one phase. Which of them does what is a race, so that counters
        of either alone would not repeat.
        """
        return self.first_phase or self.phase or "total"


@dataclass(slots=True)
class _StageTimes:
    """When stages ran, from the events of their jobs and tasks.

    Attributes:
        _launched: milliseconds of the first task of each stage and attempt.
        _writes: what each stage is part of: an execution of Spark SQL, or else a job.
        _rows_done: when the first stage of each that has a `first_phase` ended.
    """

    _launched: dict[tuple[int, int], int] = field(default_factory=dict)
    _writes: dict[int, str] = field(default_factory=dict)
    _rows_done: dict[str, int] = field(default_factory=dict)

    def job_starts(self, event: Mapping[str, Any]) -> None:
        """Note what stages are part of."""
        execution = (event.get("Properties") or {}).get(_EXECUTION)
        for info in event["Stage Infos"]:
            self._writes[info["Stage ID"]] = execution or f"job {event['Job ID']}"

    def task_ends(self, event: Mapping[str, Any]) -> None:
        """Note when a task was launched."""
        number = event["Stage ID"], event["Stage Attempt ID"]
        launch = (event.get("Task Info") or {}).get("Launch Time")
        if launch:
            self._launched[number] = min(launch, self._launched.get(number, launch))

    def stage_ends(self, info: Mapping[str, Any], stage: _Stage, step: StepCounters) -> None:
        """Note for how long a stage ran, and when, of engines that do not time their phases.

        A stage begins with its first task. It may be submitted long before, with another stage of
        its job that holds all cores.
        """
        number = info["Stage ID"], info["Stage Attempt ID"]
        start = self._launched.pop(number, info.get("Submission Time"))
        stop = info.get("Completion Time")
        if not start or not stop:
            return
        sums = step.stage(stage)
        sums.stages += 1
        sums.seconds += (stop - start) / 1000
        if not engine_of(stage.label):
            return
        write = self._writes.get(info["Stage ID"])
        if stage.first_phase and write:
            # Stages that run at the same time share the work: all of it until the first has ended.
            done = min(stop, self._rows_done.setdefault(write, stop))
            if start < done:
                step.spans.setdefault(stage.first_phase, []).append((start, done))
                start = done
        if stage.phase and start < stop:
            step.spans.setdefault(stage.phase, []).append((start, stop))


def read_all(folder: Path) -> dict[str, StepCounters]:
    """Counters by step label over all logs of a run.

    A step found in several logs was cut off by a kill and taken again: the latest log counts.
    """
    found: dict[str, StepCounters] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        found.update(read(path))
    return found


def read(path: Path) -> dict[str, StepCounters]:
    """Counters by step label of one event log; tasks outside of any step are left out."""
    return _read(_events(path), _stage)


def read_whole(path: Path) -> StepCounters:
    """Counters of an event log that no harness labelled: all of its stages as one step.

    Args:
        path: a log, or the folder of one that Spark rolled into parts (`spark.eventLog.rolling`).

    Raises:
        RunFolderError: there is no log, or it is compressed in a way that is not read.
    """
    return read_application(path).counters


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedApplication:
    """What an event log says about the application that wrote it.

    Attributes:
        name: that the application gave itself; empty where the log does not say.
        spark: version of Spark; empty where the log does not say.
        began: milliseconds since 1970; 0 where the log does not say.
        ended: the same; 0 where the log is cut off.
        counters: of all of its stages; phases are those that Hudi tells.
        missing: why its counters are not those of the whole application; empty where they are.
        notes: what a reader must know besides.
    """

    name: str
    spark: str
    began: int
    ended: int
    counters: StepCounters
    missing: str
    notes: tuple[str, ...]


def read_application(path: Path) -> LoggedApplication:
    """All that is counted of an event log; arguments and errors as in `read_whole`."""
    files = log_files.parts(path)
    about: dict[str, dict[str, Any]] = {}

    def watched() -> Iterator[dict[str, Any]]:
        for file in files:
            for event in _events(file):
                if event.get("Event") in _ABOUT:
                    about[event["Event"]] = event
                yield event

    counters = _read(watched(), _stage_of_hudi).get(HUDI, StepCounters())
    first, start, end = (about.get(name, {}) for name in _ABOUT)
    spark = str(first.get("Spark Version") or "")
    missing = "" if end else f"{path.name} is cut off: the application's end is not in it"
    if path.is_dir():
        missing = _part_mistake(path, files) or missing
    return LoggedApplication(
        name=str(start.get("App Name") or ""),
        spark=spark,
        began=_millis(start),
        ended=_millis(end),
        counters=counters,
        missing=missing,
        notes=tuple(_version_notes(path, spark)),
    )


def _millis(event: Mapping[str, Any]) -> int:
    time = event.get("Timestamp")
    return time if isinstance(time, int) and 0 <= time < _LATEST else 0


def _part_mistake(path: Path, files: list[Path]) -> str:
    """What a rolled log lacks."""
    if any(file.suffix == ".compact" for file in files):
        return f"{path.name} was compacted: events of jobs that had ended are not in it"
    for number, file in enumerate(files, start=1):
        if log_files.part_number(file) != number:
            return f"{path.name} has no part {number}"
    return ""


def _version_notes(path: Path, spark: str) -> Iterator[str]:
    if not spark:
        yield f"{path.name} does not say which Spark wrote it"
    elif not spark.startswith(_KNOWN_SPARK):
        yield f"{path.name} was written by Spark {spark}; it is read as a log of Spark 3 and 4"


_StageOf = Callable[[Mapping[str, Any], Mapping[str, str]], _Stage | None]
"""The stage of its description and of the properties under which it was submitted."""


def _read(events: Iterator[dict[str, Any]], stage_of: _StageOf) -> dict[str, StepCounters]:
    stages: dict[tuple[int, int], _Stage] = {}
    times = _StageTimes()
    found: dict[str, StepCounters] = {}
    for event in events:
        try:
            if event.get("Event") == "SparkListenerStageSubmitted":
                info = event["Stage Info"]
                stage = stage_of(info, event.get("Properties") or {})
                if stage is not None:
                    stages[info["Stage ID"], info["Stage Attempt ID"]] = stage
            elif event.get("Event") == "SparkListenerJobStart":
                _count_job(event, stage_of, found)
                times.job_starts(event)
            elif event.get("Event") == "SparkListenerStageCompleted":
                info = event["Stage Info"]
                stage = stages.get((info["Stage ID"], info["Stage Attempt ID"]))
                if stage is not None:
                    times.stage_ends(info, stage, found.setdefault(stage.label, StepCounters()))
            elif event.get("Event") == "SparkListenerTaskEnd":
                stage = stages.get((event["Stage ID"], event["Stage Attempt ID"]))
                if stage is not None:
                    times.task_ends(event)
                    found.setdefault(stage.label, StepCounters()).add(stage, _counters(event))
        except _BAD_EVENT:
            continue  # no event as Spark writes it
    return found


def _count_job(
    event: Mapping[str, Any], stage_of: _StageOf, found: dict[str, StepCounters]
) -> None:
    """Count a job that begins; one without stages runs no task and is none."""
    stages = event["Stage Infos"]
    if stages:
        last = max(stages, key=lambda info: info["Stage ID"])
        stage = stage_of(last, event.get("Properties") or {})
        if stage is not None:
            found.setdefault(stage.label, StepCounters()).add_job(stage)


def _stage(info: Mapping[str, Any], properties: Mapping[str, str]) -> _Stage | None:
    label = properties.get(STEP_PROPERTY)
    if not label:
        return None
    engine = engine_of(label)
    if engine:
        return _stage_told(info, properties, label=label, engine=engine)
    for name in _PHASE_PROPERTIES:
        value = properties.get(name) or ""
        phase = value.removeprefix(PHASE_PREFIX)
        if phase != value and phase in PHASES:
            return _Stage(label, phase, stage_name(info))
    return _Stage(label, None, stage_name(info))


def _stage_of_hudi(info: Mapping[str, Any], properties: Mapping[str, str]) -> _Stage:
    return _stage_told(info, properties, label=HUDI, engine=HUDI)


def _stage_told(
    info: Mapping[str, Any], properties: Mapping[str, str], *, label: str, engine: str
) -> _Stage:
    """A stage of an engine with jars of its own, by what is said about it."""
    description = properties.get("spark.job.description") or ""
    return _Stage(
        label,
        phase_of(engine, info, description),
        stage_name(info, stable_description(engine, description)),
        first_phase_of(engine, info),
    )


def _counters(event: Mapping[str, Any]) -> Counters:
    metrics = event.get("Task Metrics") or {}
    read = metrics.get("Shuffle Read Metrics") or {}
    written = metrics.get("Shuffle Write Metrics") or {}
    files = metrics.get("Input Metrics") or {}
    output = metrics.get("Output Metrics") or {}
    reason = (event.get("Task End Reason") or {}).get("Reason", "Success")
    return Counters(
        tasks=1,
        failed_tasks=int(reason != "Success"),
        input_bytes=files.get("Bytes Read", 0),
        shuffle_write_bytes=written.get("Shuffle Bytes Written", 0),
        shuffle_write_records=written.get("Shuffle Records Written", 0),
        shuffle_read_bytes=read.get("Remote Bytes Read", 0) + read.get("Local Bytes Read", 0),
        shuffle_read_records=read.get("Total Records Read", 0),
        task_records_max=files.get("Records Read", 0) + read.get("Total Records Read", 0),
        output_bytes=output.get("Bytes Written", 0),
        output_records=output.get("Records Written", 0),
        spill_bytes=metrics.get("Disk Bytes Spilled", 0),
        cpu_ns=metrics.get("Executor CPU Time", 0),
    )


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in log_files.lines(path):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut off by a kill, or not written by Spark
        if isinstance(event, dict):
            yield event
