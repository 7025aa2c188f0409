"""A worker of two is killed in the middle of a write: it takes longer, and the result is exact.

Run by `test_cluster.py` in a process of its own; `--cluster full` runs those too that are not
named `share`.
"""

from __future__ import annotations

import os

import pytest
from killing import AFTER, BEFORE, KillingStorage, Strike
from table_cases import (
    by_hudi_rs,
    by_listing,
    create,
    data_rows,
    files_listed,
    files_stored,
    left_over,
    rows,
)

from keymark import Table
from keymark.table.properties.options import BATCH_COLLECT, LOCAL_BYTES

ON_EXECUTORS = {LOCAL_BYTES: "0"}
SHARD = r"^\.hoodie/metadata/record_index/"
MERGED = SHARD + r".*\.hfile$"
DATA = r"^p\d/.*\.parquet$"
KEY_FILE = r"\.keys$"
SPOOL = r"\.rows$"
COMMIT = r"^\.hoodie/\d+\.commit$"

LOADED, UPDATED = range(300), range(200, 400)
UPSERTS = [
    pytest.param(call, path, moment, outlives, id=name)
    for name, call, path, moment, outlives in (
        ("share_tag", "open", SHARD, AFTER, False),
        ("write_before_the_file", "put", DATA, BEFORE, False),
        ("share_write_after_the_file", "put", DATA, AFTER, False),
        ("write_outlived", "put", DATA, BEFORE, True),
        ("index_before_the_log", "put", SHARD, BEFORE, False),
        ("share_index_after_the_log", "put", SHARD, AFTER, False),
        ("index_outlived", "put", SHARD, BEFORE, True),
    )
]
LARGE = [
    pytest.param(path, moment, id=name)
    for name, path, moment in (
        ("share_prepare", SPOOL, AFTER),
        ("write_before_the_file", DATA, BEFORE),
        ("share_write_after_the_file", DATA, AFTER),
    )
]
BULKS = [
    pytest.param(path, moment, id=name)
    for name, path, moment in (
        ("share_write", DATA, AFTER),
        ("keys", KEY_FILE, AFTER),
        ("index", SHARD, AFTER),
    )
]


@pytest.fixture
def workers(cluster):
    """Both workers live again before a test."""
    cluster.fill(2)
    return cluster.workers


def strike_at(folder, **changes):
    return Strike(flag=str(folder / "flag"), driver=os.getpid(), **{"victim": 0, **changes})


def armed(table, strike, spark, **options):
    storage = KillingStorage(table.storage.root, strike=strike)
    return Table(storage, {**ON_EXECUTORS, **options}, spark=spark)


def framed(spark, table):
    """Rows as a frame of three partitions."""
    made = spark.createDataFrame(table.to_pylist(), "k string, p string, ts long, v string")
    return made.repartition(3)


def expected(loaded, updated=()):
    first = {row["k"]: tuple(row.values()) for row in rows(loaded).to_pylist()}
    later = rows(updated, ts=2, value="w").to_pylist()
    return first | {row["k"]: tuple(row.values()) for row in later}


def check_exact(root, rows_):
    """Rows once each, an index and a listing that are true, nothing left behind."""
    table = Table.open(root)
    assert data_rows(table) == rows_
    assert {key: row for key, (_, row) in by_listing(root).items()} == rows_
    assert sorted(key for key, _, _ in by_hudi_rs(root)) == sorted(rows_)
    assert table.check().ok
    assert table.check().keys == len(rows_)
    assert files_listed(table) == files_stored(root)
    assert left_over(root) == []


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(("call", "path", "moment", "outlives"), UPSERTS)
def test_a_worker_dies_in_an_upsert(tmp_path, spark, call, path, moment, outlives):
    table = create(tmp_path / "t")
    table.upsert(rows(LOADED))
    strike = strike_at(tmp_path, call=call, path=path, moment=moment, outlives=outlives)
    result = armed(table, strike, spark).upsert(rows(UPDATED, ts=2, value="w"))
    assert (tmp_path / "flag").read_text() == "task"
    assert (result.updated, result.inserted) == (100, 100)
    check_exact(tmp_path / "t", expected(LOADED, UPDATED))


def test_share_a_worker_dies_while_the_driver_commits(tmp_path, spark, workers):
    table = create(tmp_path / "t")
    table.upsert(rows(LOADED))
    victim = workers[0].process.pid
    strike = strike_at(tmp_path, call="put", path=COMMIT, moment=BEFORE, victim=victim)
    writer = armed(table, strike, spark)
    assert writer.upsert(rows(UPDATED, ts=2, value="w")).updated == 100
    assert (tmp_path / "flag").read_text() == "driver"
    check_exact(tmp_path / "t", expected(LOADED, UPDATED))
    # On the worker that is left.
    assert writer.delete([f"k{n}" for n in UPDATED]).deleted == 200
    check_exact(tmp_path / "t", expected(range(200)))


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("outlives", [False, True])
def test_a_worker_dies_in_a_compaction(tmp_path, spark, outlives):
    table = create(tmp_path / "t")
    table.upsert(rows(LOADED))
    strike = strike_at(tmp_path, call="put", path=MERGED, moment=AFTER, outlives=outlives)
    assert armed(table, strike, spark).compact() is not None
    assert (tmp_path / "flag").read_text() == "task"
    check_exact(tmp_path / "t", expected(LOADED))


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(("path", "moment"), LARGE)
def test_a_worker_dies_in_a_large_upsert(tmp_path, spark, path, moment):
    table = create(tmp_path / "t")
    table.upsert(rows(LOADED))
    strike = strike_at(tmp_path, call="put", path=path, moment=moment)
    batch = framed(spark, rows(UPDATED, ts=2, value="w"))
    result = armed(table, strike, spark, **{BATCH_COLLECT: "0"}).upsert(batch)
    assert (tmp_path / "flag").read_text() == "task"
    assert (result.updated, result.inserted) == (100, 100)
    check_exact(tmp_path / "t", expected(LOADED, UPDATED))


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(("path", "moment"), BULKS)
def test_a_worker_dies_in_a_bulk_insert(tmp_path, spark, path, moment):
    table = create(tmp_path / "t")
    strike = strike_at(tmp_path, call="put", path=path, moment=moment)
    result = armed(table, strike, spark).bulk_insert(framed(spark, rows(LOADED)))
    assert (tmp_path / "flag").read_text() == "task"
    assert result.inserted == len(LOADED)
    check_exact(tmp_path / "t", expected(LOADED))
