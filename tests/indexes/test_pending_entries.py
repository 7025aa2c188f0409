"""Entries outside of the table whose write was cut off: withdrawn, or told with the way out.

Strategy: HBase in memory, which no power cut concerns, beside a model of the table's disk that
forgets what was not synced (forgetful_disk.py); and damaged files of keys.
"""

from __future__ import annotations

import contextlib
import copy
import random
import re
import shutil
from pathlib import Path

import pytest
from faults import DEAD, FULL, FaultStorage, every_fault
from faults import Killed as StorageKilled
from forgetful_disk import Disk, Watch
from hbase_fake import QUICK, FakeClient, FakeHBase, Killed
from index_cases import batch, create, lookup
from test_hbase import check_exact, truth

from keymark import Table
from keymark.table.errors import CorruptFileError, IndexUnavailableError, StorageError
from keymark.table.index import key_file
from keymark.table.layout.naming import ENTRIES, TEMP
from keymark.table.storage import durability
from keymark.table.storage.local_storage import LocalStorage

MOMENTS = 25


class StopsOnceEntered(FaultStorage):
    """Fails as soon as all entries are put, and the changes that are left are to be stored."""

    def replace(self, path, data):
        if path.startswith(ENTRIES):
            counter = self.counter or self
            counter.at = counter.calls + 1
            # Who is killed asks HBase for nothing more.
            self.hbase.at = int(self.kind == DEAD)
        super().replace(path, data)


class WatchBeside(Watch):
    """Notes with each moment what HBase holds then."""

    def moment(self):
        self.label = copy.deepcopy(self.hbase.tables)
        super().moment()


@pytest.fixture
def hbase(monkeypatch):
    return FakeHBase().install(monkeypatch)


@pytest.fixture
def root(tmp_path, hbase, monkeypatch):
    """A table of two rows with its HBase, synced; each key is a stretch of its key file."""
    monkeypatch.setattr(key_file, "_STRETCH_KEYS", 1)
    monkeypatch.setattr(durability, "_BY_ROOT", {})
    create(tmp_path / "t", "hbase", options=QUICK).upsert(batch(["a", "b"]))
    assert sorted(hbase.entries()) == ["a", "b"]
    return str(tmp_path / "t")


def opened(root):
    return Table(LocalStorage.at(root))


def cut_off(root, hbase, kind=DEAD):
    """A write of two new keys that stops once their entries are put."""
    storage = StopsOnceEntered(LocalStorage.at(root), kind, 10**6)
    storage.hbase, hbase.kills = hbase, True
    with contextlib.suppress(StorageKilled, Killed, StorageError):
        Table(storage).upsert(batch(["c", "d"], ts=2))
    hbase.at = 0
    assert storage.struck


def write_again(root, hbase):
    """A write with nothing wrong; whether the one before it came through."""
    opened(root).upsert(batch(["e"], ts=3))
    check_exact(opened(root), hbase)
    keys = truth(opened(root)).keys()
    assert keys in ({"a", "b", "e"}, {"a", "b", "c", "d", "e"})
    return "c" in keys


def after_power_cuts(watch, hbase, tmp_path):
    """What a power cut at each moment, and the next write, make of a table."""
    for number, (tables, disk) in enumerate(watch.moments):
        hbase.tables = copy.deepcopy(tables)
        path = str(tmp_path / f"cut{number}")
        disk.cut(path, random.Random(number))
        write_again(path, hbase)


def test_a_write_that_was_killed_is_withdrawn(root, hbase):
    cut_off(root, hbase)
    assert sorted(hbase.entries()) == ["a", "b", "c", "d"]
    assert not write_again(root, hbase)


@pytest.mark.slow
@pytest.mark.parametrize("end", [DEAD, FULL, "completed"])
def test_a_power_cut_leaves_what_it_takes_to_withdraw(root, hbase, tmp_path, end):
    """Killed, taken back by its own writer, or completed; cut off at any call to the disk."""
    watch = WatchBeside(root, Disk.of(root), random.Random(1), keep=MOMENTS)
    watch.hbase = hbase
    with watch.watching():
        if end == "completed":
            opened(root).upsert(batch(["c", "d"], ts=2))
        else:
            cut_off(root, hbase, end)
    watch.moments.append((copy.deepcopy(hbase.tables), watch.disk.copy()))
    after_power_cuts(watch, hbase, tmp_path)


