"""Each place of a file where a key can be, alone: the search of the file finds it, and says how.

Keys are short, so that nothing but decoding finds them, where a place has to be decoded.
"""

from __future__ import annotations

import gzip
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_cases import create

from keymark.table.errors import CorruptFileError
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.format.log.block import BlockType, HeaderKey
from keymark.table.format.log.deletes import encode_deletes
from keymark.table.format.log.writer import encode_block
from keymark.table.metadata.column_stats import column_stats_records
from keymark.table.metadata.records import SCHEMA, encode_locations
from keymark.table.services.purge import key_matches
from keymark.table.services.purge.key_matches import FileSearch, KeySet, search_file
from keymark.table.storage.storage import BytesReader

BASE = "p0/0-0_0-0-0_20200101000000000.parquet"
INDEX = ".hoodie/metadata/record_index/record-index-0000-0_0-0-0_20200101000000000.hfile"
LOG = ".hoodie/metadata/record_index/.record-index-0000-0_20200101000000000.log.1_0-0-0"
STATS = ".hoodie/metadata/column_stats/col-stats-0000-0_0-0-0_20200101000000000.hfile"
ASKED = ["k", "7", "long-key-é", "f", "customer-77"]


@pytest.fixture
def search(tmp_path):
    """Puts a file into a table and searches it: what it holds of ASKED, by how it does."""
    table = create(tmp_path / "t", partition_path=None)
    asked = KeySet.of(pa.array(ASKED))
    names = asked.texts.to_pylist()

    def run(path, data, config=table.config):
        table.storage.put(path, data)
        found = search_file(FileSearch(table.storage, path, asked, config))
        assert found.size == len(data)
        kinds = ("keys", "values", "marks", "bytes")
        held = {kind: sorted(names[row] for row in getattr(found, kind)) for kind in kinds}
        return {kind: rows for kind, rows in held.items() if rows}

    return run


def base_file(columns, **writing):
    made = {"_hoodie_record_key": ["other"], "k": ["other"], **columns}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(made).replace_schema_metadata(writing.pop("footer", None)), sink)
    return sink.getvalue().to_pybytes()


def hfile(keys, **info):
    values = encode_locations([""], ["0-0"], [1]).take(pa.array([0] * len(keys)))
    return write_hfile(pa.array(keys), values, schema=SCHEMA, file_info=info)


@given(st.data())
def test_gzip_streams_are_inflated_in_parts(data):
    """However a file is cut into parts, its streams have the content that they were made of."""
    streams = data.draw(st.lists(st.binary(max_size=40), max_size=3))
    between = [data.draw(st.binary(max_size=9)) for _ in streams]
    packed = [gzip.compress(each) for each in streams]
    content = b"".join(b + p for b, p in zip(between, packed, strict=True)) + b"end"
    source = BytesReader(name="a file", data=content)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_BYTES_AT_ONCE", "_DEFLATED_FIRST", "_DEFLATED_AT_ONCE", "_INFLATED_AT_ONCE"):
            patch.setattr(key_matches, name, data.draw(st.integers(1, 30)))
        places = list(key_matches._gzip_places(source))
        assert places == [m.start() for m in re.finditer(re.escape(b"\x1f\x8b\x08"), content)]
        start = 0
        for before, stream, expected in zip(between, packed, streams, strict=True):
            start += len(before)
            assert b"".join(key_matches._inflated(source, start)) == expected
            start += len(stream)


def test_base_files(search):
    other = search(BASE, base_file({}))
    assert other == {}


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"_hoodie_record_key": ["7"]}, {"keys": ["7"], "marks": ["7"]}),
        ({"k": ["7"]}, {"keys": ["7"], "marks": ["7"]}),
        ({"v": ["7"]}, {"values": ["7"], "marks": ["7"]}),
        ({"v": [b"7"]}, {"values": ["7"], "marks": ["7"]}),
        ({"v": [["1", "7", "9"]]}, {"values": ["7"]}),
        ({"v": [{"a": {"b": "7"}, "c": "0"}]}, {"values": ["7"], "marks": ["7"]}),
        ({"v": [7]}, {}),
        ({"v": ["a customer-77 b"]}, {"values": ["customer-77"], "bytes": ["customer-77"]}),
        (
            {"_hoodie_record_key": ["customer-777"], "k": ["customer-777"]},
            {"values": ["customer-77"], "bytes": ["customer-77"]},
        ),
    ],
)
def test_columns(search, columns, wanted):
    assert search(BASE, base_file(columns)) == wanted


