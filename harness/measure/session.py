"""The only place that builds the Spark session of a run, and labels what runs in it.

The settings keep counters exact and times quiet: a fixed number of small shuffle partitions, no
adaptive re-planning, no speculation (a task that runs twice is counted twice), no waiting for
locality, and the event log that the counters are taken from.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from keymark.harness.measure.event_log import STEP_PROPERTY
from keymark.harness.measure.log_cost import LogClock, StepCost
from keymark.harness.redaction import SPARK_REGEX, SPARK_TEXT_REGEX, redact
from keymark.harness.scenario.workload_section import SparkSection
from keymark.table.runtime import spark as table_spark

_CORES = re.compile(r"local\[(\d+)")
_FLUSH_MS = 60_000


def measuring_conf(section: SparkSection, events: Path) -> dict[str, str]:
    """The Spark options of a run: the harness's, and the scenario's laid over them."""
    count = cores(section.master)
    own = section.conf.get("spark.redaction.regex")
    given = [own] if own else []
    return {
        "spark.app.name": "keymark-run",
        "spark.default.parallelism": str(count),
        "spark.sql.shuffle.partitions": str(count),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.locality.wait": "0",
        "spark.speculation": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.resolve().as_uri(),
        "spark.eventLog.compress": "true",
        "spark.eventLog.compression.codec": "zstd",
        "spark.eventLog.rolling.enabled": "false",
        **section.conf,
        # Plans hold paths, and errors of tasks hold what a store said.
        "spark.redaction.string.regex": SPARK_TEXT_REGEX,
        "spark.redaction.regex": "|".join([SPARK_REGEX, *given]),
    }


def cores(master: str) -> int:
    """Cores that a local master uses; those of this machine for another."""
    match = _CORES.match(master)
    if match:
        return int(match.group(1))
    return 1 if master == "local" else os.cpu_count() or 1


class SparkRuntime:
    """A running Spark with its event log; closing it completes the log."""

    def __init__(
        self, section: SparkSection, events: Path, extra: Mapping[str, str] | None = None
    ) -> None:
        os.environ["TZ"] = "UTC"
        time.tzset()
        conf = {**measuring_conf(section, events), **(extra or {})}
        self.spark: SparkSession = table_spark.session(section.master, conf)
        self._log_clock = LogClock(self.spark.sparkContext._jvm)  # noqa: SLF001 - no other way

    @contextmanager
    def step(self, label: str) -> Iterator[StepCost]:
        """Attribute every job of the block to a step; the label is the trial's and the step's.

        When it ends, the events of the block are in the log: a kill cannot take them away; and
        what writing them took is known.
        """
        cost = StepCost()
        before = self._log_clock.seconds()
        context = self.spark.sparkContext
        context.setLocalProperty(STEP_PROPERTY, label)
        context.setLocalProperty("spark.job.description", label)
        try:
            yield cost
        finally:
            for name in (STEP_PROPERTY, "spark.job.description", "spark.jobGroup.id"):
                context.setLocalProperty(name, None)  # type: ignore[arg-type]
            jvm: JavaObject = context._jsc  # noqa: SLF001 - the only way to Spark's listeners
            jvm.sc().listenerBus().waitUntilEmpty(_FLUSH_MS)
            after = self._log_clock.seconds()
            cost.seconds = None if before is None or after is None else after - before

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Cancel all jobs of the session once the block has taken so long, and those that follow.

        Work of a driver outside of jobs runs to its end.
        """
        is_over = threading.Event()

        def watch() -> None:
            wait = max(seconds, 0.0)
            while not is_over.wait(wait):
                self.spark.sparkContext.cancelAllJobs()
                wait = 1.0

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()

    def event_log(self) -> JavaObject:
        """Spark's listener that writes the event log."""
        java: JavaObject = self.spark.sparkContext._jsc  # noqa: SLF001 - the only way to listeners
        return java.sc().eventLogger().get()

    @contextmanager
    def unlogged(self) -> Iterator[None]:
        """Keep the block out of the event log: nothing of it is written."""
        java: JavaObject = self.spark.sparkContext._jsc  # noqa: SLF001 - the only way to listeners
        bus, log = java.sc().listenerBus(), self.event_log()
        bus.waitUntilEmpty(_FLUSH_MS)
        bus.removeListener(log)
        try:
            yield
        finally:
            bus.waitUntilEmpty(_FLUSH_MS)
            bus.addToEventLogQueue(log)

    def conf(self) -> dict[str, str]:
        """The options that Spark really runs with, secrets left out."""
        return redact(dict(self.spark.sparkContext.getConf().getAll()))

    def close(self) -> None:
        """Stop Spark; its event log is complete after that."""
        self.spark.stop()
