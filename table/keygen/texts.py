"""The columns that keys and paths are made of, and Hudi's text of their values."""

from __future__ import annotations

import decimal

import pyarrow as pa

from keymark.table.errors import InputError


def column_of(batch: pa.Table | pa.RecordBatch, field: str, role: str) -> pa.Array:
    """A column of a batch; `role` is for the error."""
    if field not in batch.schema.names:
        raise InputError(f"{role} field {field} is not a column of the input")
    column = batch.column(field)
    if isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array(column.chunks, column.type).combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return column


def texts_of(batch: pa.Table | pa.RecordBatch, field: str, role: str) -> pa.Array:
    """A column as Hudi's text of its values."""
    return to_text(column_of(batch, field, role), field)


def to_text(column: pa.Array, field: str) -> pa.Array:
    """Values as Hudi's Avro path prints them (HoodieAvroUtils.getNestedFieldValAsString)."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return to_text(column.dictionary_decode(), field)
    if pa.types.is_string(kind):
        return column
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    if pa.types.is_decimal(kind):
        return pa.array([_decimal_text(value) for value in column.to_pylist()], pa.string())
    if pa.types.is_binary(kind):
        return pa.array([None if v is None else v.hex() for v in column.to_pylist()], pa.string())
    if (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_large_string(kind)
    ):
        return column.cast(pa.string())
    raise InputError(f"field {field} of type {kind} cannot be part of a key or partition path")


def _decimal_text(value: decimal.Decimal | None) -> str | None:
    """As Java's BigDecimal.toString: with an exponent below a millionth, and of such zeros."""
    return None if value is None else str(value)
