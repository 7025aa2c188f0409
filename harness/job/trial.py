"""One repetition of a job: restore, the steps on the clock, what they left, verification."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from keymark.harness.errors import HarnessError, RunFolderError
from keymark.harness.job import commits, written
from keymark.harness.job.command import Ran, run
from keymark.harness.job.document import JobSection, StepSection, filled, words
from keymark.harness.job.sides import Side
from keymark.harness.measure.counters import OF_A_JOB, counter_samples, label_of, stage_lines
from keymark.harness.measure.event_log import StepCounters, read_application
from keymark.harness.redaction import SPARK_REGEX, SPARK_TEXT_REGEX, redact_text
from keymark.harness.store.results import Sample, Stage
from keymark.harness.store.units import METRICS
from keymark.table.runtime.java import java_home

EVENTS = "KEYMARK_EVENTS"
"""Environment variable of commands: the folder that event logs are looked for in."""

_SPARK_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Variable whose Java options spark-submit, spark-sql and PySpark give to the driver."""


@dataclass(slots=True)
class Logged:
    """What the event logs of a step tell.

    Attributes:
        counters: of all of them; None where there is no log.
        missing: why the counters are not those of the whole step.
    """

    counters: StepCounters | None = None
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The result of a repetition.

    Attributes:
        samples: in the order of the steps; the whole time of a step is its last one.
        stages: of Spark; warm-ups have none.
        failure: why the side is left out from here; empty where nothing failed.
    """

    samples: tuple[Sample, ...] = ()
    stages: tuple[Stage, ...] = ()
    failure: str = ""


@dataclass(slots=True, kw_only=True)
class SideRun:
    """Runs the commands of one side.

    Attributes:
        job: what is run.
        side: for whom.
        run_id: written into samples.
        code: the repository's folder, as this side has it.
        folder: of the job file in it, where commands run.
        work: a folder for the job's own files.
        scratch: a folder for ours.
        events: where its event logs are kept, a folder for each step.
        output: where the output of commands that failed is kept.
        notes: what a reader must know.
        spark: versions of Spark that its event logs name.
    """

    job: JobSection
    side: Side
    run_id: str
    code: Path
    folder: Path
    work: Path
    scratch: Path
    events: Path
    output: Path
    notes: dict[str, None] = field(default_factory=dict)
    spark: set[str] = field(default_factory=set)

    @property
    def cell(self) -> str:
        """Its cell."""
        return f"{self.side.name}/{self.job.name}"

    @property
    def _beside_events(self) -> Path:
        """Where event logs go of commands that are not measured."""
        return self.scratch / "events"

    def set_up(self) -> None:
        """Run the commands before everything.

        Raises:
            HarnessError: one failed.
        """
        self._beside_events.mkdir(parents=True, exist_ok=True)
        if mistake := self._beside("set_up", self.job.set_up, "first"):
            raise HarnessError(f"{self.cell}: {mistake}")

    def take(self, repetition: int, *, warmup: bool) -> Taken:
        """Take a repetition; it ends with the first step that fails."""
        trial = f"{'w' if warmup else 'r'}{repetition}"
        if mistake := self._beside("restore", self.job.restore, trial):
            return Taken(failure=mistake)
        samples: list[Sample] = []
        stages: list[Stage] = []
        for step in self.job.step:
            whole = Sample(
                run_id=self.run_id,
                cell=self.cell,
                engine=self.side.name,
                index=self.job.name,
                step=step.name,
                round=0,
                repetition=repetition,
                warmup=warmup,
                phase="total",
                metric="wall_s",
                unit=METRICS["wall_s"].unit,
                value=0.0,
                verified=True,
                valid=True,
                reason="",
            )
            try:
                found, lines = self._step(step, trial, whole)
            except HarnessError as error:  # what it wrote cannot be read
                failed = replace(whole, verified=False, valid=False, reason=str(error))
                found, lines = [failed], []
            samples += found
            stages += lines
            if reason := found[-1].reason:
                failure = f"{step.name}: {reason}"
                return Taken(samples=tuple(samples), stages=tuple(stages), failure=failure)
        wrong = self._beside("verify", self.job.verify, trial)
        if wrong:
            samples = [replace(each, verified=False, reason=wrong) for each in samples]
        return Taken(samples=tuple(samples), stages=tuple(stages), failure=wrong)

    def _step(
        self, step: StepSection, trial: str, whole: Sample
    ) -> tuple[list[Sample], list[Stage]]:
        """The samples of a step, the last of which is its time, and its stages."""
        events = self.events / f"{self.side.name}-{trial}-{step.name}"
        shutil.rmtree(events, ignore_errors=True)
        events.mkdir(parents=True)
        names = self._names(events)
        logs = self.folder / filled(self.job.event_logs or str(events), names)
        writes = [filled(each, names) for each in self.job.writes]
        tables = self._tables(names)
        known = {each.name for each in logs.glob("*")}
        files = written.seen(writes, self.folder)
        before = {place: commits.commits(place) for place in tables}
        ran = self._run(step.command, events, f"{trial}-{step.name}")
        whole = replace(whole, value=ran.wall_s)
        if ran.mistake:
            reason = self._reason(ran, f"{trial}-{step.name}")
            return [replace(whole, verified=False, valid=False, reason=reason)], []
        if ran.left:
            self._note(step.name, "processes that it left behind were ended")
        values = {"cpu_s": ran.cpu_s, "peak_memory_bytes": float(ran.peak_bytes)}
        values = {name: value for name, value in values.items() if value}
        if writes:
            found = written.written(files, written.seen(writes, self.folder))
            values["files_written"], values["bytes_written"] = found.files, found.bytes
        values |= self._committed(step.name, before)
        logged = self._logged(step, [each for each in logs.glob("*") if each.name not in known])
        samples = [
            replace(whole, metric=name, unit=METRICS[name].unit, value=value)
            for name, value in values.items()
        ]
        if logged.counters is None:
            return [*samples, whole], []
        by_label = {label_of(whole): logged.counters}
        spark = counted(whole, by_label)
        if logged.missing:
            spark = [replace(each, valid=False, reason=logged.missing) for each in spark]
        return [*samples, *spark, whole], list(stage_lines([whole], by_label))

    def _logged(self, step: StepSection, logs: Sequence[Path]) -> Logged:
        """What the event logs of a step tell; what they lack becomes a note."""
        found = Logged()
        for log in sorted(logs):
            try:
                application = read_application(log)
            except RunFolderError as error:
                found.missing = str(error)
                self._note(step.name, found.missing)
                continue
            found.counters = found.counters or StepCounters()
            found.counters.include(application.counters)
            found.missing = found.missing or application.missing
            self.spark |= {application.spark} - {""}
            for note in (application.missing, *application.notes):
                self._note(step.name, note)
        if step.event_log and found.counters is None and not logs:
            no_log = "it wrote no event log, so that nothing of Spark is counted"
            self._note(step.name, f"{no_log}; event_log = false says that it runs no Spark")
        return found

    def _committed(
        self, step: str, before: Mapping[str, commits.Commits | None]
    ) -> dict[str, float]:
        """What the commits of a step say, over all tables."""
        found: list[commits.Commit] = []
        for place, known in before.items():
            made = commits.added(place, known)
            if made is None:
                self._note(step, f"{Path(place).name} is no Hudi, Delta or Iceberg table")
            found += made or []
        return dict(commits.values(found)) if before else {}

    def _tables(self, names: Mapping[str, str]) -> list[str]:
        places = [filled(each, names) for each in self.job.tables]
        return [each if "://" in each else str(self.folder / each) for each in places]

    def _beside(self, what: str, commands: Sequence[str], trial: str) -> str:
        """Run commands that are not measured; why one failed, empty where none did."""
        for number, command in enumerate(commands):
            name = f"{trial}-{what}-{number}"
            ran = self._run(command, self._beside_events, name)
            if ran.mistake:
                return f"{what}: {self._reason(ran, name)}"
        return ""

    def _run(self, command: str, events: Path, name: str) -> Ran:
        names = self._names(events)
        own = {key: filled(each, names) for key, each in self.job.environment.items()}
        self.work.mkdir(parents=True, exist_ok=True)
        return run(
            words(command, names),
            folder=self.folder,
            environment={**_environment(events), **own},
            timeout_s=self.job.timeout,
            output=self.scratch / f"{name}.txt",
        )

    def _names(self, events: Path) -> dict[str, str]:
        return {
            **self.side.values,
            "work": str(self.work),
            "code": str(self.code),
            "events": str(events),
        }

    def _reason(self, ran: Ran, name: str) -> str:
        """Why a command failed, in a line; what it printed at its end is kept, without secrets."""
        self.output.mkdir(exist_ok=True)
        kept = self.output / f"{self.side.name}-{name}.txt"
        kept.write_text(redact_text(ran.printed), encoding="utf-8", errors="backslashreplace")
        return redact_text(f"{ran.mistake} ({self.output.name}/{kept.name} has its output)")

    def _note(self, step: str, words: str) -> None:
        if words:
            self.notes.setdefault(f"{self.cell} {step}: {words}.")


def counted(whole: Sample, by_label: Mapping[str, StepCounters]) -> list[Sample]:
    """What Spark counted in a step, and in phases that Hudi tells.

    Args:
        whole: the time of the step, which is not among them.
        by_label: counters of the step by its label.
    """
    total = by_label[label_of(whole)].phases.get("total")
    name = "executor_cpu_s"
    spent = total.cpu_ns / 1e9 if total else 0.0
    return [
        replace(whole, metric=name, unit=METRICS[name].unit, value=spent),
        *counter_samples([whole], by_label, OF_A_JOB),
    ]


def _environment(events: Path) -> dict[str, str]:
    """The variables of this process, and those that make Spark write an event log.

    What the job's own command line says about its event log goes before it.
    """
    options = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "true",
        "spark.eventLog.compression.codec": "zstd",
        "spark.eventLog.rolling.enabled": "false",
        "spark.redaction.string.regex": SPARK_TEXT_REGEX,
        "spark.redaction.regex": SPARK_REGEX,
    }
    # Within single quotes spark-submit takes every letter as it is.
    java_options = " ".join(f"'-D{name}={value}'" for name, value in options.items())
    own = os.environ.get(_SPARK_OPTIONS)
    found = {
        **os.environ,
        EVENTS: str(events),
        _SPARK_OPTIONS: f"{java_options} {own}" if own else java_options,
    }
    found.update(_java())
    return found


def _java() -> Iterator[tuple[str, str]]:
    """A Java for Spark, where the machine has none."""
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        home = java_home()
        if home is not None:
            yield "JAVA_HOME", str(home)
