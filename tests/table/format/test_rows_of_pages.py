"""Some rows of a file, from the pages that hold them, are those of the whole file."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet import base_file, inflated, paged_file
from keymark.table.format.parquet.base_file import (
    BaseFileOptions,
    FooterOptions,
    read_base_file,
    read_footer,
    write_base_file,
)
from keymark.table.format.parquet.chosen_rows import chosen_rows
from keymark.table.format.parquet.file_body import FileBody
from keymark.table.storage.storage import BytesReader

ROWS, PAGE = 600, 50
SMALL = FooterOptions(bloom_entries=100, bloom_fpp=1e-3, bloom_max_entries=200)
UNEVEN = {"data_page_size": 900, "write_batch_size": 7}
"""Columns of longer values end their pages earlier."""
PLACES = ([0], [ROWS - 1], [3, 4, 299, 300], range(0, ROWS, 37), range(ROWS))


def table_of():
    numbers = range(ROWS)
    keys = [f"key {n:05d}" for n in numbers]
    columns = {
        "_hoodie_commit_time": ["20240101000000000"] * ROWS,
        "_hoodie_commit_seqno": [f"20240101000000000_0_{n}" for n in numbers],
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": ["p"] * ROWS,
        "_hoodie_file_name": ["f.parquet"] * ROWS,
        "number": [None if n % 11 == 0 else n for n in numbers],
        "city": [f"city {n % 7}" for n in numbers],
        "text": ["x" * (n % 40) for n in numbers],
        "flag": [n % 3 == 0 for n in numbers],
        "price": [decimal.Decimal(n) / 4 for n in numbers],
        "day": [dt.date(2024, 1, 1) + dt.timedelta(days=n) for n in numbers],
        "at": pa.array([1000 * n for n in numbers], pa.timestamp("us", "UTC")),
        "tags": [[str(n)] * (n % 3) for n in numbers],
        "place": [{"lat": n / 8, "name": f"n{n}"} for n in numbers],
    }
    return pa.table(columns)


def file_of(**options):
    told = BaseFileOptions(footer=SMALL, **options)
    data = write_base_file(table_of(), options=told, path="p/f.parquet")
    return BytesReader(name="p/f.parquet", data=data)


def taken(file, places):
    footer = read_footer(file)
    numbers = np.asarray(places, np.int64)
    return chosen_rows(file, footer.metadata, numbers)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "uncompressed"])
@pytest.mark.parametrize("page_rows", [None, PAGE])
@pytest.mark.parametrize("block_size", [1 << 27, 20_000])
def test_the_rows_are_those_of_the_whole_file(codec, page_rows, block_size):
    file = file_of(codec=codec, page_rows=page_rows, block_size=block_size)
    assert (read_footer(file).metadata.num_row_groups > 1) == (block_size == 20_000)
    whole = read_base_file(file)
    for places in PLACES:
        found = taken(file, places).select(whole.column_names)
        assert found.equals(whole.take(list(places)))


def test_columns_may_end_their_pages_at_different_rows(monkeypatch):
    monkeypatch.setattr(base_file, "_PAGES", UNEVEN)
    file = file_of(page_rows=ROWS)
    footer = read_footer(file)
    group = footer.metadata.row_group(0)
    leaves = [group.column(number).path_in_schema for number in range(group.num_columns)]
    body = FileBody.of(file.data, file.name)
    sets = paged_file.PagedFile.alike(
        body, footer.checksums, leaves, columns=leaves, groups=range(footer.metadata.num_row_groups)
    )
    assert len(sets) > 2
    assert not {"tags", "place"} & {name for columns, _ in sets for name in columns}
    whole = read_base_file(file)
    for places in PLACES:
        found = taken(file, places).select(whole.column_names)
        assert found.equals(whole.take(list(places)))


def test_pages_without_a_row_are_not_inflated(monkeypatch):
    file = file_of(page_rows=PAGE)
    sizes = []
    inflate = inflated.inflate

    def counted(page, size, place):
        sizes.append(size)
        return inflate(page, size, place)

    monkeypatch.setattr(inflated, "inflate", counted)
    taken(file, range(ROWS))
    whole = sum(sizes)
    sizes.clear()
    taken(file, [PAGE])
    # Dictionaries and nested columns are read whole.
    assert 0 < sum(sizes) < whole / 2


def test_of_the_columns_asked_only_those_are_looked_at():
    """Damage elsewhere is found by whoever reads that; a column that is not there stays away."""
    file = file_of(page_rows=PAGE, block_size=20_000)
    footer = read_footer(file)
    data = bytearray(file.data)
    last = footer.metadata.num_row_groups - 1
    assert last > 0
    for group, name in ((0, "text"), (last, "number")):
        chunks = footer.metadata.row_group(group)
        numbers = range(chunks.num_columns)
        (chunk,) = [chunks.column(n) for n in numbers if chunks.column(n).path_in_schema == name]
        data[chunk.data_page_offset] ^= 1
    damaged = BytesReader(name=file.name, data=bytes(data))
    asked = ["place", "number", "absent"]
    whole = read_base_file(file).select(["place", "number"])
    # A nested column is read whole, of all row groups.
    found = chosen_rows(damaged, footer.metadata, np.array([3, 60]), asked)
    assert found.select(whole.column_names).equals(whole.take([3, 60]))
    for places, names in (([3], ["text"]), ([ROWS - 1], ["number"])):
        with pytest.raises(CorruptFileError, match="checksum of column chunk"):
            chosen_rows(damaged, footer.metadata, np.array(places), names)


@pytest.mark.parametrize("column", ["_hoodie_record_key", "number", "tags"])
def test_a_damaged_column_is_an_error_wherever_its_page_is(column):
    file = file_of(page_rows=PAGE)
    group = read_footer(file).metadata.row_group(0)
    numbers = range(group.num_columns)
    (chunk,) = [
        group.column(n) for n in numbers if group.column(n).path_in_schema.startswith(column)
    ]
    data = bytearray(file.data)
    data[chunk.data_page_offset + chunk.total_compressed_size - 5] ^= 1
    with pytest.raises(CorruptFileError, match=r"p/f\.parquet"):
        taken(BytesReader(name=file.name, data=bytes(data)), [0])
