"""A build that is cut off anywhere resumes where it stopped, and ends in the same files."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from bootstrap_cases import built_entries, contents_of, make_table, put_file
from faults import DEAD, FROZEN, FULL, FaultStorage, Killed, every_fault

from keymark.table.errors import CorruptFileError, DuplicateKeyError, StorageError
from keymark.table.format.hfile.writer import HFileWriter
from keymark.table.index.build import record_index, shard
from keymark.table.index.build.target import put_base
from keymark.table.runtime.runner import LocalRunner
from keymark.table.storage.local_storage import LocalStorage

UNDER = ".hoodie/metadata"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Four files in two scan tasks, several spill files a task."""
    monkeypatch.setattr(record_index, "_TASK_BYTES_MIN", 3000)
    monkeypatch.setattr(record_index, "_FLUSH_BYTES_MIN", 60)
    monkeypatch.setattr(record_index, "_FLUSH_BYTES_MAX", 60)
    contents = [(f"p{n % 2}", [f"key-{n}-{i}" for i in range(10)]) for n in range(4)]
    made = make_table(tmp_path / "origin", contents)
    assert len(record_index.scan_tasks(made.target(3), 40)) > 1
    return made


@pytest.mark.parametrize("kind", [DEAD, FULL, FROZEN])
def test_cut_off_at_every_change(table, tmp_path, kind):
    origin = tmp_path / "origin"
    whole = tmp_path / "whole"
    shutil.copytree(origin, whole)
    expected = replace_storage(table, LocalStorage.at(str(whole))).build(3, LocalRunner(1))
    wanted = contents_of(whole, UNDER)
    count = 0

    def fresh():
        nonlocal count
        count += 1
        shutil.copytree(origin, tmp_path / f"{kind}{count}")
        return str(tmp_path / f"{kind}{count}")

    for number, storage in every_fault(kind, fresh):
        try:
            replace_storage(table, storage).build(3, LocalRunner(1))
        except (Killed, StorageError):
            assert storage.struck
        else:
            assert not storage.struck
        again = replace_storage(table, LocalStorage.at(storage.root))
        built = again.build(3, LocalRunner(1))
        assert replace(built, target=expected.target) == expected, number
        assert contents_of(storage.root, UNDER) == wanted, number
    assert count > 15


def replace_storage(table, storage):
    return type(table)(storage, table.files, table.model)


def test_a_finished_shard_is_not_built_again(table, tmp_path, monkeypatch):
    built = []
    real = shard._put

    def counted(task, keys):
        built.append(task.number)
        return real(task, keys)

    monkeypatch.setattr(shard, "_put", counted)
    storage = FaultStorage(table.storage, DEAD, at=10**6)
    replace_storage(table, storage).build(3, LocalRunner(1))
    last = max(n for n, call in enumerate(storage.log) if call.endswith(".hfile"))
    copied = tmp_path / "copied"
    shutil.copytree(tmp_path / "origin", copied, ignore=shutil.ignore_patterns(".hoodie"))
    dying = FaultStorage(LocalStorage.at(str(copied)), DEAD, at=last + 1)
    built.clear()
    with pytest.raises(Killed):
        replace_storage(table, dying).build(3, LocalRunner(1))
    assert built == [0, 1, 2]
    built.clear()
    going_on = FaultStorage(LocalStorage.at(str(copied)))
    replace_storage(table, going_on).build(3, LocalRunner(1))
    assert built == [2]
    assert not [call for call in going_on.log if ".keys" in call], "nothing is scanned again"


def test_a_finished_scan_task_is_not_done_again(table, tmp_path):
    storage = FaultStorage(table.storage, DEAD, at=10**6)
    replace_storage(table, storage).build(3, LocalRunner(1))
    first = next(n for n, call in enumerate(storage.log) if "scan-000000.json" in call)
    shutil.rmtree(tmp_path / "origin/.hoodie")
    dying = FaultStorage(table.storage, DEAD, at=first + 2)
    with pytest.raises(Killed):
        replace_storage(table, dying).build(3, LocalRunner(1))
    going_on = FaultStorage(table.storage)
    replace_storage(table, going_on).build(3, LocalRunner(1))
    assert not [call for call in going_on.log if "scan-000000" in call]
    assert [call for call in going_on.log if "scan-000001" in call]


def test_stale_work_is_thrown_away(table):
    """Other files, another group count or instant: nothing of the old build is used."""
    table.build(3)
    table.files.append(put_file(table.storage, 9, "p9", ["late"]))
    table.model["late"] = ("p9", table.files[-1].file_id, 1704067209000)
    storage = FaultStorage(table.storage)
    built = replace_storage(table, storage).build(3)
    assert {key: place for found in built_entries(built) for key, place in found.items()} == (
        table.model
    )
    assert any(call.startswith("delete_tree") for call in storage.log)
    fewer = table.build(2)
    assert len(built_entries(fewer)) == 2
    names = [name for name in contents_of(table.storage.root, UNDER) if "hfile" in name]
    assert len(names) == 2


def test_a_base_file_that_was_lost_is_built_again(table):
    built = table.build(3)
    wanted = contents_of(table.storage.root, UNDER)
    table.storage.delete(f"{UNDER}/{built.stats[1].path}")
    assert table.build(3) == built
    assert contents_of(table.storage.root, UNDER) == wanted


def test_a_foreign_file_in_the_place_of_a_base_file_is_refused(table, tmp_path):
    wrong = make_table(tmp_path / "wrong", [("p", [f"other{n}" for n in range(40)])]).build(3)
    path = f"{UNDER}/{wrong.stats[0].path}"
    target = table.target(3)
    record_index._prepare(target, record_index._file_scan(target, 40))
    table.storage.put(path, wrong.target.storage.read(path))
    with pytest.raises(CorruptFileError, match="nothing was taken into use"):
        table.build(3)
    # The wrong file is gone, so that the next attempt succeeds.
    assert table.build(3).records == 40


def test_duplicates_are_found_again_after_a_restart(table):
    table.files.append(put_file(table.storage, 9, "p9", ["key-0-0"]))
    for _ in range(2):
        with pytest.raises(DuplicateKeyError, match=r"^1 rows"):
            table.build(3)


def test_a_base_file_of_an_earlier_attempt_keeps_its_size(table):
    """The same entries may have been compressed in another way."""
    target = table.target(1)
    writer = HFileWriter("{}")
    writer.add(pa.array(["a"]), pa.array([b"v"]))
    base = target.base_file(0)
    table.storage.put(f"{UNDER}/{base.path}", b"the earlier attempt's file")
    assert put_base(table.storage, base, writer).size == len(b"the earlier attempt's file")
