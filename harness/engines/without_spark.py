"""The engine `native@without-spark`: Keymark's own tables, in a process that has no Spark.

It stands beside the libraries without Spark, so it gets what they get: the files of a batch, a
process with a given number of cores and memory (`watched_process`), rows of the truth's comparison
through its own reader. Its calls are those of a revision of Keymark (`revision`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Row

from keymark.harness.engines.base import Layout, MeasuredTable
from keymark.harness.engines.revision import RevisionEngine, RevisionRows, RevisionTable
from keymark.harness.engines.watched_process import WatchedProcess, files_of, limited
from keymark.harness.tables.table_folders import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CHILD = "keymark.harness.engines.without_spark_child"


class WithoutSparkProcess(WatchedProcess):
    """What answers the messages of `without_spark_child.Session`."""

    def command(self) -> list[str]:
        """The code that runs here."""
        return [sys.executable, "-m", _CHILD]


class WithoutSparkRows(RevisionRows):
    """The rows of a table, which come as mappings."""

    def collect(self) -> list[Row]:
        """The rows of the condition, or of the keys."""
        keys = None if self._keys is None else list(self._keys)
        found = self._child.call("find", table=self._table, keys=keys, where=self._where)
        return [Row(**row) for row in found]


class WithoutSparkTable(RevisionTable):
    """A table under test; see `base.MeasuredTable`."""

    def read(self, keys: Sequence[str] | None = None, where: str | None = None) -> WithoutSparkRows:
        """All rows, or those of record keys or of a condition."""
        return WithoutSparkRows(self._child, self._number, keys, where)


class WithoutSparkEngine(RevisionEngine):
    """Makes and opens tables through pyarrow.

    Args:
        process: where they are.
        tables: where their files are.
    """

    def __init__(self, process: WatchedProcess, tables: Tables) -> None:
        super().__init__(process, tables)
        self._process = process

    def create(
        self, path: Path, layout: Layout, *, index: str, options: Mapping[str, str]
    ) -> MeasuredTable:
        """A new, empty table."""
        self._process.revive()
        return super().create(path, layout, index=index, options=options)

    def open(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A table that was made with this index."""
        self._process.revive()
        return super().open(path, index=index, options=options)

    def table(self, number: int) -> MeasuredTable:
        """The table that the child knows by a number."""
        return WithoutSparkTable(self._child, number)

    @contextmanager
    def step(self, label: str) -> Iterator[None]:  # noqa: ARG002 - no Spark to tell
        """Nothing: there is no event log."""
        yield

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        """End the process once the block has taken so long."""
        return limited(self._process, seconds)

    def hold_rows(self, df: DataFrame, /) -> tuple[str, ...]:
        """The files of a data frame that was read from Parquet; a write reads them."""
        return files_of(df)
