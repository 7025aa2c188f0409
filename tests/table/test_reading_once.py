"""A write reads the table once: what is handed on to its services is what they would read."""

from __future__ import annotations

import gc
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from archive_cases import SMALL, grow
from faults import FULL, FaultStorage
from table_cases import create, rows

from keymark import Table
from keymark.table.errors import TableWarning
from keymark.table.layout.naming import METADATA
from keymark.table.state import table_state
from keymark.table.state.table_state import Change, TableState
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import RangeReader
from keymark.table.timeline.instant_name import parse_instant
from keymark.table.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Watched(LocalStorage):
    """Counts how often each file is read."""

    opened: Counter[str] = field(default_factory=Counter)

    def open(self, path: str) -> RangeReader:
        self.opened[path] += 1
        return LocalStorage.open(self, path)

    def read(self, path: str) -> bytes:
        self.opened[path] += 1
        return LocalStorage.read(self, path)


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Change]]:
    """Compares each state that is handed on with one that is read; the changes it was told of."""
    seen: list[Change] = []
    after = TableState.after

    def compared(self: TableState, change: Change) -> TableState:
        state = after(self, change)
        assert_same(state, TableState.load(self.storage))
        seen.append(change)
        return state

    monkeypatch.setattr(TableState, "after", compared)
    return seen


def assert_same(state: TableState, read: TableState) -> None:
    assert {p: dict(n) for p, n in state.listing.items() if n} == {
        p: dict(n) for p, n in read.listing.items() if n
    }
    assert state.snapshot == read.snapshot
    assert state.timeline == read.timeline
    assert state.config == read.config
    assert (state.metadata is None) == (read.metadata is None)
    if state.metadata is not None:
        assert state.metadata.timeline == read.metadata.timeline
        assert state.metadata.recorded == read.metadata.recorded
        assert state.metadata.listing() == read.metadata.listing()


def test_services_get_the_table_as_it_is(tmp_path: Path, handed_on: list[Change]):
    table = create(tmp_path / "t", SMALL)
    grow(table, 9)
    table.delete([f"k{i}" for i in range(5)])
    table.bulk_insert(rows(range(100, 110)))
    table.insert(rows(range(200, 210), partition="another"))
    cleans = [change for change in handed_on if change.deleted]
    assert cleans, "no clean was handed on"
    assert sum(bool(change.written) for change in handed_on) == 12
    assert table.check().ok


def test_a_table_without_partitions(tmp_path: Path, handed_on: list[Change]):
    table = create(tmp_path / "t", SMALL, partition_path=None)
    grow(table, 9)
    assert any(change.deleted for change in handed_on)


def test_no_file_of_a_timeline_is_read_twice(tmp_path: Path):
    """But for a completed instant that goes into the archive, byte for byte."""
    grow(create(tmp_path / "t", SMALL), 12)
    for number in range(12, 24):
        storage = Watched(str(tmp_path / "t"))
        before = timelines(storage)
        Table(storage, SMALL).upsert(rows(range(number, number + 10), ts=number))
        archived = before - timelines(storage)
        for path, times in storage.opened.items():
            if parse_instant(path.rpartition("/")[2]) is not None:
                assert times <= 1 + (path in archived), path
            elif path.startswith(f"{METADATA}/files/") and not compacted(storage, before):
                assert times == 1, path


def timelines(storage: LocalStorage) -> set[str]:
    return {s.path for f in (".hoodie", f"{METADATA}/.hoodie") for s in storage.list(f)}


def compacted(storage: LocalStorage, before: set[str]) -> bool:
    return any(path.endswith("001.commit") for path in timelines(storage) - before)


def test_what_another_did_is_read(tmp_path: Path):
    table = create(tmp_path / "t")
    table.upsert(rows(range(5)))
    state = TableState.load(table.storage)
    Table.open(str(tmp_path / "t")).upsert(rows(range(5, 30)))
    assert_same(state.after(Change()), TableState.load(table.storage))


def restored(table: Table) -> None:
    kept = table.savepoint()
    table.upsert(rows([2]))
    table.restore(kept)


