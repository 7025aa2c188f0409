"""The engines `delta@VERSION` and `iceberg@VERSION`: tables of other formats, written by Spark.

Rows are found and replaced by MERGE (`format_sql`), in modes that stand as the engine's indexes: a
mode is properties of the table. What a format says in its own way is its dialect
(`delta/dialect.py`, `iceberg/dialect.py`). Neither format has a record index, so what asks for one
is refused by name. Rows are verified as Hudi's are: through the engine's own reader, and by reading
its files without it (`harness/tables/formats`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from keymark.harness.engines import engine_indexes, format_sql, s3a
from keymark.harness.engines.base import IndexCheck, Layout, MeasuredTable, NamedIndex, Purged
from keymark.harness.engines.dialects import dialect_of
from keymark.harness.engines.format_dialect import Dialect, Written
from keymark.harness.engines.format_process import FormatProcess
from keymark.harness.engines.formats import MERGE_PARTITIONS, OF_BATCH, ROW_ORDER
from keymark.harness.engines.pipe import Asked
from keymark.harness.engines.process_engine import AskedRows, ProcessEngine, layout_of
from keymark.harness.engines.row_order import ordered_columns
from keymark.harness.errors import CellError
from keymark.harness.sql_text import quoted
from keymark.harness.tables import formats, independent
from keymark.harness.tables.formats.model import KEY, NAME, ORDERING
from keymark.harness.tables.table_folders import Tables
from keymark.indexes.installed import measured_specs
from keymark.table.index.protocol import LookupStats
from keymark.table.properties.options import (
    EVENT_TIME_PAYLOAD,
    OVERWRITE_PAYLOAD,
    PAYLOAD_CLASS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatWrite:
    """What a write left; see `base.WriteOutcome`. It is read off the table when asked for.

    Attributes:
        read: reads it.
    """

    read: Callable[[], Written]

    @property
    def files_written(self) -> int:
        """Data files and files of deletes of the latest commit."""
        return self.read().files

    @property
    def phases(self) -> Mapping[str, float]:
        """Seconds of the phases that the format measures."""
        return self.read().phases


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatTable:
    """A table under test; see `base.MeasuredTable`.

    Attributes:
        engine: name of the engine.
        child: its process.
        dialect: the format's words.
        path: the table's folder in the run folder.
        tables: where tables are.
        layout: how its rows are keyed, laid out and ordered.
        index: the mode.
        options: of the cell.
    """

    engine: str
    child: Asked
    dialect: Dialect
    path: Path
    tables: Tables
    layout: Layout
    index: str
    options: Mapping[str, str]

    @property
    def place(self) -> str:
        """Where Spark finds it: the path, or a URL."""
        return _place(self.tables.of(self.path))

    @property
    def relation(self) -> str:
        """The table, as SQL names it."""
        return self.dialect.relation(self.place)

    @property
    def settings(self) -> dict[str, str]:
        """Options of the session for each statement."""
        return self.dialect.settings(self.place, self.options)

    def bulk_insert(self, df: tuple[str, ...], /) -> FormatWrite:
        """Make the table of held rows."""
        layout, mode = self.layout, measured_specs()[self.index]
        properties = {
            **self.dialect.properties(self.options),
            **mode.table_properties,
            NAME: layout.name,
            KEY: ",".join(layout.record_key),
            **({ORDERING: layout.ordering} if layout.ordering else {}),
        }
        made = format_sql.create(
            self.relation, layout, source=self.dialect.source, properties=properties
        )
        return self._write((made, *(self._compaction() if self._is_ordered else ())), df)

    def upsert(self, df: tuple[str, ...], /) -> FormatWrite:
        """Insert or update held rows by key."""
        only = None
        if self.options.get(MERGE_PARTITIONS) == OF_BATCH and self.layout.partition_path:
            asked = format_sql.partitions(self.layout)
            settings = self.settings
            only = self.child.call("query", statement=asked, settings=settings, files=df)
        merge = format_sql.upsert(self.relation, self.layout, self.options, partitions=only)
        return self._write((merge,), df)

    def delete(self, df: tuple[str, ...], /) -> FormatWrite:
        """Delete held keys."""
        return self._write((format_sql.delete(self.relation, self.layout),), df)

    @property
    def _is_ordered(self) -> bool:
        """Whether the rows are to lie in order."""
        return ROW_ORDER in self.options

    def _compaction(self) -> tuple[str, ...]:
        """The statements that put files together, in order if the rows are to lie so."""
        columns = ordered_columns(self.layout) if self._is_ordered else ()
        return self.dialect.compaction(self.place, self.options, order_by=columns)

    def _write(self, statements: Sequence[str], files: tuple[str, ...]) -> FormatWrite:
        self.child.call("run", statements=list(statements), settings=self.settings, files=files)
        return FormatWrite(read=lambda: self.dialect.written(self.tables.seen(self.path)))

    def read(self, keys: Sequence[str] | None = None, where: str | None = None) -> AskedRows:
        """All rows, those of a condition, or those of record keys.

        Keys of several columns are looked for by their text, which no file is skipped by.
        """
        fields, wanted = self.layout.record_key, tuple(keys or ())
        if len(fields) > 1 and wanted:
            texts = ", ".join(map(quoted, wanted))
            where, wanted = f"{format_sql.key_text(fields)} IN ({texts})", ()
        return AskedRows(
            child=self.child,
            table={"relation": self.relation, "settings": self.settings},
            column=fields[0],
            keys=wanted,
            where=where,
        )

    def lookup(
        self,
        _held: object,
        /,
        *,
        stats: LookupStats | None = None,  # noqa: ARG002 - has none
    ) -> None:
        """Look up the keys that the child holds, by a join with the table."""
        statement = format_sql.lookup(self.relation, self.layout, file_name=self.dialect.file_name)
        self.child.call("lookup", statement=statement, settings=self.settings)

    def info(self) -> NamedIndex:
        """The mode whose properties the table has."""
        reader = formats.reader_of(self.tables.seen(self.path))
        held = reader.facts(self.tables.seen(self.path)).properties if reader else {}
        for name in engine_indexes(self.engine):
            wanted = measured_specs()[name].table_properties
            if wanted.items() <= held.items():
                return NamedIndex(index=name)
        return NamedIndex(index="none")

    @property
    def leaves_deletes(self) -> bool:
        """With their defaults the formats leave deletes in files that are hardly worth it."""
        return True

    def compact_rows(self) -> None:
        """Put files together, and deletes into them, with the format's defaults."""
        self.child.call("run", statements=list(self._compaction()), settings=self.settings)

    def check(self) -> IndexCheck:
        """There is no index to compare."""
        raise self._has_no_index()

    def compact(self) -> str | None:
        """There is no index to compact."""
        raise self._has_no_index()

    def drop_index(self) -> None:
        """There is no index to drop."""
        raise self._has_no_index()

    def build_index(self) -> None:
        """There is no index to build."""
        raise self._has_no_index()

    def purge(self, _df: object, /) -> Purged:
        """Old files go by cleaning only."""
        raise CellError(f"{self.engine} has no purge")

    def _has_no_index(self) -> CellError:
        return CellError(f"{self.engine} has no record index")


