"""Writes one by one: what they leave on storage, in the index and in the result."""

from __future__ import annotations

import pyarrow.parquet as pq
from table_cases import create, data_rows, latest_files, rows

from table.format.parquet import read_footer
from table.storage import LocalStorage


def test_a_file_group_whose_rows_are_all_deleted_stays_as_an_empty_file(tmp_path):
    """As with Hudi: no row group and no key range, but a bloom filter, which its indexes need."""
    root = tmp_path / "t"
    table = create(root)
    table.bulk_insert(rows(range(6)))
    assert table.delete(["k0", "k3"]).deleted == 2
    assert data_rows(table).keys() == {"k1", "k2", "k4", "k5"}
    (path,) = (path for (place, _), path in latest_files(root).items() if place == "p0")
    assert pq.ParquetFile(root / path).num_row_groups == 0
    footer = read_footer(LocalStorage.at(str(root)).open(path))
    assert (footer.num_rows, footer.min_key, footer.max_key) == (0, None, None)
    assert footer.bloom_text is not None
    assert table.upsert(rows([0, 9], partition="p0")).inserted == 2
    assert len(latest_files(root)) == 3
    assert data_rows(table).keys() == {"k0", "k1", "k2", "k4", "k5", "k9"}
