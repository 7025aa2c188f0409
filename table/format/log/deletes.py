"""The content of DELETE blocks, a HoodieDeleteRecordList. See `table/spec/log_file.md`."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from importlib import resources
from typing import Any

import fastavro

from table.errors import CorruptFileError, UnsupportedTableError
from table.format.coding import ByteCursor, encode_int32

_VERSION = 3
_ORDERING_VALUE = ("org.apache.hudi.avro.model.IntWrapper", {"value": 0})
_SCHEMA: Any = fastavro.parse_schema(
    json.loads(resources.files(__package__).joinpath("delete_record_list.avsc").read_text("utf-8"))
)
_DECODE_ERRORS = (
    EOFError,
    IndexError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
    struct.error,
)


def encode_deletes(keys: Sequence[str], partition: str) -> bytes:
    """Delete records of keys.

    Args:
        keys: record keys.
        partition: the partition they are deleted from; for a metadata table its partition's name.
    """
    records = [
        {"recordKey": key, "partitionPath": partition, "orderingVal": _ORDERING_VALUE}
        for key in keys
    ]
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _SCHEMA, {"deleteRecordList": records})
    encoded = buffer.getvalue()
    return encode_int32(_VERSION) + encode_int32(len(encoded)) + encoded


def decode_deletes(content: bytes, name: str) -> list[str]:
    """The record keys of a DELETE block, in its order.

    Args:
        content: the block's content.
        name: the file, for errors; offsets in errors count from the content's start.

    Raises:
        UnsupportedTableError: versions 1 and 2, which hold serialised Java objects.
        CorruptFileError: anything else that does not parse.
    """
    cursor = ByteCursor(content, name)
    version = cursor.int32()
    if version in (1, 2):
        raise UnsupportedTableError(f"{name}: delete block version {version} is not supported")
    if version != _VERSION:
        cursor.fail(f"delete block version {version}, expected {_VERSION}")
    encoded = cursor.take(cursor.int32())
    if cursor.remaining:
        cursor.fail(f"{cursor.remaining} bytes behind the delete records")
    stream = io.BytesIO(encoded)
    try:
        records: Any = fastavro.schemaless_reader(stream, _SCHEMA, None)
        keys = [record["recordKey"] for record in records["deleteRecordList"]]
    except _DECODE_ERRORS as error:
        raise CorruptFileError(name, 8 + stream.tell(), f"delete records: {error}") from error
    if stream.tell() != len(encoded):
        raise CorruptFileError(name, 8 + stream.tell(), "bytes behind the last delete record")
    if any(key is None for key in keys):
        raise CorruptFileError(name, 8, "a delete record without a record key")
    return keys