class FormatEngine(ProcessEngine):
    """Makes and opens tables of one release of a format.

    Args:
        name: of the engine.
        child: its process.
        tables: where its tables are.
    """

    def __init__(self, name: str, child: FormatProcess, tables: Tables) -> None:
        super().__init__(child, tables)
        self._name, self._dialect = name, dialect_of(name)

    def create(
        self, path: Path, layout: Layout, *, index: str, options: Mapping[str, str]
    ) -> MeasuredTable:
        """A table that the first load makes.

        Raises:
            CellError: rows are to be merged in a way that has no words here, or ordered by a key
                that has no columns for it.
        """
        payload = options.get(PAYLOAD_CLASS, OVERWRITE_PAYLOAD)
        if payload not in (OVERWRITE_PAYLOAD, EVENT_TIME_PAYLOAD):
            raise CellError(f"{self._name} has no MERGE for {PAYLOAD_CLASS} = {payload}")
        if ROW_ORDER in options:
            ordered_columns(layout)
        self._child.revive()
        return FormatTable(
            engine=self._name,
            child=self._child,
            dialect=self._dialect,
            path=path,
            tables=self._tables,
            layout=layout,
            index=index,
            options=options,
        )

    def open(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A table that was loaded, or a copy of one."""
        layout = layout_of(independent.facts(self._tables.seen(path)))
        table = self.create(path, layout, index=index, options=options)
        where, connection = self._tables.of(path), self._tables.options
        self._dialect.settle(where, _place(where), connection=connection)
        return table

    def adopt(self, *_: object, **__: object) -> MeasuredTable:
        """A table of Hudi's is none of this format: its rows would have to be loaded anew."""
        raise CellError(f"{self._name} cannot start from a table of Hudi's")

    def hold_keys(self, keys: pa.StringArray, _table: Any, /) -> None:
        """Bring keys to the JVM, in memory."""
        self._child.call("hold_keys", keys=keys.to_pylist())


def _place(where: str) -> str:
    """A path or URL as Spark spells it."""
    return s3a.place(where) if "://" in where else where
