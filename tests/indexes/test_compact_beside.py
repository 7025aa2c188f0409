"""Hashes of keys beside a record index: writes ask them, and lookups of many keys."""

from __future__ import annotations

import functools

import pytest
from compact_cases import NAME, assert_covered, has_hash, runs_of, truth
from faults import DEAD, FULL
from index_cases import batch, create, lookup, with_policy
from run_cases import SMALL_LIMIT, garbled, survivors, three_files
from typer.testing import CliRunner

from keymark import Table
from keymark.indexes.record import index
from keymark.indexes.shared.damage import WARNED
from keymark.table.cli import app
from keymark.table.errors import DuplicateKeyError, InvalidOptionError, TableWarning
from keymark.table.index.protocol import spec_of
from keymark.table.properties.options import RECORD_HASHES
from keymark.table.values.indexed import Indexed


@pytest.fixture
def table(tmp_path):
    table = three_files(tmp_path / "t", "record")
    assert table.build_index(NAME)
    return table


def assert_exact(table):
    """The record index and the hashes beside it are right, and it finds every key."""
    assert_covered(table)
    checked = table.check()
    assert checked.ok, checked
    held = truth(table)
    keys = sorted({*held, "absent"})
    assert lookup(table, keys)[0] == [held.get(key, (None, None)) for key in keys]


def test_they_are_made_of_the_record_index_and_a_table_says_that_it_has_them(table, monkeypatch):
    read = []
    monkeypatch.setattr(Indexed, "distinct", lambda *args: read.append(args))
    table.build_index(NAME)
    assert (read, len(runs_of(table))) == ([], 1)
    assert table.choice.name == "record"
    assert table.config.properties[RECORD_HASHES] == "true"
    assert NAME in [part.partition for part in table.indexes()]
    assert {shard.file_group[:12] for shard in table.info().shards} == {"record-index"}
    monkeypatch.undo()
    assert {"record_index", NAME} <= set(table.check().compared)
    assert_exact(table)


def test_a_write_asks_them_and_keeps_the_record_index(table, monkeypatch):
    asked = []
    real = index.lookup_shard
    monkeypatch.setattr(index, "lookup_shard", lambda work: asked.append(work) or real(work))
    result = table.upsert(batch(["a1", "b12", "new"], ["a", "b", "a"], ts=2))
    assert (result.index, result.updated, result.inserted) == (NAME, 2, 1)
    assert table.delete(["a2", "absent"]).deleted == 1
    assert table.insert(batch(["newer"], "b")).inserted == 1
    with pytest.raises(DuplicateKeyError, match="1 in the table"):
        with_policy(table, "fail").insert(batch(["b15", "newest"], "a"))
    assert asked == []
    assert_exact(table)


@pytest.mark.parametrize("moves", ["true", "false"])
def test_a_key_of_another_partition_moves_as_the_record_index_says(tmp_path, moves):
    options = {
        **SMALL_LIMIT,
        RECORD_HASHES: "true",
        "hoodie.record.index.update.partition.path": moves,
    }
    table = create(tmp_path / "t", "record", options=options)
    table.insert(batch(["k1", "k2"], "a"))
    assert table.upsert(batch(["k1"], "b", ts=2)).moved == (moves == "true")
    assert table.upsert(batch(["k1"], "a", ts=3)).moved == (moves == "true")
    assert_exact(table)


def test_absent_keys_among_many_open_no_shard(table, monkeypatch):
    keys = [f"absent {n}" for n in range(2_000)]
    assert lookup(table, keys)[1].blocks_decoded > 0
    monkeypatch.setattr(index, "_HASHED_MIN", 1_000)
    found, stats = lookup(table, keys)
    assert (set(found), stats.blocks_decoded, stats.candidates) == ({(None, None)}, 0, 0)
    held = truth(table)
    found, _ = lookup(table, [*keys, "a1", "b12"])
    assert found[-2:] == [held["a1"], held["b12"]]


