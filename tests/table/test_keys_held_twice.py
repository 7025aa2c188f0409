"""A key that was inserted twice, when the table goes back to a time when it was there once."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from table_cases import DUP_POLICY, create, data_rows, latest_files, left_over, rows

from keymark.table.index.build import scan
from keymark.table.services.recover import held_keys, returning_keys

ONCE, TWICE = range(4), range(2, 5)


def places(table):
    """Where the index says that the keys of both inserts are."""
    return table.lookup([f"k{number}" for number in range(5)]).to_pylist()


def check(root, table, before):
    """All is as it was before the keys came again, and a key that is there is not added."""
    assert places(table) == before
    assert table.check().ok
    assert data_rows(table, keys=["k2"]).keys() == {"k2"}
    assert left_over(root) == []
    result = table.upsert(rows([2, 4], ts=9, partition="p0"))
    assert (result.updated, result.inserted) == (1, 1)
    assert sum(pq.read_metadata(root / path).num_rows for path in latest_files(root).values()) == 5
    assert table.check().ok


@pytest.mark.parametrize("again", ["bulk_insert", "insert"])
@pytest.mark.parametrize("merged", [None, "compact", "reshard"])
def test_a_rollback_leaves_the_entry_of_the_row_that_stays(tmp_path, merged, again):
    """Whether the log blocks of the index still tell where it is, or only base files do."""
    table = create(tmp_path / "t", {DUP_POLICY: "none"})
    table.bulk_insert(rows(ONCE, partition="p0"))
    before = places(table)
    second = getattr(table, again)(rows(TWICE, ts=2, partition="p1"))
    assert [place["partition_path"] for place in places(table)] == ["p0"] * 2 + ["p1"] * 3
    if merged == "compact":
        assert table.compact()
    elif merged == "reshard":
        table.reshard_index(4)
    table.rollback(second.instant)
    check(tmp_path / "t", table, before)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_restore_leaves_the_entry_also_where_the_file_group_was_written_to(tmp_path, compacted):
    """The key is in both slices of a file group that goes back: it neither comes nor goes there."""
    table = create(tmp_path / "t", {DUP_POLICY: "none"})
    table.bulk_insert(rows(ONCE, partition="p0"))
    before, saved = places(table), table.savepoint()
    table.bulk_insert(rows(TWICE, ts=2, partition="p1"))
    table.upsert(rows([0, 7], ts=3, partition="p0"))
    if compacted:
        assert table.compact()
    table.upsert(rows([3], ts=4, partition="p1"))
    table.restore(saved)
    check(tmp_path / "t", table, before)


def test_each_rollback_goes_back_by_one_insert(tmp_path):
    """What an earlier rollback has put counts as well."""
    table = create(tmp_path / "t", {DUP_POLICY: "none"})
    table.bulk_insert(rows(ONCE, partition="p0"))
    before = places(table)
    inserts = [table.bulk_insert(rows(TWICE, partition=path)) for path in ("p1", "p2")]
    table.rollback(inserts.pop().instant)
    assert [place["partition_path"] for place in places(table)] == ["p0"] * 2 + ["p1"] * 3
    inserts.append(table.bulk_insert(rows(TWICE, partition="p2")))
    table.rollback(inserts.pop().instant)
    assert [place["partition_path"] for place in places(table)] == ["p0"] * 2 + ["p1"] * 3
    table.rollback(inserts.pop().instant)
    check(tmp_path / "t", table, before)


def test_a_rollback_of_an_upsert_reads_the_keys_of_its_own_files_only(tmp_path, monkeypatch):
    table = create(tmp_path / "t")
    table.bulk_insert(rows(range(20)))
    read = []

    def record_keys(storage, file, stored, real=scan.record_keys):
        read.append(file.partition_path)
        return real(storage, file, stored)

    monkeypatch.setattr(held_keys, "record_keys", record_keys)
    monkeypatch.setattr("keymark.table.index.build.changes.record_keys", record_keys)
    second = table.upsert(rows([0, 30], ts=2, partition="p0"))
    table.rollback(second.instant)
    assert set(read) == {"p0"}
    assert table.check().ok
    # A compaction has merged what the index was before.
    second = table.upsert(rows([0, 30], ts=3, partition="p0"))
    table.compact()
    table.rollback(second.instant)
    assert set(read) == {"p0", "p1", "p2"}
    assert table.check().ok


def test_nothing_is_searched_where_no_key_goes(tmp_path, monkeypatch):
    table = create(tmp_path / "t")
    table.bulk_insert(rows(range(20)))
    second = table.upsert(rows(range(10), ts=2))
    monkeypatch.setattr(returning_keys, "HeldSearch", None)
    monkeypatch.setattr(returning_keys, "_index_then", None)
    table.rollback(second.instant)
    assert table.check().ok
