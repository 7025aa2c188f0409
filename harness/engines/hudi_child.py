"""The process of one Hudi version: a Spark session with its bundle, which gets calls over a pipe.

Run by `hudi_process`; the methods of `HudiSession` are the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from keymark.harness.engines.hudi_index_check import UNREADABLE, compare, compare_answers
from keymark.harness.engines.hudi_jvm import HudiJvm
from keymark.harness.engines.hudi_options import HBASE_CONF
from keymark.harness.engines.hudi_phases import STACK_DEPTH
from keymark.harness.engines.spark_child import ChildSession, answer_parent, explain
from keymark.harness.scenario.workload_section import SparkSection
from keymark.harness.sql_text import quoted

_KEPT = ("hoodie.metadata.", "hoodie.write.")


class HudiSession(ChildSession):
    """Spark with one version of Hudi."""

    def __init__(self) -> None:
        super().__init__()
        self._found: Any = None
        self._look: Callable[[Mapping[str, str]], JavaObject]

    def start(
        self, *, spark: SparkSection, events: Path, extra: Mapping[str, str], version: str = ""
    ) -> dict[str, Any]:
        """Start Spark; its options and versions."""
        answer = super().start(spark=spark, events=events, extra=extra)
        self._jvm = HudiJvm(self._spark, version)
        self._jvm.set_property(STACK_DEPTH, "64")
        self._jvm.add_settings(HBASE_CONF)
        return answer

    def table(self, named: Mapping[str, Any]) -> DataFrame:
        """The rows of the table at a path, read with options."""
        return self._spark.read.format("hudi").options(**named["options"]).load(named["path"])

    def write(
        self, *, path: str, operation: str, files: tuple[str, ...], options: Mapping[str, str]
    ) -> None:
        """Write held rows through Hudi's data source; the table is made if there is none."""
        writer = self._frames[files].write.format("hudi").options(**options)
        writer.option("hoodie.datasource.write.operation", operation).mode("append").save(path)

    def check_index(
        self, *, path: str, options: Mapping[str, str], in_partitions: bool
    ) -> dict[str, int]:
        """Compare the record index with the rows; the counts of `base.IndexCheck`."""
        metadata = self._spark.read.format("hudi").load(f"{path}/.hoodie/metadata")
        rows = self.table({"path": path, "options": options})
        try:
            return compare(rows, metadata, in_partitions=in_partitions)
        except Py4JJavaError as error:
            if in_partitions or not explain(error).startswith(UNREADABLE):
                raise

        def ask(keys: Sequence[str]) -> dict[str, tuple[str, str]]:
            return self._jvm.places(self._jvm.record_index(path, self._jvm.texts(keys), options))

        return compare_answers(rows, ask)

    def compact_rows(self, *, path: str, options: Mapping[str, str]) -> None:
        """Merge the log files of a table into base files.

        It gets the options of the metadata table, because Hudi removes the partitions that it is
        not asked for, and the table's version, because 1.0.1 and 1.0.2 refuse a table of
        version 6 otherwise.
        """
        asked = {"hoodie.compact.inline.max.delta.commits": "1"}
        asked |= {name: each for name, each in options.items() if name.startswith(_KEPT)}
        texts = ",".join(f"{name}={value}" for name, value in asked.items())
        for operation in ("schedule", "run"):
            given = {"op": operation, "path": path, "options": texts}
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


if __name__ == "__main__":
    answer_parent(HudiSession())
