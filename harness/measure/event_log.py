"""Spark event logs to counters of (trial, step, phase).

An event log is one JSON object a line, compressed as a zstd stream (the one codec that Spark
writes and pyarrow reads as a standard stream). `SparkListenerStageSubmitted` carries the local
properties under which a stage was submitted: the harness put the trial and step there, the table
its phase (job group or description `keymark/<phase>`). `SparkListenerTaskEnd` carries the metrics.
Hudi does not know our phases: `engines/hudi_phases.py` tells them from what it says of its stages,
and the time of a phase is the time during which one of its stages ran.

The log of a killed process ends anywhere: what is complete is used, the rest is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from keymark.harness.engines.hudi_phases import phase_of
from keymark.harness.errors import RunFolderError
from keymark.harness.measure.stages import stage_name
from keymark.harness.store.results import PHASES

STEP_PROPERTY = "keymark.step"
"""Local property that names the trial and the step: `<trial label>|<step>`."""

PHASE_PREFIX = "keymark/"

_HUDI = "hudi@"
_PHASE_PROPERTIES = ("spark.jobGroup.id", "spark.job.description")


@dataclass(slots=True)
class Counters:
    """Sums over the tasks of a step or phase; bytes and records as Spark counts them.

    `task_records_max` is no sum: the records that the largest task read, of files and of shuffles.
    """

    tasks: int = 0
    failed_tasks: int = 0
    input_bytes: int = 0
    shuffle_write_bytes: int = 0
    shuffle_write_records: int = 0
    shuffle_read_bytes: int = 0
    shuffle_read_records: int = 0
    task_records_max: int = 0

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

    def add(self, stage: _Stage, counters: Counters) -> None:
        """Count a task in its stage, in its phase and in the total."""
        for name in {"total", stage.phase or "total"}:
            self.phases.setdefault(name, Counters()).add(counters)
        self.stage(stage).counters.add(counters)

    def stage(self, stage: _Stage) -> StageCounters:
        """The sums that a stage belongs to."""
        return self.stages.setdefault((stage.phase or "total", stage.name), StageCounters())


@dataclass(frozen=True, slots=True)
class _Stage:
    """Which step and phase a stage belongs to, and what it does."""

    label: str
    phase: str | None
    name: str


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
    """Counters of an event log of Hudi's that no harness labelled: all of its stages as one step.

    Args:
        path: a log, or the folder of one that Spark rolled into parts (`spark.eventLog.rolling`).

    Raises:
        RunFolderError: there is no log.
    """
    parts = sorted(path.glob("events_*"), key=_part_number) if path.is_dir() else [path]
    if not parts or not all(part.is_file() for part in parts):
        raise RunFolderError(f"{path} is no event log of Spark")
    events = (event for part in parts for event in _events(part))
    return _read(events, _stage_of_hudi).get(_HUDI, StepCounters())


def _part_number(path: Path) -> int:
    """The number of a part: `events_12_app-1.zstd` is the twelfth."""
    number = path.name.split("_")[1]
    return int(number) if number.isdecimal() else 0


def _read(
    events: Iterator[dict[str, Any]],
    stage_of: Callable[[Mapping[str, Any], Mapping[str, str]], _Stage | None],
) -> dict[str, StepCounters]:
    stages: dict[tuple[int, int], _Stage] = {}
    found: dict[str, StepCounters] = {}
    for event in events:
        if event.get("Event") == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            stage = stage_of(info, event.get("Properties") or {})
            if stage is not None:
                stages[info["Stage ID"], info["Stage Attempt ID"]] = stage
        elif event.get("Event") == "SparkListenerStageCompleted":
            info = event["Stage Info"]
            _span(info, stages.get((info["Stage ID"], info["Stage Attempt ID"])), found)
        elif event.get("Event") == "SparkListenerTaskEnd":
            stage = stages.get((event["Stage ID"], event["Stage Attempt ID"]))
            if stage is not None:
                found.setdefault(stage.label, StepCounters()).add(stage, _counters(event))
    return found


def _stage(info: Mapping[str, Any], properties: Mapping[str, str]) -> _Stage | None:
    label = properties.get(STEP_PROPERTY)
    if not label:
        return None
    if label.startswith(_HUDI):
        return _stage_of_hudi(info, properties, label)
    for name in _PHASE_PROPERTIES:
        value = properties.get(name) or ""
        phase = value.removeprefix(PHASE_PREFIX)
        if phase != value and phase in PHASES:
            return _Stage(label, phase, stage_name(info))
    return _Stage(label, None, stage_name(info))


def _stage_of_hudi(
    info: Mapping[str, Any], properties: Mapping[str, str], label: str = _HUDI
) -> _Stage:
    description = properties.get("spark.job.description") or ""
    phase = phase_of(details=info.get("Details") or "", description=description)
    return _Stage(label, phase, stage_name(info, description))


def _span(info: Mapping[str, Any], stage: _Stage | None, found: dict[str, StepCounters]) -> None:
    """Note for how long a stage ran, and of Hudi's when."""
    start, stop = info.get("Submission Time"), info.get("Completion Time")
    if stage is None or not start or not stop:
        return
    step = found.setdefault(stage.label, StepCounters())
    sums = step.stage(stage)
    sums.stages += 1
    sums.seconds += (stop - start) / 1000
    if stage.phase and stage.label.startswith(_HUDI):
        step.spans.setdefault(stage.phase, []).append((start, stop))


def _counters(event: Mapping[str, Any]) -> Counters:
    metrics = event.get("Task Metrics") or {}
    read = metrics.get("Shuffle Read Metrics") or {}
    written = metrics.get("Shuffle Write Metrics") or {}
    files = metrics.get("Input Metrics") or {}
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
    )


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in _lines(path):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut off by a kill, or not written by Spark
        if isinstance(event, dict):
            yield event


_LONGEST_LINE = 64 << 20
"""Bytes of one event; plans of large queries take some megabytes"""
_MOST_BYTES = 128 << 20
_MOST_RATIO = 1000
"""Events compress to a tenth or a fiftieth: no log of Spark decompresses to more than both."""
_CHUNK = 4096  # small: what a cut-off stream yields last is lost by the chunk


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a log, decompressed as far as the stream goes."""
    compressed = ".zstd" in path.suffixes
    parts: list[bytes] = []
    length = total = 0
    most = max(_MOST_BYTES, _MOST_RATIO * path.stat().st_size)
    with pa.OSFile(str(path)) as file:
        stream: pa.NativeFile = pa.CompressedInputStream(file, "zstd") if compressed else file
        while chunk := _chunk(stream):
            total += len(chunk)
            if total > most:
                raise RunFolderError(f"{path} decompresses to more than {most:,} bytes")
            first, *lines = chunk.split(b"\n")
            parts.append(first)
            length += len(first)
            if length > _LONGEST_LINE:
                raise RunFolderError(f"{path} has a line of more than {_LONGEST_LINE:,} bytes")
            for line in lines:
                if parts != [b""]:
                    yield b"".join(parts)
                parts, length = [line], len(line)
    yield b"".join(parts)


def _chunk(stream: pa.NativeFile) -> bytes:
    try:
        return bytes(stream.read(_CHUNK))
    except (OSError, pa.ArrowInvalid):
        return b""  # the stream of a killed process has no end
