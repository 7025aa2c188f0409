"""The record index of each partition: by its runs, and by files that these do not cover.

Strategy: random writes, some of them "by others" (their runs are taken away), are followed by
lookups of all keys in all partitions, whose answers are read from the rows.
"""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults import DEAD, FULL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_cases import batch, create, files, lookup, stored, with_policy
from run_cases import (
    SMALL_LIMIT,
    build_without_a1,
    changes,
    garbled,
    keys_of,
    newest,
    rebuild_behind_the_first_look,
    rows_of,
    survivors,
    three_files,
)
from typer.testing import CliRunner

from keymark import Table
from keymark.indexes.partitioned_record import index
from keymark.indexes.partitioned_record.index import PartitionedRecordIndex
from keymark.indexes.shared.damage import WARNED
from keymark.table.cli import app
from keymark.table.errors import (
    CorruptFileError,
    DuplicateKeyError,
    InputError,
    InvalidOptionError,
    TableWarning,
)
from keymark.table.index.protocol import LookupStats
from keymark.table.properties.options import BATCH_COLLECT, DUP_POLICY, LOCAL_BYTES
from keymark.table.state.table_state import TableState
from keymark.table.values import merges, runs, upkeep
from keymark.table.values.indexed import Indexed

NAME = "partitioned_record"
TYPE, OWN_TYPE = "hoodie.index.type", "keymark.index.type"


@pytest.fixture
def table(tmp_path):
    return three_files(tmp_path / "t", NAME)


def runs_of(table):
    return sorted(Path(table.storage.root, ".hoodie/.keymark/keys").glob("*.parquet"))


def asked(table, keys, partitions=None):
    """(partition path, file id) per key, and what the lookup touched."""
    stats = LookupStats()
    context = table._context(TableState.load(table.storage), stats)
    paths = None if partitions is None else pa.array(partitions, pa.string())
    found = PartitionedRecordIndex().lookup(pa.array(keys, pa.string()), context, paths)
    places = found["partition_path"].to_pylist(), found["file_id"].to_pylist()
    return list(zip(*places, strict=True)), stats


def truth(table):
    """(partition path, key) -> (partition path, file id), from the rows."""
    names = ["_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"]
    rows = [row for part in table.scan(columns=names).tables() for row in part.to_pylist()]
    return {
        (row[names[0]], row[names[1]]): (row[names[0]], row[names[2]].split("_")[0]) for row in rows
    }


def assert_right(table, more_keys=("absent",)):
    """Every key is found in each of its partitions and in no other; what the lookup touched."""
    held = truth(table)
    keys = sorted({key for _, key in held}.union(more_keys))
    paths = [*sorted({path for path, _ in held}), "nowhere"]
    pairs = list(itertools.product(paths, keys))
    found, stats = asked(table, [key for _, key in pairs], [path for path, _ in pairs])
    assert found == [held.get(pair, (None, None)) for pair in pairs]
    return stats


def test_a_key_is_looked_for_in_its_partition_alone(table):
    keys, partitions = ["a1", "b1", "a1", "b1", "b15"], ["a", "a", "b", "b", "b"]
    found, stats = asked(table, keys, partitions)
    assert [path for path, _ in found] == ["a", None, None, "b", "b"]
    assert stats.files_read == 0
    found, stats = asked(table, ["a1", "x"], ["a", "nowhere"])
    assert [path for path, _ in found] == ["a", None]
    assert stats.shards_read == 1, "the run of the first write is the only one of partition a"


def test_without_partitions_a_key_counts_wherever_it_is(table):
    found, stats = asked(table, ["b12", "a3", "zz"])
    assert [path for path, _ in found] == ["b", "a", None]
    assert stats.files_read == 0
    assert asked(table, [])[0] == []


@pytest.mark.parametrize("compared", [0, 100])
def test_only_blocks_of_the_partitions_asked_are_read(table, monkeypatch, compared):
    monkeypatch.setattr(runs, "ROW_GROUP", 5)
    monkeypatch.setattr(index, "_KEYS_COMPARED", compared)
    table.build_index()
    assert len(runs_of(table)) == 1
    found, stats = asked(table, ["a1"], ["a"])
    assert found[0][0] == "a"
    assert (stats.shards_read, stats.blocks_decoded, stats.files_read) == (1, 1, 0)
    _, stats = asked(table, [f"a{n}" for n in range(10)], ["a"] * 10)
    assert stats.blocks_decoded == 2
    # Keys of two files of a partition are sorted among each other.
    _, stats = asked(table, ["b0", "b19"], ["b", "b"])
    assert stats.blocks_decoded <= 4
    assert_right(table)


