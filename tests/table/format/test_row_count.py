"""Row counts from the first bytes of a footer, against Arrow's whole reading."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet import row_count as module
from keymark.table.format.parquet.base_file import BaseFileOptions, write_base_file
from keymark.table.format.parquet.row_count import row_count
from keymark.table.storage.storage import BytesReader

KINDS = (
    pa.int32(),
    pa.string(),
    pa.decimal128(20, 3),
    pa.timestamp("us"),
    pa.list_(pa.struct([("a", pa.int64())])),
    pa.map_(pa.string(), pa.float64()),
    pa.bool_(),
)


def file_of(rows: int, columns: int) -> bytes:
    arrays = {f"c{n}": pa.nulls(rows, KINDS[n % len(KINDS)]) for n in range(columns)}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), sink)
    return sink.getvalue().to_pybytes()


class Counting:
    """A reader that adds up what is read."""

    def __init__(self, data: bytes) -> None:
        self.name, self.size, self.data, self.total = "x", len(data), data, 0

    def read(self, offset: int, length: int) -> bytes:
        self.total += length
        return self.data[offset : offset + length]


@given(st.integers(0, 300), st.integers(1, 40))
def test_as_arrow_counts(rows, columns):
    assert row_count(BytesReader(name="x", data=file_of(rows, columns))) == rows


def test_the_bloom_filter_is_not_read():
    keys = pa.table({"_hoodie_record_key": [f"k{n}" for n in range(1000)]})
    source = Counting(bytes(write_base_file(keys, options=BaseFileOptions())))
    assert row_count(source) == 1000
    assert source.size > 400_000
    assert source.total < 20_000


def test_a_long_schema_falls_back_to_the_whole_footer(monkeypatch):
    monkeypatch.setattr(module, "_HEAD_BYTES", 50)
    assert row_count(BytesReader(name="x", data=file_of(7, 20))) == 7


@given(st.data())
def test_damage_is_one_typed_error(data):
    content = bytearray(file_of(3, 4))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptFileError):
        assert row_count(BytesReader(name="x", data=bytes(content))) >= 0


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"x" * 99]
)
def test_what_is_no_parquet_file_is_refused(data):
    with pytest.raises(CorruptFileError):
        row_count(BytesReader(name="x", data=data))
