"""A process is killed, another goes on with what it put, and then the power is cut.

Strategy: the notes of what is to be synced are those of one process, so new notes stand in for a
new process. A model of a disk (forgetful_disk.py) tells what a power cut may leave.
"""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

import pytest
from faults import DEAD, FaultStorage, Killed
from forgetful_disk import Disk, Watch
from table_cases import begin_reshard, create, rows

from keymark import Table
from keymark.table.errors import StorageError
from keymark.table.layout.naming import METADATA, TEMP
from keymark.table.metadata.partitions import RECORD_INDEX, file_id
from keymark.table.metadata.writer import put_again
from keymark.table.storage import durability
from keymark.table.storage.local_storage import LocalStorage

CUTS = 12


@pytest.fixture
def another_process(monkeypatch):
    """Go on as another process of the same machine."""
    return lambda: monkeypatch.setattr(durability, "_BY_ROOT", {})


@pytest.fixture
def storage(tmp_path):
    return LocalStorage.at(tmp_path / "t", create=True)


@contextlib.contextmanager
def watched(root):
    """What is on the disk while a process works on a table."""
    disk = Disk.of(str(root))
    with Watch(str(root), disk, random.Random(0), keep=0).watching():
        yield disk


def check_after_cuts(disk, tmp_path):
    for seed in range(CUTS):
        root = str(tmp_path / f"cut{seed}")
        disk.cut(root, random.Random(seed))
        checked = Table.open(root).check()
        assert checked.ok, (seed, checked)


def scheduled(root):
    """A table whose record index, of two shards, is to be built."""
    create(root, index="global_simple").insert(rows(range(12)))
    Table.open(str(root)).schedule_index("record_index")


def build(storage):
    Table(storage).run_index("record_index")


def last_put(root, work, part):
    """The number of the last call that puts a file of that name, where nothing goes wrong."""
    storage = FaultStorage(LocalStorage.at(root))
    work(storage)
    calls = enumerate(storage.log, 1)
    return max(number for number, call in calls if call.startswith("put") and part in call)


@pytest.mark.parametrize(
    "last", ["/metadata/record_index/", "shard-00000.json", "shard-00001.json"]
)
def test_a_build_goes_on_with_shards_of_a_killed_process(tmp_path, another_process, last):
    """It judges them by their notes; until the commit nothing had synced them."""
    scheduled(tmp_path / "other")
    number = last_put(tmp_path / "other", build, last)
    scheduled(tmp_path / "t")
    another_process()
    with watched(tmp_path / "t") as disk:
        dying = FaultStorage(LocalStorage.at(tmp_path / "t"), DEAD, at=number + 1)
        with pytest.raises(Killed):
            build(dying)
        another_process()
        build(LocalStorage.at(tmp_path / "t"))
    assert Table.open(str(tmp_path / "t")).check().keys == 12
    check_after_cuts(disk, tmp_path)


def test_the_file_of_a_shard_lasts_before_its_note(tmp_path):
    """Who finds the note builds nothing, and a power cut may leave a file of zeros."""
    scheduled(tmp_path / "t")
    with watched(tmp_path / "t") as disk:
        storage = FaultStorage(LocalStorage.at(tmp_path / "t"))
        noted = []

        def note(path, data, put=storage.put):
            if "/shard-" in path:
                noted.append((disk.copy(), path))
            put(path, data)

        storage.put = note
        build(storage)
    built = {path.name.partition("_")[0] for path in tmp_path.rglob(f"{RECORD_INDEX}/*.hfile")}
    assert len(built) > 2
    for then, path in noted:
        name = file_id(RECORD_INDEX, int(path[-10:-5]))
        listed = then.entries[f"/{METADATA}/{RECORD_INDEX}"]
        lasting = {each.partition("_")[0] for each in listed if listed[each] in then.synced}
        assert name in lasting or name not in built


