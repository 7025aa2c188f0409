"""The process of a format's engine: Spark with its jars, which gets its SQL over a pipe.

Run by `format_process`; the methods of `FormatSession` are the messages. It knows no format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from keymark.harness.engines.format_sql import ASKED, BATCH, FILE, NUMBERED, ROW
from keymark.harness.engines.spark_child import ChildSession, answer_parent


class FormatSession(ChildSession):
    """Spark with the jars of one format."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: DataFrame | None = None
        self._found: list[pa.RecordBatch] = []
        self._settings: Mapping[str, str] = {}
        self._before: dict[str, str | None] = {}

    def table(self, named: Mapping[str, Any]) -> DataFrame:
        """The rows of a relation, under settings of the session."""
        self._set(named["settings"])
        return self._spark.table(named["relation"])

    def run(
        self,
        *,
        statements: Sequence[str],
        settings: Mapping[str, str],
        files: tuple[str, ...] = (),
    ) -> None:
        """Run statements in order.

        Args:
            statements: in SQL.
            settings: of the session.
            files: held rows that the statements know as the batch; none: they need none.
        """
        self._set(settings)
        if files:
            self._show(files)
        for statement in statements:
            self._spark.sql(statement).collect()

    def query(
        self, *, statement: str, settings: Mapping[str, str], files: tuple[str, ...]
    ) -> list[tuple[Any, ...]]:
        """The rows of a query about held rows."""
        self._set(settings)
        self._show(files)
        return [tuple(row) for row in self._spark.sql(statement).collect()]

    def hold_keys(self, *, keys: list[str]) -> None:
        """Bring keys to the JVM, where they stay in memory until other ones come."""
        if self._asked is not None:
            self._asked.unpersist()
        rows = [(key,) for key in keys]
        self._asked = self._spark.createDataFrame(rows, "record_key string").cache()
        self._asked.count()
        self._asked.createOrReplaceTempView(ASKED)

    def lookup(self, *, statement: str, settings: Mapping[str, str]) -> None:
        """Look the held keys up."""
        self._set(settings)
        self._found = self._spark.sql(statement)._collect_as_arrow()  # noqa: SLF001 - as Arrow

    def places(self) -> dict[str, tuple[str, str]]:
        """The answer of the last lookup: key -> partition path and file id."""
        found = {}
        for batch in self._found:
            for key, partition, file in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                found[key] = (partition, PurePosixPath(file).stem)
        return found

    def _show(self, files: tuple[str, ...]) -> None:
        """Let statements know held rows as the batch."""
        rows = self._frames[files]
        place = (f"_metadata.file_path AS {FILE}", f"_metadata.row_index AS {ROW}")
        rows.createOrReplaceTempView(BATCH)
        rows.selectExpr("*", *place).createOrReplaceTempView(NUMBERED)

    def _set(self, settings: Mapping[str, str]) -> None:
        """Set options of the session; those of another table get their values of before back."""
        if settings == self._settings:
            return
        conf = self._spark.conf
        for name, value in self._before.items():
            if value is None:
                conf.unset(name)
            else:
                conf.set(name, value)
        self._before = {name: conf.get(name, None) for name in settings}
        for name, value in settings.items():
            conf.set(name, value)
        self._settings = dict(settings)


if __name__ == "__main__":
    answer_parent(FormatSession())
