"""The engines `deltalake@VERSION` and `pyiceberg@VERSION`: tables of other formats, without Spark.

A library works in a process of its own (`process`, `child`), in its own environment. Batches are
the Parquet files that all engines read; rows that are compared with the truth come back as a file
of Arrow's and are digested here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row

from keymark.datasets.generate.digest import RowsDigest
from keymark.harness.engines.base import IndexCheck, Layout, MeasuredTable, NamedIndex, Purged
from keymark.harness.engines.formats import ROW_ORDER
from keymark.harness.engines.libraries.conditions import column_tests
from keymark.harness.engines.libraries.names import LibraryName
from keymark.harness.engines.libraries.process import LibraryProcess
from keymark.harness.engines.pipe import Asked
from keymark.harness.engines.process_engine import answer_of, layout_of
from keymark.harness.engines.row_order import ordered_columns
from keymark.harness.engines.watched_process import files_of, limited
from keymark.harness.errors import CellError
from keymark.harness.tables import independent
from keymark.harness.tables.formats import beside
from keymark.harness.tables.formats.model import KEY, NAME, ORDERING
from keymark.harness.tables.table_folders import Tables
from keymark.table.index.protocol import LookupStats
from keymark.table.properties.options import EVENT_TIME_PAYLOAD, OVERWRITE_PAYLOAD, PAYLOAD_CLASS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryWrite:
    """What a write says; see `base.WriteOutcome`."""

    files_written: int
    phases: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryRows:
    """The live rows of a table, or those of some keys or a condition; read when asked for.

    Attributes:
        child: the process.
        table: number of the table there.
        dumped: file for all rows, which is removed when they are digested.
        keys: encoded record keys.
        where: a condition in SQL.
    """

    child: Asked
    table: int
    dumped: Path
    keys: Sequence[str] | None = None
    where: str | None = None

    def digest(self, columns: Sequence[str]) -> tuple[int, str]:
        """Rows and digest of all rows, as the library reads them."""
        names, total = sorted(columns), RowsDigest()
        try:
            self.child.call("dump", table=self.table, columns=names, file=str(self.dumped))
            with pa.OSFile(str(self.dumped)) as file, pa.ipc.open_stream(file) as batches:
                for batch in batches:
                    total += RowsDigest.of(pa.Table.from_batches([batch]), names)
        finally:
            self.dumped.unlink(missing_ok=True)
        return total.rows, total.hex

    def collect(self) -> list[Row]:
        """The rows of the condition, or of the keys."""
        where = None if self.where is None else column_tests(self.where)
        keys = None if self.keys is None else list(self.keys)
        found = self.child.call("find", table=self.table, keys=keys, where=where)
        return [Row(**row) for row in found]

    def inputFiles(self) -> list[str]:  # noqa: N802 - a data frame's name for it
        """The files that `collect` opened; none where the library does not tell."""
        return list(self.child.call("opened"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryTable:
    """A table under test; see `base.MeasuredTable`.

    Attributes:
        child: the process.
        number: of the table there.
        index: name of the mode.
        dumped: file for all its rows.
    """

    child: Asked
    number: int
    index: str
    dumped: Path

    def bulk_insert(self, df: tuple[str, ...], /) -> LibraryWrite:
        """Make the table, of held rows."""
        return self._write("bulk_insert", df)

    def upsert(self, df: tuple[str, ...], /) -> LibraryWrite:
        """Insert or update held rows by key."""
        return self._write("upsert", df)

    def delete(self, df: tuple[str, ...], /) -> LibraryWrite:
        """Delete held keys."""
        return self._write("delete", df)

    def _write(self, operation: str, files: tuple[str, ...]) -> LibraryWrite:
        answer = self.child.call("write", table=self.number, operation=operation, files=files)
        return LibraryWrite(**answer)

    def read(self, keys: Sequence[str] | None = None, where: str | None = None) -> LibraryRows:
        """All rows, those of a condition, or those of record keys."""
        return LibraryRows(
            child=self.child, table=self.number, dumped=self.dumped, keys=keys, where=where
        )

    def lookup(
        self,
        _held: object,
        /,
        *,
        stats: LookupStats | None = None,  # noqa: ARG002 - has none
    ) -> None:
        """Find the files of the keys that the child holds."""
        self.child.call("lookup", table=self.number)

    def info(self) -> NamedIndex:
        """The mode: nothing in the table depends on it."""
        return NamedIndex(index=self.index)

    @property
    def leaves_deletes(self) -> bool:
        """Neither library writes files of deletes."""
        return False

    def compact_rows(self) -> None:
        """Put small files together."""
        self.child.call("compact", table=self.number)

    def check(self) -> IndexCheck:
        """There is nothing to compare."""
        raise CellError("the format has no record index")

    def compact(self) -> str | None:
        """There are no log blocks of an index."""
        raise CellError("the format has no record index")

    def drop_index(self) -> None:
        """There is none."""
        raise CellError("the format has no record index")

    def build_index(self) -> None:
        """There is none."""
        raise CellError("the format has no record index")

    def purge(self, _df: object, /) -> Purged:
        """Old files go with the formats' own vacuum, by age."""
        raise CellError("the library has no purge")


