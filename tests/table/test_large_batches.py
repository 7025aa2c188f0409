"""Batches that stay out of the writer's process: the same table as a collected batch leaves."""

from __future__ import annotations

import itertools
import os
import re
import signal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PythonException
from table_cases import DUP_POLICY, EVENT_TIME, MOVES, PAYLOAD, create, data_rows, left_over, rows

from keymark import Table
from keymark.table.errors import DuplicateKeyError, InputError, WorkerLostError
from keymark.table.properties.options import BATCH_COLLECT, LOCAL_BYTES
from keymark.table.rows.frame_size import surely_below
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.write.large import parts, prepare, slices

ALL_IN_TASKS = {BATCH_COLLECT: "0", LOCAL_BYTES: "0"}
COUNTS = ("inserted", "updated", "deleted", "moved", "unchanged")


def twins(path, options=None, **changes):
    """Two tables: one collects its batches, the other one never does."""
    given = options or {}
    yield create(path / "collected", given, **changes)
    yield create(path / "large", {**given, BATCH_COLLECT: "0"}, **changes)


def spooled(table):
    """Spool files that are left."""
    return [status.path for status in table.storage.walk(".hoodie/.temp")]


def files(table):
    """All files but the lease's."""
    return sorted(s.path for s in table.storage.walk("") if "/lease/" not in s.path)


def same(tables, write):
    """Both tables give the same answer to a write, and hold the same afterwards."""
    results = [write(table) for table in tables]
    counts = [{name: getattr(result, name) for name in COUNTS} for result in results]
    assert counts[0] == counts[1]
    assert data_rows(tables[0]) == data_rows(tables[1])
    assert tables[1].check().ok
    assert spooled(tables[1]) == []
    keys = sorted(data_rows(tables[0]))
    places = [table.lookup([*keys, "absent"])["partition_path"].to_pylist() for table in tables]
    assert places[0] == places[1]
    return results[0]


@pytest.mark.parametrize("payload", [None, EVENT_TIME])
def test_moves_deletes_and_repeated_keys(tmp_path, payload):
    options = {MOVES: "true", **({PAYLOAD: payload} if payload else {})}
    tables = list(twins(tmp_path, options))
    same(tables, lambda t: t.upsert(rows(range(60), ts=5)))
    # Other paths for most keys; of those that go to one path some are older than what is stored.
    moved = rows(range(0, 90, 2), ts=5, partition=[f"p{i % 5}" for i in range(45)], value="w")
    older = rows(range(1, 60, 4), ts=3, partition="p9", value="x")
    newer = rows(range(3, 60, 4), ts=8, partition="p9", value="y")
    batch = pa.concat_tables([moved, older, newer, moved.slice(0, 7), rows(range(5), ts=9)])
    result = same(tables, lambda t: t.upsert(batch))
    assert result.moved
    assert bool(result.unchanged) == bool(payload)
    flags = pa.array([i % 3 == 0 for i in range(40)])
    flagged = rows(range(30, 70), ts=9).append_column("_hoodie_is_deleted", flags)
    assert same(tables, lambda t: t.upsert(flagged)).deleted
    assert same(tables, lambda t: t.delete(["k1", "k2", "nobody"])).deleted == 2


def test_small_files_are_filled_and_new_ones_opened(tmp_path):
    """As many rows a file; from the second write on files differ in size by their rows."""
    sizes = {"hoodie.parquet.max.file.size": "20000", "hoodie.parquet.small.file.limit": "19000"}
    tables = list(twins(tmp_path, sizes))
    held = []
    for start in (0, 40, 150):
        batch = rows(range(start, start + 100), partition="p")
        same(tables, lambda t, batch=batch: t.upsert(batch))
        groups = [{file.file_id for file in table.scan().files} for table in tables]
        held.append([len(ids) for ids in groups])
    assert held[0][0] == held[0][1] > 2
    assert abs(held[2][0] - held[2][1]) <= 1
    assert held[2][1] < 3 * held[0][1]


@pytest.mark.parametrize("policy", ["fail", "drop", "none"])
def test_inserts_by_policy(tmp_path, policy):
    tables = list(twins(tmp_path))
    same(tables, lambda t: t.upsert(rows(range(10))))
    fresh = rows(range(20, 40))
    batches = {
        "fail": fresh,
        "drop": pa.concat_tables([fresh, rows(range(5, 25), value="w")]),
        "none": fresh,
    }
    opened = [
        Table(table.storage, {**table._given, DUP_POLICY: policy}, spark=None) for table in tables
    ]
    same(opened, lambda t: t.insert(batches[policy]))


