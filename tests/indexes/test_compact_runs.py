"""Runs of the compact index: damage, merges, purges, faults.

Strategy: random writes, some of them "by others" (their runs are taken away), are followed by
lookups of all keys, whose answers are read from the rows.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from compact_cases import (
    NAME,
    asked,
    assert_covered,
    assert_right,
    has_hash,
    runs_of,
    truth,
)
from faults import DEAD, FULL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_cases import batch, create
from run_cases import (
    KINDS,
    SMALL_LIMIT,
    changes,
    garbled,
    interrupted,
    keys_of,
    newest,
    rebuild_behind_the_first_look,
    rows_of,
    survivors,
    three_files,
)

from keymark.indexes.shared import hash_candidates
from keymark.indexes.shared.damage import WARNED
from keymark.table.errors import (
    CorruptFileError,
    InputError,
    SnapshotExpiredError,
    TableWarning,
)
from keymark.table.format.compact.writer import hashes_of
from keymark.table.state.table_state import TableState
from keymark.table.values import merges, upkeep, verify
from keymark.table.values.hash_runs import load_hash_runs
from keymark.table.values.indexed import record_keys
from keymark.table.values.merges import due_merges, merge_of, merge_runs
from keymark.table.values.runs import FilesOfRun


@pytest.fixture
def table(tmp_path):
    return three_files(tmp_path / "t", NAME)


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
    WARNED.clear()
    newest(runs_of(table)).write_bytes(b"")
    with pytest.warns(TableWarning, match="no compact index file"):
        assert_right(table)
    assert table.upsert(batch(["a1", "new"], "a", ts=2)).updated == 1
    assert_covered(table)
    assert table.check().ok


def test_a_run_that_a_writer_replaced_meanwhile_is_looked_for_again(table, monkeypatch):
    rebuild_behind_the_first_look(table, monkeypatch, hash_candidates, "load_hash_runs")
    assert asked(table, ["a1", "absent"])[1].files_read == 1


def write_again(table, numbers):
    """An upsert; merges replace all runs at each of them where one may be left."""
    table.upsert(batch(["a1", "b1"], ["a", "b"], ts=next(numbers)))


def test_a_lookup_is_right_beside_a_writer_who_merges(table, monkeypatch):
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 1)
    expected = truth(table)
    keys = sorted({*expected, "absent"})
    numbers = itertools.count(2)
    for handle in interrupted(table, lambda: write_again(table, numbers)):
        assert asked(handle, keys)[0] == [expected.get(key, (None, None)) for key in keys]
    assert next(numbers) > 8


def test_a_check_is_right_beside_a_writer_who_merges(table, monkeypatch):
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 1)
    numbers = itertools.count(2)
    for handle in interrupted(table, lambda: write_again(table, numbers), every=4):
        assert handle.check().ok
    assert next(numbers) > 5


def test_a_check_looks_again_where_runs_were_replaced(table, monkeypatch):
    """The timeline tells nothing about that: runs go without a commit."""
    rebuild_behind_the_first_look(table, monkeypatch, verify, "load_hash_runs")
    assert table.check().ok


def test_a_check_whose_runs_are_replaced_each_time_says_so(table, monkeypatch):
    real = verify.load_hash_runs

    def late(*args):
        found = real(*args)
        table.build_index()
        return found

    monkeypatch.setattr(verify, "load_hash_runs", late)
    with pytest.raises(SnapshotExpiredError, match="hashes: writers replaced runs during each"):
        table.check()


def test_a_file_is_covered_at_each_moment_of_a_merge(table, monkeypatch):
    """The merged run is there, and any of its parts may be gone already."""
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 100)
    for number in range(2, 5):
        table.upsert(batch(["a1"], "a", ts=number))
    parts = runs_of(table)
    runs, state = load_hash_runs(table.storage), TableState.load(table.storage)
    chosen = [n for n, run in enumerate(runs) if any(file.before for file in run.files)]
    assert len(chosen) == 3
    indexed, files = record_keys(state.config, "hashes"), state.snapshot.files
    merge_runs(merge_of(table.storage, indexed, runs, chosen=chosen, files=files))
    (merged,) = set(runs_of(table)) - set(parts)
    # Runs are read in the order of their names: the merged one comes last, then first.
    for name in ("f" * 32, "0" * 32):
        merged = merged.rename(merged.with_name(f"{name}.compact"))
        for number in chosen:
            gone = Path(table.storage.root, runs[number].path)
            kept = gone.read_bytes()
            gone.unlink()
            assert_covered(table)
            gone.write_bytes(kept)


def test_a_run_with_a_damaged_page_stops_no_write(table, monkeypatch):
    """A merge reads all pages: files of a run with a damaged one are covered again."""
    damaged = newest(runs_of(table))
    garbled(damaged)
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 1)
    assert table.upsert(batch(["new"], "c", ts=2)).inserted == 1
    assert damaged not in runs_of(table)
    assert_covered(table)
    assert table.check().ok


def test_a_run_with_a_damaged_page_stops_no_purge(table):
    """The damaged page is the first one; the hash of the purged key is on the last."""
    keys = [f"c{n}" for n in range(3_000)]
    table.insert(batch(keys, "c"))
    table.build_index()
    (run,) = runs_of(table)
    garbled(run)
    purged = keys[int(hashes_of(pa.array(keys)).argmax())]
    assert table.purge([purged]).proven
    assert run not in runs_of(table)
    assert_covered(table)
    assert table.check().ok


def test_only_a_torn_run_is_replaced(table):
    torn, *others = runs_of(table)
    torn.write_bytes(b"")
    table.upsert(batch(["new"], "c", ts=2))
    assert torn not in runs_of(table)
    assert set(others) <= set(runs_of(table))
    assert_covered(table)


def test_many_torn_runs_are_replaced_by_an_index_that_is_built_anew(table, monkeypatch):
    monkeypatch.setattr(upkeep, "_DAMAGED_MAX", 2)
    torn = runs_of(table)
    for path in torn:
        path.write_bytes(b"")
    table.upsert(batch(["new"], "c", ts=2))
    assert not set(torn) & set(runs_of(table))
    assert_covered(table)
    assert table.check().ok


def test_other_files_in_the_folder_are_no_runs(table):
    """Hadoop's client puts checksums beside files that it copies."""
    run = runs_of(table)[0]
    run.with_name(f".{run.name}.crc").write_bytes(b"crc\0 and more")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_covered(table)
        assert table.upsert(batch(["a1"], "a", ts=2)).updated == 1
        assert table.check().ok


