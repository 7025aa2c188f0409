"""What users hand in as rows or keys, brought to Arrow: Spark frames, Arrow tables, lists."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keymark.table.errors import InputError
from keymark.table.keygen import partition_paths, record_keys
from keymark.table.properties.config import KEY_COLUMN, TableConfig

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def is_frame(rows: object) -> bool:
    """Whether the value is a Spark DataFrame, classic or Connect."""
    return hasattr(rows, "sparkSession") and hasattr(rows, "schema")


def to_arrow(rows: Any) -> pa.Table:
    """Rows as a table; a Spark DataFrame is collected once, in the order of its partitions."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if not is_frame(rows):
        raise InputError(f"rows must be a Spark DataFrame or a pyarrow Table, not {type(rows)}")
    if hasattr(rows, "toArrow"):  # PySpark 4
        return rows.toArrow()
    batches = rows._collect_as_arrow()  # noqa: SLF001  the only way to Arrow in PySpark 3.5
    return pa.Table.from_batches(batches, batches[0].schema if batches else arrow_schema(rows))


def only_columns(rows: Any, names: Sequence[str]) -> Any:
    """A Spark DataFrame cut to those of the columns that it has; as it is, if it has none of them.

    Left alone are also Arrow tables, and frames whose names differ by case only: Spark could not
    tell their columns apart.
    """
    if not is_frame(rows) or len({name.lower() for name in rows.columns}) < len(rows.columns):
        return rows
    kept = [name.replace("`", "``") for name in rows.columns if name in names]
    return rows.select(*(f"`{name}`" for name in kept)) if kept else rows


def arrow_schema(rows: Any) -> pa.Schema:
    """The schema of a Spark DataFrame, an Arrow table or a batch."""
    if not is_frame(rows):
        return to_arrow(rows).schema
    return arrow_of(rows.schema)


def arrow_of(columns: StructType) -> pa.Schema:
    """The Arrow schema of columns of Spark's."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  only for frames

    # What PySpark 3.5 takes for granted, 4 wants to be told.
    told = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(columns, **({"timezone": "UTC"} if told else {}))


def encoded_keys(keys: Any) -> pa.Array:
    """Encoded record keys (list, pa.Array or pa.ChunkedArray) as an array of string."""
    if isinstance(keys, pa.ChunkedArray):
        keys = pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], pa.string())
    if not isinstance(keys, pa.Array):
        if isinstance(keys, str) or not hasattr(keys, "__iter__"):
            raise InputError("keys must be a list, a pyarrow array or a frame of key columns")
        listed = list(keys)
        if not all(isinstance(key, str) for key in listed):
            raise InputError("an encoded record key must be text")
        keys = pa.array(listed, pa.string())
    if not _is_text(keys.type):
        raise InputError(f"an encoded record key must be text, not {keys.type}")
    keys = keys.cast(pa.string())
    if keys.null_count:
        raise InputError("a record key is null")
    return keys


def _is_text(kind: pa.DataType) -> bool:
    """Whether an array of that type can hold encoded keys; integers print as their keys do."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_string = pa.types.is_string(value) or pa.types.is_large_string(value)
    return bool(is_string or pa.types.is_integer(value) or pa.types.is_null(value))


def keys_of_rows(rows: pa.Table, config: TableConfig) -> tuple[pa.Array, pa.Array | None]:
    """Record keys of rows, and their partition paths if the columns are there."""
    missing = [name for name in config.record_key if name not in rows.column_names]
    if missing:
        raise InputError(f"record key field {missing[0]} is not a column of the input")
    if config.generates_keys and KEY_COLUMN not in rows.column_names:
        raise InputError(f"the table has no key fields: name rows by their {KEY_COLUMN}")
    keys = record_keys(rows, config)
    if all(name in rows.column_names for name in config.partition_fields):
        return keys, partition_paths(rows, config)
    return keys, None