def test_a_key_in_two_partitions_is_two_rows(table):
    result = table.upsert(batch(["a1", "b1"], "b", ts=2))
    assert (result.inserted, result.updated, result.moved) == (1, 1, 0)
    assert [row[:2] for row in stored(table) if row[0] == "a1"] == [("a1", "a"), ("a1", "b")]
    assert lookup(table, ["a1"])[0][0][0] == "a"
    with pytest.raises(InputError, match="needs the partition columns"):
        table.delete(["a1"])
    assert table.delete(batch(["a1"], "a").select(["id", "dt"])).deleted == 1
    assert lookup(table, ["a1"])[0][0][0] == "b"
    assert assert_right(table).files_read == 0


def test_a_key_twice_in_a_partition_is_in_the_first_of_its_files(table):
    Table(table.storage, {**SMALL_LIMIT, DUP_POLICY: "none"}).insert(batch(["b1"], "b"))
    (first, *_) = lookup(table, ["b1"])[0]
    names = ["_hoodie_record_key", "_hoodie_file_name"]
    rows = [row for part in table.scan(columns=names).tables() for row in part.to_pylist()]
    held = {row[names[1]].split("_")[0] for row in rows if row[names[0]] == "b1"}
    assert len(held) == 2
    assert first[1] == min(held)
    assert table.check().duplicate == 1


def test_an_insert_refuses_keys_of_its_partition_alone(table):
    strict = with_policy(table, "fail")
    with pytest.raises(DuplicateKeyError, match="1 in the table"):
        strict.insert(batch(["b15", "new"], "b"))
    assert strict.insert(batch(["b15", "new"], "a")).inserted == 2


def test_hudi_is_told_of_an_index_that_it_has(table):
    properties = table.config.properties
    assert (properties[TYPE], properties[OWN_TYPE]) == ("SIMPLE", "RECORD_LEVEL_INDEX")
    root = table.storage.root
    choice = Table.open(root).choice
    assert (choice.name, choice.reason) == (NAME, f"{OWN_TYPE} in hoodie.properties")
    assert Table.open(root, options={TYPE: "RECORD_LEVEL_INDEX"}).choice.name == NAME
    with pytest.raises(InvalidOptionError, match="differs from the table's own RECORD_LEVEL_INDEX"):
        Table.open(root, options={TYPE: "SIMPLE"})


def test_files_of_others_are_searched_until_the_next_write_takes_them_in(table):
    before = set(runs_of(table))
    table.upsert(batch(["a1", "new"], "a", ts=2))
    for path in set(runs_of(table)) - before:
        path.unlink()
    assert assert_right(table).files_read == 2, "one was changed, one is new"
    found, stats = asked(table, ["b1"], ["b"])
    assert (found[0][0], stats.files_read) == ("b", 0)
    result = table.upsert(batch(["b1", "b99"], "b", ts=2))
    assert (result.updated, result.inserted) == (1, 1)
    assert assert_right(table).files_read == 0


def test_a_table_that_has_no_runs_is_searched(table):
    shutil.rmtree(runs_of(table)[0].parent)
    assert assert_right(table).files_read == 3
    assert table.check().ok
    table.build_index()
    assert assert_right(table).files_read == 0


def test_a_write_reads_no_file_again_for_its_own_changes(table, monkeypatch):
    """What it wrote into a file group it knows from merging."""
    read = []
    real = Indexed.distinct
    monkeypatch.setattr(Indexed, "distinct", lambda *args: read.append(args) or real(*args))
    assert table.upsert(batch(["a1", "b1"], ["a", "b"], ts=2)).updated == 2
    assert table.delete(batch(["a2"], "a").select(["id", "dt"])).deleted == 1
    table.insert(batch(["a90"], "a"))
    assert read == []
    assert assert_right(table).files_read == 0
    table.bulk_insert(batch(["a91"], "a"))
    assert len(read) == 1, "files of a bulk insert are read"


def test_what_a_rollback_took_back_counts_no_more(table):
    result = table.upsert(batch(["a1", "new"], "a", ts=2))
    table.rollback(result.instant)
    assert asked(table, ["new"])[0] == [(None, None)]
    assert assert_right(table).files_read == 0


def test_check_counts_wrong_keys_and_a_build_repairs_them(table):
    build_without_a1(table)
    found = table.check()
    assert not found.ok
    assert (found.missing, found.extra, found.wrong) == (1, 1, 0)
    assert found.wrong_paths == (files(table)[0].path,)
    assert NAME in found.compared
    table.build_index()
    found = table.check()
    assert found.ok
    assert found.keys == 30


