"""A table's schema: Arrow in memory, Avro JSON in commits and footers.

Avro text follows what Hudi writes: nullable columns are unions with null first and default null,
decimals are fixed values named after their field, nested records and fixed values live in the
namespace of the record around them (AvroConversionUtils, SchemaConverters of spark-avro).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from keymark.table.errors import InputError, UnsupportedTableError
from keymark.table.format.kernels.words import AVRO_RECORD

META_COLUMNS: tuple[str, ...] = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)

COMMIT_TIME_COLUMN = META_COLUMNS[0]

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Spark's list element and map entries; pyarrow writes them so into Parquet.
_ELEMENT = "element"
_MAX_PRECISION = 38

_SIMPLE_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "int"),
    (pa.types.is_int16, "int"),
    (pa.types.is_int32, "int"),
    (pa.types.is_uint8, "int"),
    (pa.types.is_uint16, "int"),
    (pa.types.is_int64, "long"),
    (pa.types.is_uint32, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
)
# What reading Avro JSON that somebody else made can end in; a size may be any number.
_BAD_AVRO = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_ARROW_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL_TYPES = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("string", "uuid"): pa.string(),
}


def with_meta(schema: pa.Schema) -> pa.Schema:
    """The schema of a base file: Hudi's five meta columns, then the table's own."""
    metas = [pa.field(name, pa.string()) for name in META_COLUMNS]
    return pa.schema(metas + [f for f in schema if f.name not in META_COLUMNS])


def without_meta(schema: pa.Schema) -> pa.Schema:
    """The schema without Hudi's meta columns."""
    return pa.schema([f for f in schema if f.name not in META_COLUMNS])


def avro_names(table_name: str) -> tuple[str, str]:
    """Record name and namespace of a table's Avro schema.

    Characters that Avro forbids in names become two underscores (HoodieAvroUtils.sanitizeName).
    """
    name = re.sub(r"\A[^A-Za-z_]", "__", table_name)
    name = re.sub(r"[^A-Za-z0-9_]", "__", name)
    return f"{name}_record", f"hoodie.{name}"


def fixed_size(precision: int) -> int:
    """Bytes that hold every signed decimal of this many digits."""
    return int(10**precision).bit_length() // 8 + 1


def to_avro(schema: pa.Schema, *, record_name: str, namespace: str) -> str:
    """Avro JSON of a schema, as in a commit's `extraMetadata.schema`.

    Args:
        schema: the columns; meta columns are written if it has them.
        record_name: name of the outer record, see avro_names.
        namespace: its namespace.

    Raises:
        InputError: a column's name or type has no place in Avro.
    """
    record = _record_to_avro(list(schema), record_name, namespace)
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def _record_to_avro(fields: list[pa.Field], name: str, namespace: str) -> dict[str, Any]:
    inner = f"{namespace}.{name}"
    avro_fields = []
    for item in fields:
        if not _AVRO_NAME.match(item.name):
            raise InputError(f"column name {item.name!r} is not allowed in Avro")
        avro: dict[str, Any] = {"name": item.name, "type": _field_to_avro(item, item.name, inner)}
        if item.name in META_COLUMNS:
            avro["doc"] = ""
        if item.nullable:
            avro["default"] = None
        avro_fields.append(avro)
    return {"type": AVRO_RECORD, "name": name, "namespace": namespace, "fields": avro_fields}


def _field_to_avro(item: pa.Field, name: str, namespace: str) -> Any:
    avro = _type_to_avro(item.type, name, namespace)
    return ["null", avro] if item.nullable else avro


def _type_to_avro(kind: pa.DataType, name: str, namespace: str) -> Any:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    for matches, avro in _SIMPLE_TYPES:
        if matches(kind):
            return avro
    if pa.types.is_struct(kind):
        return _record_to_avro(list(kind), name, namespace)
    if pa.types.is_map(kind) and _is_text(kind.key_type):
        return {"type": "map", "values": _field_to_avro(kind.item_field, name, namespace)}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "items": _field_to_avro(kind.value_field, name, namespace)}
    return _logical_to_avro(kind, name, namespace)


