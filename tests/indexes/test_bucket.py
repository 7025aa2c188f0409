"""The bucket index: Hudi's hash names the file group; keys count per partition path."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pyarrow as pa
import pytest
from conformance import SHAPES_BY_NAME, History
from index_cases import batch, create, files, lookup, stored, with_policy

from keymark import Table
from keymark.indexes.bucket.index import BucketIndex
from keymark.table.errors import (
    CorruptFileError,
    DuplicateKeyError,
    InputError,
    TableWarning,
    UnsupportedTableError,
)
from keymark.table.layout.naming import bucket_of
from keymark.table.layout.view import Snapshot
from keymark.table.properties.config import load_config
from keymark.table.properties.options import Options
from keymark.table.state.table_state import TableState

COUNT = "hoodie.bucket.index.num.buckets"
FIELDS = "hoodie.bucket.index.hash.field"


@pytest.fixture
def table(tmp_path):
    return create(tmp_path / "t", "bucket", options={COUNT: "4"})


def java_list_hash(texts):
    """java.util.List.hashCode of strings, from the language's specification."""
    state = 1
    for item in texts:
        code = 0
        units = item.encode("utf-16-be")
        for at in range(0, len(units), 2):
            code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
        state = (31 * state + code) & 0xFFFFFFFF
    return state


def test_every_row_is_in_the_file_group_of_its_hash(table):
    keys = [f"k\U0001f600{n}" for n in range(50)]
    table.bulk_insert(batch(keys[:20]))
    table.upsert(batch(keys[10:50], ts=2))
    places, _ = lookup(table, keys)
    for key, (_, file_id) in zip(keys, places, strict=True):
        assert int(file_id[:8]) == (java_list_hash([key]) & 0x7FFFFFFF) % 4
    assert len(files(table)) == 4


def test_only_the_hash_fields_decide(tmp_path):
    options = {COUNT: "8", FIELDS: "a"}
    path = str(tmp_path / "t")
    table = Table.create(path, record_key="a,b", ordering="ts", index="bucket", options=options)
    rows = pa.table({"a": ["x"] * 9 + ["y"], "b": [f"{n}" for n in range(10)], "ts": [1] * 10})
    table.upsert(rows)
    buckets = BucketIndex().buckets(
        pa.array(["a:x,b:1"]), load_config(table.storage), _options(table)
    )
    assert buckets.tolist() == [(java_list_hash(["x"]) & 0x7FFFFFFF) % 8]
    assert {bucket_of(f.file_id) for f in files(table)} == {
        (java_list_hash([text]) & 0x7FFFFFFF) % 8 for text in "xy"
    }


def _options(table):
    return table.options()


