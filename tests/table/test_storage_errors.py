"""Every failure of storage reaches the user as one typed error that names the file.

The campaign `errors` fails every call; these are the cases that it found first.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from table_cases import create, data_rows, left_over, rows

from keymark import Table
from keymark.table.errors import CommitConflictError, StorageError
from keymark.table.metadata.writer import put_again
from keymark.table.storage.local_storage import LocalStorage


@pytest.fixture
def root(tmp_path):
    """A table of two commits."""
    table = create(tmp_path / "t")
    table.bulk_insert(rows(range(6)))
    table.upsert(rows([1], ts=2, partition="p1"))
    return tmp_path / "t"


def _failing(monkeypatch, function: str, number: int, ending: str = "") -> list[str]:
    """One function of `os` fails with an error number for paths with that end; the paths."""
    real, struck = getattr(os, function), []

    def fail(target, *arguments, **named):
        opened = isinstance(target, int)
        path = str(Path(f"/proc/self/fd/{target}").readlink() if opened else target)
        if path.endswith(ending):
            struck.append(path)
            raise OSError(number, os.strerror(number), path)
        return real(target, *arguments, **named)

    monkeypatch.setattr(os, function, fail)
    return struck


def test_check_names_a_base_file_that_is_gone(root):
    gone = next(root.glob("p0/*.parquet"))
    gone.unlink()
    found = Table.open(root).check()
    assert not found.ok
    assert gone.name in str(found)


def test_two_that_put_one_file_of_different_content_conflict(tmp_path):
    storage = LocalStorage.at(tmp_path)
    put_again(storage, "x", b"one")
    put_again(storage, "x", b"one")
    with pytest.raises(CommitConflictError, match="x"):
        put_again(storage, "x", b"two")


def test_missing_and_taken_files_are_typed_and_named(tmp_path):
    storage = LocalStorage.at(tmp_path)
    storage.put("a", b"")
    for call in (storage.read, storage.open, lambda path: storage.hold(path).__enter__()):
        with pytest.raises(StorageError, match="gone/b") as missing:
            call("gone/b")
        assert isinstance(missing.value, FileNotFoundError)
    with pytest.raises(StorageError, match="a") as taken:
        storage.put("a", b"")
    assert isinstance(taken.value, FileExistsError)


def test_a_folder_of_which_the_system_says_that_it_is_none(root, monkeypatch):
    """ENOTDIR for a folder that is there is a failure; a table must not look empty by it."""
    wanted = data_rows(Table.open(root))
    with monkeypatch.context() as patch:
        assert _failing(patch, "scandir", errno.ENOTDIR, "/.hoodie") == []
        with pytest.raises(StorageError, match="hoodie"):
            data_rows(Table.open(root))
    assert data_rows(Table.open(root)) == wanted


def test_a_delete_below_a_folder_of_which_the_system_says_that_it_is_none(tmp_path, monkeypatch):
    """Said to be deleted, the file would come back."""
    storage = LocalStorage.at(tmp_path)
    storage.put("p0/a", b"x")
    with monkeypatch.context() as patch:
        assert _failing(patch, "unlink", errno.ENOTDIR, "/p0/a") == []
        with pytest.raises(StorageError, match="cannot delete p0/a: Not a directory"):
            storage.delete("p0/a")
    storage.delete("p0/a")
    storage.put("file", b"x")
    storage.delete("file/below")


def test_below_a_file_there_is_nothing(tmp_path):
    Path(tmp_path, "file").write_bytes(b"")
    storage = LocalStorage.at(tmp_path)
    assert storage.list("file/x") == []
    assert not storage.exists("file/x")
    with pytest.raises(FileNotFoundError):
        storage.read("file/x")


def test_a_write_after_a_folder_that_could_not_be_synced(root, monkeypatch):
    """The write fails; the next one syncs the folder again."""
    wanted = data_rows(Table.open(root))
    with monkeypatch.context() as patch:
        struck = _failing(patch, "fsync", errno.EIO, "/.hoodie/metadata/.hoodie")
        with pytest.raises(StorageError, match=r"cannot sync .*/\.hoodie/metadata/\.hoodie"):
            Table.open(root).upsert(rows(["new"], partition="p0"))
        assert struck
    assert data_rows(Table.open(root)) == wanted
    Table.open(root).upsert(rows(["new"], partition="p0"))
    assert data_rows(Table.open(root)).keys() == wanted.keys() | {"new"}
    assert left_over(root) == []


def test_a_create_again_after_a_file_that_could_not_be_synced(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        _failing(patch, "fsync", errno.EIO, ".hoodie/metadata/.hoodie/hoodie.properties")
        with pytest.raises(StorageError, match="cannot sync"):
            create(tmp_path / "t")
    create(tmp_path / "t").upsert(rows([1]))
    assert data_rows(Table.open(tmp_path / "t")).keys() == {"k1"}


def test_a_temporary_that_cannot_be_locked_is_not_left(tmp_path, monkeypatch):
    storage = LocalStorage.at(tmp_path)
    with monkeypatch.context() as patch:
        _failing(patch, "fstat", errno.EIO)
        with pytest.raises(StorageError, match="cannot write a"):
            storage.put("a", b"")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