def test_a_damaged_run_costs_time_and_no_answer(table):
    WARNED.clear()
    table.build_index()
    garbled(*runs_of(table))
    with pytest.warns(TableWarning, match=f"index build {table.storage.root} {NAME}` builds"):
        assert asked(table, ["a1"])[0][0][0] == "a"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_right(table)  # it is told once
    assert table.upsert(batch(["a1", "new"], "a", ts=2)).updated == 1
    with pytest.raises(CorruptFileError):
        table.check()
    table.build_index()
    assert assert_right(table).files_read == 0
    assert table.check().ok


def test_a_torn_run_is_replaced_by_the_next_write(table):
    newest(runs_of(table)).write_bytes(b"")
    assert_right(table)
    assert table.upsert(batch(["a1", "new"], "a", ts=2)).updated == 1
    assert assert_right(table).files_read == 0
    assert table.check().ok


def test_a_run_that_a_writer_replaced_meanwhile_costs_no_answer(table, monkeypatch):
    real = index.load_runs

    def late(*args):
        found = real(*args)
        for path in runs_of(table)[:1]:
            path.unlink()
        return found

    monkeypatch.setattr(index, "load_runs", late)
    assert assert_right(table).files_read > 0


def test_runs_that_a_writer_replaced_meanwhile_are_looked_for_again(table, monkeypatch):
    rebuild_behind_the_first_look(table, monkeypatch, index, "load_runs")
    assert assert_right(table).files_read == 0


def test_runs_that_nothing_needs_go(table):
    for number in range(2, 30):
        table.upsert(batch(["a1"], "a", ts=number))
        assert len(runs_of(table)) <= merges._VALUE_RUNS_MAX + 2
    assert assert_right(table).files_read == 0
    assert table.check().ok


def test_a_purged_key_is_in_no_run(table):
    table.upsert(batch(["a-needle", "b-needle"], ["a", "b"], ts=2))
    assert any("a-needle" in texts(path) for path in runs_of(table))
    assert table.purge(["a-needle"]).proven
    assert not any("a-needle" in texts(path) for path in runs_of(table))
    assert any("b-needle" in texts(path) for path in runs_of(table))
    assert assert_right(table, ["a-needle"]).files_read == 0
    assert table.check().ok


def texts(path):
    return pq.read_table(path)["value"].to_pylist()


def test_another_index_and_back(table):
    assert table.use_index(NAME).steps == ()
    plan = table.use_index("simple", dry_run=True)
    assert [step.split()[0] for step in plan.steps] == ["write", "delete"]
    assert runs_of(table)
    table.use_index("simple")
    assert (table.choice.name, runs_of(table)) == ("simple", [])
    assert OWN_TYPE not in table.config.properties
    switch = table.use_index(NAME)
    assert switch.steps[0] == f"build the {NAME} index from the keys of 3 base files"
    assert any(f"told {TYPE}=SIMPLE" in text for text in switch.meaning)
    assert assert_right(table).files_read == 0
    table.use_index("record")
    assert runs_of(table) == []
    assert table.check().ok
    table.use_index(NAME)
    assert table.upsert(batch(["a1", "b1"], "a", ts=2)).inserted == 1
    assert table.choice.name == NAME


def test_a_drop_leaves_the_index_that_hudi_is_told(table):
    table.drop_index(NAME)
    assert (table.choice.name, runs_of(table)) == ("simple", [])
    assert Table.open(table.storage.root).choice.name == "simple"
    assert table.upsert(batch(["a1", "new"], "a", ts=2)).updated == 1


def test_info_tells_of_runs(table):
    info = table.info()
    assert (info.index, info.rows) == (NAME, 30)
    assert [shard.entries for shard in info.shards] == [10] * 3
    size = sum(path.stat().st_size for path in runs_of(table))
    assert sum(shard.bytes for shard in info.shards) == size
    assert info.bytes_per_key == size / 30
    listed = {part.partition: part for part in table.indexes()}
    assert (listed[NAME].file_groups, listed[NAME].bytes) == (3, size)


def test_the_commands_build_list_use_and_drop(tmp_path):
    path, run = str(tmp_path / "t"), functools.partial(CliRunner().invoke, app)
    create(path, "simple").insert(batch(["k1", "k2"], ["a", "b"]))
    refused = run(["index", "build", path, NAME])
    assert isinstance(refused.exception, InvalidOptionError)
    assert f"`keymark table index use PATH {NAME}`" in str(refused.exception)
    assert run(["index", "use", path, NAME]).exit_code == 0
    assert run(["index", "build", path, NAME, "--json"]).exit_code == 0
    assert NAME in run(["index", "list", path]).output
    found = json.loads(run(["lookup", path, "--key", "k2", "--json"]).stdout)
    assert found["keys"][0]["partition_path"] == "b"
    assert (found["shards_read"], found["files_read"]) == (1, 0)
    assert run(["check", path]).exit_code == 0
    assert run(["index", "drop", path, NAME]).exit_code == 0
    assert Table.open(path).choice.name == "simple"


