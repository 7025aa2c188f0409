"""Every write under every fault: a disk that is full from call n on, a process dead from call n on.

Strategy: the write runs again and again on copies of one table, each time failing one storage call
later, until it passes untouched. Whatever happens, a reader sees the table as it was before or as
it is after; a failed write leaves nothing; what a dead one leaves is gone after the next write.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from faults import DEAD, FROZEN, FULL, FaultStorage, Killed, every_fault
from table_cases import (
    MOVES,
    SHARDS,
    SMALL_BLOOMS,
    by_hudi_rs,
    by_listing,
    create,
    data_rows,
    files_listed,
    files_stored,
    left_over,
    rows,
)

from keymark import Table
from keymark.table.errors import LockHeldError, NotATableError, StorageError
from keymark.table.runtime.clock import SystemClock
from keymark.table.storage.lease import LeaseTerms, hold
from keymark.table.storage.local_storage import LocalStorage

OPTIONS = {MOVES: "true", **SMALL_BLOOMS}


@dataclass(frozen=True)
class Write:
    """A write, and the keys of the table after it."""

    run: Callable[[Table], Any]
    changes: Callable[[dict[str, Any]], None]


def _put(model, table):
    model.update((row["k"], tuple(row.values())) for row in table.to_pylist())


def _mixed(model):
    _put(model, UPDATED)
    _put(model, MOVED)
    _put(model, FRESH)
    del model["k9"]


UPDATED = rows([0, 1], ts=5, partition=["p0", "p1"], value="new ")
MOVED = rows([2], ts=5, partition="p7", value="moved ")
FRESH = rows([20, 21], partition=["p0", "p8"])
GONE = rows([9], ts=5, partition="p0")


def _upsert(table):
    import pyarrow as pa

    flagged = [(UPDATED, False), (MOVED, False), (FRESH, False), (GONE, True)]
    parts = [
        part.append_column("_hoodie_is_deleted", pa.array([flag] * part.num_rows))
        for part, flag in flagged
    ]
    return table.upsert(pa.concat_tables(parts))


WRITES = {
    "upsert": Write(_upsert, _mixed),
    "delete": Write(lambda t: t.delete(["k3", "absent"]), lambda m: m.pop("k3")),
    "insert": Write(lambda t: t.insert(FRESH), lambda m: _put(m, FRESH)),
    "bulk_insert": Write(lambda t: t.bulk_insert(FRESH), lambda m: _put(m, FRESH)),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A table of ten rows in three partitions, and the rows."""
    root = tmp_path_factory.mktemp("start") / "t"
    table = create(root, OPTIONS)
    table.bulk_insert(rows(range(10)))
    table.upsert(rows([4], ts=2, partition="p1", value="second "))
    return root, data_rows(table)


@pytest.fixture
def copies(start, tmp_path):
    """Makes fresh copies of that table."""
    numbers = itertools.count()

    def copy() -> str:
        return str(shutil.copytree(start[0], tmp_path / f"t{next(numbers)}"))

    return copy


def through(storage: Any) -> Table:
    return Table(storage, OPTIONS)


def assert_reads(root: str, wanted: dict[str, Any]) -> None:
    """The table holds these rows, whoever reads it, and its index agrees."""
    table = Table.open(root)
    assert data_rows(table) == wanted
    stored = by_listing(root)
    assert {key: values for key, (_, values) in stored.items()} == wanted
    asked = [*wanted, "absent", "k9", "k3", "k20"]
    found = table.lookup(asked).to_pylist()
    located = {row["record_key"]: (row["partition_path"], row["file_id"]) for row in found}
    for key in asked:
        assert located[key] == (stored[key][0] if key in stored else (None, None))
    assert table.check().ok
    assert [key for key, _, _ in by_hudi_rs(root)] == sorted(wanted)


@pytest.mark.parametrize("name", WRITES)
def test_full_disk_leaves_the_table_and_storage_as_they_were(name, start, copies):
    wanted = start[1]
    for number, storage in every_fault(FULL, copies):
        try:
            WRITES[name].run(through(storage))
        except StorageError as error:
            assert storage.struck
            text = str(error)
        else:
            assert not storage.struck, f"call {storage.log[number - 1]} failed unseen"
            break
        assert "No space left" in text
        assert left_over(storage.root) == [], storage.log[number - 1 :]
        if number % 3 == 1:  # one reading is as good as the other, and takes most of the time
            assert_reads(storage.root, wanted)
    after = dict(wanted)
    WRITES[name].changes(after)
    assert_reads(storage.root, after)
    assert left_over(storage.root) == []
    assert number > 8


