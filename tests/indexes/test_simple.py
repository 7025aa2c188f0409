"""The simple index: partition-local, by threads where the work is small, else by Spark's join."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from index_cases import DAMAGES, batch, create, damaged, files, lookup, stored

from keymark import Table
from keymark.indexes.shared.key_scan import key_probes
from keymark.indexes.shared.scope import scopes
from keymark.indexes.simple.index import SimpleIndex
from keymark.table.errors import CorruptFileError, InputError
from keymark.table.format.parquet.base_file import BaseFileOptions, write_base_file
from keymark.table.index.protocol import LookupStats
from keymark.table.properties.options import BATCH_COLLECT, DUP_POLICY, LOCAL_BYTES
from keymark.table.state import base_files
from keymark.table.state.table_state import TableState

SMALL_LIMIT = {"hoodie.parquet.small.file.limit": "0"}


def filled(path, **given):
    """Three files: a0..a9 in a, b0..b9 in b, and in b one of b10..b19."""
    table = create(path, "simple", options=SMALL_LIMIT, **given)
    table.insert(batch([f"a{n}" for n in range(10)], "a"))
    table.insert(batch([f"b{n}" for n in range(10)], "b"))
    table.insert(batch([f"b{n}" for n in range(10, 20)], "b"))
    return table


@pytest.fixture(params=["threads", pytest.param("join", marks=pytest.mark.spark)])
def table(tmp_path, request):
    """The table, whose lookups run as the parameter says."""
    made = filled(tmp_path / "t")
    return made if request.param == "threads" else joined(made, request.getfixturevalue("spark"))


def joined(table, spark, limit=0):
    """The table, whose lookups are joins from so many bytes of work on."""
    return Table(table.storage, {**SMALL_LIMIT, LOCAL_BYTES: str(limit)}, spark=spark)


def asked(table, keys, partitions=None):
    stats = LookupStats()
    context = table._context(TableState.load(table.storage), stats)
    paths = None if partitions is None else pa.array(partitions)
    found = SimpleIndex().lookup(pa.array(keys), context, paths)
    return found["partition_path"].to_pylist(), stats


def test_a_key_is_looked_for_in_its_partition_alone(table):
    paths, stats = asked(table, ["a1", "b1", "a1", "b1", "b15"], ["a", "a", "b", "b", "b"])
    assert paths == ["a", None, None, "b", "b"]
    assert stats.files_read == 3
    paths, stats = asked(table, ["a1", "b1", "x"], ["a", "a", "nowhere"])
    assert paths == ["a", None, None]
    assert stats.files_read == 1


def test_without_partitions_a_key_counts_wherever_it_is(table):
    assert asked(table, ["b12", "a3", "zz"])[0] == ["b", "a", None]
    assert asked(table, [])[0] == []


def test_a_key_in_two_partitions_is_two_rows(tmp_path):
    table = filled(tmp_path / "t")
    result = table.upsert(batch(["a1", "b1"], "b", ts=2))
    assert (result.inserted, result.updated, result.moved) == (1, 1, 0)
    assert [row[:2] for row in stored(table) if row[0] == "a1"] == [("a1", "a"), ("a1", "b")]
    assert lookup(table, ["a1"])[0][0][0] == "a"
    with pytest.raises(InputError, match="needs the partition columns"):
        table.delete(["a1"])


def test_a_key_twice_in_a_partition_is_in_the_first_of_its_files(tmp_path):
    table = filled(tmp_path / "t")
    policy = {"hoodie.datasource.insert.dup.policy": "none"}
    Table(table.storage, {**SMALL_LIMIT, **policy}).insert(batch(["b1", "b15"], "b"))
    where = {file.file_id: n for n, file in enumerate(files(table))}
    (first, *_) = lookup(table, ["b1"])[0]
    holding = [n for n, file in enumerate(files(table)) if "b1" in keys_of(table, file)]
    assert len(holding) == 2
    assert where[first[1]] == holding[0]


def keys_of(table, file):
    rows = table.scan(columns=["_hoodie_record_key", "_hoodie_file_name"]).tables()
    return [
        row["_hoodie_record_key"]
        for part in rows
        for row in part.to_pylist()
        if row["_hoodie_file_name"].startswith(file.file_id)
    ]


def test_many_files_are_read_in_few_tasks(tmp_path):
    table = filled(tmp_path / "t")
    context = table._context(TableState.load(table.storage), None)
    (scope,) = scopes(1, context.snapshot, None)
    (probe,) = key_probes(scope, pa.array(["a"]), context)
    assert probe.files == context.snapshot.files
    assert probe.first == 0


def test_keys_with_a_dictionary_are_read_too(tmp_path, monkeypatch):
    monkeypatch.setattr(base_files, "check_size", lambda *_: None)
    table = filled(tmp_path / "t")
    file = files(table)[0]
    rows = pa.concat_tables(t for t in table.scan().tables() if t["dt"][0].as_py() == "a")
    repeated = pa.concat_tables([rows] * 200)
    data = write_base_file(repeated, options=BaseFileOptions())
    table.storage.replace(file.path, data)
    assert asked(table, ["a1", "a10"], ["a", "a"])[0] == ["a", None]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(table, damage):
    file = files(table)[1]
    damaged(table, file, damage)
    with pytest.raises(CorruptFileError, match=file.file_id):
        asked(table, ["b1"])


@pytest.mark.spark
def test_small_work_starts_no_job_and_large_work_is_a_join(tmp_path, spark):
    made = filled(tmp_path / "t")
    keys, paths = [f"b{n}" for n in range(25)], ["b"] * 25

    def jobs(opened):
        group = str(uuid.uuid4())
        spark.sparkContext.setJobGroup(group, "counted")
        answer = asked(opened, keys, paths)[0]
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)), answer

    count, searched = jobs(Table(made.storage, spark=spark))
    assert count == 0
    count, found = jobs(joined(made, spark, limit=1))
    assert count > 0
    assert found == searched == ["b"] * 20 + [None] * 5


def unasked(*_):
    raise AssertionError("the index was asked for some keys of a large batch")


@pytest.fixture(params=["simple", "global_simple"])
def large(tmp_path, spark, request, monkeypatch):
    """A table whose batches are large, and whose index is not asked for some keys at a time."""
    options = {**SMALL_LIMIT, DUP_POLICY: "none", LOCAL_BYTES: "0", BATCH_COLLECT: "0"}
    table = create(tmp_path / "t", request.param, options=options)
    collected = Table(table.storage, {**SMALL_LIMIT, DUP_POLICY: "none"})
    collected.insert(batch([f"a{n}" for n in range(100)], "a"))
    collected.insert(batch([f"b{n}" for n in range(100)], "b"))
    # A key in two files is updated in the first of them.
    collected.insert(batch(["a7", "a8"], "a"))
    monkeypatch.setattr(SimpleIndex, "tag", unasked)
    return Table(table.storage, options, spark=spark)


@pytest.mark.spark
def test_a_large_batch_is_one_join(large):
    """Keys of no file are new; one of another partition path is, too, or moves."""
    is_global = large.index.is_global
    wanted = [*(f"a{n}" for n in range(5, 60)), *(f"new{n}" for n in range(5)), "b1"]
    first = dict(zip(wanted, lookup(large, wanted)[0], strict=True))
    result = large.upsert(batch(wanted, "a", ts=2))
    counts = result.updated, result.inserted, result.moved
    assert counts == ((55, 5, 1) if is_global else (55, 6, 0))
    changed = [
        (row["_hoodie_record_key"], row["_hoodie_file_name"])
        for part in large.scan().tables()
        for row in part.to_pylist()
        if row["ts"] == 2
    ]
    assert len(changed) == len(wanted)
    held = {key: name for key, name in changed if key in wanted[:55]}
    assert all(name.startswith(first[key][1]) for key, name in held.items())


@pytest.mark.spark
def test_partitions_of_no_keys_are_not_read(large):
    stats = LookupStats()
    context = large._context(TableState.load(large.storage), stats)
    keys = context.spark().sql(
        "select * from values (0, 4, 'b1', 'b'), (1, 5, 'b2', 'a'), (1, 6, 'b3', null) "
        "as t(part, row, key, partition)"
    )
    frame = large.index.tag_frame(keys, context)
    # Spark takes the keys for few, and must not collect them.
    assert "SortMergeJoin" in frame._jdf.queryExecution().executedPlan().toString()
    found = {tuple(row)[:3] for row in frame.select("part", "row", "partition_path").collect()}
    is_global = large.index.is_global
    assert found == ({(0, 4, "b"), (1, 5, "b"), (1, 6, "b")} if is_global else {(0, 4, "b")})
    assert stats.files_read == len(context.snapshot.files)
    several = len(context.snapshot.files)
    stats.files_read = 0
    large.index.tag_frame(keys.where("partition = 'b'"), context)
    assert stats.files_read == (several if is_global else 1)


@pytest.mark.spark
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_in_a_large_batch(large, damage, monkeypatch):
    monkeypatch.undo()  # asking for the keys names the file
    file = files(large)[1]
    damaged(large, file, damage)
    with pytest.raises(CorruptFileError, match=file.file_id):
        large.upsert(batch(["b1"], file.partition_path))