OTHERS = {
    "upsert": lambda table: table.upsert(rows(range(20, 60), ts=2)),
    "delete": lambda table: table.delete(["k1", "k2"]),
    "compact": lambda table: table.compact(),
    "clean": lambda table: table.clean(),
    "archive": lambda table: table.archive(),
    "savepoint": lambda table: table.savepoint(),
    "rollback": lambda table: table.rollback(table.upsert(rows([1])).instant),
    "restore": restored,
    "build": lambda table: table.build_index("column_stats"),
    "drop": lambda table: table.drop_index("record_index"),
    "reshard": lambda table: table.reshard_index(4),
    "purge": lambda table: table.purge(["k5"]),
    "repair": lambda table: table.repair_shard(0),
    "virtual": lambda table: table.rewrite("on"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_open_table_sees_what_another_handle_did(tmp_path: Path, name: str):
    options = {**SMALL, "hoodie.metadata.record.index.min.filegroup.count": "2"}
    writer = create(tmp_path / "t", options, index="record")
    for number in range(8):
        writer.upsert(rows(range(number, number + 10), ts=number))
    reader = Table.open(str(tmp_path / "t"))
    reader.scan()
    OTHERS[name](writer)
    assert_same(reader.state(), TableState.load(reader.storage))
    last = max(reader.state().timeline.commit_times())
    assert reader.state(last).snapshot == TableState.load(reader.storage, last).snapshot
    assert_same(reader.state(), TableState.load(reader.storage))


def test_an_open_table_that_has_not_changed_is_not_listed_again(tmp_path: Path):
    create(tmp_path / "t").upsert(rows(range(5)))
    storage = Watched(str(tmp_path / "t"))
    table = Table(storage)
    expected = table.scan(keys=["k3"]).to_arrow()
    storage.opened.clear()
    assert table.scan(keys=["k3"]).to_arrow() == expected
    assert not [path for path in storage.opened if path.startswith(f"{METADATA}/files/")]
    assert not [path for path in storage.opened if path.endswith((".commit", ".deltacommit"))]


def test_a_clean_that_failed_half_way_is_seen_by_what_follows(
    tmp_path: Path, handed_on: list[Change]
):
    """Archiving after it finds the pending clean, and the table as storage has it."""
    options = {**SMALL, "hoodie.metadata.compact.max.delta.commits": "100"}
    grow(create(tmp_path / "t", options), 8)
    handed_on.clear()
    storage = CleanFails(LocalStorage.at(tmp_path / "t"), FULL)
    with pytest.warns(TableWarning, match="cleaning failed"):
        Table(storage, options).upsert(rows(range(10), ts=50))
    assert handed_on[-1] == Change()
    table = Table.open(str(tmp_path / "t"), options=options)
    table.upsert(rows(range(10), ts=51))
    assert table.check().ok


class CleanFails(FaultStorage):
    """A disk that is full from the moment a clean is under way, and has room again at once."""

    def commit(self, path: str, data: bytes) -> None:
        (self.counter or self).at = 1 if path.endswith(".clean") else 0
        super().commit(path, data)


def test_tasks_do_not_take_along_what_was_read(tmp_path: Path):
    table = create(tmp_path / "t")
    grow(table, 3)
    timeline = Timeline.load(table.storage)
    before: Any = pickle.dumps(timeline)
    for instant in timeline.completed({"commit"}):
        timeline.commit(instant)
    assert pickle.dumps(timeline) == before
    assert pickle.loads(before) == timeline


@pytest.mark.parametrize("is_on", [True, False])
def test_the_garbage_collector_rests_while_a_table_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    """Also where reading fails; one that its owner has switched off stays off."""
    made = create(tmp_path / "t")
    made.bulk_insert(rows(range(5)))
    seen: list[bool] = []

    def failing(_: Timeline) -> None:
        seen.append(gc.isenabled())
        raise OSError("cannot be read")

    monkeypatch.setattr(table_state, "table_schema", failing)
    if not is_on:
        gc.disable()
    try:
        with pytest.raises(OSError, match="cannot be read"):
            TableState.load(made.storage)
        assert seen == [False]
        assert gc.isenabled() is is_on
    finally:
        gc.enable()
