"""The engine `native`: Keymark's own tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from keymark import Table
from keymark.datasets.generate.spark import digest_dataframe
from keymark.harness.engines.base import Layout, MeasuredTable
from keymark.harness.measure.log_cost import StepCost
from keymark.harness.measure.session import SparkRuntime
from keymark.harness.tables.other_indexes import drop_other_indexes
from keymark.harness.tables.table_folders import Tables
from keymark.table.index.choice import declare_index, fixed_options, index_table_properties
from keymark.table.index.protocol import spec_of
from keymark.table.properties.config import load_config
from keymark.table.properties.options import INDEX_TYPE
from keymark.table.runtime.ids import SeededIds
from keymark.table.storage.stores import storage_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

LOADED, REPEATED = "loaded", "repeated"
"""Seeds of file ids: of a table that is made, and of each copy of it that a repetition opens.

The same in every repetition, so that bytes repeat. Only one of a copy's handles writes.
"""


class NativeEngine:
    """Makes and opens `table.Table`s in one Spark session."""

    def __init__(self, runtime: SparkRuntime, tables: Tables) -> None:
        self._runtime = runtime
        self._spark = runtime.spark
        self._tables = tables

    def create(
        self, path: Path, layout: Layout, *, index: str, options: Mapping[str, str]
    ) -> MeasuredTable:
        """A new, empty table."""
        return Table.create(
            self._tables.of(path),
            name=layout.name,
            record_key=layout.record_key,
            partition_path=layout.partition_path,
            ordering=layout.ordering,
            index=index,
            options={**options, **self._tables.options},
            spark=self._spark,
            ids=SeededIds(LOADED),
        )

    def open(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A table that was made or adopted with this index."""
        given = {**options, **self._tables.options, INDEX_TYPE: spec_of(index).table_type}
        ids = SeededIds(REPEATED)
        place = self._tables.of(path)
        return Table.open(place, options=given, spark=self._spark, ids=ids)

    def adopt(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A copy of a table, given an index; building it, if that is needed, is left to the caller.

        Indexes that the table has beside it are dropped, and so are facts of another index. Facts
        of the copy make it use this one.
        """
        drop_other_indexes(self._tables.of(path), index, self._tables.options)
        given = {**options, **self._tables.options, INDEX_TYPE: spec_of(index).table_type}
        storage = storage_at(self._tables.of(path), given)
        config = load_config(storage)
        facts = {name: value for name, value in given.items() if name in fixed_options()}
        has_it = config.index_type == given[INDEX_TYPE]
        index_options = {**(config.properties if has_it else {}), **options}
        facts |= index_table_properties(index, config.record_key, index_options)
        declare_index(storage, config, facts)
        return self.open(path, index=index, options=options)

    def step(self, label: str) -> AbstractContextManager[StepCost | None]:
        """Attribute the jobs of the session to a step."""
        return self._runtime.step(label)

    def requests(self) -> Mapping[str, int]:
        """Requests of all processes that work on tables of this engine."""
        return self._tables.requests()

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        """Cancel the jobs of the session in time."""
        return self._runtime.limited(seconds)

    def hold_rows(self, df: DataFrame, /) -> DataFrame:
        """The data frame itself."""
        return df

    def hold_keys(self, keys: pa.StringArray, _table: MeasuredTable, /) -> pa.StringArray:
        """The keys themselves."""
        return keys

    def answer(self, found: pa.Table, _keys: pa.StringArray, /) -> pa.Table:
        """The answer itself: `Table.lookup` gives the form that is asked for."""
        return found

    def digest(self, rows: DataFrame, columns: Sequence[str], /) -> tuple[int, str]:
        """Rows and digest of a data frame."""
        found = digest_dataframe(rows, columns)
        return found.rows, found.digest
