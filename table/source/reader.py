"""The source itself: bases of PySpark 4.1 and later, so nothing else imports this module.

    schema      the table's columns, meta columns included
    filters     to keys, and to ranges of columns
    partitions  a task per few files that can hold what is asked
    read        a file after the other, as Arrow batches

Spark asks in processes that have no session: planning looks keys up without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from keymark.table.errors import InputError, InvalidOptionError
from keymark.table.layout.model import BaseFile
from keymark.table.read.arrow import FileRows, plan_read
from keymark.table.read.matching import matching_files
from keymark.table.read.predicate import ANYTHING, Condition, fixed_keys
from keymark.table.rows.arrow import arrow_of
from keymark.table.runtime.runner import pack, quiet_worker
from keymark.table.source.name import FORMAT
from keymark.table.source.pushed import pushed_condition
from keymark.table.state.table_state import TableState
from keymark.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

AS_OF = "as_of"
_ROWS_PER_BATCH = 1 << 16
_BYTES_PER_TASK = 64 << 20


class TableSource(DataSource):  # type: ignore[misc]
    """`spark.read.format("keymark").option("as_of", T).load(path)`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """All columns, the meta columns first."""
        state = TableState.load(self._table().storage, self.options.get(AS_OF))
        return from_arrow_schema(plan_read(state, (), None, None).known_schema())

    def reader(self, schema: StructType) -> TableReader:
        """A reader of these columns."""
        return TableReader(self._table(), self.options.get(AS_OF), schema)

    def _table(self) -> Table:
        unknown = sorted(set(self.options) - {"path", AS_OF})
        if unknown:
            raise InvalidOptionError(f"{FORMAT} has no option {unknown[0]!r}: only {AS_OF}")
        if "path" not in self.options:
            raise InputError(f'name the table: spark.read.format("{FORMAT}").load(path)')
        return Table.open(self.options["path"])


@dataclass(slots=True)
class TableReader(DataSourceReader):  # type: ignore[misc]
    """Plans one read; `condition` is what Spark handed down."""

    table: Table
    as_of: str | None
    schema: StructType
    condition: Condition = ANYTHING

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  Spark's name
        """Keep what files can be skipped by. All filters go back: Spark applies them to rows."""
        self.condition = pushed_condition(filters, arrow_of(self.schema))
        return filters

    def partitions(self) -> list[InputPartition]:
        """Tasks of about equal weight over the files that can hold a row that is asked for."""
        state = TableState.load(self.table.storage, self.as_of)
        names = tuple(self.schema.fieldNames())
        plan = plan_read(state, state.snapshot.files, None, names)
        plan = replace(plan, keys=fixed_keys(self.condition, state.config, plan.full))
        files = matching_files(self.table, plan, self.condition)
        rows = plan.rows
        weights = [file.size for file in files]
        packs = pack(weights, max(1, -(-sum(weights) // _BYTES_PER_TASK)))
        parts = [FilesPartition(rows, tuple(files[n] for n in members)) for members in packs]
        # Where no file is left, a task that reads none: a source without tasks gets one of Spark's.
        return [*parts] or [FilesPartition(rows, ())]

    def read(self, partition: FilesPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's files."""
        quiet_worker()
        columns = arrow_of(self.schema)
        for file in partition.files:
            yield from partition.rows.read(file).cast(columns).to_batches(_ROWS_PER_BATCH)


@dataclass(frozen=True)
class FilesPartition(InputPartition):  # type: ignore[misc]
    """The files of a task, and how their rows are read."""

    rows: FileRows
    files: tuple[BaseFile, ...]
