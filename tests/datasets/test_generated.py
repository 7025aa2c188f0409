from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stream_model import TableModel

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import digest_arrow
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import built_in_names, load_spec

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def arrow_load(dataset):
    return make_rows(dataset.spec, *dataset.batch_slice(0, 0, dataset.spec.rows))


def arrow_batch(dataset, round_):
    return make_rows(dataset.spec, *dataset.batch_slice(round_, 0, dataset.batch_size(round_)))


def arrow_deletes(dataset, round_):
    numbers = dataset.stream.deleted(*dataset.stream.deleted_slice(round_))
    return make_rows(dataset.spec, numbers, np.full_like(numbers, round_))


def small(name="trips", **overrides):
    return GeneratedDataset(load_spec(name, {"payload_bytes": 20, **overrides}))


def check_stream(dataset, rounds):
    """Truth, counts, ordering and samples against the dictionary, round by round."""
    model = TableModel(arrow_load(dataset), dataset.record_key, dataset.ordering)
    assert dataset.truth(0, deleted=False) == model.truth
    every = dataset.spec.delete_every
    for round_ in range(1, rounds + 1):
        before = dict(model.rows)
        batch = arrow_batch(dataset, round_)
        stream = dataset.stream
        assert batch.num_rows == dataset.batch_size(round_)
        older = stream.late + stream.duplicates + stream.repeats
        assert batch.num_rows == sum(dataset.batch_counts(round_)) + older
        assert model.upsert(batch) == dataset.batch_counts(round_)
        path = dataset.partition_path
        moved = [k for k, row in before.items() if any(model.rows[k][c] != row[c] for c in path)]
        assert len(moved) == stream.moves
        assert dataset.truth(round_, deleted=False) == model.truth
        if every and round_ % every:
            with pytest.raises(DatasetError, match="no delete step"):
                dataset.truth(round_, deleted=True)
            continue
        left = model.copy()
        left.delete(arrow_deletes(dataset, round_))
        assert len(model.rows) - len(left.rows) == dataset.delete_count
        assert dataset.truth(round_, deleted=True) == left.truth
        check_sample(dataset, round_, left)
        model = left if every else model
        check_history(dataset, round_, model)


def check_history(dataset, round_, model):
    """Values, changes and deletes of all rows against the dictionary after a round."""
    numbers = np.arange(dataset.stream.inserted(round_)[1])
    found = dataset.history(numbers, round_)
    last = dataset.stream.versions(numbers, round_).tolist()
    assert [rounds[-1] for rounds in found.changes] == last
    kept = {
        model.key_of(row): row
        for row, gone in zip(found.rows.to_pylist(maps_as_pydicts=None), found.deleted, strict=True)
        if gone is None
    }
    assert kept == model.rows


def check_sample(dataset, round_, model):
    sample = dataset.sample_keys(round_, present=15, absent=10, deleted=True)
    keys = sample.drop(["expect_present"])
    assert tuple(keys.column_names) == dataset.record_key
    present = [model.key_of(row) in model.rows for row in keys.to_pylist()]
    assert present == sample["expect_present"].to_pylist()
    assert sum(present) == min(15, len(model.rows))
    assert len(keys) == sum(present) + 10 == len({tuple(row.values()) for row in keys.to_pylist()})


def test_a_sample_of_loaded_rows_is_there_all_the_time():
    dataset = small(rows=30, updates=10, inserts=40, deletes=5, delete_every=2)
    sampled = dataset.sample_keys(6, present=50, absent=4, deleted=True, loaded=True)
    keys = [tuple(row.values()) for row in sampled.drop(["expect_present"]).to_pylist()]
    assert sampled["expect_present"].to_pylist() == [True] * 15 + [False] * 4
    wanted = set(keys[:15])
    model = TableModel(arrow_load(dataset), dataset.record_key, dataset.ordering)
    for round_ in range(1, 7):
        assert wanted <= model.rows.keys()
        model.upsert(arrow_batch(dataset, round_))
        if round_ % 2 == 0:
            model.delete(arrow_deletes(dataset, round_))
    assert wanted <= model.rows.keys()


@pytest.mark.parametrize("name", built_in_names())
def test_truth_of_every_dataset_equals_brute_force(name):
    settings = {"rows": 150, "updates": 20, "inserts": 10, "deletes": 4, "delete_every": 1}
    check_stream(small(name, **settings, moves=2, late=5, duplicates=7, repeats=9), 3)


def test_truth_does_not_depend_on_what_was_asked_before():
    first, second = small(rows=200), small(rows=200)
    assert (
        first.truth(3, deleted=True)
        == [second.truth(round_, deleted=True) for round_ in range(4)].pop()
    )