def test_runs_are_merged(table, monkeypatch):
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 4)
    monkeypatch.setattr(merges, "_MERGED_AT_ONCE", 3)
    for number in range(2, 30):
        table.upsert(batch([f"a{number % 7}", f"n{number}"], "ab"[number % 2], ts=number))
        assert len(runs_of(table)) <= 5
    assert_covered(table)
    assert table.check().ok


def test_links_of_a_chain_that_are_merged_become_one(table, monkeypatch):
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 4)
    for number in range(2, 30):
        table.upsert(batch(["a1"], "a", ts=number))
    runs = load_hash_runs(table.storage)
    assert sum(len(run.files) for run in runs) <= 3 + 4
    assert_covered(table)


def test_a_chain_has_an_end_though_its_runs_are_not_merged(table, monkeypatch):
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 100)
    monkeypatch.setattr(upkeep, "_CHAIN_MAX", 3)
    for number in range(2, 20):
        table.upsert(batch(["a1"], "a", ts=number))
        assert len(runs_of(table)) <= 3 + 3
    assert_covered(table)


def test_a_merge_keeps_what_rolling_back_needs_or_files_are_searched(table, monkeypatch):
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 1)
    last = [table.upsert(batch(["a1", f"n{n}"], "a", ts=n)) for n in range(2, 5)][-1]
    assert len(runs_of(table)) == 1
    table.rollback(last.instant)
    assert_right(table, ["n4"])
    table.upsert(batch(["b1"], "b", ts=9))
    assert_covered(table)
    assert table.check().ok


def test_due_merges_take_the_smallest_and_write_each_entry_once():
    run, due = functools.partial(FilesOfRun, "", (), 0), functools.partial(due_merges, hashed=True)
    assert due([run(1)] * 16) == []
    (members,) = due([run(900), *[run(1)] * 16])
    assert sorted(members) == sorted(set(members))
    assert (len(members), 0 in members) == (9, False)
    found = due([run(5)] * 250)
    assert sum(map(len, found)) == len({n for each in found for n in each})
    assert 250 - sum(len(each) - 1 for each in found) <= 16


def test_a_purged_key_has_a_hash_in_no_run(table):
    table.upsert(batch(["a-needle", "b-needle"], ["a", "b"], ts=2))
    table.delete(["b19"])
    kept = {path for path in runs_of(table) if path != newest(runs_of(table))}
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


def write(table, number, change):
    kind, numbers, partitions, _ = change
    if kind == "rollback":
        # What a purge took away cannot be gone back to.
        with contextlib.suppress(InputError):
            table.rollback(max(table.scan().state.timeline.commit_times(), default=None))
        return
    keys = keys_of(number, kind, numbers)
    if kind == "purge":
        assert table.purge(keys).proven
        assert not any(has_hash(table, key) for key in keys)
        return
    getattr(table, kind)(keys if kind == "delete" else rows_of(number, keys, partitions))


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(made=st.lists(changes((*KINDS, "purge")), min_size=1, max_size=6), most=st.integers(1, 3))
def test_every_key_is_found_whatever_happened(tmp_path_factory, made, most):
    table = create(tmp_path_factory.mktemp("random") / "t", NAME, options=SMALL_LIMIT)
    table.insert(batch([f"k{n}" for n in range(9)], list("abcabcabc")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merges, "_HASH_RUNS_MAX", most)
        patch.setattr(merges, "_MERGED_AT_ONCE", 2)
        for number, change in enumerate(made, 2):
            before = set(runs_of(table))
            write(table, number, change)
            by_others = change[-1] and change[0] not in ("rollback", "purge")
            for path in (set(runs_of(table)) - before) if by_others else ():
                # As if others had written: nobody covered what they wrote.
                path.unlink()
            assert_right(table, [f"k{n}" for n in range(16)])
            if not by_others and change[0] not in ("rollback", "purge"):
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
    monkeypatch.setattr(merges, "_HASH_RUNS_MAX", 1)
    for again in survivors(table, tmp_path, kind, FAULTY[call]):
        assert_right(again)
        assert again.check().ok
        again.upsert(batch(["b1", "b99"], "b", ts=3))
        if again.choice.name == NAME:
            assert_covered(again)
        assert again.check().ok
