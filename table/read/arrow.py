"""Reading rows without Spark, one base file at a time."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError, InputError, SnapshotExpiredError, TableError
from keymark.table.format.parquet.base_file import (
    BaseFileFooter,
    read_base_file,
    read_footer,
)
from keymark.table.format.schema import META_COLUMNS, from_avro, with_meta, without_meta
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.properties.config import KEY_COLUMN, TableConfig
from keymark.table.state.base_files import open_sized, rows_at, stored_rows, without_values
from keymark.table.state.table_state import TableState, naming_the_remedy, table_schema
from keymark.table.storage.storage import RangeReader, Storage
from keymark.table.timeline.clean_metadata import decode_clean_plan
from keymark.table.timeline.instant_name import REQUESTED

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReadPlan:
    """Which base files a read opens, and the rows in them: file by file, or all at once.

    `full` is the schema of all columns, `schema` that of the columns asked for; None for a
    table that never had one.
    """

    state: TableState
    files: tuple[BaseFile, ...]
    keys: pa.Array | None
    columns: tuple[str, ...] | None
    full: pa.Schema | None
    schema: pa.Schema | None

    @property
    def files_total(self) -> int:
        """Base files of the snapshot."""
        return len(self.state.snapshot.files)

    @property
    def rows(self) -> FileRows:
        """How the rows of each file are read."""
        return FileRows(
            storage=self.state.storage,
            config=self.state.config,
            keys=self.keys,
            columns=self.columns,
            full=self.full,
        )

    def known_schema(self) -> pa.Schema:
        """The schema of all columns.

        Raises:
            InputError: the table never had one.
        """
        if self.full is None:
            raise InputError("the table has no rows and no schema yet")
        return self.full

    def __repr__(self) -> str:
        name = self.state.config.name
        return f"<ReadPlan of table {name}: {len(self.files)} of {self.files_total} files>"

    def tables(self) -> Iterator[pa.Table]:
        """The rows of each file, filtered by the keys, with the columns asked for."""
        rows = self.rows
        for file in self.files:
            yield rows.read(file)

    def to_arrow(self) -> pa.Table:
        """All rows; they must fit into memory."""
        schema = self.schema if self.schema is not None else pa.schema([])
        return pa.concat_tables([schema.empty_table(), *self.tables()])

    def to_pandas(self) -> pd.DataFrame:
        """All rows; they must fit into memory."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows; they must fit into memory.

        Raises:
            InputError: polars is not installed.
        """
        try:
            polars = importlib.import_module("polars")
        except ImportError as error:
            raise InputError("to_polars needs polars: pip install polars") from error
        return polars.from_arrow(self.to_arrow())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """How the rows of a file are read, wherever that is: filtered by the keys, columns chosen."""

    storage: Storage
    config: TableConfig
    keys: pa.Array | None
    columns: tuple[str, ...] | None
    full: pa.Schema | None

    def read(self, file: BaseFile) -> pa.Table:
        """The rows of a file."""
        with naming_the_remedy(), reading_base(self.storage, file) as source:
            table = self._rows(source, read_footer(source))
        table = without_values(table, hidden_columns(self.config))
        return table if self.columns is None else table.select(self.columns)

    def _rows(self, source: RangeReader, footer: BaseFileFooter) -> pa.Table:
        """The rows of a file that have one of the keys, or all."""
        schema, keys = without_meta(self.full), StoredKeys.of(self.config)
        if self.keys is None:
            return stored_rows(source, footer, schema)
        if footer.checksums is None or keys.virtual:
            # Only its rows may tell that the file of another writer is in the wrong place.
            table = stored_rows(source, footer, schema)
            return table.filter(pc.is_in(keys.of_rows(table, source.name), value_set=self.keys))
        # The column of the keys tells which rows are needed, and mostly that none is.
        is_asked = pc.is_in(keys.read(source, footer.metadata), value_set=self.keys)
        places = np.flatnonzero(is_asked.to_numpy(zero_copy_only=False))
        return rows_at(source, footer, schema, places, self.columns)


def hidden_columns(config: TableConfig) -> tuple[str, ...]:
    """The meta columns that read as null, whatever a file holds in them.

    With virtual keys Hudi leaves null or empty text in all five, and sets some file names.
    """
    if not config.virtual_keys:
        return ()
    return (KEY_COLUMN,) if config.stores_meta else META_COLUMNS


def plan_read(
    state: TableState,
    files: tuple[BaseFile, ...],
    keys: pa.Array | None,
    columns: Sequence[str] | None,
) -> ReadPlan:
    """Check the columns and prepare the read."""
    full = schema = _full_schema(state)
    chosen = None if columns is None else tuple(columns)
    if chosen is not None and schema is not None:
        for name in chosen:
            if name not in schema.names:
                raise InputError(f"column {name!r} is not in the table")
        schema = schema.empty_table().select(chosen).schema
    return ReadPlan(state=state, files=files, keys=keys, columns=chosen, full=full, schema=schema)


def _full_schema(state: TableState) -> pa.Schema | None:
    text = table_schema(state.timeline)
    if text is not None:
        return with_meta(without_meta(from_avro(text)))
    if state.snapshot.files:
        with reading_base(state.storage, state.snapshot.files[0]) as source:
            return read_base_file(source).schema
    return None


def open_base(storage: Storage, file: BaseFile) -> RangeReader:
    """A base file that the table names; it must be there, whole.

    Raises:
        SnapshotExpiredError: the file was cleaned, or taken back, since it was listed.
        CorruptFileError: the table still names it, and it is gone, or of another size.
    """
    with _telling_why_it_is_gone(storage, file), naming_the_remedy():
        return open_sized(storage, file)


@contextlib.contextmanager
def reading_base(storage: Storage, file: BaseFile) -> Iterator[RangeReader]:
    """A base file that the table names, for as long as it is read; errors as of `open_base`.

    Far away each request may be the first that finds it gone.
    """
    with _telling_why_it_is_gone(storage, file):
        yield open_base(storage, file)


@contextlib.contextmanager
def _telling_why_it_is_gone(storage: Storage, file: BaseFile) -> Iterator[None]:
    """Tell a base file that the table has given up from one that it needs."""
    try:
        yield
    except FileNotFoundError as error:
        if _expired(storage, file):
            raise SnapshotExpiredError(
                f"{file.path} was cleaned or taken back while it was to be read: open the table "
                "anew, or let cleaning retain more commits (hoodie.cleaner.commits.retained)"
            ) from error
        with naming_the_remedy():
            detail = "the table needs this file; it is missing"
            raise CorruptFileError(file.path, 0, detail) from error


def _expired(storage: Storage, file: BaseFile) -> bool:
    """Whether the table has given a file up. A clean deletes files before they leave the list."""
    try:
        state = TableState.load(storage)
        if file.name not in state.listing.get(file.partition_path, {}):
            return True
        plans = [
            decode_clean_plan(storage.read(path), path)
            for instant in state.timeline.pending()
            if instant.action == "clean"
            for path in [state.timeline.path(instant.time, "clean", REQUESTED)]
        ]
    except TableError:
        return False
    planned = (path for plan in plans for path in plan.files.get(file.partition_path, ()))
    return file.name in {path.rpartition("/")[2] for path in planned}