def test_an_insert_of_known_and_repeated_keys_is_refused(tmp_path):
    table = create(tmp_path / "t", {BATCH_COLLECT: "0"})
    table.upsert(rows(range(10)))
    before = data_rows(table)
    batch = pa.concat_tables([rows(range(8, 14)), rows(range(13, 16))])
    with pytest.raises(DuplicateKeyError, match="2 in the table, 1 repeated in the input"):
        table.insert(batch)
    assert data_rows(table) == before
    assert spooled(table) == []


def test_appended_rows_of_one_key_leave_the_last_in_the_index(tmp_path):
    table = create(tmp_path / "t", {BATCH_COLLECT: "0", DUP_POLICY: "none"})
    # The larger file group is the first to be written.
    batch = pa.concat_tables([rows(["a"], partition="p1"), rows(["a", "b", "c"], partition="p2")])
    assert table.insert(batch).inserted == 4
    assert table.lookup(["a", "b"])["partition_path"].to_pylist() == ["p2", "p2"]


def test_generated_keys(tmp_path):
    table = Table.create(str(tmp_path / "t"), partition_path="p", options={BATCH_COLLECT: "0"})
    assert table.insert(rows(range(100))).inserted == 100
    stored = pa.concat_tables(table.scan(columns=["_hoodie_record_key", "k"]).tables())
    assert len(stored["_hoodie_record_key"].unique()) == 100
    assert table.delete(stored["_hoodie_record_key"].combine_chunks()).deleted == 100


def test_no_rows_are_no_change(tmp_path):
    table = create(tmp_path / "t", {BATCH_COLLECT: "0"})
    table.upsert(rows(range(3)))
    assert table.upsert(rows([])).files_written == 0
    assert table.delete([]).files_written == 0


def test_a_wrong_row_in_a_later_slice_leaves_the_table_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "_SLICE_ROWS", 10)
    table = create(tmp_path / "t", {BATCH_COLLECT: "0"})
    table.upsert(rows(range(5)))
    before, listed = data_rows(table), files(table)
    wrong = rows(range(30)).set_column(0, "k", pa.array([*(f"k{n}" for n in range(29)), None]))
    with pytest.raises(InputError, match="row 9, counted from row 20 of part 0 of the rows"):
        table.upsert(wrong)
    assert data_rows(table) == before
    assert files(table) == listed


def test_a_sink_puts_a_file_when_memory_asks_for_it(tmp_path, monkeypatch):
    """Many spool files, and of equal keys still the last row counts."""
    monkeypatch.setattr(prepare, "ROW_COPIES", 1 << 18)
    monkeypatch.setattr(prepare, "_SLICE_ROWS", 7)
    table = create(tmp_path / "t", {BATCH_COLLECT: "0"})
    batches = [rows(range(20), value=f"{n}-") for n in range(5)]
    assert table.upsert(pa.concat_tables(batches)).inserted == 20
    assert {row[-1][:2] for row in data_rows(table).values()} == {"4-"}


# With Spark.


def frame(spark, table, pieces=3):
    listed = [tuple(row.values()) for row in table.to_pylist()]
    made = spark.sparkContext.parallelize(listed, pieces)
    return spark.createDataFrame(made, "k string, p string, ts long, v string")


@pytest.fixture(params=["0", "1000000"])
def many(request, spark, tmp_path):
    """A table whose batches of frames are large ones, or are read back from their spool files."""
    options = {BATCH_COLLECT: request.param, MOVES: "true"}
    if request.param == "0":
        options[LOCAL_BYTES] = "0"
    return create(tmp_path / "t", options, spark=spark)


@pytest.mark.spark
def test_frames_are_written_and_their_order_counts(many, spark):
    many.upsert(frame(spark, rows(range(40))))
    repeated = pa.concat_tables([rows(range(30), value=f"{n}-", partition="q") for n in range(4)])
    result = many.upsert(frame(spark, repeated, 5))
    assert (result.moved, result.inserted, result.updated) == (30, 0, 0)
    stored = data_rows(many)
    assert {stored[f"k{n}"][-1] for n in range(30)} == {f"3-k{n}" for n in range(30)}
    keys = frame(spark, rows(range(20, 60))).select("k")
    assert many.delete(keys).deleted == 20
    encoded = frame(spark, rows(range(5))).selectExpr("k as record_key")
    assert many.delete(encoded).deleted == 5
    assert sorted(data_rows(many)) == sorted(f"k{n}" for n in range(5, 20))
    assert many.check().ok
    assert spooled(many) == []


@pytest.mark.spark
def test_a_wrong_row_of_a_frame_leaves_the_table_as_it_was(many, spark):
    many.upsert(frame(spark, rows(range(5))))
    before, listed = data_rows(many), files(many)
    wrong = rows(range(30)).set_column(0, "k", pa.array([*(f"k{n}" for n in range(29)), None]))
    with pytest.raises(InputError, match="record key field k is null"):
        many.upsert(frame(spark, wrong))
    assert data_rows(many) == before
    assert files(many) == listed


