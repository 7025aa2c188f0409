"""Records of the files and record_index partitions."""

import datetime as dt
import io
import json
import uuid
from unittest import mock

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.metadata import records

AVRO = fastavro.parse_schema(json.loads(records.SCHEMA))

# Bytes of a record that Hudi 0.15.0 wrote for the key 000b0bf6-3e23-0cfc-f5f2-95846b90e5f1.
HUDI_LOCATION = bytes.fromhex(
    "0000000000000a000000020214323032342f30312f303902d4b8fac4fabde7d95502afefbda9d5a2e1fcf101"
    "0200020002d2f0d7efbf6800"
)
HUDI_INSTANT_MS = 1795279223849


def read(value):
    return fastavro.schemaless_reader(io.BytesIO(value), AVRO)


def record(**fields):
    whole = {field["name"]: None for field in AVRO["fields"]} | {"key": "", "type": 5} | fields
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, whole)
    return out.getvalue()


def location(**fields):
    names = ("partitionName", "fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId")
    return dict.fromkeys((*names, "instantTime")) | {"fileIdEncoding": 0} | fields


def decode(*values):
    return records.decode_locations(pa.array(values, pa.binary()), "f").to_pylist()


def test_schema_is_hudis():
    assert len(records.SCHEMA) == 7156
    names = [field["name"] for field in json.loads(records.SCHEMA)["fields"]]
    assert len(names) == 11
    assert names[-1] == "recordIndexMetadata"


def test_location_of_hudi():
    (found,) = decode(HUDI_LOCATION)
    assert found["partition_path"] == "2024/01/09"
    assert found["instant_ms"] == HUDI_INSTANT_MS
    stamp = dt.datetime.fromtimestamp(HUDI_INSTANT_MS / 1000, dt.UTC)
    assert stamp.strftime("%Y%m%d%H%M%S") == "20261121164023"
    again = records.encode_locations(
        [found["partition_path"]], [found["file_id"]], [found["instant_ms"]]
    )
    assert again.to_pylist() == [HUDI_LOCATION]


@pytest.mark.parametrize(
    ("file_id", "encoding", "index"),
    [
        ("d9953b92-7581-46f6-b1d0-bda93d3fb0b1-0", 0, 0),
        ("d9953b92-7581-46f6-b1d0-bda93d3fb0b1-123456789", 0, 123456789),
        ("d9953b92-7581-46f6-b1d0-bda93d3fb0b1", 0, -1),
        ("00000007-7581-46f6-71d0-bda93d3fb0b1-0", 0, 0),
        ("D9953B92-7581-46F6-B1D0-BDA93D3FB0B1-0", 1, -1),
        ("d9953b92-7581-46f6-b1d0-bda93d3fb0b1-01", 1, -1),
        ("d9953b92-7581-46f6-b1d0-bda93d3fb0b1-99999999999", 1, -1),
        ("d9953b92-7581-46f6-b1d0-bda93d3fb0b1-", 1, -1),
        ("группа", 1, -1),
    ],
)
def test_file_ids(file_id, encoding, index):
    (value,) = records.encode_locations(["p"], [file_id], [5]).to_pylist()
    held = read(value)["recordIndexMetadata"]
    assert (held["fileIdEncoding"], held["fileIndex"]) == (encoding, index)
    assert decode(value) == [{"partition_path": "p", "file_id": file_id, "instant_ms": 5}]


texts = st.text(max_size=12)
file_ids = st.one_of(
    st.uuids().map(str),
    st.tuples(st.uuids(), st.integers(0, 10**9)).map(lambda pair: f"{pair[0]}-{pair[1]}"),
    texts,
)


@settings(deadline=None)
@given(st.lists(st.tuples(texts, file_ids, st.integers(-(2**62), 2**62)), max_size=20), st.data())
def test_locations_survive(locations, data):
    columns = [list(column) for column in zip(*locations, strict=True)] or [[], [], []]
    values = records.encode_locations(*columns)
    picks = (
        data.draw(st.lists(st.integers(0, len(locations) - 1), max_size=50)) if locations else []
    )
    found = records.decode_locations(values.take(pa.array(picks, pa.int64())), "f")
    assert found.schema.names == ["partition_path", "file_id", "instant_ms"]
    assert [tuple(row.values()) for row in found.to_pylist()] == [locations[i] for i in picks]


def test_many_distinct_locations():
    count = 6000
    ids = [f"{uuid.UUID(int=i << 64 | i)}-{i}" for i in range(count)]
    values = records.encode_locations([f"p{i % 7}" for i in range(count)], ids, list(range(count)))
    picks = [i * 7 % count for i in range(3 * count)]
    found = records.decode_locations(values.take(pa.array(picks)), "f")
    assert found.column("file_id").to_pylist() == [ids[i] for i in picks]
    assert found.column("instant_ms").to_pylist() == picks


