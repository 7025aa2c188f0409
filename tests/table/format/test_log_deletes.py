"""Delete lists, held against fastavro and Hudi's own bytes."""

from __future__ import annotations

import io
import json
from importlib import resources

import fastavro
import pyarrow as pa
import pytest
from hfile_cases import DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError, UnsupportedTableError
from keymark.table.format.coding import encode_int32
from keymark.table.format.log.deletes import decode_deletes, encode_deletes
from keymark.table.format.log.reader import read_blocks
from keymark.table.storage.storage import BytesReader

AVRO = fastavro.parse_schema(
    json.loads(
        resources.files("keymark.table.format.log").joinpath("delete_record_list.avsc").read_text()
    )
)
WRAPPER = "org.apache.hudi.avro.model."
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
ordering_values = st.none() | st.one_of(
    st.tuples(st.just(WRAPPER + name), st.fixed_dictionaries({"value": values}))
    for name, values in {
        "BooleanWrapper": st.booleans(),
        "IntWrapper": int32,
        "LongWrapper": int64,
        "FloatWrapper": st.floats(width=32),
        "DoubleWrapper": st.floats(),
        "BytesWrapper": st.binary(max_size=200),
        "StringWrapper": st.text(max_size=20),
        "DateWrapper": int32,
        "DecimalWrapper": st.decimals(-(10**9), 10**9, places=3),
        "TimeMicrosWrapper": st.times(),
        "TimestampMicrosWrapper": int64,
    }.items()
)
texts = st.text(max_size=20) | st.integers(0, 300).map("k".__mul__)
deletes = st.fixed_dictionaries(
    {"recordKey": texts, "partitionPath": st.none() | texts, "orderingVal": ordering_values}
)


def by_fastavro(records: list[dict]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"deleteRecordList": records})
    return out.getvalue()


def content(records: bytes, version: int = 3) -> bytes:
    return encode_int32(version) + encode_int32(len(records)) + records


def test_one_key_byte_for_byte():
    record = b"\x02\x12key-00011\x02\x18record_index\x04\x00"
    assert encode_deletes(["key-00011"], "record_index") == content(b"\x02" + record + b"\x00")


def test_no_key_byte_for_byte():
    assert encode_deletes([], "record_index") == content(b"\x00")
    assert len(encode_deletes([], "")) == 9


def test_deletes_of_hudi_byte_for_byte():
    data = (DATA.parent / "log" / "puts_and_deletes.log").read_bytes()
    block = read_blocks(BytesReader(name="a.log", data=data), complete=True)[-1]
    keys = decode_deletes(block.content(), "a.log")
    assert keys.type == pa.string()
    assert encode_deletes(keys, "record_index") == block.content()


@settings(deadline=None)
@given(st.lists(texts), st.sampled_from(["record_index", "", "a/ü=😀", "p" * 200]))
def test_bytes_are_those_of_fastavro(keys, partition):
    value = (WRAPPER + "IntWrapper", {"value": 0})
    expected = content(
        by_fastavro(
            [{"recordKey": k, "partitionPath": partition, "orderingVal": value} for k in keys]
        )
    )
    for given_keys in (keys, pa.array(keys, pa.string()), pa.array(["x", *keys], pa.string())[1:]):
        assert encode_deletes(given_keys, partition) == expected
    assert decode_deletes(expected, "a.log").to_pylist() == keys


@settings(deadline=None, max_examples=200)
@given(st.lists(st.lists(deletes, min_size=1, max_size=6), max_size=3), st.booleans())
def test_records_of_other_writers_are_read(blocks, sized):
    """Every branch of the ordering value; several blocks, with their sizes or without."""
    encoded = b""
    for block in blocks:
        records = by_fastavro(block)[1:-1]
        # Counts and sizes below 8192 as zigzag varints of two bytes.
        counts = [-len(block), len(records)] if sized else [len(block)]
        zigzag = [2 * n if n >= 0 else -2 * n - 1 for n in counts]
        encoded += b"".join(bytes([n & 0x7F | 0x80, n >> 7]) for n in zigzag) + records
    keys = decode_deletes(content(encoded + b"\x00"), "a.log")
    assert keys.to_pylist() == [record["recordKey"] for block in blocks for record in block]


@pytest.mark.parametrize("version", [1, 2])
def test_java_objects_are_refused(version):
    with pytest.raises(UnsupportedTableError, match=f"version {version}"):
        decode_deletes(content(b"\x00", version), "a.log")


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\0\0\0\3",
        content(b"\x00", 0),
        content(b"\x00", 4),
        content(b"\x00") + b"\x00",
        content(b"\x00\x00"),
        content(b""),
        content(b"\x02\x00\x00\x00\x00"),
        content(b"\x02\x02\x02a\x00\x40\x00"),
        content(b"\x02\x02\x02\xff\x00\x00\x00"),
        content(b"\x02\x02\xfe\xff\xff\xff\x0fa\x00\x00\x00"),
        content(b"\x02\x02\x01a\x00\x00\x00"),
        content(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        content(b"\x01\x01"),
        content(b"\x02\x02\x02a\x00\x00"),
        content(b"\x02\x02\x02a\x00\x18\x00"),
        content(b"\x02\x02\x02a\x00\x01\x00"),
        content(b"\x02\x02\x02a\x00\x02\x02\x00"),
        content(b"\x02\x02\x02a\x00\x08\x00\x00\x00"),
        content(b"\x02\x02\x02a\x04\x00"),
        content(b"\x01\x0c\x02\x02a\x00\x00\x00"),
        content(b"\x01" + b"\xff" * 9 + b"\x01\x02\x02a\x00\x00\x00"),
        encode_int32(3) + encode_int32(-1),
        encode_int32(3) + encode_int32(2**31 - 1) + b"\x00",
    ],
    ids=range(24),
)
def test_damage_is_named(damaged):
    with pytest.raises(CorruptFileError):
        decode_deletes(damaged, "a.log")


def test_every_truncation_and_flip():
    data = encode_deletes(["key-1", "clé", "😀"], "record_index")
    for length in range(len(data)):
        with pytest.raises(CorruptFileError):
            decode_deletes(data[:length], "a.log")
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            try:
                decode_deletes(bytes(damaged), "a.log")
            except (CorruptFileError, UnsupportedTableError):
                continue


@settings(deadline=None, max_examples=500)
@given(
    st.binary(max_size=60)
    | st.tuples(st.lists(deletes, max_size=4), st.integers(0, 400), st.integers(0, 255)).map(
        lambda drawn: damaged_at(by_fastavro(drawn[0]), *drawn[1:])
    )
)
def test_what_is_read_of_any_bytes_is_what_fastavro_reads(records):
    try:
        keys = decode_deletes(content(records), "a.log").to_pylist()
    except CorruptFileError:
        return
    # The schema's logical types overflow in values that nobody reads.
    plain = fastavro.parse_schema(without_logical_types(AVRO), named_schemas={}, _force=True)
    try:
        found = fastavro.schemaless_reader(io.BytesIO(records), plain, None)
    except UnicodeDecodeError:
        # Only keys are texts that anybody reads.
        return
    assert [record["recordKey"] for record in found["deleteRecordList"]] == keys


def damaged_at(records: bytes, place: int, byte: int) -> bytes:
    place %= len(records)
    return records[:place] + bytes([byte]) + records[place + 1 :]


def without_logical_types(schema):
    if isinstance(schema, dict):
        return {
            key: without_logical_types(value)
            for key, value in schema.items()
            if key != "logicalType"
        }
    return [without_logical_types(item) for item in schema] if isinstance(schema, list) else schema