@pytest.mark.spark
def test_a_frame_is_run_once(many, spark):
    """A frame that gives other rows each time would give a table that no run of it had."""
    runs = spark.sparkContext.accumulator(0)

    def counted(batches):
        runs.add(1)
        yield from batches

    made = frame(spark, rows(range(50)), 3)
    many.upsert(made.mapInArrow(counted, made.schema))
    assert runs.value == 3
    assert len(data_rows(many)) == 50


def deadly(table, path, spark):
    """The table, whose tasks die once they have put a file of that name."""
    driver = os.getpid()

    # Spark's workers do not know this module: they get a class that is made here as it is.
    class DeadlyStorage(LocalStorage):
        def put(self, name, data):
            LocalStorage.put(self, name, data)
            if os.getpid() != driver and re.search(path, name):
                signal.raise_signal(signal.SIGKILL)

    return Table(DeadlyStorage(table.storage.root), {**ALL_IN_TASKS, MOVES: "true"}, spark=spark)


@pytest.mark.spark
@pytest.mark.parametrize("path", [r"\.rows$", r"p\d/.*\.parquet$"])
def test_a_worker_that_dies_leaves_the_table_as_it_was(tmp_path, spark, path):
    """Spark tries nothing again on one machine; on a cluster it does (tests/cluster)."""
    table = create(tmp_path / "t", {MOVES: "true"})
    table.upsert(rows(range(60)))
    before = data_rows(table)
    batch = frame(spark, rows(range(30, 90), ts=2, partition="p1", value="w"), 2)
    with pytest.raises(WorkerLostError, match="lost its worker"):
        deadly(table, path, spark).upsert(batch)
    assert data_rows(table) == before
    # The next write sweeps what the other task may have put after its job had failed.
    result = Table(table.storage, {**ALL_IN_TASKS, MOVES: "true"}, spark=spark).upsert(batch)
    assert (result.moved, result.updated, result.inserted) == (20, 10, 30)
    assert table.check().ok
    assert left_over(tmp_path / "t") == []


@pytest.mark.spark
@pytest.mark.parametrize("index", ["record", "bucket", "global_bloom", "compact"])
def test_lookups_of_many_keys_answer_with_a_frame(tmp_path, spark, index):
    table = create(tmp_path / "t", {BATCH_COLLECT: "0"}, spark=spark, index=index)
    table.upsert(rows(range(50)))
    asked = frame(spark, rows([*range(20), 3, "nobody"])).select("k")
    found = table.lookup(asked)
    expected = table.lookup([f"k{n}" for n in [*range(20), 3]] + ["nobody"])
    assert found.columns == expected.column_names
    assert sorted(map(tuple, found.collect()), key=repr) == sorted(
        zip(*expected.to_pydict().values(), strict=True), key=repr
    )
    few = Table(table.storage, spark=spark).lookup(asked)
    assert isinstance(few, pa.Table)
    assert few.equals(expected)


@pytest.mark.spark
def test_an_error_of_a_lookup_that_is_a_frame_ends_in_its_own_line(tmp_path, spark):
    """Spark raises its own error where the frame runs; the last line of the worker's is ours."""
    table = create(tmp_path / "t", {BATCH_COLLECT: "0"}, spark=spark, index="global_bloom")
    table.upsert(rows(range(50)))
    found = table.lookup(frame(spark, rows(range(20))).select("k"))
    (gone, *_) = table.scan().files
    table.storage.delete(gone.path)
    with pytest.raises(PythonException) as raised:
        found.collect()
    told = str(raised.value).rstrip().splitlines()[-1]
    assert told.strip().startswith("keymark.table.errors.")
    assert gone.path in told


@pytest.mark.spark
def test_sizes_are_believed_where_spark_knows_them(tmp_path, spark):
    path = str(tmp_path / "rows")
    frame(spark, rows(range(100))).write.parquet(path)
    files = spark.read.parquet(path)
    assert surely_below(files.where("ts = 1").select("k", "v").orderBy("k"), 1 << 20)
    assert not surely_below(files, 1000)
    assert not surely_below(files.selectExpr("explode(sequence(1, 1000)) n"), 1 << 20)
    assert not surely_below(files.join(files, "k"), 1 << 40)
    assert not surely_below(frame(spark, rows(range(3))), 1 << 20)


@pytest.mark.spark
def test_the_size_of_a_cached_frame_is_believed_once_it_is_all_there(spark):
    cached = frame(spark, rows(range(100)), 3).cache()
    try:
        assert not surely_below(cached, 1 << 20)
        cached.first()
        assert not surely_below(cached, 1 << 40)
        cached.count()
        assert surely_below(cached.where("ts = 1"), 1 << 20)
        assert not surely_below(cached, 1000)
    finally:
        cached.unpersist()


