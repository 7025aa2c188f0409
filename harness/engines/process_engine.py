"""What engines in processes of their own share: steps, limits, requests, rows that are asked for.

The process is a `SparkProcess`; what it answers to is `spark_child.ChildSession`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keymark.harness.engines.base import Layout
from keymark.harness.engines.pipe import Asked
from keymark.harness.engines.spark_process import SparkProcess
from keymark.harness.measure.session import cores
from keymark.harness.scenario.workload_section import SparkSection
from keymark.harness.tables.independent import SourceFacts
from keymark.harness.tables.table_folders import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_CANCEL_S = 120.0
"""Cancelling jobs takes a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRows:
    """The live rows of a table, or those of some keys; read when asked for.

    Attributes:
        child: the process that reads.
        table: what each message about rows says about the table.
        column: that the keys are in.
        keys: as texts; none: all rows.
        where: a condition in SQL instead of keys.
    """

    child: Asked
    table: Mapping[str, Any]
    column: str = ""
    keys: tuple[str, ...] = ()
    where: str | None = None

    def digest(self, columns: Sequence[str]) -> tuple[int, str]:
        """Rows and digest of all rows."""
        rows, digest = self.child.call("digest", columns=list(columns), **self.table)
        return int(rows), str(digest)

    def collect(self) -> list[Row]:
        """The rows of the condition, or of the keys."""
        if self.where is not None:
            return list(self.child.call("select", where=self.where, **self.table))
        named = {"column": self.column, "values": list(self.keys)}
        return list(self.child.call("find", **named, **self.table))

    def inputFiles(self) -> list[str]:  # noqa: N802 - a data frame's name for it
        """The files that `collect` opened."""
        return list(self.child.call("opened"))


class ProcessEngine:
    """Speaks with the process of an engine about all but the tables themselves.

    Args:
        child: the process.
        tables: where its tables are.
    """

    def __init__(self, child: SparkProcess, tables: Tables) -> None:
        self._child, self._tables = child, tables

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Attribute the jobs of the child's session to a step."""
        self._child.call("begin", label=label)
        try:
            yield
        finally:
            self._child.call("end")

    def requests(self) -> Mapping[str, int]:
        """What Hadoop's client of S3 counted; of a disk Hadoop counts bytes and no operations."""
        return dict(self._child.call("requests")) if self._tables.options else {}

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Let the child cancel its jobs in time; it is ended if it hangs beside them."""
        self._child.call("limit", seconds=seconds)
        self._child.patience(seconds + _CANCEL_S)
        try:
            yield
        finally:
            self._child.patience(None)
            self._child.call("unlimit")

    def hold_rows(self, df: DataFrame, /) -> tuple[str, ...]:
        """The files of a data frame that was read from Parquet; the child has read their schema."""
        files = tuple(sorted(df.inputFiles()))
        self._child.call("hold_rows", files=files)
        return files

    def answer(self, _found: object, keys: pa.StringArray, /) -> pa.Table:
        """The places that the child's lookup found."""
        return answer_of(self._child.call("places"), keys)

    def digest(self, rows: AskedRows, columns: Sequence[str], /) -> tuple[int, str]:
        """Rows and digest through the engine's own reader."""
        return rows.digest(columns)


def answer_of(places: Mapping[str, tuple[str, str]], keys: pa.StringArray) -> pa.Table:
    """What `Engine.answer` gives for keys, from partition path and file id by key."""
    found = [places.get(key, (None, None)) for key in keys.to_pylist()]
    return pa.table(
        {
            "record_key": keys,
            "partition_path": pa.array([place[0] for place in found], pa.string()),
            "file_id": pa.array([place[1] for place in found], pa.string()),
        }
    )


def layout_of(facts: SourceFacts) -> Layout:
    """How the rows of a table are keyed, laid out and ordered, by what the table says."""
    return Layout(
        name=facts.name,
        record_key=facts.record_key,
        partition_path=facts.partition_path,
        ordering=facts.ordering,
    )


def parallelism(section: SparkSection) -> int:
    """Tasks of each shuffle: as many as the run's sessions have."""
    return int(section.conf.get("spark.sql.shuffle.partitions", cores(section.master)))
