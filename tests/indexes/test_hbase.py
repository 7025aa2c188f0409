"""The HBase index over an HBase in memory: layout, rule, histories, and what dies in between."""

from __future__ import annotations

import pyarrow as pa
import pytest
from conformance import SHAPES, History
from hbase_fake import QUICK, TABLE, FakeHBase
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_cases import batch, create, files, lookup, stored, with_policy

from keymark import Table
from keymark.indexes.hbase.client import COMMIT_TS, FILE_NAME, PARTITION_PATH
from keymark.table.errors import (
    CorruptFileError,
    IndexUnavailableError,
    InvalidOptionError,
    UnsupportedTableError,
)
from keymark.table.index import key_file
from keymark.table.index.external import CHANGES, ExternalIndex
from keymark.table.index.protocol import load_index
from keymark.table.services.recover import held_keys, restore
from keymark.table.state.table_state import TableState
from keymark.table.timeline.timeline import Timeline

MOVES = {"hoodie.hbase.index.update.partition.path": "true"}


@pytest.fixture
def hbase(monkeypatch):
    return FakeHBase().install(monkeypatch)


def truth(table):
    """Key -> (partition path, file id), from the rows themselves."""
    columns = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    found = [t.to_pydict() for t in table.scan(columns=columns).tables()]
    rows = [row for c in found for row in zip(*c.values(), strict=True)]
    assert len({key for key, *_ in rows}) == len(rows), "a key is in two rows"
    return {key: (partition, name.split("_")[0]) for key, partition, name in rows}


def check_exact(table, hbase):
    """HBase has an entry for each key, which the index finds, and no other."""
    places = truth(table)
    keys = sorted(places)
    assert lookup(table, [*keys, "absent"])[0] == [*(places[key] for key in keys), (None, None)]
    assert sorted(hbase.entries()) == keys


def test_is_an_index_outside_the_table():
    assert isinstance(load_index("hbase"), ExternalIndex)
    assert not isinstance(load_index("record"), ExternalIndex)


