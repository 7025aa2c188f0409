"""Small Parquet files that would become gigabytes are refused before Arrow decodes them."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from thrift_model import META, chunks_of, footer_of, groups_of, with_footer, write_struct

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import read_base_file, read_metadata
from keymark.table.format.parquet.bounds import check_size
from keymark.table.format.parquet.column_chunks import HeldChunks
from keymark.table.format.parquet.thrift import I32, I64, STRUCT
from keymark.table.storage.storage import BytesReader

# Fields of ColumnMetaData; of FileMetaData and RowGroup.
VALUES, UNCOMPRESSED, COMPRESSED, DATA_PAGE, DICTIONARY_PAGE, SIZES = 5, 6, 7, 9, 11, 16
ROWS = 3


def written(values, **options):
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": values}), sink, **options)
    return sink.getvalue()


def read(values, **options):
    return read_base_file(BytesReader(name="a.parquet", data=written(values, **options)))


def one_value(length, count):
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["x" * length])


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "none"])
def test_a_dictionary_of_one_long_value_is_refused(codec):
    with pytest.raises(CorruptFileError, match="would become 13,108,800,000 in memory"):
        read(one_value(65_536, 200_000), compression=codec)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "none"])
@pytest.mark.parametrize("pointer", ["absent", "zero", "behind it"])
def test_a_dictionary_that_the_footer_does_not_point_at_is_refused(pointer, codec):
    """Arrow reads pages from the start of the chunk, and takes the dictionary where it comes."""
    for length, count in ((65_536, 10_000), (100, 1_000)):
        data = written(one_value(length, count), compression=codec)
        footer = footer_of(data)
        (chunk,) = chunks_of(groups_of(footer)[0])
        _, meta = chunk[META]
        (_, start), (_, behind) = meta.pop(DICTIONARY_PAGE), meta[DATA_PAGE]
        meta[DATA_PAGE] = (I64, start)
        if pointer != "absent":
            meta[DICTIONARY_PAGE] = (I64, 0 if pointer == "zero" else behind)
        source = BytesReader(name="a.parquet", data=with_footer(data, footer))
        if length == 100:
            assert read_base_file(source)["v"].to_pylist() == ["x" * length] * count
            continue
        with pytest.raises(CorruptFileError, match="would become 655,440,000 in memory"):
            read_base_file(source)
        with pytest.raises(CorruptFileError, match="would become"):
            check_size(HeldChunks(source, {}), read_metadata(source), ["v"])


def test_a_dictionary_behind_another_page_is_refused():
    """A page of one null, at which the footer points as if it were the dictionary."""
    levels = b"\x02\0\0\0" + b"\x02\0"
    of_data = {1: (I32, 1), 2: (I32, 0), 3: (I32, 3), 4: (I32, 3)}
    page = bytearray()
    size = (I32, len(levels))
    write_struct(page, {1: (I32, 0), 2: size, 3: size, 5: (STRUCT, of_data)})
    page += levels
    data = written(one_value(65_536, 10_000), compression="none")
    footer = footer_of(data)
    (group,) = groups_of(footer)
    (chunk,) = chunks_of(group)
    _, meta = chunk[META]
    for fields, field, more in (
        *((meta, field, len(page)) for field in (UNCOMPRESSED, COMPRESSED, DATA_PAGE)),
        *((footer, ROWS, 1), (group, ROWS, 1), (meta, VALUES, 1)),
    ):
        fields[field] = (I64, fields[field][1] + more)
    # They count the levels of all values.
    del meta[SIZES]
    start = meta[DICTIONARY_PAGE][1]
    changed = with_footer(data[:start] + bytes(page) + data[start:], footer)
    with pytest.raises(CorruptFileError, match="would become 655,440,008 in memory"):
        read_base_file(BytesReader(name="a.parquet", data=changed))


def test_a_long_run_is_refused():
    with pytest.raises(CorruptFileError, match="would become"):
        read(pa.nulls(80_000_000, pa.int32()).fill_null(0))


def test_many_values_of_a_fixed_length_are_refused():
    """The schema says how long each is: in a dictionary stand no lengths."""
    part = pa.table({"v": pa.array([b"\0" * 1_024] * 32_768, pa.binary(1_024))})
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, part.schema, compression="gzip") as file:
        for _ in range(9):
            file.write_table(part)
    with pytest.raises(CorruptFileError, match="would become 304,349,184 in memory"):
        read_base_file(BytesReader(name="a.parquet", data=sink.getvalue()))


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
