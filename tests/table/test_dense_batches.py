"""Batches that reach all pages of a file: columns in which no row differs are copied."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_cases import (
    PAGE_ROWS,
    check_statistics,
    newest,
    of_ten_pages,
    paged,
    pages,
    pages_of,
    sizes,
)
from table_cases import by_hudi_rs, create, data_rows, rows

from keymark.table.write import write_group
from keymark.table.write.merge import Merge

KEY = "_hoodie_record_key"


def test_columns_that_stay_are_copied_even_if_all_pages_change(tmp_path):
    """A third of the batch is inserted, behind the pages that are updated."""
    table = of_ten_pages(tmp_path / "t")
    before = pages(newest(table))
    changed = [*range(0, 100, 9), *range(500, 506)]
    done = table.upsert(rows(changed, ts=3))
    assert (done.updated, done.inserted) == (12, 6)
    assert sizes(newest(table)) == [10] * 10 + [6]
    after = pages(newest(table))
    for number in range(10):
        kept = (KEY, "_hoodie_partition_path", "k", "v")
        assert all(after[number, name] == before[number, name] for name in kept)
        assert after[number, "ts"] != before[number, "ts"]
    # They join the last page while it has room.
    table.upsert(rows([*range(5, 100, 9), *range(506, 512)], ts=4))
    assert sizes(newest(table)) == [10] * 11 + [2]
    assert pages_of(newest(table), "k")[:10] == [before[number, "k"] for number in range(10)]
    wanted = {f"k{n}": 1 for n in range(100)} | dict.fromkeys([f"k{n}" for n in changed], 3)
    wanted |= {f"k{n}": 4 for n in [*range(5, 100, 9), *range(506, 512)]}
    path = str(newest(table))
    assert dict(duckdb.sql(f"select k, ts from read_parquet('{path}')").fetchall()) == wanted
    assert {key: row[2] for key, row in data_rows(table).items()} == wanted
    assert sorted(key for key, _, _ in by_hudi_rs(table.storage.root)) == sorted(wanted)
    check_statistics(newest(table))
    assert table.check().ok


@pytest.mark.parametrize("even", [True, False])
def test_nothing_is_left_of_values_that_all_rows_lost(tmp_path, even):
    """Neither in ranges nor in dictionaries, though the keys are copied.

    Where a page is shorter than the others, columns that change are written page by page.
    """
    table = create(tmp_path / "t", {PAGE_ROWS: "10"}, partition_path=None, ordering=None)
    keys = [f"k{n:03d}" for n in range(100)]
    gone = [] if even else ["gone"]
    loaded = {
        "k": [*keys[:55], *gone, *keys[55:]],
        "city": ["rome", None] * 50 + ["rome"] * len(gone),
        "n": range(100 + len(gone)),
    }
    table.bulk_insert(pa.table(loaded))
    if gone:
        table.delete(pa.table({"k": gone}))
    assert sizes(newest(table)) == ([10] * 10 if even else [10] * 5 + [9] + [10] * 4 + [1])
    before = pages_of(newest(table), "k")
    changed = {"k": keys, "city": [None, "bonn"] * 50, "n": range(1000, 1100)}
    table.upsert(pa.table(changed))
    assert pages_of(newest(table), "k") == before
    file = paged(newest(table))
    known = file.dictionary(0, file.names.index("city"), pa.string())
    assert known.values.to_pylist() == ["bonn"]
    group = pq.read_metadata(newest(table)).row_group(0)
    found = group.column(file.names.index("n")).statistics
    assert (found.min, found.max, found.null_count) == (1000, 1099, 0)
    assert group.column(file.names.index("city")).statistics.null_count == 50
    stored = pq.read_table(newest(table), columns=list(changed)).to_pydict()
    assert stored == {name: list(values) for name, values in changed.items()}


def test_columns_that_must_not_be_null_stay_so_where_they_are_written_anew():
    """Their pages have no levels."""
    merge = Merge(np.array([0, 3]), np.ones(2, bool), np.ones(2, np.uint8))
    schema = pa.schema(
        [
            pa.field("_hoodie_file_name", pa.string()),
            pa.field("n", pa.int64(), nullable=False),
            pa.field("m", pa.int64()),
        ]
    )
    incoming = pa.table([["f", "f"], [7, 8], [9, None]], schema=schema)
    stored = pa.table([[1, 2], [3, 4]], schema=pa.schema([schema.field("n"), schema.field("m")]))
    before = write_group._Before(None, None, None, stored, None, merge)
    found = write_group._columns_anew(before, incoming, "g", stored)
    assert [(item.name, item.nullable) for item in found.schema] == [
        ("_hoodie_file_name", True),
        ("n", False),
        ("m", True),
    ]
    assert found.to_pylist() == [
        {"_hoodie_file_name": "g", "n": 1, "m": 3},
        {"_hoodie_file_name": "g", "n": 8, "m": None},
    ]