def _logical_to_avro(kind: pa.DataType, name: str, namespace: str) -> dict[str, Any]:
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        logical = "timestamp-micros" if kind.tz else "local-timestamp-micros"
        return {"type": "long", "logicalType": logical}
    if pa.types.is_decimal(kind) and kind.precision <= _MAX_PRECISION and kind.scale >= 0:
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": fixed_size(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    raise InputError(f"column {name} has type {kind}, which a table cannot hold")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


@functools.lru_cache(maxsize=64)
def from_avro(text: str) -> pa.Schema:
    """The columns of an Avro record schema.

    Args:
        text: Avro JSON.

    Raises:
        UnsupportedTableError: no Avro record schema, or a type that no column can have.
    """
    try:
        avro = json.loads(text)
        kind = _AvroReader().convert(avro, "the table", "")
    except _BAD_AVRO as error:
        raise UnsupportedTableError(f"the table's Avro schema is malformed: {error!r}") from error
    if not pa.types.is_struct(kind):
        raise UnsupportedTableError("the table's Avro schema is not a record")
    return pa.schema(list(kind))


@dataclass(slots=True)
class _AvroReader:
    """Avro to Arrow; remembers named types, which a schema may use again by name."""

    named: dict[str, pa.DataType] = field(default_factory=dict)

    def convert(self, avro: Any, column: str, namespace: str) -> pa.DataType:
        """The Arrow type of a schema that is no union."""
        if isinstance(avro, str):
            return self._by_name(avro, column, namespace)
        kind = avro["type"]
        if isinstance(kind, dict | list):
            return self.convert(kind, column, namespace)
        if avro.get("logicalType") is not None:
            found = self._logical(avro, column)
        elif kind in (AVRO_RECORD, "array", "map"):
            return self._nested(avro, column, namespace)
        elif kind in ("enum", "fixed"):
            found = pa.string() if kind == "enum" else pa.binary(avro["size"])
        else:
            return self._by_name(kind, column, namespace)
        if "name" in avro:
            self.named[_full_name(avro, namespace)] = found
        return found

    def _nested(self, avro: Any, column: str, namespace: str) -> pa.DataType:
        if avro["type"] == "array":
            return pa.list_(self.member(_ELEMENT, avro["items"], column, namespace))
        if avro["type"] == "map":
            values = self.member("value", avro["values"], column, namespace)
            return pa.map_(pa.string(), values)
        full = _full_name(avro, namespace)
        inner = full.rpartition(".")[0]
        members = [
            self.member(item["name"], item["type"], item["name"], inner) for item in avro["fields"]
        ]
        self.named[full] = pa.struct(members)
        return self.named[full]

    def _logical(self, avro: Any, column: str) -> pa.DataType:
        kind, logical = avro["type"], avro["logicalType"]
        if logical == "decimal" and kind in ("bytes", "fixed"):
            precision, scale = avro["precision"], avro.get("scale", 0)
            if not 1 <= precision <= _MAX_PRECISION or not 0 <= scale <= precision:
                raise UnsupportedTableError(f"column {column} is a decimal({precision},{scale})")
            return pa.decimal128(precision, scale)
        if (kind, logical) not in _LOGICAL_TYPES:
            raise UnsupportedTableError(f"column {column} has the Avro type {kind} as {logical}")
        return _LOGICAL_TYPES[kind, logical]

    def member(self, name: str, avro: Any, column: str, namespace: str) -> pa.Field:
        """A pa.field; a union with null makes it nullable."""
        if not isinstance(avro, list):
            return pa.field(name, self.convert(avro, column, namespace), nullable=False)
        others = [branch for branch in avro if branch != "null"]
        if len(others) != 1:
            raise UnsupportedTableError(f"column {column} is a union of {len(others)} Avro types")
        return pa.field(name, self.convert(others[0], column, namespace), len(avro) > 1)

    def _by_name(self, name: str, column: str, namespace: str) -> pa.DataType:
        full = name if "." in name else f"{namespace}.{name}"
        if name in _ARROW_TYPES:
            return _ARROW_TYPES[name]
        if full in self.named:
            return self.named[full]
        raise UnsupportedTableError(f"column {column} has the unknown Avro type {name!r}")


def _full_name(avro: Any, namespace: str) -> str:
    name: str = avro["name"]
    return name if "." in name else f"{avro.get('namespace', namespace)}.{name}"


