"""Plainly stored strings, against Arrow's reading of the same files; what is stored otherwise."""

from __future__ import annotations

import contextlib
import gc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError, UnsupportedTableError
from keymark.table.format.parquet.base_file import (
    BaseFileOptions,
    FooterOptions,
    read_footer,
    write_base_file,
)
from keymark.table.format.parquet.pages import chunk_pages
from keymark.table.format.parquet.plain_strings import plain_pages, plain_strings
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import BytesReader

OPTIONS = BaseFileOptions(footer=FooterOptions(bloom_enabled=False))
TEXTS = st.lists(st.text(max_size=12), max_size=60)


def written(table, **changes):
    sink = pa.BufferOutputStream()
    given = {"compression": "gzip", "use_dictionary": False, **changes}
    pq.write_table(table, sink, **given)
    return sink.getvalue().to_pybytes()


def read(data, column="k"):
    source = BytesReader(name="x", data=data)
    return plain_strings(source, read_footer(source).metadata, column)


def joined(arrays):
    for array in arrays:
        array.validate(full=True)
        assert array.type == pa.string()
    return [text for array in arrays for text in array.to_pylist()]


@settings(max_examples=60)
@given(
    TEXTS,
    st.sampled_from(["gzip", "snappy", "zstd", "none"]),
    st.integers(1, 20),
    st.booleans(),
    st.integers(1, 200),
)
def test_as_arrow_reads(texts, codec, group, nullable, page):
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("k", pa.string(), nullable)])
    table = pa.table([list(range(len(texts))), texts], schema=schema)
    data = written(table, compression=codec, row_group_size=group, data_page_size=page)
    assert joined(read(data) or []) == texts


def some(source, rows, column="k"):
    """First row and texts of the pages with some rows."""
    metadata = read_footer(source).metadata
    found = plain_pages(source, metadata, column, lambda a, b: any(a <= row < b for row in rows))
    return None if found is None else [(first, keys.to_pylist()) for first, keys in found]


@pytest.mark.parametrize("codec", ["gzip", "snappy"])
def test_some_pages(tmp_path, codec):
    texts = [f"key {n}" for n in range(1_000)]
    rows = {"max_rows_per_page": 50, "row_group_size": 400}
    data = written(pa.table({"a": texts, "k": texts}), compression=codec, **rows)
    (tmp_path / "x").write_bytes(data)
    for source in (BytesReader(name="x", data=data), LocalStorage.at(tmp_path).open("x")):
        assert some(source, []) == []
        for row in (0, 49, 50, 399, 400, 999):
            first = row // 50 * 50
            assert some(source, [row]) == [(first, texts[first : first + 50])]
        assert [first for first, _ in some(source, [10, 420, 470])] == [0, 400, 450]
        assert some(source, range(0, 300, 50)) is None, "most pages of a row group"
        assert some(source, [0], "other") == []


def test_a_damaged_page_is_told_and_others_are_read(tmp_path):
    texts = [f"key {n}" for n in range(1_000)]
    data = bytearray(written(pa.table({"k": texts}), max_rows_per_page=50))
    metadata = read_footer(BytesReader(name="x", data=bytes(data))).metadata
    data[metadata.row_group(0).column(0).data_page_offset + 100] ^= 1
    (tmp_path / "x").write_bytes(data)
    source = LocalStorage.at(tmp_path).open("x")
    assert some(source, [999]) == [(950, texts[950:])]
    with pytest.raises(CorruptFileError):
        some(source, [0])


def test_pages_that_only_arrow_reads():
    table = pa.table({"k": [f"k{n % 7}" for n in range(100)]})
    for changes in ({"use_dictionary": True}, {"data_page_version": "2.0"}):
        assert some(BytesReader(name="x", data=written(table, **changes)), [0]) is None


