"""What the processes of engines with jars of their own share: Spark, and calls over a pipe.

The methods of a `ChildSession` are the messages. Whatever must not be on the clock is a message of
its own: reading a batch's schema, bringing keys to the JVM, bringing answers back.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, lit

from keymark.datasets.generate.spark import digest_dataframe
from keymark.harness.engines import s3a
from keymark.harness.engines.pipe_server import serve
from keymark.harness.measure import environment
from keymark.harness.measure.session import SparkRuntime
from keymark.harness.scenario.workload_section import SparkSection


class ChildSession(ABC):
    """Spark with the jars of one engine."""

    def __init__(self) -> None:
        self._steps, self._limits = ExitStack(), ExitStack()
        self._frames: dict[tuple[str, ...], DataFrame] = {}
        self._rows: DataFrame

    @abstractmethod
    def table(self, named: Mapping[str, Any]) -> DataFrame:
        """The rows of a table, through the engine's reader.

        Args:
            named: what each message about rows says about the table.
        """

    def start(
        self, *, spark: SparkSection, events: Path, extra: Mapping[str, str]
    ) -> dict[str, Any]:
        """Start Spark; its options and versions."""
        self._runtime = SparkRuntime(spark, events, extra)
        self._spark = self._runtime.spark
        return {"conf": self._runtime.conf(), "versions": environment.versions(self._spark)}

    def connect(self, *, settings: Mapping[str, str]) -> None:
        """Take Hadoop's settings of the store where the tables are."""
        java: JavaObject = self._spark.sparkContext._jsc  # noqa: SLF001 - the only way to the JVM
        configuration = java.hadoopConfiguration()
        for name, value in settings.items():
            configuration.set(name, value)

    def requests(self) -> dict[str, int]:
        """What Hadoop's client of S3 counted so far, by kind; zeros before its first request."""
        jvm: Any = self._spark.sparkContext._jvm  # noqa: SLF001 - the only way to the JVM
        known = jvm.org.apache.hadoop.fs.FileSystem.getGlobalStorageStatistics()
        counts = known.get(s3a.STATISTICS)

        def counted(*names: str) -> int:
            return sum(counts.getLong(name) or 0 for name in names) if counts else 0

        by_kind = {kind: counted(*names) for kind, names in s3a.COUNTS.items()}
        gets = counted(s3a.ALL) - counted(s3a.AGAIN) - sum(by_kind.values())
        return {"get": gets, **by_kind}

    def begin(self, *, label: str) -> None:
        """What runs from now on belongs to a step."""
        self._steps.enter_context(self._runtime.step(label))

    def end(self) -> None:
        """The step is over."""
        self._steps.close()

    def limit(self, *, seconds: float) -> None:
        """Jobs of the session are cancelled after so long, until `unlimit`."""
        self._limits.enter_context(self._runtime.limited(seconds))

    def unlimit(self) -> None:
        """Jobs take as long as they take."""
        self._limits.close()

    def cancel(self) -> None:
        """End the jobs that run; called beside them."""
        self._spark.sparkContext.cancelAllJobs()

    def hold_rows(self, *, files: tuple[str, ...]) -> None:
        """Know the rows of Parquet files, by the files' names."""
        if files not in self._frames:
            self._frames[files] = self._spark.read.parquet(*files)

    def digest(self, *, columns: Sequence[str], **named: Any) -> tuple[int, str]:
        """Rows and digest of a table through the engine's reader."""
        found = digest_dataframe(self.table(named), columns)
        return found.rows, found.digest

    def find(self, *, column: str, values: list[str], **named: Any) -> list[Row]:
        """The rows whose column (cast to text) has one of the values."""
        table = self.table(named)
        kind = table.schema[column].dataType
        wanted = [lit(value).cast(kind) for value in values]
        key = col(column)
        self._rows = table.where(key == wanted[0] if len(wanted) == 1 else key.isin(*wanted))
        return list(self._rows.collect())

    def select(self, *, where: str, **named: Any) -> list[Row]:
        """The rows of a condition."""
        self._rows = self.table(named).where(where)
        return list(self._rows.collect())

    def opened(self) -> list[str]:
        """Names of the files that the last query opened; none where Spark does not plan them.

        Releases of Hudi before 1.0 plan merge-on-read tables in partitions of their own.
        """
        parts = self._rows._jdf.queryExecution().toRdd().partitions()  # noqa: SLF001
        names = {part.getClass().getSimpleName() for part in parts}
        if names - {"FilePartition"}:
            return []
        files = (file for part in parts for file in part.files())
        return sorted({str(file.filePath().toString()) for file in files})

    def close(self) -> None:
        """Stop Spark; its event log is complete after that."""
        self._runtime.close()


def explain(error: Exception) -> str:
    """The innermost cause that Java tells, or the first line of a Python error.

    A process whose Java or Spark is gone ends: the parent tells the last words of its log.
    """
    if isinstance(error, Py4JError | OSError) and not _has_spark():
        os._exit(1)
    cause: JavaObject | None = getattr(error, "java_exception", None)
    if cause is None:
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0] if lines else ''}"
    while cause.getCause() is not None:
        cause = cause.getCause()
    message = str(cause.getMessage() or "").strip().splitlines()
    return f"{cause.getClass().getSimpleName()}: {message[0] if message else ''}"


def _has_spark() -> bool:
    """Whether the JVM of the session answers, and its Spark runs."""
    try:
        session = SparkSession.getActiveSession()
        # A JVM without memory may stop Spark and live on.
        return session is not None and not session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001
    except (Py4JError, OSError):
        return False


def answer_parent(session: ChildSession) -> None:
    """Serve the parent; Java's chatter on standard output goes to the log."""
    os.environ["TZ"] = "UTC"
    serve(session, explain=explain)
