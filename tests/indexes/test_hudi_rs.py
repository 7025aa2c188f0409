"""hudi-rs finds the same rows in every table that an operation wrote, with every index."""

from __future__ import annotations

import pyarrow as pa
import pytest
from conformance import SMALL_FILTERS
from hudi import HudiTableBuilder

from keymark import Table

INDEXES = ("record", "global_simple", "simple", "global_bloom", "bloom", "bucket", "compact")
every_index = pytest.mark.parametrize("index", INDEXES)


def batch(numbers, *, version, shift=0):
    return pa.table(
        {
            "id": [f"k\U0001f600-{n}" for n in numbers],
            "dt": [f"2024-01-{(n + shift) % 3 + 1:02d}" for n in numbers],
            "ts": pa.array([version] * len(numbers), pa.int64()),
            "fare": [n / 3 for n in numbers],
            "note": [None if n % 5 == 0 else f"v{version} of {n}" for n in numbers],
        }
    )


@pytest.fixture
def table(index, tmp_path):
    buckets = {"hoodie.bucket.index.num.buckets": "2"} if index == "bucket" else {}
    return Table.create(
        str(tmp_path / "t"),
        record_key="id",
        partition_path="dt",
        ordering="ts",
        index=index,
        options={**SMALL_FILTERS, **buckets},
    )


def rows(tables):
    columns = ["_hoodie_record_key", "_hoodie_partition_path", "id", "dt", "ts", "fare", "note"]
    return sorted(map(repr, (row for t in tables for row in t.select(columns).to_pylist())))


def check(table, expected):
    ours = rows(table.scan().tables())
    theirs = HudiTableBuilder.from_base_uri(table.storage.root).build().read()
    assert rows(pa.Table.from_batches([part]) for part in theirs) == ours
    meta = [expected["id"], expected["dt"]]
    names = ["_hoodie_record_key", "_hoodie_partition_path", *expected.column_names]
    assert ours == rows([pa.table([*meta, *expected.columns], names=names)])


@every_index
def test_hudi_rs_reads_bulk_insert(table):
    table.bulk_insert(batch(range(30), version=1))
    check(table, batch(range(30), version=1))


@every_index
def test_hudi_rs_reads_upsert(table):
    table.bulk_insert(batch(range(30), version=1))
    table.upsert(batch(range(20, 40), version=2))
    check(table, pa.concat_tables([batch(range(20), version=1), batch(range(20, 40), version=2)]))


@every_index
def test_hudi_rs_reads_insert(table):
    table.insert(batch(range(30), version=1))
    table.insert(batch(range(30, 35), version=2))
    check(table, pa.concat_tables([batch(range(30), version=1), batch(range(30, 35), version=2)]))


@every_index
def test_hudi_rs_reads_delete(table):
    table.bulk_insert(batch(range(30), version=1))
    gone = table.delete(batch([*range(10), 99], version=1).select(["id", "dt"]))
    assert (gone.deleted, gone.unchanged) == (10, 1)
    check(table, batch(range(10, 30), version=1))


@pytest.mark.parametrize("index", ["record", "global_bloom"])
def test_hudi_rs_reads_moved_rows(index, tmp_path):
    moves = {"record": "record", "global_bloom": "bloom"}[index]
    table = Table.create(
        str(tmp_path / "t"),
        record_key="id",
        partition_path="dt",
        ordering="ts",
        index=index,
        options={**SMALL_FILTERS, f"hoodie.{moves}.index.update.partition.path": "true"},
    )
    table.bulk_insert(batch(range(30), version=1))
    assert table.upsert(batch(range(10), version=2, shift=1)).moved == 10
    moved = batch(range(10), version=2, shift=1)
    check(table, pa.concat_tables([batch(range(10, 30), version=1), moved]))
