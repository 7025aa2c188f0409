"""The compact index: which keys it finds, what it reads, what a write leaves behind."""

from __future__ import annotations

import functools
import json
import shutil

import pytest
from compact_cases import (
    NAME,
    asked,
    assert_covered,
    assert_right,
    has_hash,
    runs_of,
    tagged,
    truth,
)
from index_cases import batch, create, files, lookup, stored, with_policy
from run_cases import SMALL_LIMIT, build_without_a1, newest, three_files
from typer.testing import CliRunner

from keymark import Table
from keymark.indexes.compact import index
from keymark.indexes.global_simple.spec import SIMPLE_MOVE
from keymark.table.cli import app
from keymark.table.errors import (
    DuplicateKeyError,
    InvalidOptionError,
    StorageError,
    TableWarning,
)
from keymark.table.properties.options import BATCH_COLLECT, LOCAL_BYTES
from keymark.table.values import merges
from keymark.table.values.indexed import Indexed

TYPE, OWN_TYPE = "hoodie.index.type", "keymark.index.type"


@pytest.fixture
def table(tmp_path):
    return three_files(tmp_path / "t", NAME)


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
    """What it wrote into a file group it knows from merging."""
    read = []
    real = Indexed.distinct
    monkeypatch.setattr(Indexed, "distinct", lambda *args: read.append(args) or real(*args))
    assert table.upsert(batch(["a1", "b1"], ["a", "b"], ts=2)).updated == 2
    assert table.delete(["a2"]).deleted == 1
    table.insert(batch(["a90"], "a"))
    assert read == []
    table.bulk_insert(batch(["a91"], "a"))
    assert len(read) == 1, "files of a bulk insert are read"
    assert_covered(table)


def test_what_a_rollback_took_back_counts_no_more(table):
    result = table.upsert(batch(["a1", "new"], "a", ts=2))
    table.rollback(result.instant)
    assert asked(table, ["new"])[0] == [(None, None)]
    assert_covered(table)


def test_check_counts_keys_that_the_runs_lack_and_a_build_repairs_them(table):
    build_without_a1(table)
    found = table.check()
    assert not found.ok
    assert (found.missing, found.extra, found.wrong) == (1, 0, 0)
    assert found.wrong_paths == (files(table)[0].path,)
    assert NAME in found.compared
    table.build_index()
    found = table.check()
    assert found.ok
    assert found.keys == 30


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


@pytest.fixture
def paged(tmp_path):
    """A table of a file with ten pages."""
    table = create(tmp_path / "t", NAME)
    table.bulk_insert(batch([f"k{n:05d}" for n in range(20_000)], "a"))
    table.upsert(batch(["k00007"], "a", ts=2))
    return table


def pages_read(table, keys):
    found, stats = lookup(table, keys)
    held = truth(table)
    assert found == [held.get(key, (None, None)) for key in keys]
    assert (stats.candidates, stats.proven) == (len(keys), sum(key in held for key in keys))
    return stats.pages_read


def test_a_lookup_reads_the_page_that_may_hold_the_key_and_the_one_with_its_commit(
    paged, monkeypatch
):
    assert pages_read(paged, ["k04321"]) == 2
    assert pages_read(paged, ["k00007", "k19999"]) == 4
    assert pages_read(paged, ["k04321", "k04322"]) == 2
    many = [f"k{n:05d}" for n in range(0, 20_000, 1_000)]
    assert pages_read(paged, many) == 20, "where most pages are asked, all are read"
    # Runs that are merged, and those made anew, still say it.
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 1)
    paged.upsert(batch(["k00007", "k19998", "new"], "a", ts=3))
    assert len(runs_of(paged)) == 1
    assert pages_read(paged, ["k04321"]) == pages_read(paged, ["new"]) == 2
    paged.build_index()
    assert pages_read(paged, ["k04321"]) == pages_read(paged, ["new"]) == 2


def test_a_key_whose_row_moved_is_found_in_the_whole_column(paged):
    paged.delete([f"k{n:05d}" for n in range(3_000)])
    pages = pages_read(paged, ["k10000"])
    assert pages > 3
    absent = pages_read(paged, ["k00001"])
    assert absent == pages - 1, "a hash that stayed costs a proof, and there is no commit to read"


def test_instants_are_those_of_rows(paged):
    first, second = sorted(paged.scan().state.timeline.commit_times())
    found = paged.lookup(["k04321", "k00007", "absent"])["instant_time"].to_pylist()
    assert found == [first, second, None]
    every = [f"k{n:05d}" for n in range(20_000)]
    told = paged.lookup(every)["instant_time"].to_pylist()
    assert told == [second if key == "k00007" else first for key in every]


def test_instants_of_rows_without_meta_columns_are_those_of_files(tmp_path):
    options = {"hoodie.populate.meta.fields": "false"}
    table = create(tmp_path / "t", NAME, options=options)
    instant = table.insert(batch(["k1", "k2"], "a")).instant
    assert table.lookup(["k1", "absent"])["instant_time"].to_pylist() == [instant, None]


@pytest.mark.spark
def test_a_large_batch_is_asked_in_parts(tmp_path, spark):
    options = {**SMALL_LIMIT, LOCAL_BYTES: "0", BATCH_COLLECT: "0"}
    table = create(tmp_path / "t", NAME, options=options, spark=spark)
    table.bulk_insert(batch([f"a{n}" for n in range(100)], "a"))
    table.bulk_insert(batch([f"b{n}" for n in range(100)], "b"))
    newest(runs_of(table)).unlink()
    wanted = [*(f"a{n}" for n in range(5, 60)), *(f"new{n}" for n in range(5)), "b1"]
    result = table.upsert(batch(wanted, "a", ts=3))
    assert (result.updated, result.inserted, result.moved) == (55, 5, 1)
    assert_covered(table)
    assert table.check().ok
    assert lookup(table, ["b1"])[0][0][0] == "a"
