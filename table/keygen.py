"""Record keys and partition paths from the columns of a batch.

Rules (KeyGenUtils, SimpleKeyGenerator, ComplexKeyGenerator, PartitionPathEncodeUtils of Hudi 0.15):
- one key field: its value as text; null or empty is an error;
- several: `f1:v1,f2:v2` in the order of the fields, null as `__null__`, empty as `__empty__`;
  all of them null or empty is an error;
- partition path: values joined by `/`; null or empty is `__HIVE_DEFAULT_PARTITION__`; hive style
  puts `field=` before each, url encoding escapes what a path cannot hold.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from table.config import COMPLEX_KEYS, NO_PARTITION_KEYS, SIMPLE_KEYS, TableConfig
from table.errors import InputError, UnsupportedTableError

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_NULL, _EMPTY = "__null__", "__empty__"
_KEY_BYTES_MAX = 32767  # a row key of an HFile has a signed 16-bit length
_ESCAPED = {chr(code): f"%{code:02X}" for code in (*range(1, 0x20), 0x7F, *b"\"#%'*/:=?\\{[]^")}


def key_generator_for(record_key: Sequence[str], partition_fields: Sequence[str]) -> str:
    """The class of Hudi that generates keys of this shape."""
    if not partition_fields:
        return NO_PARTITION_KEYS
    simple = len(record_key) == 1 and len(partition_fields) == 1
    return SIMPLE_KEYS if simple else COMPLEX_KEYS


def check_key_generator(config: TableConfig) -> None:
    """Refuse to write a table whose key generator Keymark does not have."""
    if config.key_generator not in (SIMPLE_KEYS, COMPLEX_KEYS, NO_PARTITION_KEYS):
        raise UnsupportedTableError(f"key generator {config.key_generator} is not supported yet")


def record_keys(batch: Any, config: TableConfig) -> Any:
    """Record keys (pa.Array of string) of a batch (pa.Table); InputError names field and row."""
    columns = [_texts(batch, field, "record key") for field in config.record_key]
    if len(columns) == 1:
        keys = columns[0]
        empty = pc.or_(pc.is_null(keys), pc.fill_null(pc.equal(keys, ""), fill_value=False))
    else:
        blank = [pc.or_kleene(pc.is_null(c), pc.equal(c, "")) for c in columns]
        empty = blank[0]
        for column in blank[1:]:
            empty = pc.and_(empty, column)
        keys = _composite(config.record_key, columns)
    if pc.any(empty).as_py():
        row = pc.index(empty, value=True).as_py()
        fields = ", ".join(config.record_key)
        raise InputError(f"record key field {fields} is null or empty in row {row} of the input")
    _check_lengths(keys, config)
    return keys


def _composite(fields: Sequence[str], columns: Sequence[Any]) -> Any:
    parts = []
    for field, column in zip(fields, columns, strict=True):
        value = pc.fill_null(pc.if_else(pc.equal(column, ""), _EMPTY, column), _NULL)
        parts.append(pc.binary_join_element_wise(f"{field}:", value, ""))
    return pc.binary_join_element_wise(*parts, ",")


def _check_lengths(keys: Any, config: TableConfig) -> None:
    lengths = pc.binary_length(keys)
    if len(keys) and pc.max(lengths).as_py() > _KEY_BYTES_MAX:
        row = pc.index(pc.greater(lengths, _KEY_BYTES_MAX), value=True).as_py()
        raise InputError(
            f"record key field {', '.join(config.record_key)} is longer than {_KEY_BYTES_MAX} "
            f"bytes in row {row} of the input"
        )


def partition_paths(batch: Any, config: TableConfig) -> Any:
    """The partition paths (pa.Array of string) of a batch; "" for a table without partitions."""
    if not config.partition_fields:
        return pa.repeat(pa.scalar("", pa.string()), batch.num_rows)
    parts = []
    for field in config.partition_fields:
        texts = _texts(batch, field, "partition").dictionary_encode()
        values = [_path_value(value, config) for value in texts.dictionary.to_pylist()]
        encoded = pa.array(values, pa.string()).take(texts.indices)
        part = pc.fill_null(encoded, DEFAULT_PARTITION)
        parts.append(
            pc.binary_join_element_wise(f"{field}=", part, "") if config.hive_style else part
        )
    paths = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")
    for path in pc.unique(paths).to_pylist():
        _check_path(path, config)
    return paths


def _path_value(value: str, config: TableConfig) -> str:
    if value == "":
        return DEFAULT_PARTITION
    if config.url_encode:
        return "".join(_ESCAPED.get(char, char) for char in value)
    return value


def _check_path(path: str, config: TableConfig) -> None:
    parts = path.split("/")
    reserved = parts[0] in (".hoodie", "__all_partitions__")
    if reserved or "\0" in path or any(part in ("", ".", "..") for part in parts):
        fields = ", ".join(config.partition_fields)
        raise InputError(
            f"partition field {fields} gives the path {path!r}, which no table can hold"
        )


def _texts(batch: Any, field: str, role: str) -> Any:
    """A column as Hudi's text of its values."""
    if field not in batch.column_names:
        raise InputError(f"{role} field {field} is not a column of the input")
    column = batch.column(field)
    if isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array(column.chunks, column.type).combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return to_text(column, field)


def to_text(column: Any, field: str) -> Any:
    """Values as Hudi's Avro path prints them (HoodieAvroUtils.getNestedFieldValAsString)."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return to_text(column.dictionary_decode(), field)
    if pa.types.is_string(kind):
        return column
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    if pa.types.is_decimal(kind):
        return pa.array([_plain(value) for value in column.to_pylist()], pa.string())
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


def _plain(value: decimal.Decimal | None) -> str | None:
    return None if value is None else format(value, "f")