def test_a_footer(search):
    footer = {"hoodie_max_record_key": "f", "hoodie_min_record_key": "a"}
    assert search(BASE, base_file({}, footer=footer)) == {"marks": ["f"]}


def test_a_key_column_of_numbers(search, tmp_path):
    numbers = create(tmp_path / "n", record_key="v", partition_path=None).config
    found = search(BASE, base_file({"v": [7]}), numbers)
    assert found == {"keys": ["7"], "marks": ["7"]}


def test_a_value_of_a_dictionary_that_no_row_has(search):
    words = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["used", "customer-77"]))
    found = search(BASE, base_file({"v": words}))
    assert found["bytes"] == ["customer-77"]
    assert "keys" not in found


def test_cells_index_and_file_info(search):
    assert search(INDEX, hfile(["a", "b", "other"])) == {}
    assert search(INDEX.replace("-0_0", "-1_0"), hfile(["a", "k", "other"])) == {"keys": ["k"]}
    first = write_hfile(
        pa.array(["a", "f", "z"]),
        encode_locations([""] * 3, ["0-0"] * 3, [1] * 3),
        schema=SCHEMA,
        block_size=1,
    )
    assert search(INDEX.replace("-0_0", "-2_0"), first) == {"keys": ["f"]}
    named = hfile(["a", "b"], maxRecordKey=b"7")
    assert search(INDEX.replace("-0_0", "-3_0"), named) == {"keys": ["7"]}


def test_the_last_key_alone(search):
    last = b"\0\1k\0\x7f" + b"\xff" * 7 + b"\4"
    data = hfile(["a", "b"], **{"hfile.LASTKEY": last})
    assert search(INDEX, data) == {"keys": ["k"]}


def test_logs(search):
    headers = {HeaderKey.INSTANT_TIME: "20200101000000000", HeaderKey.SCHEMA: SCHEMA}
    deletes = encode_block(
        BlockType.DELETE, headers, encode_deletes(["other", "k"], "record_index")
    )
    assert search(LOG, deletes) == {"keys": ["k"]}
    puts = encode_block(BlockType.HFILE_DATA, headers, hfile(["7", "other"]))
    assert search(LOG.replace("log.1", "log.2"), puts + deletes) == {"keys": ["7", "k"]}


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (["7", "8"], {"marks": ["7"]}),
        ([6, 7], {"marks": ["7"]}),
        (["6", "8"], {}),
        (["customer-77", "d"], {"marks": ["customer-77"], "bytes": ["customer-77"]}),
    ],
)
def test_column_statistics(search, column, wanted):
    sink = pa.BufferOutputStream()
    table = pa.table({"v": column})
    pq.write_table(table, sink)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    keys, values = column_stats_records("", BASE, metadata, table.schema)
    data = write_hfile(pa.array(keys), pa.array(values, pa.binary()), schema=SCHEMA)
    assert search(STATS, data) == wanted


def test_other_files_and_names(search):
    key = "long-key-é"
    assert search("notes", f"about {key}".encode()) == {"bytes": [key]}
    assert search(".hoodie/1.commit", json.dumps({"a": key}).encode()) == {"bytes": [key]}
    assert search(f"{key}/notes", b"nothing") == {"bytes": [key]}
    assert search("far", b"-" * ((1 << 26) - 4) + key.encode() + b"-" * 100) == {"bytes": [key]}


@pytest.mark.parametrize("path", [BASE, INDEX, LOG])
def test_damage_is_told(search, path):
    with pytest.raises(CorruptFileError):
        search(path, b"no such file" * 400)
