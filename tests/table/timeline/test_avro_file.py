"""Avro files of one record: Hudi's to the byte, and what hostile bytes can do: raise one error."""

from __future__ import annotations

import contextlib
import io
import json

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_cases import DECODERS, FILES, READERS, ending, hudis

from keymark.table.errors import CorruptFileError
from keymark.table.format.avro.records import encode_bytes, encode_long, encode_text
from keymark.table.timeline.avro_file import decode_container, encode_container, load_schema

SYNC = bytes(16)
SCHEMA_OF = {
    ".clean.requested": "clean_plan",
    ".clean.inflight": "clean_plan",
    ".clean": "clean_metadata",
    ".rollback.requested": "rollback_plan",
    ".rollback": "rollback_metadata",
    ".savepoint": "savepoint_metadata",
    ".restore.requested": "restore_plan",
    ".restore": "restore_metadata",
    ".compaction.requested": "compaction_plan",
    ".indexing.requested": "index_plan",
    ".indexing": "index_commit_metadata",
    ".replacecommit.requested": "requested_replace_metadata",
}
AVRO_FILES = [path for path in FILES if ending(path) in SCHEMA_OF]


def container(schema: object, value: bytes, *, count: int = 1, codec: bytes | None = None) -> bytes:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    header = encode_text("avro.schema") + encode_text(text)
    if codec is not None:
        header += encode_text("avro.codec") + encode_bytes(codec)
    header = encode_long(1 + (codec is not None)) + header + encode_long(0)
    return b"Obj\x01" + header + SYNC + encode_long(count) + encode_bytes(value) + SYNC


def without_sync(data: bytes, schema_text: str) -> bytes:
    start = 4 + 1 + len(encode_text("avro.schema")) + len(encode_text(schema_text)) + 1
    return data[:start] + data[start + 16 : -16]


@pytest.mark.parametrize("path", AVRO_FILES)
def test_hudis_files_are_made_byte_for_byte_but_for_the_marker(path):
    schema = load_schema(SCHEMA_OF[ending(path)])
    record = decode_container(FILES[path], path, schema)
    again = encode_container(schema, record)
    assert without_sync(again, schema.text) == without_sync(FILES[path], schema.text)
    assert encode_container(schema, record) == again
    assert record == next(fastavro.reader(io.BytesIO(FILES[path])))


def test_there_is_a_file_of_every_kind():
    assert {ending(path) for path in FILES} >= {*SCHEMA_OF, *DECODERS}
    assert len(hudis(".rollback")) == len(hudis(".restore")) == 2


@settings(max_examples=400, deadline=None)
@given(
    reader=st.sampled_from(READERS),
    at=st.floats(0, 1, exclude_max=True),
    junk=st.binary(min_size=1, max_size=4),
    how=st.sampled_from(("replace", "insert", "cut", "swap")),
)
def test_damaged_bytes_raise_one_error(reader, at, junk, how):
    path, decode = reader
    data = FILES[path]
    place = int(at * len(data))
    damaged = {
        "replace": data[:place] + junk + data[place + len(junk) :],
        "insert": data[:place] + junk + data[place:],
        "cut": data[:place],
        "swap": data[place:] + data[:place],
    }[how]
    with contextlib.suppress(CorruptFileError):
        decode(damaged, path)


@settings(max_examples=200, deadline=None)
@given(reader=st.sampled_from(READERS), data=st.binary(max_size=200))
def test_junk_raises_one_error(reader, data):
    path, decode = reader
    with pytest.raises(CorruptFileError):
        decode(b"Obj\x01" + data, path)


@pytest.mark.parametrize(("path", "decode"), READERS)
def test_every_cut_file_is_damaged(path, decode):
    data = FILES[path]
    for length in {*range(0, len(data), 97), len(data) - 1}:
        # No content is a commit of nothing; Hudi's requested files are so.
        if length or not path.endswith(".commit"):
            with pytest.raises(CorruptFileError):
                decode(data[:length], path)


def test_what_is_around_the_record_is_checked():
    schema = load_schema("index_plan")
    record = {"version": 1, "indexPartitionInfos": None}
    data = encode_container(schema, record)
    value = data[-19:-16]
    assert decode_container(container(schema.text, value, codec=b"null"), "x", schema) == record
    for damaged, what in (
        (b"", "empty"),
        (b"PAR1" + data[4:], "does not start"),
        (container(schema.text, value, codec=b"deflate"), "codec"),
        (container(schema.text, value * 2, count=2), "2 records"),
        (container(schema.text, value + b"\0"), "behind the record"),
        (data[:-1] + bytes([data[-1] ^ 1]), "marker"),
        (data + b"\0", "after the record"),
        (container({"type": "string"}, encode_text("x")), "a record is expected"),
    ):
        with pytest.raises(CorruptFileError, match=what):
            decode_container(damaged, "x", schema)


def record_of(field_type: object, name: str = "HoodieIndexPlan") -> dict:
    return {"type": "record", "name": name, "fields": [{"name": "more", "type": field_type}]}


def nested(depth: int) -> str:
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


@pytest.mark.parametrize(
    "field_type",
    [
        "null",
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
        {"type": "array", "items": {"type": "record", "name": "e", "fields": []}},
        {"type": "map", "values": "null"},
        ["null", "HoodieIndexPlan"],
        {"type": "array", "items": "org.HoodieIndexPlan"},
        {"type": "array"},
        {"type": ["null"]},
        "unheard_of",
        7,
        None,
    ],
)
def test_schemas_whose_values_cost_nothing_or_never_end_are_refused(field_type):
    count = encode_long(1 << 60)
    with pytest.raises(CorruptFileError, match="schema"):
        decode_container(container(record_of(field_type), count), "x", load_schema("index_plan"))


@pytest.mark.parametrize("depth", [65, 3_000, 100_000])
def test_schemas_nested_without_end_are_refused(depth):
    text = json.dumps(record_of("@")).replace('"@"', nested(depth))
    with pytest.raises(CorruptFileError, match="schema"):
        decode_container(container(text, b"\0"), "x", load_schema("index_plan"))


def test_fields_of_a_later_release_are_passed_over_and_those_of_an_earlier_filled():
    schema = load_schema("index_plan")
    later = json.loads(schema.text)
    info = later["fields"][1]["type"][1]["items"]
    info["fields"].append(
        {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}]}
    )
    later["fields"] = [{"name": "note", "type": "string"}, later["fields"][1]]
    buffer = io.BytesIO()
    entry = {"metadataPartitionPath": "p", "indexUptoInstant": "1", "extraMetadata": {"a": "b"}}
    record = {"note": "n", "indexPartitionInfos": [entry | {"version": 1}]}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(later), record)
    assert decode_container(container(later, buffer.getvalue()), "x", schema) == {
        "version": 1,
        "indexPartitionInfos": [
            {"version": 1, "metadataPartitionPath": "p", "indexUptoInstant": "1"}
        ],
    }


def test_logical_types_change_nothing():
    later = {
        "type": "record",
        "name": "HoodieIndexPlan",
        "fields": [{"name": "version", "type": {"type": "int", "logicalType": "date"}}],
    }
    data = container(later, encode_long(1))
    assert decode_container(data, "x", load_schema("index_plan"))["version"] == 1
