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
from keymark.table.properties.options import LOCAL_BYTES
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
    table.storage.replace(file.path, data.to_pybytes())
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
