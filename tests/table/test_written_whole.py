"""Files that a batch makes their writer write whole, though its table copies pages."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from page_cases import CODEC, PAGE_ROWS, newest, of_ten_pages, paged, sizes
from table_cases import create, rows

from keymark import Table


def test_a_file_is_written_whole_where_most_pages_lose_rows(tmp_path):
    table = of_ten_pages(tmp_path / "t")
    table.delete(rows(range(0, 60, 10)))
    assert sizes(newest(table)) == [10] * 9 + [4]


def test_a_file_is_written_whole_where_a_dictionary_gets_too_large(tmp_path):
    """Otherwise it would keep the values of all batches."""
    table = create(tmp_path / "t", {PAGE_ROWS: "10"}, partition_path=None, ordering=None)
    keys = [f"k{n:03d}" for n in range(100)]
    table.bulk_insert(pa.table({"k": keys, "city": ["rome", "oslo"] * 50}))

    def city():
        file = paged(newest(table))
        return file.chunks[0][file.names.index("city")]

    for share in (20, 60):
        assert city().dictionary is not None
        cities = [f"town-{share}-{n}" for n in range(share)]
        table.upsert(pa.table({"k": keys[:share], "city": cities}))
        assert sizes(newest(table)) == [10] * 10
        found = pq.read_table(newest(table), columns=["city"])["city"].to_pylist()
        assert found == cities + ["rome", "oslo"] * ((100 - share) // 2)
    assert city().dictionary is None


def test_another_codec_writes_the_file_whole(tmp_path):
    table = of_ten_pages(tmp_path / "t")
    table = Table.open(table.storage.root, options={PAGE_ROWS: "10", CODEC: "zstd"})
    table.upsert(rows([5], ts=3))
    assert sizes(newest(table)) == [10] * 10
    chunk = pq.read_metadata(newest(table)).row_group(0).column(0)
    assert (chunk.compression, chunk.has_dictionary_page) == ("ZSTD", True)


def test_zero_rows_switch_it_off(tmp_path):
    table = create(tmp_path / "t", {PAGE_ROWS: "0"}, partition_path=None)
    table.bulk_insert(rows(range(9000)))
    table.upsert(rows([5], ts=2))
    assert len(sizes(newest(table))) == 1