def test_values_of_base_files_name_their_file():
    bits = uuid.UUID("d9953b92-7581-46f6-b1d0-bda93d3fb0b1").int
    high, low = bits >> 64, bits & (1 << 64) - 1
    place = location(
        partitionName="p", fileIdHighBits=high - (1 << 64), fileIdLowBits=low - (1 << 64),
        fileIndex=3, fileId="", instantTime=9,
    )  # fmt: skip
    values = [
        record(_hoodie_file_name="record-index-0000-0.hfile", recordIndexMetadata=place),
        record(recordIndexMetadata=place),
        record(key="a key of its own", recordIndexMetadata=place),
    ]
    expected = {
        "partition_path": "p",
        "file_id": "d9953b92-7581-46f6-b1d0-bda93d3fb0b1-3",
        "instant_ms": 9,
    }
    assert decode(*values) == [expected] * 3


def test_later_fields():
    plain = records.encode_locations(["p"], ["x"], [1]).to_pylist()[0]
    # position null or 3, then no secondary index, as Hudi 1.x writes them.
    expected = {"partition_path": "p", "file_id": "x", "instant_ms": 1}
    assert decode(plain, plain + b"\0\0", plain + b"\2\6\0") == [expected] * 3


@pytest.mark.parametrize(
    "value",
    [
        b"",
        record(),
        record(type=2, filesystemMetadata={}),
        record(recordIndexMetadata=location()),
        record(recordIndexMetadata=location(instantTime=1)),
        record(recordIndexMetadata=location(instantTime=1, fileIdEncoding=7, fileId="x")),
        HUDI_LOCATION + b"\0",
        HUDI_LOCATION + b"\2\6\0\0",
    ],
)
def test_no_locations(value):
    with pytest.raises(CorruptFileError, match=r"^f "):
        decode(HUDI_LOCATION, value)


def test_damaged_locations():
    for end in range(len(HUDI_LOCATION)):
        with pytest.raises(CorruptFileError):
            decode(HUDI_LOCATION[:end])
    for at in range(len(HUDI_LOCATION)):
        for bit in range(8):
            damaged = bytearray(HUDI_LOCATION)
            damaged[at] ^= 1 << bit
            try:
                decode(bytes(damaged))
            except CorruptFileError:
                continue


FILES = {"a.parquet": (1000, False), "ü_0-1-2_3.parquet": (0, True)}


@pytest.mark.parametrize("kind", [records.FILES, records.PARTITION_LIST])
@pytest.mark.parametrize("entries", [FILES, {}])
def test_files(kind, entries):
    value = records.encode_files(entries, record_type=kind)
    held = read(value)
    assert held["type"] == kind
    assert held["key"] == ""
    assert held["filesystemMetadata"] == {
        name: {"size": size, "isDeleted": deleted} for name, (size, deleted) in entries.items()
    }
    assert value == record(type=kind, filesystemMetadata=held["filesystemMetadata"])
    assert records.decode_files(value, "f") == entries


def test_files_of_other_writers():
    named = record(_hoodie_file_name="files-0000-0.hfile", type=2, filesystemMetadata={})
    assert records.decode_files(named, "f") == {}
    assert records.decode_files(record(type=2), "f") == {}
    # A map in two blocks, the second with its size in bytes in front.
    blocks = b"\2\2a\4\0" + b"\1\10\2b\6\1" + b"\0"
    value = b"\0" * 6 + b"\4" + b"\2" + blocks + b"\0\0\0"
    assert records.decode_files(value, "f") == {"a": (2, False), "b": (3, True)}


@given(st.dictionaries(st.text(max_size=40), st.tuples(st.integers(0, 1 << 62), st.booleans())))
def test_files_read_in_one_pass_are_those_that_a_cursor_reads(entries):
    value = records.encode_files(entries, record_type=records.FILES)
    assert records.decode_files(value, "f") == entries
    with mock.patch.object(records, "_files_map", return_value={}):
        assert records.decode_files(value, "f") == entries


def test_a_name_that_is_no_text_is_damage():
    value = b"\0" * 6 + b"\4" + b"\2" + b"\2\2\xff\4\0" + b"\0\0\0\0"
    with pytest.raises(CorruptFileError, match="not UTF-8"):
        records.decode_files(value, "f")


def test_damaged_files():
    value = records.encode_files(FILES, record_type=records.FILES)
    for end in range(len(value) - 3):
        with pytest.raises(CorruptFileError):
            records.decode_files(value[:end], "f")
    for at in range(len(value)):
        for bit in range(8):
            damaged = bytearray(value)
            damaged[at] ^= 1 << bit
            try:
                records.decode_files(bytes(damaged), "f")
            except CorruptFileError:
                continue
    with pytest.raises(CorruptFileError, match="type 5"):
        records.decode_files(HUDI_LOCATION, "f")


def test_partition_identifier():
    assert records.partition_identifier("") == "."
    assert records.partition_identifier("2024/01/03") == "2024/01/03"
