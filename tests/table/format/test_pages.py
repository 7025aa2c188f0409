"""Pages of Parquet files: all their bytes, whatever codec and version.

Strategy: files by pyarrow in every form; the plain values must be in the pages. Damaged files give
one kind of error.
"""

from __future__ import annotations

import contextlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.pages import pages

TABLE = pa.table(
    {
        "a": [f"text number {number}" for number in range(2000)],
        "b": ["x", "y", None, "z"] * 500,
        "n": [[str(number)] * (number % 3) for number in range(2000)],
        "i": list(range(2000)),
    }
)


def written(**options):
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=700, **options)
    data = sink.getvalue()
    return data, pq.read_metadata(io.BytesIO(data))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "zstd", "brotli", "lz4"])
def test_all_values_are_in_the_pages(codec, version):
    data, metadata = written(compression=codec, data_page_version=version, data_page_size=4096)
    found = list(pages(data, metadata, "f"))
    joined = b"".join(found)
    assert len(found) > 3 * TABLE.num_columns
    assert all(text.encode() in joined for text in TABLE["a"].to_pylist())
    assert b"text number 2000" not in joined


def test_a_dictionary_shows_values_that_no_row_has():
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["used", "unused-value"]))
    sink = io.BytesIO()
    pq.write_table(pa.table({"d": words}), sink, compression="gzip")
    data = sink.getvalue()
    assert "unused-value" not in str(pq.read_table(io.BytesIO(data)).to_pylist())
    assert b"unused-value" in b"".join(pages(data, pq.read_metadata(io.BytesIO(data)), "f"))


@pytest.mark.parametrize("columns", [False, ["n"]])
def test_columns_without_values(columns):
    """As a run of a secondary index has them where a table has no rows."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, pa.schema([("n", pa.int32())]), use_dictionary=columns) as writer:
        writer.write_table(pa.table({"n": pa.array([], pa.int32())}))
    data = sink.getvalue()
    assert b"".join(pages(data, pq.read_metadata(io.BytesIO(data)), "f")) in (b"", b"\0")


@given(st.data())
def test_damage_is_one_kind_of_error(data):
    codec = data.draw(st.sampled_from(["none", "gzip", "snappy", "zstd"]))
    good, metadata = written(compression=codec, data_page_version="2.0")
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        bad[data.draw(st.integers(4, len(bad) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptFileError):
        assert sum(len(page) for page in pages(bytes(bad), metadata, "f")) < 1 << 28


def test_a_cut_file():
    good, metadata = written(compression="gzip")
    with pytest.raises(CorruptFileError):
        list(pages(good[: len(good) // 2], metadata, "f"))