def conform(table: pa.Table, schema: pa.Schema, name: str) -> pa.Table:
    """Give a table the columns, order and types of a schema, without changing any value.

    Integers widen, decimals rescale, timestamps change unit where nothing is lost, naive
    timestamps count as UTC; dictionary and large types become plain, fields of structs may come
    in another order, list members under another name.

    Args:
        table: the table.
        schema: the one to reach.
        name: what the rows are, for errors.

    Returns:
        The table with exactly that schema, without metadata.

    Raises:
        InputError: a column is missing, unknown, of a type that does not fit, or holds a null
            or a value that the schema does not allow.
    """
    given = table.schema.names
    for column in given:
        if column not in schema.names:
            raise InputError(f"{name} have a column {column!r} that the table does not have")
        if given.count(column) > 1:
            raise InputError(f"{name} have more than one column {column!r}")
    columns = []
    for item in schema:
        if item.name not in given:
            raise InputError(f"{name} have no column {item.name!r}")
        columns.append(_conform_column(table.column(item.name), item, name))
    return pa.Table.from_arrays(columns, schema=schema.remove_metadata())


def _conform_column(column: pa.ChunkedArray, item: pa.Field, name: str) -> pa.ChunkedArray:
    if column.null_count and not item.nullable:
        raise InputError(f"column {item.name!r} of {name} holds nulls, which the table forbids")
    if column.type.equals(item.type, check_metadata=True):
        return column
    try:
        chunks = [_conform_array(chunk, item.type) for chunk in column.chunks]
    except (_MisfitError, pa.ArrowException) as error:
        raise InputError(
            f"column {item.name!r} of {name} is {column.type} and does not fit {item.type}: "
            + str(error).partition("\n")[0]
        ) from error
    return pa.chunked_array(chunks, item.type)


class _MisfitError(Exception):
    """A type that is not converted to another; carries the reason."""


def _conform_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type.equals(kind, check_metadata=True):
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return _conform_struct(array, kind)
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        keys = _conform_array(array.keys, kind.key_type)
        offsets = _list_offsets(array)
        first, end = offsets[0].as_py(), offsets[-1].as_py()
        visible = array.items.slice(first, end - first)
        items = _conform_member(array.items, kind.item_field, visible)
        return pa.MapArray.from_arrays(offsets, keys, items, kind, mask=_null_mask(array))
    lists = (pa.types.is_list, pa.types.is_large_list)
    if pa.types.is_list(kind) and any(matches(array.type) for matches in lists):
        values = _conform_member(array.values, kind.value_field, array.flatten())
        return pa.ListArray.from_arrays(_list_offsets(array), values, kind, mask=_null_mask(array))
    if not _castable(array.type, kind):
        raise _MisfitError("the types differ")
    return array.cast(kind)


def _conform_struct(array: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    names = [member.name for member in array.type]
    if sorted(names) != sorted(member.name for member in kind):
        raise _MisfitError("the fields differ")
    children = []
    for member in kind:
        child = array.field(names.index(member.name))
        # Below a null parent a value may be null even where the schema forbids it.
        visible = child.filter(array.is_valid()) if array.null_count else child
        children.append(_conform_member(child, member, visible))
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=_null_mask(array))


def _conform_member(values: pa.Array, member: pa.Field, visible: pa.Array) -> pa.Array:
    """The values of a nested array; `visible` are those of them that are no filling."""
    if visible.null_count and not member.nullable:
        raise _MisfitError(f"{member.name} holds nulls")
    return _conform_array(values, member.type)


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _list_offsets(array: pa.Array) -> pa.Array:
    # Arrow combines no null mask with offsets that are a slice: start them anew.
    return pa.array(array.offsets.cast(pa.int32()).to_numpy())


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type can be meant by another; the cast still checks each value."""
    if pa.types.is_null(source):
        return True
    if pa.types.is_integer(source):
        numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        return any(matches(target) for matches in numeric)
    if pa.types.is_float64(source) or pa.types.is_timestamp(source) or pa.types.is_date(source):
        dates = pa.types.is_date(source) and pa.types.is_date(target)
        return bool(source.id == target.id or dates)
    families = (
        (pa.types.is_floating,),
        (pa.types.is_decimal,),
        (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        ),
    )
    return any(
        any(matches(source) for matches in family) and any(matches(target) for matches in family)
        for family in families
    )