def test_files_of_others_are_taken_in_before_the_next_write_asks(table):
    before = set(runs_of(table))
    table.upsert(batch(["a1", "new"], "a", ts=2))
    for path in set(runs_of(table)) - before:
        path.unlink()
    assert lookup(table, ["new"])[0] == [truth(table)["new"]]
    assert table.upsert(batch(["b1", "new"], ["b", "a"], ts=3)).updated == 2
    assert_exact(table)


def test_damage_costs_time_and_a_build_makes_them_anew(table, monkeypatch):
    WARNED.clear()
    monkeypatch.setattr(index, "_HASHED_MIN", 1)
    garbled(*runs_of(table))
    with pytest.warns(TableWarning, match=f"index build {table.storage.root} {NAME}` builds"):
        assert lookup(table, ["a1"])[0] == [truth(table)["a1"]]
    assert table.build_index(NAME)
    assert_exact(table)


def test_a_resharding_does_not_touch_them(table):
    table.reshard_index(7)
    table.upsert(batch(["a1", "new"], "a", ts=2))
    assert_exact(table)


def test_a_purged_key_is_in_neither(table):
    table.upsert(batch(["needle"], "a", ts=2))
    assert table.purge(["needle", "b19"]).proven
    assert not has_hash(table, "needle")
    assert not has_hash(table, "b19")
    assert_exact(table)


def test_a_drop_and_another_index_give_them_up(table):
    table.drop_index(NAME)
    assert (table.choice.name, runs_of(table)) == ("record", [])
    assert RECORD_HASHES not in table.config.properties
    with pytest.raises(InvalidOptionError, match="not a partition"):
        table.drop_index(NAME)
    table.build_index(NAME)
    kept = runs_of(table)
    table.use_index(NAME)
    assert (table.choice.name, runs_of(table)) == (NAME, kept)
    assert_covered(table)
    table.use_index("record")
    assert runs_of(table) == []
    table.build_index(NAME)
    steps = table.use_index("global_simple").steps
    assert f"delete the {NAME} index" in steps
    assert (runs_of(table), RECORD_HASHES in table.config.properties) == ([], False)
    assert table.check().ok


def test_another_option_of_the_record_index_keeps_them(table):
    moves = {spec_of("record").move_option: "true"}
    assert table.use_index("record", moves).steps
    assert table.config.properties[RECORD_HASHES] == "true"
    table.upsert(batch(["a1", "new"], "a", ts=2))
    assert_exact(table)


def test_only_beside_a_record_index(tmp_path):
    table = create(tmp_path / "t", "global_simple", options={RECORD_HASHES: "true"})
    table.insert(batch(["k1"], "a"))
    assert (runs_of(table), table.config.key_runs) == ([], "")
    with pytest.raises(InvalidOptionError, match="index use PATH compact"):
        table.build_index(NAME)


def test_the_commands_build_list_and_drop(tmp_path):
    path, run = str(tmp_path / "t"), functools.partial(CliRunner().invoke, app)
    create(path, "record").insert(batch(["k1", "k2"], ["a", "b"]))
    assert run(["index", "build", path, NAME, "--json"]).exit_code == 0
    assert NAME in run(["index", "list", path]).output
    assert Table.open(path).upsert(batch(["k1"], "a", ts=2)).index == NAME
    assert run(["index", "drop", path, NAME]).exit_code == 0
    assert NAME not in run(["index", "list", path]).output


FAULTY = {
    "build": lambda table: table.build_index(NAME),
    "drop": lambda table: table.drop_index(NAME),
    "upsert": lambda table: table.upsert(batch(["a1", "new"], "a", ts=2)),
    "purge": lambda table: table.purge(["a1"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DEAD, FULL])
@pytest.mark.parametrize("call", FAULTY)
def test_every_fault_leaves_answers_right(table, tmp_path, call, kind):
    """Killed, or out of disk, at each storage call."""
    for again in survivors(table, tmp_path, kind, FAULTY[call]):
        held = truth(again)
        assert lookup(again, [*held, "absent"])[0] == [*held.values(), (None, None)]
        assert again.check().ok
        again.upsert(batch(["b1", "b99"], "b", ts=3))
        if again.config.key_runs:
            assert_covered(again)
        assert again.check().ok
