"""The engine `native`: Keymark's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from harness.engines.base import Layout, MeasuredTable
from table import Table


class NativeEngine:
    """Makes and opens `table.Table`s in one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def create(
        self, path: Path, layout: Layout, *, index: str, options: Mapping[str, str]
    ) -> MeasuredTable:
        """A new, empty table."""
        return Table.create(
            str(path),
            name=layout.name,
            record_key=",".join(layout.record_key),
            partition_path=",".join(layout.partition_path),
            ordering=layout.ordering,
            index=index,
            options=dict(options),
            spark=self._spark,
        )

    def open(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """An existing table, used with the given index."""
        return Table.open(str(path), index=index, options=dict(options), spark=self._spark)
