"""The compact index: by its runs, and by files that these do not cover.

Strategy: random writes, some of them "by others" (their runs are taken away), are followed by
lookups of all keys, whose answers are read from the rows.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from faults import DEAD, FULL, Killed, every_fault
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_cases import batch, create, files, lookup, stored, with_policy
from typer.testing import CliRunner

from keymark import Table
from keymark.indexes.compact import index
from keymark.indexes.compact.index import CompactIndex
from keymark.indexes.global_simple.spec import SIMPLE_MOVE
from keymark.indexes.shared.damage import WARNED
from keymark.table.cli import app
from keymark.table.errors import (
    CorruptFileError,
    DuplicateKeyError,
    InputError,
    InvalidOptionError,
    StorageError,
    TableWarning,
)
from keymark.table.format.compact.writer import hashes_of
from keymark.table.index.protocol import LookupStats
from keymark.table.properties.options import BATCH_COLLECT, LOCAL_BYTES
from keymark.table.state.table_state import TableState
from keymark.table.values import hash_runs
from keymark.table.values.hash_runs import HashSearch, find_hashes, load_hash_runs
from keymark.table.values.indexed import Indexed

NAME = "compact"
SMALL_LIMIT = {"hoodie.parquet.small.file.limit": "0"}
TYPE, OWN_TYPE = "hoodie.index.type", "keymark.index.type"


@pytest.fixture
def table(tmp_path):
    """Three files: a0..a9 in a, b0..b9 in b, and in b one of b10..b19."""
    table = create(tmp_path / "t", NAME, options=SMALL_LIMIT)
    table.insert(batch([f"a{n}" for n in range(10)], "a"))
    table.insert(batch([f"b{n}" for n in range(10)], "b"))
    table.insert(batch([f"b{n}" for n in range(10, 20)], "b"))
    return table


def runs_of(table):
    return sorted(Path(table.storage.root, ".hoodie/.keymark/hashes").glob("*"))


def newest_run(table):
    return max(runs_of(table), key=lambda path: path.stat().st_mtime_ns)


def has_hash(table, key):
    """Whether any run has the hash of a key."""
    hashes = hashes_of(pa.array([key]))
    runs = load_hash_runs(table.storage)
    return any(len(find_hashes(HashSearch(table.storage, r.path, hashes)).rows) for r in runs)


def asked(table, keys):
    """(partition path, file id) per key, and what the lookup touched."""
    stats = LookupStats()
    context = table._context(TableState.load(table.storage), stats)
    found = CompactIndex().lookup(pa.array(keys, pa.string()), context)
    places = found["partition_path"].to_pylist(), found["file_id"].to_pylist()
    return list(zip(*places, strict=True)), stats


def tagged(table, keys, partitions):
    """The partition path of each tag, and what tagging touched."""
    stats = LookupStats()
    context = table._context(TableState.load(table.storage), stats)
    found = CompactIndex().tag(pa.array(keys), pa.array(partitions, pa.string()), context)
    return found["partition_path"].to_pylist(), stats


def truth(table):
    """key -> (partition path, file id), from the rows."""
    names = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    rows = [row for part in table.scan(columns=names).tables() for row in part.to_pylist()]
    return {row[names[0]]: (row[names[1]], row[names[2]].split("_")[0]) for row in rows}


def assert_right(table, more_keys=("absent",)):
    """Every key is found where it is."""
    held = truth(table)
    keys = sorted({*held, *more_keys})
    assert asked(table, keys)[0] == [held.get(key, (None, None)) for key in keys]


def assert_covered(table):
    """No file is searched because no run covers it."""
    assert_right(table)
    assert asked(table, ["absent"])[1].files_read == 0


def test_a_key_is_found_wherever_it_is(table):
    found, stats = asked(table, ["b12", "a3", "zz"])
    assert [path for path, _ in found] == ["b", "a", None]
    assert (stats.shards_read, stats.candidates, stats.files_read) == (3, 2, 2)
    assert asked(table, [])[0] == []


def test_absent_keys_read_no_file(table):
    _, stats = asked(table, [f"absent {n}" for n in range(200_000)])
    assert (stats.candidates, stats.files_read) == (0, 0)


def test_tagging_leaves_it_to_merging_whether_a_key_is_there(table):
    paths, stats = tagged(table, ["a1", "b1", "new"], ["a", "b", "a"])
    assert (paths, stats.files_read) == (["a", "b", None], 0)
    # What would move a row is proven, and so is a key that has two candidates.
    paths, stats = tagged(table, ["a1", "b1"], ["b", "b"])
    assert (paths, stats.files_read) == (["a", "b"], 1)
    # A row without a partition is a delete.
    paths, stats = tagged(table, ["a1"], [None])
    assert (paths, stats.files_read) == (["a"], 0)


def test_a_key_that_went_may_come_again_anywhere(table):
    table.delete(["a1", "a2"])
    assert asked(table, ["a1"])[0] == [(None, None)]
    assert table.delete(["a1"]).deleted == 0
    result = table.upsert(batch(["a1", "a2"], ["b", "a"], ts=2))
    assert (result.inserted, result.moved) == (2, 0)
    assert [row[:2] for row in stored(table) if row[0] in ("a1", "a2")] == [
        ("a1", "b"),
        ("a2", "a"),
    ]
    assert_covered(table)


@pytest.mark.parametrize("moves", ["true", "false"])
def test_a_key_of_another_partition_moves_or_stays(tmp_path, moves):
    table = create(tmp_path / "t", NAME, options={**SMALL_LIMIT, SIMPLE_MOVE: moves})
    table.insert(batch(["k1", "k2"], "a"))
    result = table.upsert(batch(["k1"], "b", ts=2))
    assert (result.moved, result.updated) == ((1, 0) if moves == "true" else (0, 1))
    assert truth(table)["k1"][0] == ("b" if moves == "true" else "a")
    # It has two candidates now, of which one is stale.
    assert table.upsert(batch(["k1"], "a", ts=3)).moved == (moves == "true")
    assert truth(table)["k1"][0] == "a"
    assert_covered(table)
    assert table.check().ok


def test_an_insert_refuses_keys_of_any_partition(table):
    with pytest.raises(DuplicateKeyError, match="1 in the table"):
        with_policy(table, "fail").insert(batch(["b15", "new"], "a"))
    # A hash alone refuses nothing.
    table.delete(["b15"])
    assert with_policy(table, "fail").insert(batch(["b15", "new"], "a")).inserted == 2


def test_hudi_is_told_of_an_index_that_it_has(table):
    properties = table.config.properties
    assert (properties[TYPE], properties[OWN_TYPE]) == ("GLOBAL_SIMPLE", "COMPACT")
    root = table.storage.root
    choice = Table.open(root).choice
    assert (choice.name, choice.reason) == (NAME, f"{OWN_TYPE} in hoodie.properties")
    with pytest.raises(InvalidOptionError, match="differs from the table's own COMPACT"):
        Table.open(root, options={TYPE: "GLOBAL_SIMPLE"})


def test_a_commit_and_its_runs_are_visible_at_once(table, monkeypatch):
    """No write leaves files that no run covers, not even before its services ran."""

    def stop(*_):
        raise StorageError("no service runs")

    monkeypatch.setattr("keymark.table.values.upkeep.ValueIndexes._tidy", stop)
    # It would stop the write before: others wrote nothing.
    monkeypatch.setattr("keymark.table.services.maintain.TableServices.catch_up", lambda *_: None)
    with pytest.warns(TableWarning, match="no service runs"):
        table.upsert(batch(["a1", "new"], "a", ts=2))
    assert_covered(table)


def test_a_write_that_fails_leaves_runs_that_a_later_one_deletes(table, monkeypatch):
    before = set(runs_of(table))

    def stop(*_):
        raise StorageError("no commit")

    with monkeypatch.context() as patch:
        patch.setattr("keymark.table.write.transaction.WriteTransaction._complete", stop)
        with pytest.raises(StorageError, match="no commit"):
            table.upsert(batch(["a1", "failed"], "a", ts=2))
    left = set(runs_of(table)) - before
    assert left
    assert_covered(table)
    table.upsert(batch(["a1"], "a", ts=3))
    assert not left & set(runs_of(table))
    assert not has_hash(table, "failed")


def test_files_of_others_are_searched_and_taken_in_before_the_next_write_asks(table, monkeypatch):
    before = set(runs_of(table))
    table.upsert(batch(["a1", "new"], "a", ts=2))
    for path in set(runs_of(table)) - before:
        path.unlink()
    assert asked(table, ["absent"])[1].files_read == 2, "one was changed, one is new"
    assert_right(table)
    real, searched = index.search_files, []

    def spied(keys, asked, context):
        searched.extend(asked)
        return real(keys, asked, context)

    monkeypatch.setattr(index, "search_files", spied)
    result = table.upsert(batch(["b1", "b99", "new"], ["b", "b", "a"], ts=2))
    assert (result.updated, result.inserted) == (2, 1)
    assert searched == []
    assert_covered(table)


def test_a_table_that_has_no_runs_is_searched(table):
    shutil.rmtree(runs_of(table)[0].parent)
    assert asked(table, ["absent"])[1].files_read == 3
    assert_right(table)
    assert table.check().ok
    table.build_index()
    assert_covered(table)


def test_a_write_reads_no_file_again_for_its_own_changes(table, monkeypatch):
    """What it changed in a file group it knows from merging."""
    read = []
    real = Indexed.distinct
    monkeypatch.setattr(Indexed, "distinct", lambda *args: read.append(args) or real(*args))
    assert table.upsert(batch(["a1", "b1"], ["a", "b"], ts=2)).updated == 2
    assert table.delete(["a2"]).deleted == 1
    assert read == []
    table.insert(batch(["a90"], "a"))
    assert len(read) == 1, "a new file group is read"
    assert_covered(table)


def test_what_a_rollback_took_back_counts_no_more(table):
    result = table.upsert(batch(["a1", "new"], "a", ts=2))
    table.rollback(result.instant)
    assert asked(table, ["new"])[0] == [(None, None)]
    assert_covered(table)


def test_check_counts_keys_that_the_runs_lack_and_a_build_repairs_them(table):
    real = Indexed.distinct

    def misread(*args):
        return pa.array(["wrong" if key == "a1" else key for key in real(*args).to_pylist()])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Indexed, "distinct", misread)
        table.build_index()
    found = table.check()
    assert not found.ok
    assert (found.missing, found.extra, found.wrong) == (1, 0, 0)
    assert found.wrong_paths == (files(table)[0].path,)
    assert NAME in found.compared
    table.build_index()
    found = table.check()
    assert found.ok
    assert found.keys == 30


def garbled(path):
    """Damage the first page: the end stays whole."""
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(bytes(data))


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
    assert_covered(table)
    assert table.check().ok


def test_a_torn_run_is_replaced_by_the_next_write(table):
    newest_run(table).write_bytes(b"")
    assert_right(table)
    assert table.upsert(batch(["a1", "new"], "a", ts=2)).updated == 1
    assert_covered(table)
    assert table.check().ok


def test_a_run_that_a_writer_replaced_meanwhile_is_looked_for_again(table, monkeypatch):
    real, looks = index.load_hash_runs, []

    def late(*args):
        found = real(*args)
        if not looks:
            looks.append(1)
            table.build_index()
        return found

    monkeypatch.setattr(index, "load_hash_runs", late)
    assert asked(table, ["a1", "absent"])[1].files_read == 1


def test_runs_are_merged(table, monkeypatch):
    monkeypatch.setattr(hash_runs, "_RUNS_MAX", 4)
    monkeypatch.setattr(hash_runs, "_MERGED_AT_ONCE", 3)
    for number in range(2, 30):
        table.upsert(batch([f"a{number % 7}", f"n{number}"], "ab"[number % 2], ts=number))
        assert len(runs_of(table)) <= 5
    assert_covered(table)
    assert table.check().ok
    # Links of one chain became one: no file is told of as often as it was written.
    runs = load_hash_runs(table.storage)
    assert sum(len(run.files) for run in runs) < 29


def test_a_merge_keeps_what_rolling_back_needs_or_files_are_searched(table, monkeypatch):
    monkeypatch.setattr(hash_runs, "_RUNS_MAX", 1)
    last = [table.upsert(batch(["a1", f"n{n}"], "a", ts=n)) for n in range(2, 5)][-1]
    assert len(runs_of(table)) == 1
    table.rollback(last.instant)
    assert_right(table, ["n4"])
    table.upsert(batch(["b1"], "b", ts=9))
    assert_covered(table)
    assert table.check().ok


def test_due_merges_take_the_smallest_and_write_each_entry_once():
    run = functools.partial(hash_runs.HashRun, "", (), 0)
    assert hash_runs.due_merges([run(1)] * 16) == []
    (members,) = hash_runs.due_merges([run(900), *[run(1)] * 16])
    assert sorted(members) == sorted(set(members))
    assert (len(members), 0 in members) == (9, False)
    merges = hash_runs.due_merges([run(5)] * 250)
    assert sum(map(len, merges)) == len({n for each in merges for n in each})
    assert 250 - sum(len(each) - 1 for each in merges) <= 16


def test_a_purged_key_has_a_hash_in_no_run(table):
    table.upsert(batch(["a-needle", "b-needle"], ["a", "b"], ts=2))
    table.delete(["b19"])
    kept = {path for path in runs_of(table) if path != newest_run(table)}
    assert has_hash(table, "b19"), "a delete leaves the hash"
    assert table.purge(["a-needle", "b19"]).proven
    assert not has_hash(table, "a-needle")
    assert not has_hash(table, "b19")
    assert has_hash(table, "b-needle")
    assert kept & set(runs_of(table)), "runs without such a hash stay"
    assert_covered(table)
    assert table.check().ok


def test_a_hash_that_is_left_is_no_proof(table, monkeypatch):
    monkeypatch.setattr("keymark.table.values.upkeep.ValueIndexes.erase", lambda *_: None)
    report = table.purge(["a1"])
    assert (report.proven, report.files_left) == (False, 1)


def test_a_purge_of_keys_that_are_in_no_index_changes_no_run(table):
    before = runs_of(table)
    assert table.purge(["a key that never was"]).proven
    assert runs_of(table) == before


def test_a_purge_clears_runs_of_an_index_that_the_table_has_no_more(table):
    root = runs_of(table)[0].parent
    shutil.copytree(root, root.with_name("copy"))
    table.use_index("global_simple")
    shutil.move(root.with_name("copy"), root)
    assert table.purge(["a1"]).proven
    assert runs_of(table) == []


def test_another_index_and_back(table):
    assert table.use_index(NAME).steps == ()
    table.use_index("partitioned_record")
    assert runs_of(table) == []
    switch = table.use_index(NAME)
    assert any(
        step.startswith(f"build the {NAME} index from the keys of 3") for step in switch.steps
    )
    assert "delete the partitioned_record index" in switch.steps
    assert any(f"told {TYPE}=GLOBAL_SIMPLE" in text for text in switch.meaning)
    assert_covered(table)
    table.use_index("record")
    assert runs_of(table) == []
    assert table.check().ok
    table.use_index(NAME)
    assert table.upsert(batch(["a1", "b1"], "a", ts=2)).moved == 1
    assert table.choice.name == NAME


def test_a_drop_leaves_the_index_that_hudi_is_told(table):
    table.drop_index(NAME)
    assert (table.choice.name, runs_of(table)) == ("global_simple", [])
    assert table.upsert(batch(["a1", "new"], "a", ts=2)).updated == 1


def test_info_tells_of_runs(table):
    info = table.info()
    assert (info.index, info.rows) == (NAME, 30)
    assert [shard.entries for shard in info.shards] == [10] * 3
    size = sum(path.stat().st_size for path in runs_of(table))
    assert sum(shard.bytes for shard in info.shards) == size
    listed = {part.partition: part for part in table.indexes()}
    assert (listed[NAME].file_groups, listed[NAME].bytes) == (3, size)


def test_the_commands_build_list_use_and_drop(tmp_path):
    path, run = str(tmp_path / "t"), functools.partial(CliRunner().invoke, app)
    create(path, "global_simple").insert(batch(["k1", "k2"], ["a", "b"]))
    assert run(["index", "use", path, NAME]).exit_code == 0
    assert run(["index", "build", path, NAME, "--json"]).exit_code == 0
    assert NAME in run(["index", "list", path]).output
    found = json.loads(run(["lookup", path, "--key", "k2", "--json"]).stdout)
    assert found["keys"][0]["partition_path"] == "b"
    assert (found["shards_read"], found["files_read"]) == (1, 1)
    assert run(["check", path]).exit_code == 0
    assert run(["index", "drop", path, NAME]).exit_code == 0
    assert Table.open(path).choice.name == "global_simple"


@st.composite
def writes(draw):
    kinds = ["upsert", "upsert", "upsert", "delete", "insert", "bulk_insert", "rollback", "purge"]
    keys = draw(st.lists(st.integers(0, 15), min_size=1, max_size=5, unique=True))
    partitions = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=2))
    return draw(st.sampled_from(kinds)), keys, partitions, draw(st.booleans())


def write(table, number, change):
    """Make a change; of new keys where it would add others a second time."""
    kind, numbers, partitions, _ = change
    if kind == "rollback":
        # What a purge took away cannot be gone back to.
        with contextlib.suppress(InputError):
            table.rollback(max(table.scan().state.timeline.commit_times(), default=None))
        return
    fresh = f"{number}-" if kind in ("insert", "bulk_insert") else ""
    keys = [f"k{fresh}{key}" for key in numbers]
    if kind == "purge":
        assert table.purge(keys).proven
        assert not any(has_hash(table, key) for key in keys)
        return
    paths = list(itertools.islice(itertools.cycle(partitions), len(keys)))
    rows = batch(keys, paths, ts=number)
    getattr(table, kind)(keys if kind == "delete" else rows)


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(changes=st.lists(writes(), min_size=1, max_size=8), most=st.integers(1, 3))
def test_every_key_is_found_whatever_happened(tmp_path_factory, changes, most):
    table = create(tmp_path_factory.mktemp("random") / "t", NAME, options=SMALL_LIMIT)
    table.insert(batch([f"k{n}" for n in range(9)], list("abcabcabc")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_runs, "_RUNS_MAX", most)
        patch.setattr(hash_runs, "_MERGED_AT_ONCE", 2)
        for number, change in enumerate(changes, 2):
            before = set(runs_of(table))
            write(table, number, change)
            by_others = change[-1] and change[0] not in ("rollback", "purge")
            for path in (set(runs_of(table)) - before) if by_others else ():
                # As if others had written: nobody covered what they wrote.
                path.unlink()
            assert_right(table, [f"k{n}" for n in range(16)])
            if not by_others and change[0] != "rollback":
                assert_covered(table)
            assert table.check().ok


FAULTY = {
    "build": lambda table: table.build_index(),
    "drop": lambda table: table.drop_index(NAME),
    "use": lambda table: table.use_index("record"),
    "upsert": lambda table: table.upsert(batch(["a1", "new"], "a", ts=2)),
    "purge": lambda table: table.purge(["a1"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DEAD, FULL])
@pytest.mark.parametrize("call", FAULTY)
def test_every_fault_leaves_answers_right(table, tmp_path, monkeypatch, call, kind):
    """Killed, or out of disk, at each storage call."""
    monkeypatch.setattr(hash_runs, "_RUNS_MAX", 1)
    numbers = itertools.count()
    copies = lambda: str(shutil.copytree(table.storage.root, tmp_path / f"copy{next(numbers)}"))  # noqa: E731
    for _, storage in every_fault(kind, copies):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TableWarning)
                FAULTY[call](Table(storage))
        except (Killed, StorageError):
            pass
        again = Table.open(storage.root)
        assert_right(again)
        assert again.check().ok
        again.upsert(batch(["b1", "b99"], "b", ts=3))
        if again.choice.name == NAME:
            assert_covered(again)
        assert again.check().ok


@pytest.mark.spark
def test_a_large_batch_is_asked_in_parts(tmp_path, spark):
    options = {**SMALL_LIMIT, LOCAL_BYTES: "0", BATCH_COLLECT: "0"}
    table = create(tmp_path / "t", NAME, options=options, spark=spark)
    table.bulk_insert(batch([f"a{n}" for n in range(100)], "a"))
    table.bulk_insert(batch([f"b{n}" for n in range(100)], "b"))
    newest_run(table).unlink()
    wanted = [*(f"a{n}" for n in range(5, 60)), *(f"new{n}" for n in range(5)), "b1"]
    result = table.upsert(batch(wanted, "a", ts=3))
    assert (result.updated, result.inserted, result.moved) == (55, 5, 1)
    assert_covered(table)
    assert table.check().ok
    assert lookup(table, ["b1"])[0][0][0] == "a"