@pytest.mark.parametrize(("kind", "name"), [*((DEAD, name) for name in WRITES), (FROZEN, "upsert")])
def test_before_or_after_and_the_next_write_cleans_up(kind, name, start, copies):
    """Nothing can be taken back at once: the process is dead, or the disk read-only."""
    before, after = start[1], dict(start[1])
    WRITES[name].changes(after)
    extra = rows(["next"], partition="p2")
    seen = set()
    for _, storage in every_fault(kind, copies):
        with contextlib.suppress(Killed, StorageError):
            WRITES[name].run(through(storage))
            # Only left-over markers may fail to go: the commit is done by then.
            assert not storage.struck or data_rows(Table.open(storage.root)) == after
        found = data_rows(Table.open(storage.root))
        assert found in (before, after)
        seen.add(found == after)
        assert Table.open(storage.root).check().ok
        assert {key for key, _, _ in by_hudi_rs(storage.root)} == set(found)
        through(LocalStorage.at(storage.root)).upsert(extra)
        assert left_over(storage.root) == []
        next_rows = {"next": tuple(extra.to_pylist()[0].values())}
        assert_reads(storage.root, found | next_rows)
        listed = files_listed(Table.open(storage.root))
        assert listed == files_stored(storage.root)
    assert seen == {True, False}


def test_death_while_cleaning_up_after_a_death(start, copies):
    """The worst left-over (all but the commit itself), its removal cut off at every call."""
    counting = FaultStorage(LocalStorage.at(copies()))
    _upsert(through(counting))
    commit = next(
        number
        for number, call in enumerate(counting.log, 1)
        if call.startswith("put .hoodie/2") and call.endswith(".commit")
    )

    def left() -> str:
        storage = FaultStorage(LocalStorage.at(copies()), DEAD, commit)
        with pytest.raises(Killed):
            _upsert(through(storage))
        return storage.root

    wanted = start[1]
    for _, storage in every_fault(DEAD, left):
        try:
            through(storage).delete(["k0"])
        except Killed:
            found = data_rows(Table.open(storage.root))
            assert found.keys() in (wanted.keys(), wanted.keys() - {"k0"})
        through(LocalStorage.at(storage.root)).delete(["k0", "k1"])
        assert left_over(storage.root) == []
        assert_reads(storage.root, {k: v for k, v in wanted.items() if k not in ("k0", "k1")})


def _create(storage: Any) -> Table:
    return Table.create(
        storage.root,
        name="t",
        record_key="k",
        partition_path="p",
        ordering="ts",
        options={**SHARDS, **OPTIONS},
        storage=storage,
    )


@pytest.mark.parametrize("kind", [FULL, DEAD])
def test_a_create_that_failed_is_no_table_and_can_be_done_again(kind, tmp_path):
    numbers = itertools.count()

    def folder() -> str:
        path = tmp_path / f"c{next(numbers)}"
        path.mkdir()
        return str(path)

    for _, storage in every_fault(kind, folder):
        try:
            _create(storage)
        except (StorageError, Killed):
            assert storage.struck
        if storage.struck and not (tmp_path / storage.root / ".hoodie/hoodie.properties").exists():
            with pytest.raises(NotATableError):
                Table.open(storage.root)
            _create(LocalStorage.at(storage.root))
        table = Table.open(storage.root)
        assert table.upsert(rows([1, 2])).inserted == 2
        assert left_over(storage.root) == []
        assert table.check().ok


def test_a_second_writer_waits_and_is_told(start, copies):
    root = copies()
    at_once = {"hoodie.write.lock.wait_time_ms": "0"}
    with hold(LocalStorage.at(root), SystemClock(), LeaseTerms(wait=0, validity=60, renewal=60)):
        with pytest.raises(LockHeldError, match="another writer holds"):
            Table.open(root, options=at_once).upsert(FRESH)
        with pytest.raises(LockHeldError):
            Table.open(root, options=at_once).delete(["k1"])
        assert_reads(root, start[1])
    assert Table.open(root, options=at_once).upsert(FRESH).inserted == 2
