"""The only place that builds the Spark session of a run, and labels what runs in it.

The settings keep counters exact and times quiet: a fixed number of small shuffle partitions, no
adaptive re-planning, no speculation (a task that runs twice is counted twice), no waiting for
locality, and the event log that the counters are taken from.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from harness.event_log import STEP_PROPERTY
from harness.log_cost import LogClock, StepCost
from harness.scenario import SparkSection
from table import spark as table_spark

_CORES = re.compile(r"local\[(\d+)")
# Of a store's settings every one counts: what is a secret among them depends on the store.
_SENSITIVE = (
    r"secret|password|passwd|token|credential|access[._-]?key|account[._-]?key|keymark\.storage\."
)
_SECRET = re.compile(_SENSITIVE, re.IGNORECASE)
_SECRET_ARGUMENT = re.compile(rf"((?:{_SENSITIVE})[^=]*=).*", re.IGNORECASE | re.DOTALL)
_USERINFO = re.compile(r"(://)[^/@\s]+@")

_FLUSH_MS = 60_000

REDACTED = "*(redacted)*"


def measuring_conf(section: SparkSection, events: Path) -> dict[str, str]:
    """The Spark options of a run: the harness's, and the scenario's laid over them."""
    count = cores(section.master)
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
        "spark.redaction.regex": f"(?i){_SENSITIVE}",
        **section.conf,
    }


def cores(master: str) -> int:
    """Cores that a local master uses; those of this machine for another."""
    match = _CORES.match(master)
    if match:
        return int(match.group(1))
    return 1 if master == "local" else os.cpu_count() or 1


def redact_arguments(arguments: Iterable[str]) -> list[str]:
    """A command line fit for a file: what follows `=` after a secret-looking name left out."""
    return [
        _USERINFO.sub(r"\1", _SECRET_ARGUMENT.sub(rf"\1{REDACTED}", argument))
        for argument in arguments
    ]


def redact(values: Mapping[str, str]) -> dict[str, str]:
    """Options fit for a file: values of secret-looking names and user parts of URLs left out."""
    return {
        key: REDACTED if _SECRET.search(key) else _USERINFO.sub(r"\1", value)
        for key, value in sorted(values.items())
    }


def redact_document(value: Any) -> Any:
    """The same of a document of JSON's types, at any depth."""
    if isinstance(value, Mapping):
        return {
            key: REDACTED if _SECRET.search(key) else redact_document(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [redact_document(inner) for inner in value]
    return _USERINFO.sub(r"\1", value) if isinstance(value, str) else value


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
        """Attribute every job of the block to a step; the label is the slot's and the step's.

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
            jvm: Any = context._jsc  # noqa: SLF001 - the only way to Spark's listeners
            jvm.sc().listenerBus().waitUntilEmpty(_FLUSH_MS)
            after = self._log_clock.seconds()
            cost.seconds = None if before is None or after is None else after - before

    def event_log(self) -> Any:
        """Spark's listener that writes the event log, a Java object."""
        java: Any = self.spark.sparkContext._jsc  # noqa: SLF001 - the only way to the listeners
        return java.sc().eventLogger().get()

    @contextmanager
    def unlogged(self) -> Iterator[None]:
        """Keep the block out of the event log: nothing of it is written."""
        java: Any = self.spark.sparkContext._jsc  # noqa: SLF001 - the only way to the listeners
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
