"""The local file system behind the Storage protocol: whole files or none, never over another's."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from pathlib import Path

import pytest

import table.storage
from table.errors import LockHeldError, StorageError
from table.naming import STAGING
from table.storage import FileStatus, LocalStorage


@pytest.fixture
def storage(tmp_path):
    return LocalStorage.at(tmp_path / "t", create=True)


def _paths(storage):
    return [status.path for status in storage.walk("")]


def test_what_is_put_is_read(storage):
    storage.put("a/b.bin", b"content")
    assert storage.read("a/b.bin") == b"content"
    source = storage.open("a/b.bin")
    assert (source.name, source.size) == ("a/b.bin", 7)
    assert (source.read(2, 3), source.read(5, 10), source.read(9, 1)) == (b"nte", b"nt", b"")
    assert storage.list("a") == [FileStatus(path="a/b.bin", size=7)]
    assert storage.list("") == storage.list("missing") == storage.list("a/b.bin") == []
    assert _paths(storage) == ["a/b.bin"]
    assert storage.exists("a")
    assert storage.exists("a/b.bin")
    assert not storage.exists("a/c")


@contextlib.contextmanager
def _full():
    """Files may grow to 1000 bytes: the operating system refuses the rest of a write.

    Only around the writes: the limit holds for the test runner's own output, too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("durable", [False, True])
def test_a_write_that_fails_halfway_leaves_nothing(tmp_path, durable):
    storage = LocalStorage(str(tmp_path), durable)
    storage.put("old", b"old")
    for write in (storage.put, storage.replace):
        with pytest.raises(StorageError, match="new/file: File too large"), _full():
            write("new/file", b"x" * 2000)
    with pytest.raises(StorageError, match="cannot write old"), _full():
        storage.replace("old", b"x" * 2000)
    assert _paths(storage) == ["old"]
    assert storage.read("old") == b"old"


def test_absent_files(storage):
    for read in (storage.read, storage.open):
        with pytest.raises(FileNotFoundError):
            read("missing")
    storage.delete("missing")
    storage.delete_tree("missing")
    assert _paths(storage) == []


def test_deleting_takes_hadoops_side_car_with_it(storage):
    storage.put("p/a", b"x")
    storage.put("p/.a.crc", b"sum")
    storage.put("p/b", b"x")
    storage.delete("p/a")
    assert _paths(storage) == ["p/b"]
    storage.delete_tree("p")
    assert _paths(storage) == []


def test_links_to_folders_are_not_walked(storage, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_bytes(b"x")
    Path(storage.root, "link").symlink_to(tmp_path / "elsewhere")
    storage.put("a", b"x")
    assert _paths(storage) == ["a"]


def test_the_guard_keeps_others_waiting(storage, monkeypatch):
    other = LocalStorage.at(storage.root)
    monkeypatch.setattr("table.storage._GUARD_SECONDS", 0.01)
    with storage.guard():
        for second in (storage, other):
            with pytest.raises(LockHeldError), second.guard():
                pass
    with pytest.raises(KeyError), other.guard():
        raise KeyError
    with storage.guard():
        pass


def test_a_held_file_has_a_living_owner(storage):
    storage.put("a", b"x")
    other = LocalStorage.at(storage.root)
    assert not other.held("a")
    assert not other.held("missing")
    with storage.hold("a"):
        assert other.held("a")
        with pytest.raises(LockHeldError), other.hold("a"):
            pass
    assert not other.held("a")


def test_staged_files_lie_in_one_folder(storage, monkeypatch):
    """A killed process leaves at most what is staged, and that is easy to sweep."""

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.link", die)
    monkeypatch.setattr("os.unlink", die)
    with pytest.raises(KeyboardInterrupt):
        storage.put("p/a", b"x")
    monkeypatch.undo()
    (left,) = _paths(storage)
    assert left.startswith(f"{STAGING}/")
    storage.sweep()
    assert _paths(storage) == []


def test_a_sweep_leaves_what_is_being_put(storage, monkeypatch):
    """Who builds an index, or waits for the lease, puts files while a writer sweeps."""
    link = os.link

    def swept(source, target):
        storage.sweep()
        link(source, target)

    monkeypatch.setattr("os.link", swept)
    storage.put("p/a", b"x")
    assert storage.read("p/a") == b"x"


def test_a_listing_leaves_out_what_is_deleted_meanwhile(storage, monkeypatch):
    """And only that: the files beside it are there."""
    for name in "abc":
        storage.put(f"p/{name}", b"x")
    scandir = os.scandir

    @contextlib.contextmanager
    def scanned(path):
        with scandir(path) as found:
            entries = list(found)
        Path(storage.root, "p/b").unlink(missing_ok=True)
        yield entries

    monkeypatch.setattr("os.scandir", scanned)
    assert [status.name for status in storage.list("p")] == ["a", "c"]


def test_a_sweep_that_came_first_deletes_nothing_else(storage, monkeypatch):
    """It has locked the new file before its writer could: the writer takes another name."""
    entered, link = [], os.link

    def locked_by_a_sweep(fd):
        if not entered:
            (status,) = storage.list(STAGING)
            entered.append(storage.hold(status.path))
            entered[0].__enter__()
            entered.append(status.path)
        return flock(fd)

    def linked(source, target):
        # The sweep goes on.
        storage.delete(entered[1])
        link(source, target)

    flock = table.storage._flock
    monkeypatch.setattr("table.storage._flock", locked_by_a_sweep)
    monkeypatch.setattr("os.link", linked)
    storage.put("p/a", b"x")
    assert storage.read("p/a") == b"x"


def test_puts_beside_a_sweep(storage):
    """A file may be swept before it is locked: it is made again."""
    done = threading.Event()

    def sweep() -> None:
        while not done.is_set():
            storage.sweep()

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for number in range(2000):
            storage.put(f"a/{number}", b"x")
    finally:
        done.set()
        sweeper.join()
    assert len(storage.list("a")) == 2000
    assert storage.list(STAGING) == []


def test_roots(tmp_path):
    assert LocalStorage.at(f"file://{tmp_path}").root == str(tmp_path)
    assert LocalStorage.at(tmp_path / "a/../b").root == str(tmp_path / "b")
    assert not (tmp_path / "b").exists()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot create"):
        LocalStorage.at(tmp_path / "file/below", create=True)