def test_simple_keys_with_a_colon_crowd_and_are_warned_of_once(table):
    keys = [f"12:{n}" for n in range(20)]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        table.upsert(batch(keys))
    assert all(warning.category is TableWarning for warning in told)
    assert "hold a colon" in str(told[0].message)
    assert len({str(warning.message) for warning in told}) == 1
    assert [bucket_of(file.file_id) for file in files(table)] == [1 % 4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.upsert(batch(["12-30"], ts=3))


def test_keys_that_name_their_field_are_spread_with_a_colon(tmp_path):
    named = {"keymark.recordkey.encoding": "named"}
    named["hoodie.datasource.write.keygenerator.type"] = "COMPLEX"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = create(tmp_path / "t", "bucket", options={COUNT: "4", **named})
        table.upsert(batch([f"12:{n}" for n in range(20)]))
    assert len(files(table)) == 4
    assert all(file_id for _, file_id in lookup(table, [f"id:12:{n}" for n in range(20)])[0])


def test_several_hash_columns_are_hashed_in_their_order_in_the_key(tmp_path):
    options = {COUNT: "1000", FIELDS: "c,a"}
    path = str(tmp_path / "t")
    table = Table.create(path, record_key="a,b,c", ordering="ts", index="bucket", options=options)
    rows = pa.table({"a": ["x", None, ""], "b": ["1", "2", "3"], "c": ["y", "y,z", "p:q"]})
    table.upsert(rows.append_column("ts", pa.array([1, 1, 1])))
    # Taken apart at commas, a part without colon counts as a value.
    expected = [["x", "y"], ["", "y", "z"], ["", "p:q"]]
    assert {bucket_of(f.file_id) for f in files(table)} == {
        (java_list_hash(values) & 0x7FFFFFFF) % 1000 for values in expected
    }


def test_a_key_counts_once_per_partition_path(table):
    table.insert(batch(["a", "b"], "p"))
    result = table.upsert(batch(["a"], "q", ts=2))
    assert (result.inserted, result.updated, result.moved) == (1, 0, 0)
    assert [row[:2] for row in stored(table)] == [("a", "p"), ("a", "q"), ("b", "p")]
    assert lookup(table, ["a"])[0][0][0] == "p"
    result = table.delete(batch(["a", "b"], "q").select(["id", "dt"]))
    assert (result.deleted, result.unchanged) == (1, 1)
    assert [row[:2] for row in stored(table)] == [("a", "p"), ("b", "p")]


@pytest.mark.parametrize("policy", ["drop", "fail"])
def test_an_insert_policy_judges_keys_by_partition(table, policy):
    table.insert(batch(["a"], "p"))
    result = with_policy(table, policy).insert(batch(["a", "b"], "q"))
    assert (result.inserted, result.unchanged) == (2, 0)
    if policy == "fail":
        with pytest.raises(DuplicateKeyError, match="1 in the table"):
            with_policy(table, policy).insert(batch(["b", "c"], "q"))
    else:
        result = with_policy(table, policy).insert(batch(["b", "c"], "q"))
        assert (result.inserted, result.unchanged) == (1, 1)


def test_a_tag_says_where_a_key_belongs_and_a_lookup_whether_it_is_there(table):
    table.insert(batch([f"k{n}" for n in range(20)]))
    state = TableState.load(table.storage)
    context = table._context(state, None)
    keys, paths = pa.array(["k3", "new", "k3"]), pa.array(["p", "p", "elsewhere"])
    tags = BucketIndex().tag(keys, paths, context)
    assert tags["partition_path"].to_pylist() == ["p", "p", None]
    assert lookup(table, ["k3", "new"])[0][1] == (None, None)
    located = BucketIndex().lookup(keys, context, paths)
    assert located["partition_path"].to_pylist() == ["p", None, None]


def test_a_lookup_opens_only_the_groups_of_its_buckets(table):
    table.insert(batch([f"k{n}" for n in range(60)], [f"p{n % 3}" for n in range(60)]))
    _, stats = lookup(table, ["k7"])
    assert stats.files_read == 3
    assert len(files(table)) == 12


def test_a_delete_without_partition_is_refused(table):
    table.insert(batch(["a"]))
    with pytest.raises(InputError, match="needs the partition columns"):
        table.delete(["a"])
    assert len(stored(table)) == 1


def test_a_table_not_laid_out_by_buckets_is_refused_by_file(tmp_path):
    other = create(tmp_path / "t", "global_bloom")
    other.insert(batch(["a"]))
    state = TableState.load(other.storage)
    context = dataclasses.replace(other._context(state, None), options=Options({COUNT: "4"}))
    with pytest.raises(UnsupportedTableError, match=state.snapshot.files[0].name):
        BucketIndex().tag(pa.array(["a"]), pa.array(["p"]), context)


def test_a_count_that_the_file_ids_contradict_is_refused(table):
    table.insert(batch([f"k{n}" for n in range(20)]))
    context = table._context(TableState.load(table.storage), None)
    context = dataclasses.replace(context, options=Options({COUNT: "2"}))
    with pytest.raises(UnsupportedTableError, match="is of bucket"):
        BucketIndex().lookup(pa.array(["k1"]), context)


def test_two_groups_of_one_bucket_are_damage(table):
    table.insert(batch(["a"]))
    state = TableState.load(table.storage)
    (file,) = state.snapshot.files
    second = dataclasses.replace(file, file_id=file.file_id[:8] + "-aaaa-bbbb-cccc-dddddddddddd-0")
    context = table._context(state, None)
    context = dataclasses.replace(context, snapshot=Snapshot((file, second)))
    with pytest.raises(CorruptFileError, match="second file group of bucket"):
        BucketIndex().tag(pa.array(["a"]), pa.array(["p"]), context)


@pytest.mark.filterwarnings("ignore:keys of column id hold a colon")
@pytest.mark.parametrize("seed", [0, 3])
def test_without_moves_all_local_indexes_agree(tmp_path, seed):
    shape = SHAPES_BY_NAME["text"]
    histories = [
        History.start(tmp_path / index, index, shape, seed=seed, frozen_partitions=True)
        for index in ("record", "global_bloom", "bucket")
    ]
    for history in histories:
        history.rng.seed(seed)
        history.bulk_insert()
        for _ in range(4):
            history.rng.choice((history.upsert, history.upsert_with_deletes, history.delete))()
    keys = [key for key in shape.columns["id"][1] if key]
    answers = [
        [partition for partition, _ in history.located(history.table.index.name, keys)]
        for history in histories
    ]
    assert answers[0] == answers[1] == answers[2]
    assert any(answers[0])
    assert not all(answers[0])


def test_bulk_insert_makes_one_file_per_bucket(table):
    keys = [f"k{n}" for n in range(100)]
    result = table.bulk_insert(batch(keys, [f"p{n % 2}" for n in range(100)]))
    assert result.files_written == len(files(table)) == 8
    assert all(np.array([place for place, _ in lookup(table, keys)[0]]) != None)  # noqa: E711


@pytest.mark.spark
def test_bulk_insert_by_spark_makes_one_file_per_bucket(tmp_path, spark):
    table = create(tmp_path / "t", "bucket", options={COUNT: "3"}, spark=spark)
    # null and "" are one partition path.
    partitions = [("", None, "q")[n // 3 % 3] for n in range(200)]
    rows = batch([f"k{n}" for n in range(200)], partitions)
    frame = spark.createDataFrame(rows.to_pandas()).repartition(4)
    result = table.bulk_insert(frame)
    assert (result.inserted, result.files_written, len(files(table))) == (200, 6, 6)
    assert len(stored(table)) == 200
    result = table.upsert(batch(["k3", "new"], "", ts=2))
    assert (result.updated, result.inserted) == (1, 1)
