"""Row groups of footers moved as bytes, against a model that reads and writes all of them."""

from __future__ import annotations

import contextlib
import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thrift_model import chunks_of, footer_of, groups_of, with_footer, write_struct

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet import footer_groups
from keymark.table.format.parquet.file_body import FileBody
from keymark.table.format.parquet.page_scan import scan_pages
from keymark.table.format.parquet.pages import page_headers
from keymark.table.format.parquet.thrift import I64, LIST, STRUCT

META = 3
# Fields of ColumnMetaData and RowGroup by slot.
CHUNK_NUMBERS = {
    footer_groups.CODEC: 4,
    footer_groups.VALUES: 5,
    footer_groups.UNCOMPRESSED: 6,
    footer_groups.COMPRESSED: 7,
    footer_groups.DATA_PAGE: 9,
    footer_groups.DICTIONARY_PAGE: 11,
}
GROUP_NUMBERS = {
    footer_groups.GROUP_UNCOMPRESSED: 2,
    footer_groups.GROUP_ROWS: 3,
    footer_groups.GROUP_OFFSET: 5,
    footer_groups.GROUP_COMPRESSED: 6,
    footer_groups.ORDINAL: 7,
}
OPTIONS = st.fixed_dictionaries(
    {
        "row_group_size": st.integers(1, 40),
        "compression": st.sampled_from(["none", "gzip", "snappy"]),
        "use_dictionary": st.booleans(),
        "write_statistics": st.booleans(),
        "data_page_size": st.sampled_from([16, 1 << 20]),
    }
)


def written(rows, columns, **options):
    """A Parquet file of columns of several types; more than 14 of them take a long list."""
    rng = random.Random(rows)
    kinds = [
        [rng.randrange(9) for _ in range(rows)],
        [f"text {rng.randrange(10 ** rng.randrange(6))}" for _ in range(rows)],
        pa.array([[1, None][: n % 3] if n % 4 else None for n in range(rows)], pa.list_(pa.int8())),
        pa.nulls(rows, pa.string()),
        [{"a": rng.random(), "b": None} for _ in range(rows)],
    ]
    table = pa.table({f"c{n}": kinds[n % len(kinds)] for n in range(columns)})
    # Structs of no rows have no fields by which they could be written.
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False, **options)
    return sink.getvalue()


def groups_in(text):
    """The row groups in the value of the footer's field 4."""
    footer = b"\x49" + text + b"\x00"
    return groups_of(footer_of(footer + len(footer).to_bytes(4, "little") + b"PAR1"))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20), OPTIONS)
def test_row_groups_come_out_as_they_are(rows, columns, options):
    data = written(rows, columns, **options)
    body, footer = FileBody.of(data, "f"), footer_of(data)
    assert body.groups.movable
    assert [body.meta(0, n).keys() for n in range(body.groups.shape[1])] == [
        chunk[META][1].keys() for chunk in chunks_of(groups_of(footer)[0])
    ]
    assert groups_in(body.groups.data.tobytes()) == groups_of(footer)
    again = body.closed({b"k": b"v"}, None)
    assert footer_of(again) == {**footer, 5: (LIST, (STRUCT, [{1: (8, b"k"), 2: (8, b"v")}]))}
    assert pq.read_table(io.BytesIO(again)).equals(pq.read_table(io.BytesIO(data)))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 17), OPTIONS, st.randoms(use_true_random=False))
def test_numbers_are_set_as_a_model_does(rows, columns, options, rng):
    data = written(rows, columns, **options)
    groups, model = FileBody.of(data, "f").groups, groups_of(footer_of(data))
    of_chunks, of_groups = {}, {}
    for slot, number in CHUNK_NUMBERS.items():
        values = [rng.randrange(1 << rng.randrange(1, 31)) for _ in groups.chunks]
        of_chunks[slot] = np.array(values)
        for chunk, value in zip([c for g in model for c in chunks_of(g)], values, strict=True):
            meta = chunk[META][1]
            if number in meta:
                meta[number] = (meta[number][0], value)
    for slot, number in GROUP_NUMBERS.items():
        values = [rng.randrange(1 << rng.randrange(1, 15)) for _ in groups.groups]
        of_groups[slot] = np.array(values)
        for group, value in zip(model, values, strict=True):
            if number in group:
                group[number] = (group[number][0], value)
    assert groups_in(groups.with_numbers(of_chunks, of_groups).data.tobytes()) == model


def test_chunks_that_refer_to_more_than_pages_are_not_movable():
    assert not FileBody.of(written(9, 2, write_page_index=True), "f").groups.movable
    for number in (10, 14, 15, 20):
        data = written(9, 2)
        footer = footer_of(data)
        chunks_of(groups_of(footer)[0])[1][META][1][number] = (I64, 7)
        assert not FileBody.of(with_footer(data, footer), "f").groups.movable


