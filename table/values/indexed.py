"""What is indexed by its values: a column of a table's rows, or their record keys.

    .hoodie/.keymark/secondary/<column>   a secondary index, on a column that the table names
    .hoodie/.keymark/keys                 record keys
    .hoodie/.keymark/hashes               record keys as hashes

The folders hold runs (`runs.py`, of hashes `hash_runs.py`). The spec of the table's index says
which runs of record keys there are; `keymark.record.index.hashes` adds those of hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from keymark.indexes.spec import KeyRuns
from keymark.table.errors import CorruptFileError, InputError, UnsupportedTableError
from keymark.table.format.parquet.base_file import read_columns, read_metadata
from keymark.table.format.schema import without_meta
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import HASH_RUNS, KEY_RUNS, SECONDARY
from keymark.table.properties.config import KEY_COLUMN, TableConfig
from keymark.table.read.arrow import open_base
from keymark.table.state.table_state import TableState, stored_schema
from keymark.table.storage.storage import Storage
from keymark.table.values.comparing import supports


@dataclass(frozen=True, slots=True)
class Indexed:
    """A column, or the record keys.

    Attributes:
        column: its name; of record keys that of their meta column.
        kind: the type of the values.
        keys: how to get record keys; None for a column.
        hashed: whether runs have hashes of the values instead of these.
    """

    column: str
    kind: pa.DataType
    keys: StoredKeys | None = None
    hashed: bool = False

    @property
    def folder(self) -> str:
        """Where its runs are."""
        if self.keys is None:
            return folder_of(self.column)
        return HASH_RUNS if self.hashed else KEY_RUNS

    @property
    def by_partition(self) -> bool:
        """Whether values are looked for in some partition paths: runs have one after the other."""
        return self.keys is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows that `of_rows` looks at."""
        return (self.column,) if self.keys is None else self.keys.columns

    def of_rows(self, rows: pa.Table, name: str) -> pa.Array:
        """The value of each row of the base file of that name.

        Raises:
            CorruptFileError: a row has no record key.
        """
        if self.keys is None:
            return rows[self.column].combine_chunks()
        return self.keys.of_rows(rows, name)

    def distinct(self, storage: Storage, file: BaseFile) -> pa.Array:
        """The values in a base file, each once; null where a row has none.

        Raises:
            CorruptFileError: the file is damaged or gone.
            SnapshotExpiredError: it was cleaned or taken back meanwhile.
        """
        source = open_base(storage, file)
        metadata = read_metadata(source)
        if self.keys is not None:
            return pc.unique(self.keys.read(source, metadata))
        rows = read_columns(source, metadata, [self.column])
        if self.column not in rows.column_names:
            # The file was written before the schema had the column.
            return pa.nulls(min(1, metadata.num_rows), self.kind)
        try:
            return pc.unique(rows[self.column].cast(self.kind))
        except pa.ArrowException as error:
            detail = f"column {self.column} is not {self.kind}: {error}"
            raise CorruptFileError(file.path, 0, detail) from error


def folder_of(column: str) -> str:
    """Where the runs of a column are."""
    return f"{SECONDARY}/{quote(column, safe='')}"


def record_keys(config: TableConfig, runs: KeyRuns) -> Indexed:
    """The record keys of a table.

    Args:
        config: of the table.
        runs: what the runs hold.
    """
    return Indexed(KEY_COLUMN, pa.string(), StoredKeys.of(config), hashed=runs == "hashes")


def indexed_column(state: TableState, column: str) -> Indexed:
    """A column that can have a secondary index.

    Raises:
        InputError: the table has no such column.
        UnsupportedTableError: its type cannot be indexed.
    """
    schema = without_meta(stored_schema(state))
    if schema.names.count(column) != 1 or "," in column:
        raise InputError(f"no column {column!r} to index, only {', '.join(schema.names)}")
    kind = schema.field(column).type
    if not supports(kind):
        raise UnsupportedTableError(f"a secondary index on {column}, whose type is {kind}")
    return Indexed(column, kind)


def indexed_of(config: TableConfig, schema: pa.Schema | None) -> tuple[Indexed, ...]:
    """All that is indexed by its values in rows of a schema."""
    if schema is None:
        return ()
    names = (name for name in config.secondary_columns if schema.names.count(name) == 1)
    found = [Indexed(name, kind) for name in names if supports(kind := schema.field(name).type)]
    if config.key_runs:
        found.append(record_keys(config, config.key_runs))
    return tuple(found)
