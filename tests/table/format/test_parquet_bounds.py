"""Small Parquet files that would become gigabytes are refused before Arrow decodes them."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import read_base_file
from keymark.table.storage.storage import BytesReader


def read(values, **options):
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": values}), sink, **options)
    return read_base_file(BytesReader(name="a.parquet", data=sink.getvalue()))


def one_value(length, count):
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["x" * length])


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "none"])
def test_a_dictionary_of_one_long_value_is_refused(codec):
    with pytest.raises(CorruptFileError, match="would become 13,108,800,000 in memory"):
        read(one_value(65_536, 200_000), compression=codec)


def test_a_long_run_is_refused():
    with pytest.raises(CorruptFileError, match="would become"):
        read(pa.nulls(80_000_000, pa.int32()).fill_null(0))


def test_long_texts_in_lists_are_refused():
    with pytest.raises(CorruptFileError, match="would become"):
        read(pa.array([["x" * 65_536]] * 20_000))


def test_repeated_values_of_usual_length_are_read():
    assert read(one_value(100, 500_000)).num_rows == 500_000
    assert read(one_value(100, 1)).num_rows == 1
    assert read(pa.array([["berlin"]] * 1_000)).num_rows == 1_000
    assert read(pa.nulls(1_000_000, pa.string())).num_rows == 1_000_000
    with pytest.raises(CorruptFileError, match="would become"):
        read(pa.nulls(80_000_000, pa.string()))


def test_one_long_value_among_short_ones_is_read():
    assert read(pa.array(["berlin"] * 100_000 + ["x" * 100_000])).num_rows == 100_001
