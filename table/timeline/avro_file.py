r"""Avro object container files of one record, without codec: plans and results on the timeline.

    "Obj\x01" | map {"avro.schema": JSON} | sync marker | count 1 | length | record | sync marker

A file is read with the schema that stands in it and resolved to Hudi 0.15's, so that fields which
a later release added are passed over. The schema comes from the file and is not trusted: what
takes no bytes, what contains itself and what nests without end is refused before a value is read.

Source: TimelineMetadataUtils.serializeAvroMetadata of Hudi 0.15, Avro 1.11 specification.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import fastavro

from keymark.table.errors import CorruptFileError
from keymark.table.format.avro.records import AvroCursor, encode_bytes, encode_long, encode_text
from keymark.table.format.kernels.words import AVRO_RECORD

_MAGIC = b"Obj\x01"
_SCHEMA_KEY, _CODEC_KEY, _NO_CODEC = "avro.schema", "avro.codec", b"null"
_SYNC_BYTES = 16
_DEPTH_MAX = 64
_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """One of Hudi's schemas: its JSON to the letter, and what fastavro made of it."""

    text: str
    parsed: Any


@lru_cache
def load_schema(name: str) -> AvroSchema:
    """The schema in `schemas/<name>.avsc`."""
    text = resources.files(__package__).joinpath(f"schemas/{name}.avsc").read_text("utf-8").strip()
    return AvroSchema(text, fastavro.parse_schema(json.loads(text)))


def encode_record(schema: AvroSchema, record: Mapping[str, object]) -> bytes:
    """The Avro binary of a record, without any header."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema.parsed, record)
    return buffer.getvalue()


def encode_container(schema: AvroSchema, record: Mapping[str, object]) -> bytes:
    """A container file of one record; the same record gives the same bytes."""
    encoded = encode_record(schema, record)
    # Any 16 bytes serve as the marker; a digest keeps the file a function of its record.
    sync = hashlib.blake2b(encoded, digest_size=_SYNC_BYTES).digest()
    header = encode_long(1) + encode_text(_SCHEMA_KEY) + encode_text(schema.text) + encode_long(0)
    block = encode_long(1) + encode_bytes(encoded)
    return _MAGIC + header + sync + block + sync


def decode_container(data: bytes, name: str, schema: AvroSchema) -> dict[str, Any]:
    """The record of a container file.

    Args:
        data: the whole file.
        name: its path, for errors.
        schema: what the record must resolve to.

    Raises:
        CorruptFileError: no container, a codec, not exactly one record, or not one of `schema`.
    """
    cursor = AvroCursor(data, name)
    if not data:
        cursor.fail("an empty file, expected an Avro container")
    if data[: len(_MAGIC)] != _MAGIC:
        cursor.fail(f"an Avro container does not start with {_MAGIC!r}")
    cursor.take(len(_MAGIC))
    header = {key: cursor.binary() for key in cursor.map_keys()}
    if header.get(_CODEC_KEY, _NO_CODEC) != _NO_CODEC:
        cursor.fail(f"codec {header[_CODEC_KEY]!r}, the timeline's files have none")
    sync = cursor.take(_SYNC_BYTES)
    count = cursor.long()
    if count != 1:
        cursor.fail(f"{count} records, expected one")
    encoded = cursor.binary()
    offset = cursor.position - len(encoded)
    if cursor.take(_SYNC_BYTES) != sync:
        cursor.fail("the sync marker behind the record is another one")
    cursor.end()
    try:
        text = header.get(_SCHEMA_KEY, b"").decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(name, len(_MAGIC), "a schema that is not UTF-8") from error
    return RecordReader(text, schema, name).decode(encoded, offset)


class RecordReader:
    """Decodes records that were written with one schema and are wanted in another.

    Args:
        text: JSON of the writer's schema; hostile.
        schema: what records resolve to.
        name: the file, for errors.

    Raises:
        CorruptFileError: the writer's schema is none, or none that a timeline can have.
    """

    def __init__(self, text: str, schema: AvroSchema, name: str) -> None:
        self._name = name
        self._schema = schema
        try:
            # Java and this package write the same schema to the letter, nearly always.
            same = text == schema.text
            self._writer = schema.parsed if same else _parse_foreign(text)
        except Exception as error:  # fastavro and json raise what the text provokes
            raise CorruptFileError(name, 0, f"not an Avro schema ({error})") from error

    def decode(self, encoded: bytes, offset: int) -> dict[str, Any]:
        """One record.

        Args:
            encoded: exactly its bytes.
            offset: where in the file they start, for errors.

        Raises:
            CorruptFileError: the bytes are no such record.
        """
        stream = io.BytesIO(encoded)
        try:
            record: Any = fastavro.schemaless_reader(stream, self._writer, self._schema.parsed)
        except Exception as error:  # fastavro raises what the bytes provoke
            at = offset + stream.tell()
            raise CorruptFileError(self._name, at, f"not the Avro record ({error!r})") from error
        if stream.tell() != len(encoded):
            raise CorruptFileError(self._name, offset + stream.tell(), "bytes behind the record")
        return dict(record)


def _parse_foreign(text: str) -> Any:
    schema = _checked(json.loads(text), ())
    if not isinstance(schema, dict) or schema["type"] != AVRO_RECORD:
        raise ValueError("a record is expected")
    return fastavro.parse_schema(schema)


def _checked(node: Any, inside: tuple[str, ...]) -> Any:
    """A schema reduced to what gives values their bytes and names.

    Args:
        node: the parsed JSON.
        inside: names of the records around it, and "" for each array, map or union.

    Raises:
        ValueError: a value of it could take no bytes, or it is recursive or too deep. What is
            left takes one byte a value at least, so that no count outruns the file.
    """
    if len(inside) > _DEPTH_MAX:
        raise ValueError(f"nested more than {_DEPTH_MAX} deep")
    if isinstance(node, str):
        if node.rpartition(".")[2] in inside or node == "null":
            raise ValueError(f"{node!r} stands where a value is needed")
        return node
    if isinstance(node, list):
        return [m if m == "null" else _checked(m, (*inside, "")) for m in node]
    kind = node["type"]
    if kind in _PRIMITIVES:
        return kind
    if kind == AVRO_RECORD:
        return _checked_record(node, inside)
    values = {"array": "items", "map": "values"}.get(kind)
    if values is None:
        raise ValueError(f"type {kind!r} has no place on a timeline")
    return {"type": kind, values: _checked(node[values], (*inside, ""))}


def _checked_record(node: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
    around = (*inside, str(node["name"]).rpartition(".")[2])
    fields = [
        {"name": field["name"], "type": _checked(field["type"], around)} for field in node["fields"]
    ]
    if not fields:
        raise ValueError(f"record {node['name']!r} has no fields")
    names = {key: node[key] for key in ("name", "namespace") if key in node}
    return {"type": AVRO_RECORD, **names, "fields": fields}