def test_parts_are_ranges_of_shards(tmp_path):
    options = {"hoodie.metadata.record.index.min.filegroup.count": "300"}
    table = create(
        tmp_path / "t", {**options, "hoodie.metadata.record.index.max.filegroup.count": "300"}
    )
    from keymark.table.format.hashes.hashing import shards
    from keymark.table.index.dealing import Dealing
    from keymark.table.state.table_state import TableState

    context = table._context(TableState.load(table.storage), None)
    dealing = Dealing.of(table.index, context)
    keys = pa.array([f"key-{n}" for n in range(5000)])
    part, owner = dealing.part_of(keys), shards(keys, 300)
    assert (dealing.parts, dealing.shards) == (256, 300)
    assert set(part.tolist()) == set(range(256))
    assert (np.diff(part[np.argsort(owner, kind="stable")]) >= 0).all()


@given(st.lists(st.text("aé𝄞", max_size=3), max_size=30), st.sets(st.text("aé𝄞", max_size=3)))
def test_a_key_is_in_the_range_whose_bound_is_not_above_it(keys, bounds):
    ascending = sorted(bound.encode() for bound in bounds)
    found = slices.range_of(pa.array(keys, pa.string()), ascending)
    assert found.tolist() == [sum(bound <= key.encode() for bound in ascending) for key in keys]


def test_slices_of_a_sample_have_about_one_size():
    keys = pa.array([f"{n * 7919 % 100_003:06d}" for n in range(100_000)])
    numbers = slices.range_of(keys, slices._bounds(keys.take(pa.array(range(0, 100_000, 250))), 7))
    assert (np.abs(np.bincount(numbers, minlength=7) / 100_000 - 1 / 7) < 0.03).all()
    assert slices._bounds(pa.array(["a"] * 9), 4) == (b"a",)
    assert slices._bounds(pa.array([], pa.string()), 4) == ()


def test_a_part_with_all_rows_is_cut_by_several_tasks_into_ranges_of_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(slices, "SLICE_COPIES", 1 << 17)
    monkeypatch.setattr(slices, "ROW_COPIES", 1 << 17)
    monkeypatch.setattr(prepare, "ROW_COPIES", 1 << 17)
    monkeypatch.setattr(prepare, "_SLICE_ROWS", 20)
    monkeypatch.setattr(prepare, "_SAMPLE_BYTES", 200)
    groups = "hoodie.metadata.record.index"
    one = {f"{groups}.min.filegroup.count": "1", f"{groups}.max.filegroup.count": "1"}
    tables = list(twins(tmp_path, one))
    split, combine = slices.split_rows, parts._combined
    tasks, keys_of_slices = [], []

    def counted(work):
        tasks.append(work)
        return split(work)

    def combined(work):
        made = combine(work)
        keys_of_slices.append(sorted(made.batch.keys.to_pylist()))
        return made

    monkeypatch.setattr(slices, "split_rows", counted)
    monkeypatch.setattr(parts, "_combined", combined)
    same(tables, lambda t: t.upsert(rows(range(200))))
    assert len(tasks) > 3
    ranges = sorted((keys[0], keys[-1]) for keys in keys_of_slices)
    assert len(ranges) > 3
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ranges))


def test_a_key_that_comes_a_thousand_times_is_few_rows_in_its_part(tmp_path, monkeypatch):
    spooled, put = [], prepare.put_dealt

    def counted(storage, instant, table, *dealt):
        spooled.append(table.num_rows)
        return put(storage, instant, table, *dealt)

    monkeypatch.setattr(prepare, "put_dealt", counted)
    often = [rows(["hot"] * 400, ts=ts, partition="p", value=f"{ts}-") for ts in (3, 9, 5)]
    batch = pa.concat_tables([*often, rows(range(20))])
    tables = list(twins(tmp_path))
    assert same(tables, lambda t: t.upsert(batch)).inserted == 21
    assert data_rows(tables[1])["hot"][-1] == "9-hot"
    assert spooled == [21]
    assert same(tables, lambda t: t.delete(["hot"] * 500)).deleted == 1
    assert spooled == [21, 1]


def test_keys_are_asked_for_some_at_a_time(tmp_path, monkeypatch):
    """An index that does not tag in tasks never sees more than its share of the keys."""
    monkeypatch.setattr(parts, "_KEYS_BYTES_MIN", 200)
    table = create(tmp_path / "t", {BATCH_COLLECT: "0"}, index="global_simple")
    table.upsert(rows(range(30), partition="p"))
    asked = []
    index = type(table.index)
    tag = index.tag
    monkeypatch.setattr(
        index, "tag", lambda self, keys, *rest: asked.append(len(keys)) or tag(self, keys, *rest)
    )
    result = table.upsert(rows(range(20, 60), partition="p", value="w"))
    assert (result.updated, result.inserted) == (10, 30)
    assert len(asked) > 2
    assert sum(asked) == 40
