"""Every write of a table with the HBase index, failing or killed at each call of HBase and storage.

Strategy: the same write runs on copies of one table and of its HBase table, cut off one call later
each time. A reader sees the table as before or as after; after the next write the entries are those
of the rows, with nothing left over.
"""

from __future__ import annotations

import contextlib
import copy
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults import DEAD, FULL, every_fault
from faults import Killed as StorageKilled
from hbase_fake import QUICK, FakeHBase, Killed
from index_cases import batch, create, lookup, with_policy
from test_hbase import check_exact, truth

from keymark import Table
from keymark.table.errors import TableError
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.timeline.timeline import Timeline

OPTIONS = {**QUICK, "hoodie.hbase.index.update.partition.path": "true"}


def upsert(table):
    table.upsert(batch(["a", "b", "x", "y"], ["q", "p", "p", "r"], ts=5))


def rollback(table):
    table.rollback(max(Timeline.load(table.storage).commit_times()))


WRITES = {
    "upsert": upsert,
    "delete": lambda table: table.delete(["a", "c", "nobody"]),
    "insert": lambda table: table.insert(batch(["x", "y"], "q")),
    "append": lambda table: with_policy(table, "none").insert(batch(["x", "y"], "q")),
    "bulk_insert": lambda table: table.bulk_insert(batch(["x", "y", "z"], ["q", "r", "p"])),
    "rollback": rollback,
}


@dataclass
class Start:
    """A table of four rows in two commits with its HBase, to be copied again and again."""

    folder: Path
    hbase: FakeHBase
    tables: dict

    def copy(self):
        """The folder of a fresh copy; HBase is as it was, too."""
        self.hbase.tables = copy.deepcopy(self.tables)
        path = self.folder / "copy"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.folder / "start", path)
        return path

    def outcome(self, write):
        """Partition by key before and after the write."""
        table = Table(LocalStorage.at(str(self.copy())))
        before = {key: place[0] for key, place in truth(table).items()}
        write(table)
        return before, {key: place[0] for key, place in truth(table).items()}


@pytest.fixture
def start(tmp_path, monkeypatch):
    hbase = FakeHBase().install(monkeypatch)
    table = create(tmp_path / "start", "hbase", options=OPTIONS)
    table.upsert(batch(["a", "b", "c"]))
    table.upsert(batch(["b", "d"], ["q", "q"], ts=2))
    return Start(tmp_path, hbase, hbase.tables)


def cut_off(work):
    with warnings.catch_warnings(), contextlib.suppress(TableError, Killed, StorageKilled):
        warnings.simplefilter("ignore")
        work()


def check_after(path, hbase, before, after):
    """What a reader sees, and that the next write leaves all as it should be."""
    table = Table(LocalStorage.at(str(path)))
    seen = truth(table)
    places = {key: place[0] for key, place in seen.items()}
    assert places in (before, after)
    keys = sorted({*before, *after})
    assert lookup(table, keys)[0] == [seen.get(key, (None, None)) for key in keys]
    table.upsert(batch(["a", "w"], ["s", "s"], ts=9))
    check_exact(table, hbase)
    pending = Path(path) / ".hoodie" / ".keymark" / "entries"
    assert not pending.exists() or not list(pending.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("kills", [False, True], ids=["fails", "killed"])
@pytest.mark.parametrize("name", WRITES)
def test_at_every_call_of_hbase(start, name, kills):
    before, after = start.outcome(WRITES[name])
    hbase, number = start.hbase, 0
    while not number or hbase.struck:
        number += 1
        path = start.copy()
        hbase.calls.clear()
        hbase.at, hbase.kills, hbase.struck = number, kills, False
        cut_off(lambda path=path: WRITES[name](Table(LocalStorage.at(str(path)))))
        hbase.at = 0
        check_after(path, hbase, before, after)
    assert number > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DEAD, FULL])
@pytest.mark.parametrize("name", WRITES)
def test_at_every_call_of_storage(start, name, kind):
    before, after = start.outcome(WRITES[name])
    for _, storage in every_fault(kind, lambda: str(start.copy())):
        cut_off(lambda storage=storage: WRITES[name](Table(storage)))
        check_after(storage.root, start.hbase, before, after)