class LibraryEngine:
    """Makes and opens tables through one library.

    Args:
        name: the library and its version.
        child: its process.
        tables: where its tables are.
        work: folder for rows on their way here.
    """

    def __init__(
        self, name: LibraryName, child: LibraryProcess, tables: Tables, *, work: Path
    ) -> None:
        self._name, self._child, self._tables = name, child, tables
        self._dumped = work / "rows.arrow"

    def create(
        self, path: Path, layout: Layout, *, index: str, options: Mapping[str, str]
    ) -> MeasuredTable:
        """A table that the first write makes.

        Raises:
            CellError: rows are to be merged in a way that the libraries are not asked for, or
                ordered by a key that has no columns for it.
        """
        payload = options.get(PAYLOAD_CLASS, OVERWRITE_PAYLOAD)
        if payload not in (OVERWRITE_PAYLOAD, EVENT_TIME_PAYLOAD):
            raise CellError(f"{self._name.library} is not asked for {PAYLOAD_CLASS} = {payload}")
        if ROW_ORDER in options:
            ordered_columns(layout)
        self._child.revive()
        ordering = {ORDERING: layout.ordering} if layout.ordering else {}
        beside.write(path, {NAME: layout.name, KEY: ",".join(layout.record_key), **ordering})
        number = self._child.call("create", table=self._told(path, layout, options))
        return self._table(number, index)

    def open(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A table that exists."""
        self._child.revive()
        layout = layout_of(independent.facts(path))
        number = self._child.call("open", table=self._told(path, layout, options))
        return self._table(number, index)

    def _told(self, path: Path, layout: Layout, options: Mapping[str, str]) -> dict[str, Any]:
        """What the process must know of a table."""
        return {
            "path": self._tables.of(path),
            "name": layout.name,
            "record_key": layout.record_key,
            "partition_path": layout.partition_path,
            "ordering": layout.ordering,
            "keeps_newer": options.get(PAYLOAD_CLASS) == EVENT_TIME_PAYLOAD,
            "settings": self._name.settings(options),
        }

    def _table(self, number: int, index: str) -> LibraryTable:
        return LibraryTable(child=self._child, number=number, index=index, dumped=self._dumped)

    def adopt(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A copy of a table of the same format."""
        return self.open(path, index=index, options=options)

    def step(self, label: str) -> AbstractContextManager[None]:  # noqa: ARG002 - no Spark to tell
        """Nothing: there is no event log."""
        return nullcontext()

    def requests(self) -> Mapping[str, int]:
        """Tables are on a disk, of which nothing is counted."""
        return {}

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        """End the process once the block has taken so long: the libraries have no way to stop."""
        return limited(self._child, seconds)

    def hold_rows(self, df: DataFrame, /) -> tuple[str, ...]:
        """The files of a data frame that was read from Parquet."""
        return files_of(df)

    def hold_keys(self, keys: pa.StringArray, _table: MeasuredTable, /) -> None:
        """Bring keys to the child."""
        self._child.call("hold_keys", keys=keys.to_pylist())

    def answer(self, _found: object, keys: pa.StringArray, /) -> pa.Table:
        """The places that the child's lookup found; a file's name is its id."""
        return answer_of(self._child.call("places"), keys)

    def digest(self, rows: LibraryRows, columns: Sequence[str], /) -> tuple[int, str]:
        """Rows and digest through the library's own reader."""
        return rows.digest(columns)
