"""Delta in words of Spark's SQL.

Statements name a table by its path. The codec is Spark's own setting, the size of compacted files
one of Delta's session. Sources: https://docs.delta.io/delta-batch (SQL by path, table properties),
https://docs.delta.io/delta-update (MERGE), https://docs.delta.io/optimizations-oss (OPTIMIZE).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from keymark.harness.engines.format_dialect import (
    CODEC,
    FILE_SIZE,
    Written,
    own_properties,
    own_settings,
)
from keymark.harness.sql_text import named
from keymark.harness.tables.formats.delta_log import DeltaReader

_SPARKS_CODEC = "snappy"
"""Spark 3.5's default, which Delta takes."""

_SCAN, _REWRITE, _WHOLE = "scanTimeMs", "rewriteTimeMs", "executionTimeMs"


class DeltaDialect:
    """How tables of Delta are made, changed and read."""

    source = "delta"
    file_name = "_metadata.file_name"

    def session(self, parallelism: int) -> dict[str, str]:
        """Delta's extension and catalog; its state is computed in as many tasks as rows are.

        By default it takes 50 tasks, whatever the machine.
        """
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": str(parallelism),
        }

    def relation(self, place: str) -> str:
        """The table at a path."""
        return f"delta.{named(place)}"

    def settings(self, _place: str, options: Mapping[str, str]) -> dict[str, str]:
        """Codec of Parquet files, and the size up to which OPTIMIZE puts files together."""
        size = options.get(FILE_SIZE)
        return {
            "spark.sql.parquet.compression.codec": options.get(CODEC, _SPARKS_CODEC),
            **({"spark.databricks.delta.optimize.maxFileSize": size} if size else {}),
            **own_settings(options),
        }

    def properties(self, options: Mapping[str, str]) -> dict[str, str]:
        """The table properties that the cell names."""
        return own_properties(options)

    def compaction(
        self, place: str, _options: Mapping[str, str], *, order_by: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """OPTIMIZE: small files are put together, and files with many deleted rows rewritten.

        In order, all files are rewritten.
        """
        columns = ", ".join(map(named, order_by))
        order = f" ZORDER BY ({columns})" if columns else ""
        return (f"OPTIMIZE {self.relation(place)}{order}",)

    def written(self, table: Path) -> Written:
        """Files of the latest version, and what a MERGE measured.

        Its whole time ends before the commit. What is left of it beside scanning and rewriting is
        reading the batch, once, into memory.
        """
        commit = DeltaReader().last_commit(table)
        times = {
            name: int(commit.metrics[name]) / 1000
            for name in (_SCAN, _REWRITE, _WHOLE)
            if str(commit.metrics.get(name, "")).isdecimal()
        }
        if _SCAN not in times or _REWRITE not in times:
            return Written(files=commit.files)
        phases = {"tag": times[_SCAN], "write": times[_REWRITE]}
        if _WHOLE in times:
            phases["prepare"] = max(times[_WHOLE] - times[_SCAN] - times[_REWRITE], 0.0)
        return Written(files=commit.files, phases=phases)

    def settle(self, where: str, place: str, *, connection: Mapping[str, str]) -> None:
        """Paths in Delta's log are relative: a copy is a table of its own."""