def test_keys_look_like_uuids_and_the_seed_changes_all():
    rows = arrow_load(small(rows=500))
    assert all(UUID4.fullmatch(key) for key in rows["uuid"].to_pylist())
    other = arrow_load(small(rows=500, seed=7))
    assert not set(rows["uuid"].to_pylist()) & set(other["uuid"].to_pylist())
    assert len(set(rows["dt"].to_pylist())) == 20


def test_a_column_keeps_its_values_when_others_come():
    alone = load_spec("trips", {"rows": 9})
    more = load_spec("trips", {"rows": 9, "columns.city.size": 3})
    numbers = np.arange(9)
    for name in ("uuid", "fare", "driver"):
        columns = [make_rows(spec, numbers, 0 * numbers)[name] for spec in (alone, more)]
        assert columns[0].equals(columns[1])


def test_rounds_that_the_rows_do_not_suffice_for_are_refused():
    with pytest.raises(DatasetError, match="updates 30 rows"):
        small(rows=20, updates=30).truth(1, deleted=False)
    with pytest.raises(DatasetError, match="deletes up to row 30 of 20"):
        small(rows=20, updates=1, deletes=30).truth(1, deleted=True)
    with pytest.raises(DatasetError, match="no round -1"):
        small(rows=20).truth(-1, deleted=False)


def test_deleted_rows_keep_their_last_change():
    dataset = small(rows=60, updates=40, inserts=2, deletes=5, delete_every=1)
    stream = dataset.stream
    gone = stream.deleted(*stream.deleted_slice(1))
    changed = set(stream.updated(1, 0, stream.updates).tolist())
    expected = [int(number in changed) for number in gone.tolist()]
    assert stream.versions(gone, 4).tolist() == expected
    later = [stream.updated(round_, 0, stream.updates) for round_ in (2, 3, 4)]
    assert not set(gone.tolist()) & set(np.concatenate(later).tolist())


def test_the_history_of_a_row_of_a_huge_table_needs_no_table():
    stream = small(rows=10**12, updates=10**10, inserts=10**9, deletes=10**6).stream
    numbers = stream.updated(40, 0, 5)
    assert stream.versions(numbers, 40).tolist() == [40] * 5
    assert (stream.versions(numbers, 39) < 40).all()
    assert stream.versions(np.array([10**12 + 10**9 * 7]), 8).tolist() in ([8], [9])


def from_spark(df, folder):
    df.write.mode("overwrite").parquet(str(folder))
    return pq.read_table(folder, coerce_int96_timestamp_unit="us")


def assert_same_rows(found, expected):
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        values = found[name].cast(expected[name].type).to_pylist()
        # By their texts: nulls have no order, nor have structs.
        assert sorted(values, key=repr) == sorted(expected[name].to_pylist(), key=repr), name
    assert digest_arrow(found) == digest_arrow(expected)


@pytest.mark.spark
@pytest.mark.parametrize("name", built_in_names())
def test_spark_makes_the_same_rows(spark, tmp_path, name):
    overrides = {"rows": 203, "payload_bytes": 37, "columns.extra": {"kind": "bool"}}
    spec = load_spec(name, overrides if name != "trips" else {**overrides, "payload_bytes": 1100})
    for partitions in (1, 3, 7):
        dataset = GeneratedDataset(spec, partitions=partitions)
        df = dataset.load(spark)
        assert df.rdd.getNumPartitions() == partitions
        types = dict(df.dtypes)
        kinds = dict(spec.flat_columns())
        assert types == {column: kind.spark_type for column, kind in kinds.items()}
        assert_same_rows(from_spark(df, tmp_path / "load"), arrow_load(dataset))


@pytest.mark.spark
@pytest.mark.parametrize("delete_every", [0, 1])
def test_spark_makes_the_same_changes(spark, tmp_path, delete_every):
    spec = load_spec("trips", {"rows": 997, "seed": 3, "delete_every": delete_every})
    for partitions in (1, 3):
        dataset = GeneratedDataset(spec, partitions=partitions)
        for round_ in (1, 2):
            batch = from_spark(dataset.batch(spark, round_), tmp_path / "batch")
            assert_same_rows(batch, arrow_batch(dataset, round_))
            gone = from_spark(dataset.deletes(spark, round_), tmp_path / "deletes")
            assert_same_rows(gone, arrow_deletes(dataset, round_))


@pytest.mark.spark
def test_columns_can_be_chosen_and_unknown_ones_are_refused(spark):
    spec = load_spec("trips", {"rows": 10})
    dataset = GeneratedDataset(spec, columns=["fare", "uuid"])
    assert dataset.load(spark).columns == ["fare", "uuid"]
    assert dataset.truth(0, deleted=False) == digest_arrow(
        make_rows(spec, np.arange(10), np.zeros(10, np.int64), ["fare", "uuid"])
    )
    with pytest.raises(DatasetError, match="'fair'"):
        GeneratedDataset(spec, columns=["fair"]).load(spark)
    assert isinstance(dataset.sample_keys(1, present=1, absent=1, deleted=False), pa.Table)
