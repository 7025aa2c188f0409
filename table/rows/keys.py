"""What users hand in as keys: encoded record keys, values of the key column, rows with keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keymark.table.errors import InputError
from keymark.table.format.schema import conform
from keymark.table.keygen import partition_paths, record_keys
from keymark.table.properties.config import KEY_COLUMN, TableConfig
from keymark.table.rows.arrow import as_array, is_frame, is_rows, to_arrow
from keymark.table.state.table_state import columns_of
from keymark.table.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from keymark.table.rows.arrow import Keys


@dataclass(frozen=True, slots=True)
class NamedKeys:
    """Keys that users name.

    Attributes:
        keys: encoded record keys: string, or a Spark DataFrame of the columns that name them.
        partitions: the partition path of each, where keys are here and it is known.
        in_frame: whether a DataFrame says the partition paths.
    """

    keys: pa.Array | DataFrame
    partitions: pa.Array | None = None
    in_frame: bool = False

    @property
    def placed(self) -> bool:
        """Whether their partition paths are known."""
        return self.in_frame or self.partitions is not None


def keys_and_partitions(
    keys: Keys, config: TableConfig, storage: Storage
) -> tuple[pa.Array, pa.Array | None]:
    """Encoded record keys: string, and partition paths: string, where they are known.

    Args:
        keys: a list, a pa.Array or a pa.ChunkedArray of encoded keys or of values of the key
            column; or rows (`Rows`) with the key columns, or with `record_key` alone.
        config: the table, with the encoding of its keys.
        storage: of the table; values take the type of the key column from it.

    Raises:
        InputError: a key is null, or is neither text nor a value of the key column.
    """
    if is_frame(keys) or is_rows(keys):
        known, names = columns_of(storage), (*config.record_key, *config.partition_fields)
        # What other columns hold does not matter, even if it fits none of the table's.
        asked = pa.schema([item for item in known if item.name in names])
        return keys_of_rows(to_arrow(_key_columns(keys, config), asked), config, known)
    values = _key_values(keys)
    if pa.types.is_string(values.type):
        return values, None
    return _encoded(values, config, columns_of(storage)), None


def named_keys(keys: Keys, config: TableConfig, storage: Storage) -> NamedKeys:
    """Keys as `keys_and_partitions` takes them; a Spark DataFrame is not collected."""
    if not is_frame(keys):
        return NamedKeys(*keys_and_partitions(keys, config, storage))
    frame = _key_columns(keys, config)
    named = all(name in frame.columns for name in config.partition_fields)
    return NamedKeys(frame, in_frame=named and not _are_encoded(frame.columns, config))


def _key_columns(rows: Any, config: TableConfig) -> Any:
    """Rows that name keys; of a Spark DataFrame only the columns that do."""
    fields = config.record_key or (KEY_COLUMN,)
    return _only_columns(rows, (*fields, *config.partition_fields))


def keys_of_rows(
    rows: pa.Table, config: TableConfig, known: pa.Schema
) -> tuple[pa.Array, pa.Array | None]:
    """The record keys that rows name, and their partition paths if the columns are there.

    Args:
        rows: with the key columns, or with `record_key` alone.
        config: the table.
        known: its columns; none before the first row.
    """
    if _are_encoded(rows.column_names, config):
        values = _key_values(rows["record_key"])
        encoded = pa.types.is_string(values.type)
        return values if encoded else _encoded(values, config, known), None
    return _keys_of_rows(rows, config, known)


def _are_encoded(columns: Sequence[str], config: TableConfig) -> bool:
    """Whether rows hold encoded keys, or values of the key column, and no key columns."""
    return list(columns) == ["record_key"] and config.record_key != ("record_key",)


def _only_columns(rows: Any, names: Sequence[str]) -> Any:
    """A Spark DataFrame cut to those of the columns that it has; as it is, if it has none of them.

    Left alone are also Arrow tables, and frames whose names differ by case only: Spark could not
    tell their columns apart.
    """
    if not is_frame(rows) or len({name.lower() for name in rows.columns}) < len(rows.columns):
        return rows
    kept = [name.replace("`", "``") for name in rows.columns if name in names]
    return rows.select(*(f"`{name}`" for name in kept)) if kept else rows


def _key_values(keys: Any) -> pa.Array:
    """Keys as an array: of string if they are encoded keys, else of values of the key column.

    Args:
        keys: list, pa.Array or pa.ChunkedArray.

    Raises:
        InputError: a key is null, or they are of different types.
    """
    if isinstance(keys, pa.ChunkedArray):
        keys = pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], pa.string())
    if not isinstance(keys, pa.Array):
        if isinstance(keys, str | bytes) or not hasattr(keys, "__iter__"):
            raise InputError("keys must be a list, a pyarrow array or a frame of key columns")
        keys = as_array(list(keys), "keys")
    if keys.null_count:
        raise InputError("a record key is null")
    keys = keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys
    plain = pa.types.is_large_string(keys.type) or pa.types.is_null(keys.type)
    return keys.cast(pa.string()) if plain else keys


def _encoded(values: pa.Array, config: TableConfig, known: pa.Schema) -> pa.Array:
    """Record keys of values of the key column, as Hudi's key generator writes them.

    Args:
        values: of one type, without nulls.
        config: the table.
        known: its columns; none before the first row.

    Raises:
        InputError: the table has no or several key columns, or the values do not fit it.
    """
    if len(config.record_key) != 1:
        raise InputError(f"an encoded record key must be text, not {values.type}")
    (field,) = config.record_key
    rows = pa.table({field: values})
    if field in known.names:
        rows = conform(rows, pa.schema([known.field(field)]), "the keys")
    return record_keys(rows, config)


def _keys_of_rows(
    rows: pa.Table, config: TableConfig, known: pa.Schema
) -> tuple[pa.Array, pa.Array | None]:
    """Record keys of rows, and their partition paths if the columns are there.

    Values take the type of their column first, as those of written rows do: the text of a key
    depends on it (`1.5` and `1.50`, a date and a time).
    """
    missing = [name for name in config.record_key if name not in rows.column_names]
    if missing:
        raise InputError(f"record key field {missing[0]} is not a column of the input")
    if config.generates_keys and KEY_COLUMN not in rows.column_names:
        raise InputError(f"the table has no key fields: name rows by their {KEY_COLUMN}")
    for name in dict.fromkeys((*config.record_key, *config.partition_fields)):
        if name in known.names and name in rows.column_names:
            field = known.field(name)
            column = conform(rows.select([name]), pa.schema([field]), "the keys")[name]
            rows = rows.set_column(rows.column_names.index(name), field, column)
    keys = record_keys(rows, config)
    if all(name in rows.column_names for name in config.partition_fields):
        return keys, partition_paths(rows, config)
    return keys, None