def write(table, number, change):
    kind, numbers, partitions, _ = change
    if kind == "rollback":
        table.rollback(max(table.scan().state.timeline.commit_times(), default=None))
        return
    rows = rows_of(number, keys_of(number, kind, numbers), partitions)
    getattr(table, kind)(rows.select(["id", "dt"]) if kind == "delete" else rows)


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(made=st.lists(changes(), min_size=1, max_size=8), chain=st.integers(1, 3))
def test_every_key_is_found_whatever_happened(tmp_path_factory, made, chain):
    table = create(tmp_path_factory.mktemp("random") / "t", NAME, options=SMALL_LIMIT)
    table.insert(batch([f"k{n}" for n in range(9)], list("abcabcabc")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "_CHAIN_MAX", chain)
        patch.setattr(upkeep, "_RUNS_MAX", chain)
        patch.setattr(merges, "_VALUE_RUNS_MAX", chain)
        patch.setattr(runs, "ROW_GROUP", 4)
        for number, change in enumerate(made, 2):
            before = set(runs_of(table))
            write(table, number, change)
            by_others = change[-1] and change[0] != "rollback"
            for path in (set(runs_of(table)) - before) if by_others else ():
                # As if others had written: nobody covered what they wrote.
                path.unlink()
            stats = assert_right(table, [f"k{n}" for n in range(16)])
            if not by_others and change[0] != "rollback":
                assert stats.files_read == 0 or not files(table)
            assert table.check().ok


FAULTY = {
    "build": lambda table: table.build_index(),
    "drop": lambda table: table.drop_index(NAME),
    "use": lambda table: table.use_index("record"),
    "upsert": lambda table: table.upsert(batch(["a1", "new"], "a", ts=2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DEAD, FULL])
@pytest.mark.parametrize("call", FAULTY)
def test_every_fault_leaves_answers_right(table, tmp_path, call, kind):
    """Killed, or out of disk, at each storage call."""
    for again in survivors(table, tmp_path, kind, FAULTY[call]):
        assert_right(again)
        assert again.check().ok
        again.upsert(batch(["b1", "b99"], "b", ts=3))
        read = assert_right(again).files_read
        assert again.choice.name != NAME or read == 0
        assert again.check().ok


def unasked(*_):
    raise AssertionError("the index was asked for some keys of a large batch")


@pytest.fixture
def large(tmp_path, spark, monkeypatch):
    """A table whose batches are large, and whose index is not asked for some keys at a time.

    Its last file is of others: no run covers it.
    """
    options = {**SMALL_LIMIT, DUP_POLICY: "none", LOCAL_BYTES: "0", BATCH_COLLECT: "0"}
    table = create(tmp_path / "t", NAME, options=options)
    collected = Table(table.storage, {**SMALL_LIMIT, DUP_POLICY: "none"})
    collected.insert(batch([f"a{n}" for n in range(100)], "a"))
    collected.insert(batch([f"b{n}" for n in range(100)], "b"))
    collected.upsert(batch(["a3", "b3"], ["a", "b"], ts=2))
    # A key in two files is updated in the first of them.
    collected.insert(batch(["a7", "a8", "a200"], "a"))
    newest(runs_of(table)).unlink()
    monkeypatch.setattr(PartitionedRecordIndex, "tag", unasked)
    return Table(table.storage, options, spark=spark)


@pytest.mark.spark
@pytest.mark.parametrize("damage", [False, True])
def test_a_large_batch_is_one_join(large, damage):
    if damage:
        garbled(newest(runs_of(large)))
    wanted = [*(f"a{n}" for n in range(5, 60)), "a200", *(f"new{n}" for n in range(5)), "b1"]
    held = min(f.file_id for f in files(large) if f.partition_path == "a")
    result = large.upsert(batch(wanted, "a", ts=3))
    assert (result.updated, result.inserted, result.moved) == (56, 6, 0)
    changed = {
        row["_hoodie_record_key"]: row["_hoodie_file_name"].split("_")[0]
        for part in large.scan().tables()
        for row in part.to_pylist()
        if row["ts"] == 3
    }
    assert changed.keys() == set(wanted)
    assert changed["a7"] == changed["a8"] == held
    if not damage:
        assert large.check().duplicate == 2
