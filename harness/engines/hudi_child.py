"""The process of one Hudi version: a Spark session with its bundle, told what to do over a pipe.

Run by `hudi` beside it; the methods of `HudiSession` are the messages. Whatever must not be
on the clock is a message of its own: reading a batch's schema, bringing keys to the JVM, bringing
answers back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, lit

from keymark.datasets.generate.spark import digest_dataframe
from keymark.harness.engines.hudi_index_check import compare
from keymark.harness.engines.hudi_jvm import HudiJvm
from keymark.harness.engines.hudi_options import HBASE_CONF
from keymark.harness.engines.hudi_phases import STACK_DEPTH
from keymark.harness.engines.pipe_server import serve
from keymark.harness.measure import environment
from keymark.harness.measure.session import SparkRuntime
from keymark.harness.scenario.workload_section import SparkSection
from keymark.harness.sql_text import quoted

_METADATA = "hoodie.metadata."


class HudiSession:
    """Spark with one version of Hudi."""

    def __init__(self) -> None:
        self._steps, self._limits = ExitStack(), ExitStack()
        self._frames: dict[tuple[str, ...], DataFrame] = {}
        self._found: Any = None
        self._look: Callable[[Mapping[str, str]], JavaObject]

    def start(
        self, *, version: str, spark: SparkSection, events: Path, extra: Mapping[str, str]
    ) -> dict[str, Any]:
        """Start Spark; its options and versions."""
        self._runtime = SparkRuntime(spark, events, extra)
        self._spark = self._runtime.spark
        self._jvm = HudiJvm(self._spark, version)
        self._jvm.set_property(STACK_DEPTH, "64")
        self._jvm.add_settings(HBASE_CONF)
        return {"conf": self._runtime.conf(), "versions": environment.versions(self._spark)}

    def connect(self, *, settings: Mapping[str, str]) -> None:
        """Take Hadoop's settings of the store where the tables are."""
        self._jvm.configure(settings)

    def requests(self) -> dict[str, int]:
        """The requests to the store so far, by kind."""
        return self._jvm.requests()

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

    def write(
        self, *, path: str, operation: str, files: tuple[str, ...], options: Mapping[str, str]
    ) -> None:
        """Write held rows through Hudi's data source; the table is made if there is none."""
        writer = self._frames[files].write.format("hudi").options(**options)
        writer.option("hoodie.datasource.write.operation", operation).mode("append").save(path)

    def digest(
        self, *, path: str, options: Mapping[str, str], columns: Sequence[str]
    ) -> tuple[int, str]:
        """Rows and digest of a table through Hudi's reader."""
        found = digest_dataframe(self._table(path, options), columns)
        return found.rows, found.digest

    def find(
        self, *, path: str, options: Mapping[str, str], column: str, values: list[str]
    ) -> list[Row]:
        """The rows whose column (cast to text) has one of the values."""
        table = self._table(path, options)
        kind = table.schema[column].dataType
        wanted = [lit(value).cast(kind) for value in values]
        named = col(column)
        self._found = table.where(named == wanted[0] if len(wanted) == 1 else named.isin(*wanted))
        return list(self._found.collect())

    def select(self, *, path: str, options: Mapping[str, str], where: str) -> list[Row]:
        """The rows of a condition."""
        self._found = self._table(path, options).where(where)
        return list(self._found.collect())

    def opened(self) -> list[str]:
        """Names of the files that the last query opened; none where Spark does not plan them.

        Releases before 1.0 plan merge-on-read tables in partitions of their own.
        """
        parts = self._found._jdf.queryExecution().toRdd().partitions()  # noqa: SLF001
        names = {part.getClass().getSimpleName() for part in parts}
        if names - {"FilePartition"}:
            return []
        files = (file for part in parts for file in part.files())
        return sorted({str(file.filePath().toString()) for file in files})

    def check_index(
        self, *, path: str, options: Mapping[str, str], in_partitions: bool
    ) -> dict[str, int]:
        """Compare the record index with the rows; the counts of `base.IndexCheck`."""
        metadata = self._spark.read.format("hudi").load(f"{path}/.hoodie/metadata")
        return compare(self._table(path, options), metadata, in_partitions=in_partitions)

    def compact_rows(self, *, path: str, options: Mapping[str, str]) -> None:
        """Merge the log files of a table into base files.

        The options of the metadata table go with it: Hudi takes away what is not asked for.
        """
        asked = {"hoodie.compact.inline.max.delta.commits": "1"}
        asked |= {name: each for name, each in options.items() if name.startswith(_METADATA)}
        told = ",".join(f"{name}={value}" for name, value in asked.items())
        for operation in ("schedule", "run"):
            given = {"op": operation, "path": path, "options": told}
            # Hudi's parser knows no parameters.
            words = ", ".join(f"{name} => {quoted(text)}" for name, text in given.items())
            self._spark.sql(f"call run_compaction({words})").collect()

    def build_index(self, *, path: str, options: Mapping[str, str]) -> None:
        """Build the metadata partitions that the options ask for and the table lacks."""
        self._jvm.initialise(path, options)

    def hold_keys(
        self, *, path: str, keys: list[str], partitions: list[str] | None, slices: int
    ) -> None:
        """Bring keys to the JVM; with partition paths unless the record index is to be asked."""
        if partitions is None:
            texts = self._jvm.texts(keys)
            self._look = partial(self._jvm.record_index, path, texts)
            return
        records = self._jvm.records(keys, partitions, slices=slices)
        self._look = partial(self._jvm.tagged, path, records, schema=self._jvm.schema(path))

    def lookup(self, *, options: Mapping[str, str]) -> None:
        """Look the held keys up: in the record index, or by the index's own tagging."""
        self._found = self._look(options)

    def places(self) -> dict[str, tuple[str, str]]:
        """The answer of the last lookup: key -> partition path and file id."""
        return self._jvm.places(self._found)

    def close(self) -> None:
        """Stop Spark; its event log is complete after that."""
        self._runtime.close()

    def _table(self, path: str, options: Mapping[str, str]) -> DataFrame:
        return self._spark.read.format("hudi").options(**options).load(path)


def explain(error: Exception) -> str:
    """The innermost cause that Java tells, or the first line of a Python error.

    A process whose Java is gone ends: the parent tells the last words of its log.
    """
    if isinstance(error, Py4JError) and not _has_java():
        os._exit(1)
    cause: JavaObject | None = getattr(error, "java_exception", None)
    if cause is None:
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0] if lines else ''}"
    while cause.getCause() is not None:
        cause = cause.getCause()
    message = str(cause.getMessage() or "").strip().splitlines()
    return f"{cause.getClass().getSimpleName()}: {message[0] if message else ''}"


def _has_java() -> bool:
    """Whether the JVM of the session answers."""
    try:
        session = SparkSession.getActiveSession()
        return session is not None and bool(session.version)
    except Py4JError:
        return False


def main() -> None:
    """Serve the parent; Java's chatter on standard output goes to the log."""
    os.environ["TZ"] = "UTC"
    serve(HudiSession(), explain=explain)


if __name__ == "__main__":
    main()