def test_a_power_cut_while_entries_are_put(root, hbase, tmp_path, monkeypatch):
    put = FakeClient.put

    def put_one(client, rows):
        client._rows().update({key: dict(cells) for key, cells in [*rows][:1]})
        hbase.at, hbase.kills = 1, True
        raise Killed

    watch = Watch(root, Disk.of(root), random.Random(1), keep=0)
    monkeypatch.setattr(FakeClient, "put", put_one)
    with watch.watching(), pytest.raises(Killed):
        opened(root).upsert(batch(["c", "d"], ts=2))
    monkeypatch.setattr(FakeClient, "put", put)
    assert len(hbase.entries()) > 2
    hbase.at, tables = 0, copy.deepcopy(hbase.tables)
    for seed in range(10):
        hbase.tables = copy.deepcopy(tables)
        path = str(tmp_path / f"cut{seed}")
        watch.disk.cut(path, random.Random(seed))
        assert not write_again(path, hbase)


def test_the_note_of_pending_entries_is_gone_for_good_before_its_key_files(root, hbase):
    """A power cut must not bring it back without them."""
    watch = Watch(root, Disk.of(root), random.Random(1), keep=10**6)
    with watch.watching():
        cut_off(root, hbase, FULL)
    going = [
        disk.entries[f"/{ENTRIES}"]
        for _, disk in watch.moments
        for name, number in disk.pending.get(f"/{TEMP}", ())
        if name.isdigit() and number is None
    ]
    assert going
    assert not any(going)


def damage_keys(root, damage):
    """Damage the file of keys of the write that was cut off; its name."""
    (file,) = Path(root, TEMP).rglob("*.keys")
    data = file.read_bytes()
    file.unlink()
    if damage != "gone":
        # Cut in half, the file ends with its first stretch.
        left = {"empty": b"", "cut": data[: len(data) // 2], "zeros": bytes(len(data))}
        file.write_bytes(left[damage])
    return file.name


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "gone"])
def test_lost_keys_are_told_with_the_way_out(root, hbase, damage):
    cut_off(root, hbase)
    name = damage_keys(root, damage)
    remedy = rf"{name} is damaged at byte .*`keymark table index build {re.escape(root)} hbase`"
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=remedy):
            opened(root).upsert(batch(["e"], ts=3))
    # Readers are not concerned.
    assert lookup(opened(root), ["a", "c"])[0] == [truth(opened(root))["a"], (None, None)]
    opened(root).build_index("hbase")
    assert not write_again(root, hbase)


@pytest.mark.parametrize("content", [b"", b"x" * 40])
def test_a_damaged_note_of_pending_entries_is_told_with_the_way_out(root, hbase, content):
    cut_off(root, hbase)
    (pending,) = Path(root, ENTRIES).iterdir()
    pending.write_bytes(content)
    with pytest.raises(
        CorruptFileError, match=rf"{pending.name} is damaged .*`keymark table index"
    ):
        opened(root).upsert(batch(["e"], ts=3))
    opened(root).build_index("hbase")
    assert not write_again(root, hbase)


def test_a_way_out_that_is_killed_anywhere_loses_nothing(root, hbase, tmp_path):
    cut_off(root, hbase)
    damage_keys(root, "gone")
    tables = copy.deepcopy(hbase.tables)

    def fresh():
        hbase.tables = copy.deepcopy(tables)
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        return str(shutil.copytree(root, tmp_path / "copy"))

    for _, storage in every_fault(DEAD, fresh):
        with contextlib.suppress(StorageKilled):
            Table(storage).build_index("hbase")
        with contextlib.suppress(CorruptFileError, IndexUnavailableError):
            assert not write_again(storage.root, hbase)
            continue
        opened(storage.root).build_index("hbase")
        assert not write_again(storage.root, hbase)
