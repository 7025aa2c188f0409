from __future__ import annotations

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_model import TableModel

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.source import SourceDataset


def source_rows(size=40, **columns):
    table = {
        "_hoodie_record_key": [str(number) for number in range(size)],
        "id": [f"key-{number}" for number in range(size)],
        "number": pa.array(range(100, 100 + size), pa.int32()),
        "dt": [f"p{number % 3}" for number in range(size)],
        "ts": pa.array([number * 10 for number in range(size)], pa.int64()),
        "tags": pa.array([[number, None] for number in range(size)], pa.list_(pa.int32())),
        **columns,
    }
    return pa.table(table)


def make(rows, **changes):
    settings_ = {
        "name": "source",
        "record_key": ("id",),
        "partition_path": ("dt",),
        "ordering": "ts",
        "seed": 1,
        "updates": 6,
        "inserts": 4,
        "deletes": 5,
        **changes,
    }
    return SourceDataset(rows, **settings_)


class Captured:
    """Stands for a Spark session: hands back the Arrow table of the file it is asked to read."""

    @property
    def read(self):
        return self

    def parquet(self, uri):
        import pyarrow.parquet as pq

        return pq.read_table(uri.removeprefix("file://"))


def check(dataset, rounds=3):
    spark = Captured()
    model = TableModel(dataset.load(spark), dataset.record_key)
    assert dataset.truth(0, deleted=False) == model.truth
    for round_ in range(1, rounds + 1):
        before = model.copy()
        batch = dataset.batch(spark, round_)
        assert model.upsert(batch) == dataset.batch_counts(round_)
        updated = {model.key_of(row) for row in batch.to_pylist()} & before.rows.keys()
        for key in updated:
            old = before.rows[key]
            assert model.rows[key] == {**old, "ts": old["ts"] + 1}
        gone = dataset.deletes(spark, round_)
        assert not {model.key_of(row) for row in gone.to_pylist()} & updated
        left = model.copy()
        left.delete(gone)
        assert len(model.rows) - len(left.rows) == dataset.delete_count
        assert dataset.truth(round_, deleted=False) == model.truth
        assert dataset.truth(round_, deleted=True) == left.truth
        sample = dataset.sample_keys(round_, present=11, absent=8, deleted=True)
        keys = sample.drop(["expect_present"]).to_pylist()
        assert [left.key_of(row) in left.rows for row in keys] == [True] * 11 + [False] * 8
        assert sample["expect_present"].to_pylist() == [True] * 11 + [False] * 8
    return model


@settings(max_examples=20, deadline=None)
@given(
    size=st.integers(12, 60),
    updates=st.integers(0, 6),
    inserts=st.integers(0, 20),
    deletes=st.integers(0, 1),
    seed=st.integers(0, 2**62),
)
def test_truth_equals_brute_force(size, updates, inserts, deletes, seed):
    rows = source_rows(size)
    dataset = make(rows, updates=updates, inserts=inserts, deletes=deletes, seed=seed)
    check(dataset)


def test_a_key_in_two_partitions_is_changed_in_each_and_never_asked_for():
    rows = source_rows(40)
    place = rows.column_names.index("dt")
    twice = rows.slice(0, 10).set_column(place, "dt", pa.array(["other"] * 10))
    dataset = make(pa.concat_tables([rows, twice]), updates=12)
    spark, keys = Captured(), ("id", "dt")
    model = TableModel(dataset.load(spark), keys)
    for round_ in (1, 2, 3):
        assert model.upsert(dataset.batch(spark, round_)) == dataset.batch_counts(round_)
        left = model.copy()
        left.delete(dataset.deletes(spark, round_))
        assert dataset.truth(round_, deleted=False) == model.truth
        assert dataset.truth(round_, deleted=True) == left.truth
        sample = dataset.sample_keys(round_, present=20, absent=8, deleted=True)
        held = Counter(row["id"] for row in left.rows.values())
        assert [held[key] for key in sample["id"].to_pylist()] == [1] * 20 + [0] * 8


