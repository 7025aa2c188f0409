"""Files of small pages, and what lies in them, for tests of copied pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from table_cases import create, rows

from keymark.table.format.parquet.base_file import read_footer
from keymark.table.format.parquet.column_choice import leaves_of
from keymark.table.format.parquet.paged_file import PagedFile
from keymark.table.storage.storage import BytesReader
from keymark.table.write.page_layout import columns_apart

PAGE_ROWS = "keymark.parquet.page.rows"
CODEC = "hoodie.parquet.compression.codec"
FILE_NAME = "_hoodie_file_name"


def newest(table):
    """The file of the only file group that was written last."""
    paths = Path(table.storage.root).rglob("*.parquet")
    return max(paths, key=lambda path: path.name.rpartition("_")[2])


def paged(path):
    """A file by its pages; None where they end at different rows."""
    source = BytesReader(name=path.name, data=path.read_bytes())
    schema = pq.read_schema(path)
    leaves = [leaf.partition(".")[0] for leaf in leaves_of(schema.empty_table())]
    checksums = read_footer(source).checksums
    return PagedFile.of(source, checksums, leaves, apart=columns_apart(schema))


def sizes(path):
    """The rows of each page."""
    return np.diff(paged(path).starts).tolist()


def of_ten_pages(path, *, record_key="k", **options):
    """A table of one file of 100 rows in ten pages."""
    table = create(path, {PAGE_ROWS: "10", **options}, partition_path=None, record_key=record_key)
    table.bulk_insert(rows(range(100)))
    assert sizes(newest(table)) == [10] * 10
    return table


def pages(path):
    """(page, column) -> its bytes with its header, without the column of file names."""
    file = paged(path)
    return {
        (number, name): bytes(file.body.data[page.start : page.end])
        for name, chunk in zip(file.names, file.chunks[0], strict=True)
        for number, page in enumerate(chunk.pages)
        if name != FILE_NAME
    }


def pages_of(path, name):
    """The pages of a column."""
    file = paged(path)
    chunk = file.chunks[0][file.names.index(name)]
    return [bytes(file.body.data[page.start : page.end]) for page in chunk.pages]


def check_statistics(path):
    """Counts of nulls are exact, and all values lie in the range."""
    file = pq.ParquetFile(path)
    for number in range(file.num_row_groups):
        group, found = file.metadata.row_group(number), file.read_row_group(number)
        for column, name in enumerate(found.column_names):
            chunk = group.column(column)
            assert chunk.num_values == found.num_rows == group.num_rows
            if chunk.statistics is None:
                continue
            assert chunk.statistics.null_count == found[name].null_count
            if chunk.statistics.has_min_max:
                low, high = chunk.statistics.min, chunk.statistics.max
                values = found[name].drop_null().to_pylist()
                assert all(low <= value <= high for value in values), name
