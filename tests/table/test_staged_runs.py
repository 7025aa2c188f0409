"""Runs of an index of values are part of the commit: no death leaves a commit without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import Killed
from table_cases import create, data_rows, rows

from keymark import Table
from keymark.table.format.schema import without_meta
from keymark.table.services.maintain import TableServices
from keymark.table.state.table_state import TableState, stored_schema
from keymark.table.values.cover import Chains
from keymark.table.values.hash_runs import runs_of
from keymark.table.values.indexed import indexed_of
from keymark.table.write.transaction import WriteTransaction


@pytest.fixture(params=["record", "partitioned_record", "compact"])
def table(request, tmp_path):
    """A table with a secondary index, and runs of its record keys if its index has some."""
    table = create(tmp_path / "t", index=request.param)
    table.upsert(rows(range(9)))
    table.build_secondary("v")
    return table


def uncovered(table):
    """What is indexed, and the base files that its runs do not cover."""
    state = TableState.load(table.storage)
    found = set()
    for indexed in indexed_of(state.config, without_meta(stored_schema(state))):
        chains = Chains.of(runs_of(table.storage, indexed))
        files = state.snapshot.files
        missing = (f for f in files if not chains.of_file(f.partition_path, f.name))
        found |= {(indexed.column, file.path) for file in missing}
    return found


def run_files(table):
    folder = Path(table.storage.root, ".hoodie/.keymark")
    return {path for path in folder.rglob("*.*") if path.suffix in (".parquet", ".compact")}


def die(*_, **__):
    raise Killed


def test_a_death_right_after_the_commit_leaves_all_files_covered(table, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(TableServices, "maintain", die)
        with pytest.raises(Killed):
            table.upsert(rows([1, 50], ts=2, partition="p1", value="w"))
    again = Table.open(table.storage.root)
    assert len(data_rows(again)) == 10
    assert uncovered(again) == set()
    assert len(again.files("v = 'wk50'")) == 1
    assert again.check().ok


def test_a_death_before_the_commit_leaves_runs_that_the_next_write_deletes(table, monkeypatch):
    before = run_files(table)
    with monkeypatch.context() as patched:
        patched.setattr(WriteTransaction, "_complete", die)
        with pytest.raises(Killed):
            table.upsert(rows([1, 50], ts=2, partition="p1", value="w"))
    left = run_files(table) - before
    assert left
    again = Table.open(table.storage.root)
    assert uncovered(again) == set()
    assert again.files("v = 'wk50'") == ()
    assert again.check().ok
    again.upsert(rows([2], ts=3, partition="p2", value="x"))
    assert not left & run_files(again)
    assert uncovered(again) == set()


def test_a_bulk_insert_covers_its_files(table, monkeypatch):
    monkeypatch.setattr(TableServices, "maintain", lambda *_: None)
    table.bulk_insert(rows([60, 61, 62]))
    assert uncovered(table) == set()
