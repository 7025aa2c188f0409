"""The record keys of stored rows: read from their column, or made from the row's columns.

This is the one place that knows which. With virtual keys a null in a key column is an error, as are
key columns that a file does not have; values in the meta column are not looked at.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError, InputError, TableWarning
from keymark.table.format.parquet.base_file import MIN_KEY, read_columns
from keymark.table.format.parquet.plain_strings import plain_strings
from keymark.table.keygen.definition import KeyDefinition
from keymark.table.keygen.generators import keys_of, refuse_null_parts
from keymark.table.properties.config import KEY_COLUMN, TableConfig
from keymark.table.storage.storage import RangeReader

_NO_KEYS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """How to get the keys of a table's rows.

    Attributes:
        definition: what makes them; None where they are stored.
    """

    definition: KeyDefinition | None = None

    @classmethod
    def of(cls, config: TableConfig) -> StoredKeys:
        """How a table keeps its keys."""
        return cls(KeyDefinition.of(config) if config.virtual_keys else None)

    @property
    def virtual(self) -> bool:
        """Whether they are made."""
        return self.definition is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that they are in, or made of."""
        return (KEY_COLUMN,) if self.definition is None else self.definition.record_key

    def chunks(self, source: RangeReader, metadata: pq.FileMetaData) -> list[pa.Array]:
        """The keys of a base file, in the order of its rows.

        Args:
            source: the file.
            metadata: of its footer.

        Raises:
            CorruptFileError: the file is damaged, or has no keys.
        """
        if self.definition is None:
            found = plain_strings(source, metadata, KEY_COLUMN)
            if found is not None:
                return list(found)
        elif MIN_KEY in (metadata.metadata or {}):
            # A range in a file's footer is made of stored keys. Python warns of it once.
            warnings.warn(
                "stored record keys are ignored: the table makes them from its columns (virtual "
                "keys)",
                TableWarning,
                stacklevel=1,
            )
        return [self.of_rows(read_columns(source, metadata, list(self.columns)), source.name)]

    def read(self, source: RangeReader, metadata: pq.FileMetaData) -> pa.Array:
        """The same as one array."""
        return _joined(self.chunks(source, metadata))

    def of_rows(self, rows: pa.Table, name: str) -> pa.Array:
        """The keys of rows that a file holds.

        Args:
            rows: with at least `columns`.
            name: the file, for errors.

        Raises:
            CorruptFileError: a column is missing, or a key, or a part of a virtual key.
        """
        for column in self.columns:
            if column not in rows.column_names:
                raise CorruptFileError(name, 0, f"it has no column {column}")
        if self.definition is None:
            keys = _joined(rows[KEY_COLUMN].cast(pa.string()).chunks)
            if keys.null_count:
                raise CorruptFileError(name, 0, f"{keys.null_count} rows have no record key")
            return keys
        try:
            refuse_null_parts(rows, self.definition.record_key)
            return keys_of(rows.select(self.columns), self.definition)
        except InputError as error:
            raise CorruptFileError(name, 0, f"no virtual key: {error}") from error


def _joined(chunks: list[pa.Array]) -> pa.Array:
    """Chunks as one array; a single one is not copied."""
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays([_NO_KEYS, *chunks])