def test_rows_are_those_of_hudi(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    result = table.upsert(batch(["a", "ключ"], ["p", ""]))
    places = truth(table)
    assert hbase.tables["t"] == {
        key.encode(): {
            COMMIT_TS: result.instant.encode(),
            FILE_NAME: places[key][1].encode(),
            PARTITION_PATH: places[key][0].encode(),
        }
        for key in ("a", "ключ")
    }
    assert (COMMIT_TS, FILE_NAME, PARTITION_PATH) == (
        b"_s:commit_ts",
        b"_s:file_name",
        b"_s:partition_path",
    )


def test_an_update_leaves_the_entry_of_the_first_commit(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a", "b"]))
    before = hbase.entries()
    table.upsert(batch(["a"], ts=2))
    assert hbase.entries() == before
    check_exact(table, hbase)


@pytest.mark.parametrize(("shape", "seed"), [(s, n) for s in SHAPES for n in (0, 1, 2, 3)])
def test_history(tmp_path, hbase, shape, seed):
    history = History.start(tmp_path / "t", "hbase", shape, seed=seed)
    history.bulk_insert()
    for _ in range(6):
        history.step()
        history.check_lookups(["hbase"])
        assert sorted(hbase.entries()) == sorted(history.truth())


def test_moves_deletes_and_their_return(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options={**TABLE, **MOVES})
    table.bulk_insert(batch(["a", "b", "c"]))
    first = table.upsert(batch(["a"], "q", ts=2))
    assert (first.moved, first.inserted) == (1, 0)
    check_exact(table, hbase)
    assert table.delete(["a", "b", "nobody"]).deleted == 2
    check_exact(table, hbase)
    assert table.upsert(batch(["a", "b"], "q", ts=3)).inserted == 2
    check_exact(table, hbase)


def test_a_key_inserted_twice_has_the_entry_of_one_of_its_rows(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.insert(batch(["a"], "p"))
    before = hbase.entries()
    hbase.at = len(hbase.calls) + 2
    with pytest.raises(IndexUnavailableError):
        with_policy(table, "none").insert(batch(["a", "b"], "q"))
    # What counts was not touched before the commit.
    assert hbase.entries() == before
    hbase.at = 0
    with_policy(table, "none").insert(batch(["a", "b"], "q"))
    assert lookup(table, ["a"])[0][0][0] == "q"


def test_rollback_and_restore_bring_entries_back(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options={**TABLE, **MOVES})
    table.upsert(batch(["a", "b", "c"]))
    saved, before = table.savepoint(), truth(table)
    moved = table.upsert(batch(["a", "d"], "q", ts=2))
    table.rollback(moved.instant)
    check_exact(table, hbase)
    assert truth(table) == before
    table.upsert(batch(["a", "d"], "q", ts=2))
    table.delete(["b"])
    table.restore(saved)
    check_exact(table, hbase)
    assert truth(table) == before
    table.upsert(batch(["a", "b", "d"], "q", ts=3))
    check_exact(table, hbase)


@pytest.mark.parametrize("away", ["deleted", "moved"])
def test_a_restore_keeps_the_entry_of_a_key_that_went_and_came_back(tmp_path, hbase, away):
    """Its entry names a commit that is taken back, and its file group holds it all the time."""
    table = create(tmp_path / "t", "hbase", options={**TABLE, **MOVES})
    table.upsert(batch(["a", "b", "c"]))
    saved, before = table.savepoint(), truth(table)
    if away == "moved":
        table.upsert(batch(["a"], "q", ts=2))
    else:
        table.delete(["a"])
    table.upsert(batch(["a", "b"], ts=3))
    assert truth(table) == before
    table.restore(saved)
    check_exact(table, hbase)
    assert truth(table) == before
    assert table.delete(["a", "b"]).deleted == 2
    check_exact(table, hbase)


def test_a_restore_begins_nothing_where_hbase_does_not_answer(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a", "b"]))
    saved, before = table.savepoint(), truth(table)
    table.delete(["a"])
    table.upsert(batch(["a"], ts=3))
    hbase.at = len(hbase.calls) + 1
    with pytest.raises(IndexUnavailableError):
        table.restore(saved)
    hbase.at = 0
    assert not Timeline.load(table.storage).pending()
    table.restore(saved)
    check_exact(table, hbase)
    assert truth(table) == before


def test_a_rollback_keeps_the_entry_of_a_key_that_came_again_to_its_file_group(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a", "b"]))
    before = truth(table)
    again = with_policy(table, "none").insert(batch(["a", "c"], ts=2))
    assert len(files(table)) == 1
    table.rollback(again.instant)
    check_exact(table, hbase)
    assert truth(table) == before


def test_entries_that_were_made_anew_count_after_the_rollback_of_an_update(tmp_path, hbase):
    """The commit of the latest base file goes, and most of its rows are older."""
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a", "b"]))
    before = truth(table)
    update = table.upsert(batch(["b"], ts=2))
    table.build_index("hbase")
    check_exact(table, hbase)
    table.rollback(update.instant)
    check_exact(table, hbase)
    assert truth(table) == before
    result = table.upsert(batch(["a", "c"], ts=3))
    assert (result.updated, result.inserted) == (1, 1)


def test_entries_that_a_rollback_put_back_count_after_the_next_rollback(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a", "b"]))
    before = truth(table)
    commits = [table.upsert(batch(["b"], ts=2)), table.delete(["a"])]
    while commits:
        table.rollback(commits.pop().instant)
        check_exact(table, hbase)
        assert truth(table) == before


@pytest.mark.parametrize("lost", ["delete", "move"])
def test_entries_are_made_anew_after_a_recovery_gave_commits_up(tmp_path, hbase, lost):
    """What the lost commit has taken away from HBase is in the table again."""
    table = create(tmp_path / "t", "hbase", options={**QUICK, **MOVES})
    table.upsert(batch(["a", "b"]))
    before = truth(table)
    if lost == "move":
        table.upsert(batch(["a"], "q", ts=2))
    else:
        table.delete(["a"])
    max((tmp_path / "t/.hoodie").glob("*.commit")).write_bytes(b"")
    assert len(Table.recover(str(tmp_path / "t")).given_up) == 1
    again = Table.open(str(tmp_path / "t"), options=QUICK)
    assert truth(again) == before
    for ask in (lambda: again.lookup(["a"]), lambda: again.upsert(batch(["a"], ts=3))):
        with pytest.raises(IndexUnavailableError, match=r"table recover.*table index build"):
            ask()
    again.build_index("hbase")
    check_exact(again, hbase)
    assert again.upsert(batch(["a"], ts=3)).updated == 1
    check_exact(again, hbase)


@pytest.mark.parametrize("part", [4, 1 << 62])
def test_a_key_inserted_twice_keeps_an_entry(tmp_path, hbase, monkeypatch, part):
    """When one of its rows goes, whether the keys that go fit the memory of a task or not."""
    monkeypatch.setattr(held_keys, "_WANTED_PART", part)
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.bulk_insert(batch(["a", "b", "c"]))
    before, saved = truth(table), table.savepoint()
    twice = with_policy(table, "none").bulk_insert(batch(["b", "c", "d"], "q", ts=2))
    assert [place[0] for place in lookup(table, ["a", "b", "c", "d"])[0]] == ["p", "q", "q", "q"]
    table.rollback(twice.instant)
    check_exact(table, hbase)
    assert truth(table) == before
    with_policy(table, "none").insert(batch(["b", "d"], "q", ts=2))
    table.upsert(batch(["a", "b"], ts=3))
    table.restore(saved)
    check_exact(table, hbase)
    assert truth(table) == before
    result = table.upsert(batch(["b"], ts=4))
    assert (result.updated, result.inserted) == (1, 0)


def test_a_rollback_of_an_upsert_searches_no_file_for_its_keys(tmp_path, hbase, monkeypatch):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.bulk_insert(batch(["a", "b", "c"]))
    second = table.upsert(batch(["a", "d"], ts=2))
    monkeypatch.setattr(restore, "with_held", None)
    table.rollback(second.instant)
    check_exact(table, hbase)


def test_a_rollback_that_hbase_did_not_follow_is_finished_by_the_next_write(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options={**TABLE, **MOVES})
    table.upsert(batch(["a", "b"]))
    moved = table.upsert(batch(["a", "c"], "q", ts=2))
    hbase.at = len(hbase.calls) + 1
    with pytest.warns(UserWarning, match="next write brings them up to date"):
        table.rollback(moved.instant)
    hbase.at = 0
    assert [place[0] for place in lookup(table, ["a", "b", "c"])[0]] == ["p", "p", None]
    table.upsert(batch(["b"], ts=3))
    check_exact(table, hbase)


def test_a_lookup_between_commit_and_entries_says_what_is_visible(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options={**TABLE, **MOVES})
    table.upsert(batch(["a", "b", "c"]))
    # tag, then nothing to enter but the moved key, then the change that is to fail
    hbase.at = len(hbase.calls) + 3
    with pytest.warns(UserWarning, match="does not answer"):
        table.upsert(batch(["a"], "q", ts=2))
    hbase.at = 0
    assert hbase.entries()["a"][0] == "p"
    assert lookup(table, ["a", "b"])[0] == [truth(table)[key] for key in ("a", "b")]
    table.delete(["c"])
    check_exact(table, hbase)


def test_what_another_writer_did_meanwhile_is_not_overwritten(tmp_path, hbase):
    """Hudi finds the stale entry of a deleted key and puts the key back there, without an entry."""
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a", "b"]))
    hbase.at = len(hbase.calls) + 2
    with pytest.warns(UserWarning, match="does not answer"):
        table.delete(["a"])
    hbase.at = 0
    root = tmp_path / "t" / ".hoodie" / ".keymark" / "entries"
    (name,) = [path.name for path in root.iterdir()]
    content = (root / name).read_bytes()
    (root / name).unlink()
    table.upsert(batch(["a"], ts=2))
    (root / name).write_bytes(content)
    table.upsert(batch(["b"], ts=3))
    check_exact(table, hbase)


def test_a_lost_hbase_table_is_an_error_and_built_anew(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    assert lookup(table, ["a"])[0] == [(None, None)]
    table.upsert(batch(["a", "b"]))
    hbase.tables.clear()
    for work in (lambda: lookup(table, ["a"]), lambda: table.upsert(batch(["a"], ts=2))):
        with pytest.raises(IndexUnavailableError, match=r"table index build .* hbase"):
            work()
    assert table.build_index("hbase")
    check_exact(table, hbase)


def test_a_build_that_was_cut_off_is_not_believed(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a", "b"], ["p", "q"]))
    hbase.tables["t"][b"stale"] = dict(hbase.tables["t"][b"a"])
    hbase.at = len(hbase.calls) + 3
    with pytest.raises(IndexUnavailableError):
        table.build_index("hbase")
    hbase.at = 0
    for work in (lambda: lookup(table, ["a"]), lambda: table.upsert(batch(["a"], ts=2))):
        with pytest.raises(IndexUnavailableError, match="being built anew"):
            work()
    table.build_index("hbase")
    check_exact(table, hbase)


@pytest.mark.parametrize("before", ["record", "global_bloom"])
def test_a_table_that_gets_the_index_gets_entries(tmp_path, hbase, before):
    table = create(tmp_path / "t", before)
    table.upsert(batch(["a", "b", "c"], ["p", "q", "p"]))
    planned = table.use_index("hbase", QUICK, dry_run=True)
    assert any("entries of HBase table t" in step for step in planned.steps)
    assert not hbase.tables
    table.use_index("hbase", QUICK)
    check_exact(table, hbase)
    table = Table.open(str(tmp_path / "t"))
    assert table.choice.name == "hbase"
    table.upsert(batch(["a", "d"], ts=2))
    check_exact(table, hbase)


def test_purge_erases_entries(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a-long-key", "b-long-key"]))
    report = table.purge(["a-long-key"])
    assert report.proven
    assert "major_compact 't'" in report.notes[0]
    assert ("compact", 0) in hbase.calls
    check_exact(table, hbase)


def test_a_bulk_insert_enters_its_keys_in_stretches(tmp_path, hbase, monkeypatch):
    monkeypatch.setattr(key_file, "_STRETCH_KEYS", 10)
    table = create(tmp_path / "t", "hbase", options=QUICK)
    table.bulk_insert(batch([f"k{n}" for n in range(95)]))
    sizes = [size for call, size in hbase.calls if call == "put"]
    assert len(sizes) == 10
    assert sum(sizes) == 95
    check_exact(table, hbase)
    table.bulk_insert(batch([f"m{n}" for n in range(25)]))
    check_exact(table, hbase)


@pytest.mark.usefixtures("hbase")
def test_options_are_facts_or_refused(tmp_path):
    with pytest.raises(InvalidOptionError, match=r"hoodie\.index\.hbase\.table must be given"):
        create(tmp_path / "u", "hbase")
    table = create(tmp_path / "t", "hbase", options={**TABLE, **MOVES})
    assert table.config.properties["hoodie.index.hbase.table"] == "t"
    assert table.config.properties["hoodie.index.type"] == "HBASE"
    assert table.config.properties["hoodie.hbase.index.update.partition.path"] == "true"
    with pytest.raises(InvalidOptionError, match="differs"):
        Table.open(str(tmp_path / "t"), options={"hoodie.index.hbase.table": "u"})
    with pytest.raises(UnsupportedTableError, match=r"rollback\.sync"):
        create(tmp_path / "u", "hbase", options={"hoodie.index.hbase.rollback.sync": "false"})


@pytest.mark.parametrize(
    "cells",
    [
        {COMMIT_TS: b"1", FILE_NAME: b"f"},
        {COMMIT_TS: b"1", FILE_NAME: b"f", PARTITION_PATH: b"\xff"},
    ],
)
def test_a_row_that_is_no_entry_is_named(tmp_path, hbase, cells):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a"]))
    hbase.tables["t"][b"a"] = cells
    with pytest.raises(CorruptFileError, match=r"HBase table t at 127\.0\.0\.1:9090"):
        lookup(table, ["a"])


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_an_entry_counts_by_hudis_rule(tmp_path_factory, data):
    """Its commit is completed, or before the timeline's first; its file group is there."""
    with pytest.MonkeyPatch.context() as patch:
        hbase = FakeHBase().install(patch)
        root = tmp_path_factory.mktemp("rule") / "t"
        table = create(root, "hbase", options=TABLE)
        table.upsert(batch(["a"]))
        dead = table.upsert(batch(["b"], "q")).instant
        table.rollback(dead)
        (file,) = files(table)
        done = table.upsert(batch(["a"], ts=2)).instant
        instants = [i.time for i in Timeline.load(table.storage).instants]
        time = data.draw(
            st.sampled_from([done, file.instant_time, dead, "00000000000000001", "9" * 17, ""])
        )
        place = data.draw(st.sampled_from([("p", file.file_id), ("q", file.file_id), ("p", "x")]))
        hbase.tables["t"][b"z"] = {
            COMMIT_TS: time.encode(),
            FILE_NAME: place[1].encode(),
            PARTITION_PATH: place[0].encode(),
        }
        counts = time in (done, file.instant_time) or time < min(instants)
        expected = place if counts and place == ("p", file.file_id) else (None, None)
        assert lookup(table, ["z"])[0] == [expected]
        # Merging finds out that the key is not there.
        assert table.upsert(batch(["z"], ts=3)).inserted == 1
        assert stored(table)[-1][0] == "z"


def test_withdraw_takes_only_entries_of_the_instant(tmp_path, hbase):
    table = create(tmp_path / "t", "hbase", options=TABLE)
    table.upsert(batch(["a", "b"]))
    context = table._context(TableState.load(table.storage), None)
    index, (file,) = load_index("hbase"), files(table)
    later = pa.table([["b"], ["p"], [file.file_id], ["9" * 17]], schema=CHANGES)
    index.change(later, context)
    index.withdraw([pa.array(["a", "b", "c"])], "9" * 17, context)
    assert sorted(hbase.entries()) == ["a"]