@pytest.mark.parametrize("number", [9, 11, 7])
@pytest.mark.parametrize("value", [-1, 1 << 20, 1 << 61, -(1 << 61)])
def test_places_outside_of_the_file_are_refused(number, value):
    data = written(50, 3, use_dictionary=True)
    footer = footer_of(data)
    chunks_of(groups_of(footer)[0])[1][META][1][number] = (I64, value)
    with pytest.raises(CorruptFileError, match=r"^f.* column chunk 1 .* outside"):
        FileBody.of(with_footer(data, footer), "f")


@pytest.mark.parametrize("missing", [4, 5, 6, 7, 9])
def test_chunks_without_their_numbers_are_refused(missing):
    data = written(50, 3)
    footer = footer_of(data)
    del chunks_of(groups_of(footer)[0])[2][META][1][missing]
    with pytest.raises(CorruptFileError, match="row groups that cannot be read"):
        FileBody.of(with_footer(data, footer), "f")


def of_footer(footer):
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        b"\x00",
        # Structs in structs in structs.
        b"\x2c" * 5000,
        # A list of lists of lists.
        b"\x29" + b"\x19" * 5000,
        # Row groups, and in the second case columns, beyond all bounds.
        b"\x29\x1c\x00\x29" + b"\xfc\xff\xff\xff\xff\xff\x0f" + b"\x00",
        b"\x29\x1c\x00\x29" + b"\xfc\x90\x4e" + b"\x19\xfc\x90\x4e" * 2500 + b"\x00",
        b"\x29\x1c\x00\x29" + b"\xfc\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" + b"\x00",
        # A row group with two lists of columns.
        b"\x29\x1c\x00\x29\x1c" + b"\x19\x0c\x09\x02\x0c\x26\x02\x00" + b"\x00",
    ],
)
def test_hostile_footers_are_refused_at_once(footer):
    with pytest.raises(CorruptFileError, match=r"^f"):
        FileBody.of(of_footer(footer), "f")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_footers_end_in_one_typed_error(data):
    good = written(30, 5, row_group_size=8, use_dictionary=True)
    start = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    footer = bytearray(good[start:-8])
    for _ in range(data.draw(st.integers(1, 4))):
        footer[data.draw(st.integers(0, len(footer) - 1))] = data.draw(st.integers(0, 255))
    del footer[data.draw(st.integers(len(footer) // 2, 2 * len(footer))) :]
    file = good[:start] + bytes(footer) + len(footer).to_bytes(4, "little") + b"PAR1"
    with contextlib.suppress(CorruptFileError):
        body = FileBody.of(file, "f")
        ends = body.groups.starts + body.groups.of_chunks(footer_groups.COMPRESSED)
        assert (body.groups.starts >= 0).all()
        assert (ends <= len(body.data)).all()
        # The model reads as many row groups.
        assert len(groups_in(body.groups.data.tobytes())) == len(body.groups.groups)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), OPTIONS, st.sampled_from(["1.0", "2.0"]), st.booleans())
def test_pages_are_found_as_a_model_finds_them(rows, options, version, checksums):
    data = written(rows, 5, data_page_version=version, write_page_checksum=checksums, **options)
    groups = FileBody.of(data, "f").groups
    starts = groups.starts
    ends = starts + groups.of_chunks(footer_groups.COMPRESSED)
    found = scan_pages(np.frombuffer(data, np.uint8), starts, ends=ends, name="f")
    wanted = []
    for chunk, place in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        for header, start, end in page_headers(data, range(*place), "f"):
            inner = header.get(5, {})
            numbers = (header[1], header[2], header[3], int(4 in header))
            told = tuple(inner.get(number, -1) for number in (1, 2, 3))
            wanted.append((*numbers, *told, chunk, start, end))
    assert [(*page[:8], page.page, page.end) for page in found] == wanted
    for page in found:
        out = bytearray()
        write_struct(out, {1: (I64, page.compressed)})
        assert data[page.size_start : page.size_end] == out[1:-1]
    assert [page.start for page in found if page.start in starts] == starts.tolist()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_pages_end_in_one_typed_error(data):
    file = written(30, 2, data_page_size=16)
    groups = FileBody.of(file, "f").groups
    starts = groups.starts
    ends = starts + groups.of_chunks(footer_groups.COMPRESSED)
    content = np.frombuffer(file, np.uint8).copy()
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(4, int(ends[-1]) - 1))] = data.draw(st.integers(0, 255))
    content.flags.writeable = False
    with contextlib.suppress(CorruptFileError):
        for page in scan_pages(content, starts, ends=ends, name="f"):
            assert starts[page.chunk] <= page.start < page.page <= page.end <= ends[page.chunk]