@pytest.mark.parametrize("scheduling", [True, False])
def test_a_build_begins_anew_after_a_power_cut(tmp_path, another_process, scheduling):
    """Files of the attempt before may be gone, empty, cut or full of zeros."""

    def make(root):
        create(root, index="global_simple").insert(rows(range(12)))
        if scheduling:
            Table.open(str(root)).schedule_index("record_index")

    def build_it(storage):
        if scheduling:
            build(storage)
        else:
            Table(storage).build_index("record_index")

    make(tmp_path / "other")
    number = last_put(tmp_path / "other", build_it, "/plan.json")
    make(tmp_path / "t")
    another_process()
    with watched(tmp_path / "t") as disk:
        dying = FaultStorage(LocalStorage.at(tmp_path / "t"), DEAD, at=number + 1)
        with pytest.raises(Killed):
            build_it(dying)
    for seed in range(2 * CUTS):
        root = tmp_path / f"cut{seed}"
        disk.cut(str(root), random.Random(seed))
        another_process()
        build_it(LocalStorage.at(root))
        checked = Table.open(str(root)).check()
        assert (checked.ok, checked.keys) == (True, 12), (seed, checked)


def test_a_resharding_goes_on_with_classes_of_a_killed_process(tmp_path, another_process):
    create(tmp_path / "t").insert(rows(range(12)))
    another_process()
    with watched(tmp_path / "t") as disk:
        begin_reshard(Table.open(str(tmp_path / "t")), 4)
        another_process()
        assert Table.open(str(tmp_path / "t")).reshard_index(4).after == 4
    check_after_cuts(disk, tmp_path)


def test_a_task_that_runs_again_syncs_what_its_first_run_put(storage, another_process, synced):
    put_again(storage, "p/q/log", b"block")
    another_process()
    put_again(storage, "p/q/log", b"block")
    durability.sync_all()
    assert synced[0] == "log"
    # A killed process may have made the folders, too.
    assert {"q", "p", "t"} <= set(synced[1:])


def test_what_need_not_last_is_synced_only_where_it_is_kept(storage, another_process, synced):
    path = f"{TEMP}/1/marker"
    storage.put(path, b"x")
    with pytest.raises(FileExistsError):
        storage.put(path, b"x")
    storage.commit("a", b"x")
    assert "marker" not in synced
    another_process()
    storage.keep(path)
    storage.commit("b", b"x")
    assert "marker" in synced
    assert {"1", ".temp", ".hoodie", "t"} <= set(synced)


def test_a_storage_that_syncs_nothing_keeps_nothing(tmp_path, synced):
    storage = LocalStorage.at(tmp_path / "t", create=True, durable=False)
    storage.put("a", b"x")
    storage.keep("a")
    storage.commit("b", b"x")
    assert synced == []


def test_what_is_no_file_is_left_alone(storage):
    """Syncing it would fail, and every commit with it."""
    os.mkfifo(f"{storage.root}/pipe")
    Path(storage.root, "link").symlink_to("/dev/null")
    Path(storage.root, "folder").mkdir()
    for name in ("pipe", "link", "folder"):
        with pytest.raises(FileExistsError):
            storage.put(name, b"x")
        storage.keep(name)
    storage.keep("absent")
    storage.commit("a", b"x")


def test_a_found_file_whose_sync_failed_is_not_believed_again(
    storage, another_process, monkeypatch
):
    """Its checksum is not known, so that writing its content again would prove nothing."""
    storage.put("a", b"content")
    another_process()
    storage.keep("a")

    def refuse(_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", refuse)
        with pytest.raises(StorageError, match=r"cannot sync .*/a: Input/output error"):
            storage.sync()
    storage.keep("a")
    for _ in range(2):
        with pytest.raises(StorageError, match=r"cannot sync .*/a: its content was lost"):
            storage.commit("b", b"x")
    storage.delete("a")
    storage.commit("b", b"x")


def test_a_found_file_is_not_deleted_before_what_was_put_lasts(storage, another_process, synced):
    """It is another's: what was put since then may be the reason for which it goes."""
    storage.put("old", b"x")
    another_process()
    storage.keep("old")
    storage.put("archive", b"x")
    storage.delete("old")
    assert "archive" in synced
