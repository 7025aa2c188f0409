"""A purge of keys that are also names of partitions."""

from __future__ import annotations

import pytest
from purge_cases import entries, key_rows
from table_cases import create, data_rows

KEYS = [f"customer-{number:05d}" for number in range(6)]
STATS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.hfile.block.size": "150",
}


def _partition_emptied(root, key, **identity):
    """A table with a partition that is named by a key, and that has lost all of its rows."""
    table = create(root, STATS, **identity)
    table.upsert(key_rows([*KEYS[:2], "k18"], p=["x", "x", key]))
    table.delete(["k18"])
    return table


@pytest.mark.parametrize("index", ["record", "global_bloom", "compact"])
@pytest.mark.parametrize("key", ["ü", "__all_partitions__", "customer-of-a-partition"])
def test_a_key_that_is_the_name_of_a_partition(tmp_path, key, index):
    """Partitions keep their names, and those are no trace of a record's key."""
    partition = "y" if key == "__all_partitions__" else key
    table = _partition_emptied(tmp_path / "t", partition, index=index)
    report = table.purge([key, "k18"])
    assert (report.proven, report.files_left, report.keys_in_other_values) == (True, 0, 1)
    assert any("name of a partition" in note for note in report.notes)
    assert not any(key in note for note in report.notes)
    assert entries(tmp_path / "t", ["k18"]) == []
    assert set(data_rows(table)) == set(KEYS[:2])


def test_a_key_that_is_the_name_of_a_table_without_partitions_in_its_listing(tmp_path):
    table = create(tmp_path / "t", partition_path=None)
    table.upsert(key_rows([".", "k18"]))
    report = table.purge(["."])
    assert (report.proven, report.keys_in_other_values) == (True, 1)
    assert set(data_rows(table)) == {"k18"}


def test_a_key_within_the_name_of_a_partition_of_a_table_without_a_listing(tmp_path):
    table = create(tmp_path / "t", index="global_bloom")
    table.upsert(key_rows([*KEYS[:2], KEYS[5]], p=["x", "x", f"of {KEYS[5]}"]))
    table.drop_index("files")
    report = table.purge([KEYS[5]])
    assert (report.proven, report.keys_in_other_values) == (True, 1)
    assert entries(tmp_path / "t", [KEYS[5]]) == []


def test_a_partition_that_is_named_after_the_key_column_is_a_trace(tmp_path):
    """There the name of a partition tells that a record of that key existed."""
    table = create(tmp_path / "t", partition_path="k", index="global_bloom")
    table.upsert(key_rows(["ü", "k18"]))
    report = table.purge(["ü"])
    assert not report.proven
    assert report.files_left == 2
    assert any("name of a partition" in note for note in report.notes)


URL = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}


@pytest.mark.parametrize(
    ("key", "options", "fields"),
    [
        ("https://x/1", URL, "k"),
        ("ü", HIVE, "k"),
        ("a:b", URL | HIVE, "k"),
        ("4711", {}, "p,k"),
        ("4711", HIVE, "p,k"),
    ],
)
def test_a_trace_is_seen_in_a_name_however_it_is_written(tmp_path, key, options, fields):
    table = create(tmp_path / "t", options, partition_path=fields, index="global_bloom")
    table.upsert(key_rows([key, "k18"]))
    report = table.purge([key])
    assert not report.proven
    assert any("name of a partition" in note for note in report.notes)
    assert set(data_rows(table)) == {"k18"}