def test_what_our_writer_writes():
    keys = [f"key-{n}-ü" for n in range(5000)]
    data = bytes(write_base_file(pa.table({"k": keys, "p": ["same"] * 5000}), options=OPTIONS))
    assert joined(read(data)) == keys
    # A column that repeats got a dictionary.
    assert read(data, "p") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"use_dictionary": True},
        {"data_page_version": "2.0"},
        {"write_statistics": False},
        {"column_encoding": {"k": "DELTA_BYTE_ARRAY"}},
        {"column_encoding": {"k": "DELTA_LENGTH_BYTE_ARRAY"}},
    ],
)
def test_other_encodings_are_left_to_arrow(changes):
    table = pa.table({"k": [f"k{n % 7}" for n in range(100)]})
    assert read(written(table, **changes)) is None


@pytest.mark.parametrize(
    "values", [["a", None], [None], pa.array([1, 2]), pa.array([["a"]]), [{"b": "c"}]]
)
def test_nulls_and_other_types_are_left_to_arrow(values):
    assert read(written(pa.table({"k": values}))) is None


def test_an_absent_column_and_no_rows():
    data = written(pa.table({"k": pa.array([], pa.string())}))
    assert joined(read(data) or []) == []
    assert read(written(pa.table({"k": ["a"]})), "other") is None


@pytest.mark.parametrize("nullable", [True, False])
def test_texts_that_look_like_levels(nullable):
    """Empty ones, and a first one as long as the levels before it would be."""
    for texts in ([""], ["", ""], ["ab"], ["ab", "ab"], ["\x02\x01"], ["a" * 100, ""]):
        schema = pa.schema([pa.field("k", pa.string(), nullable)])
        assert joined(read(written(pa.table([texts], schema=schema)))) == texts


def footers_alive():
    """By their own types: a dead weak reference to anything refuses to be asked for its class."""
    return sum(type(item) is pq.FileMetaData for item in gc.get_objects())


def test_footers_go_with_their_readers():
    """Nothing may keep them until a collection of garbage: each has a bloom filter in it."""
    source = BytesReader(name="x", data=written(pa.table({"k": ["a", "b"]})))
    gc.collect()
    gc.disable()
    try:
        before = footers_alive()
        for _ in range(5):
            plain_strings(source, read_footer(source).metadata, "k")
        after = footers_alive()
    finally:
        gc.enable()
    assert after == before


def test_names_that_are_no_utf8_are_damage():
    content = written(pa.table({"zzzz": ["a"]})).replace(b"zzzz", b"\x80zzz")
    with pytest.raises(CorruptFileError, match="damaged footer"):
        read_footer(BytesReader(name="x", data=content))


def test_levels_of_no_number_of_bytes_are_damage():
    """A header in Thrift's compact form: version 2 of data pages, levels whose sizes are texts."""
    sizes = b"\x15\x06" + b"\x15\x00" + b"\x15\x00"
    header = sizes + b"\x5c" + b"\x58\x01a" + b"\x18\x01b" + b"\x00" + b"\x00"
    with pytest.raises(CorruptFileError, match=r"levels of .* bytes in a page of 0"):
        list(chunk_pages(header, range(len(header)), "GZIP", "x"))


def test_a_page_header_whose_type_is_a_struct_is_damage():
    content = bytearray(written(pa.table({"k": ["a"] * 30})))
    assert content[4:6] == b"\x15\x00", "an i32 of field 1"
    content[4] = 0x1C
    metadata = read_footer(BytesReader(name="x", data=bytes(content))).metadata
    with pytest.raises(CorruptFileError, match=r"a page of type \{\}"):
        plain_strings(BytesReader(name="x", data=bytes(content)), metadata, "k")


@given(st.data())
def test_damage_is_a_typed_error(data):
    """Of pages and of the footer, but columns are looked at by the good footer.

    Arrow 26 ends the process at a column whose size statistics contradict the schema, which one in
    five hundred damaged bytes of a footer makes them do.
    """
    good = written(pa.table({"k": [f"key {n}" for n in range(30)]}))
    metadata = read_footer(BytesReader(name="x", data=good)).metadata
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    source = BytesReader(name="x", data=bytes(content))
    with contextlib.suppress(CorruptFileError, UnsupportedTableError):
        read_footer(source)
    with contextlib.suppress(CorruptFileError, UnsupportedTableError):
        plain_strings(source, metadata, "k")