def test_a_sample_of_loaded_rows_has_none_of_the_batches():
    dataset = make(source_rows(), inserts=20)
    sampled = dataset.sample_keys(3, present=100, absent=0, deleted=False, loaded=True)
    assert sorted(sampled["id"].to_pylist()) == sorted(source_rows()["id"].to_pylist())


def test_new_text_keys_get_a_suffix_that_is_not_taken():
    taken = source_rows(id=[f"key-{number}-k{number}" for number in range(40)])
    model = check(make(taken))
    assert ("key-0-k0",) in model.rows
    fresh = [key[0] for key in model.rows if key[0].count("-k") == 2]
    assert sorted(int(key.rpartition("-k")[2]) for key in fresh) == list(range(40, 52))


def test_new_integer_keys_follow_the_greatest():
    model = check(make(source_rows(), record_key=("number",)))
    assert sorted(model.rows)[-12:] == [(number,) for number in range(140, 152)]


@pytest.mark.parametrize("greatest", [-1, -5, -100])
def test_new_integer_keys_follow_those_below_zero(greatest):
    numbers = range(greatest - 39, greatest + 1)
    model = check(make(source_rows(number=list(numbers)), record_key=("number",)))
    assert sorted(model.rows)[-12:] == [(number,) for number in range(1, 13)]


def test_of_a_composite_key_the_text_outside_the_partition_changes():
    model = check(make(source_rows(), record_key=("dt", "number", "id")))
    assert {key[0] for key in model.rows} == {"p0", "p1", "p2"}
    assert max(key[1] for key in model.rows) == 139


def test_meta_columns_and_file_metadata_are_left_out_and_nanoseconds_are_utc():
    instant = dt.datetime(2024, 1, 1, 2, 3, 4, 5000)  # noqa: DTZ001 - INT96 has no zone
    rows = source_rows(at=pa.array([instant] * 40, pa.timestamp("ns")))
    dataset = make(rows.replace_schema_metadata({"org.apache.spark.version": "3.5.1"}))
    assert dataset.columns == ("id", "number", "dt", "ts", "tags", "at")
    loaded = dataset.load(Captured())
    assert loaded.schema.metadata is None
    assert loaded.schema.field("at").type == pa.timestamp("us", "UTC")
    assert loaded["at"][0].as_py() == instant.replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("columns", "changes", "part"),
    [
        ({}, {"ordering": None}, "no ordering column"),
        ({}, {"ordering": "dt"}, "ordering column 'dt' is string"),
        ({}, {"record_key": ("idd",)}, "no column 'idd'"),
        ({}, {"record_key": ("dt",)}, "new keys need"),
        ({"id": pa.array([0.5] * 40)}, {}, r"'id' \(double\)"),
        ({"id": pa.array([None, *"a" * 39])}, {}, "key column 'id' holds nulls"),
        ({}, {"record_key": ("id", "ts")}, "part of the record key"),
    ],
)
def test_what_cannot_be_changed_is_refused_by_name(columns, changes, part):
    with pytest.raises(DatasetError, match=part):
        make(source_rows(**columns), **changes)


def test_too_many_changes_and_full_types_are_refused():
    with pytest.raises(DatasetError, match="changes 45 rows, but there are 40"):
        make(source_rows(), updates=40).truth(1, deleted=False)
    full = source_rows(number=pa.array(range(88, 128), pa.int8()))
    with pytest.raises(DatasetError, match="'number'"):
        make(full, record_key=("number",)).batch(Captured(), 1)
    latest = source_rows(ts=pa.array([2**63 - 1] * 40, pa.int64()))
    with pytest.raises(DatasetError, match="'ts'"):
        make(latest).batch(Captured(), 1)


@pytest.mark.spark
def test_spark_reads_the_rows_and_changes_as_they_are(spark):
    from keymark.datasets.generate.spark import digest_dataframe

    dataset = make(source_rows())
    assert digest_dataframe(dataset.load(spark)) == dataset.truth(0, deleted=False)
    assert dataset.batch(spark, 1).count() == 10
    assert dataset.deletes(spark, 1).count() == 5
