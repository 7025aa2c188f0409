"""The local file system behind the Storage protocol: whole files or none, never over another's."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import threading
import time
from pathlib import Path

import pytest

from keymark.table.errors import LeaseLostError, LockHeldError, StorageError
from keymark.table.layout.naming import STAGING
from keymark.table.storage import local_storage
from keymark.table.storage.durability import seconds_synced
from keymark.table.storage.local_files import mount_points
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import FileStatus


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


def test_folders_may_nest_more_deeply_than_calls_of_python(storage):
    deep = "/".join(["d"] * 1100)
    storage.put(f"{deep}/f", b"x")
    storage.put("d/e", b"x")
    storage.put("e", b"x")
    assert _paths(storage) == ["e", "d/e", f"{deep}/f"]
    staged = storage.staged("1")
    staged.delete_tree("d")
    assert _paths(storage) == ["e"]
    assert list(Path(storage.root, staged.staging).iterdir()) == []


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


@pytest.fixture
def linked(storage, tmp_path):
    """A storage with a link to a folder that holds a file."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_bytes(b"x")
    Path(storage.root, "link").symlink_to(tmp_path / "elsewhere")
    storage.put("a", b"x")
    return storage


@pytest.mark.parametrize(
    "use",
    [
        lambda storage: storage.read("link/file"),
        lambda storage: storage.open("link/file"),
        lambda storage: storage.put("link/new", b"x"),
        lambda storage: storage.commit("link/new", b"x"),
        lambda storage: storage.replace("link/file", b"x"),
        lambda storage: storage.delete("link/file"),
        lambda storage: storage.delete_tree("link"),
        lambda storage: storage.list("link"),
        lambda storage: storage.list(""),
        lambda storage: storage.exists("link/file"),
        lambda storage: list(storage.walk("")),
        lambda storage: list(storage.walk("link")),
        lambda storage: storage.read("link"),
    ],
)
def test_links_are_refused_by_name(linked, tmp_path, use):
    with pytest.raises(StorageError, match=r"\blink .*is a symbolic link"):
        use(linked)
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"]
    assert (tmp_path / "elsewhere/file").read_bytes() == b"x"


def test_a_survey_names_what_cannot_be_looked_into(linked):
    os.mkfifo(f"{linked.root}/pipe")
    found = {item.path: getattr(item, "reason", None) for item in linked.survey("")}
    assert found["a"] is None
    assert "symbolic link" in found["link"]
    assert found["pipe"] == "is not a plain file"


def test_a_pipe_is_neither_a_file_nor_waited_for(storage):
    os.mkfifo(f"{storage.root}/pipe")
    for read in (storage.read, storage.open):
        with pytest.raises(StorageError, match="pipe is not a plain file"):
            read("pipe")
    assert _paths(storage) == storage.list("") == []


def test_the_guard_keeps_others_waiting(storage, monkeypatch):
    other = LocalStorage.at(storage.root)
    monkeypatch.setattr("keymark.table.storage.local_storage._GUARD_SECONDS", 0.01)
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

    flock = local_storage._flock
    monkeypatch.setattr("keymark.table.storage.local_storage._flock", locked_by_a_sweep)
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


def test_a_file_in_the_place_of_a_folder_is_no_existing_file(storage):
    """FileExistsError would say that somebody else made the file."""
    storage.put("a", b"x")
    with pytest.raises(StorageError, match="cannot write a/b"):
        storage.put("a/b", b"x")


def test_puts_of_a_holder_fail_once_another_has_swept(storage):
    held = storage.staged("first")
    held.put("p/a", b"x")
    storage.staged("second").sweep()
    for write in (held.put, held.commit, held.replace):
        with pytest.raises(LeaseLostError, match="another writer took the table over"):
            write("p/b", b"x")
    assert _paths(storage) == ["p/a"]


def test_what_was_put_is_synced_before_the_file_that_makes_it_visible(storage, synced):
    storage.put("p/a", b"x")
    storage.put("p/b", b"x")
    assert synced == []
    storage.commit(".hoodie/1.commit", b"x")
    # Its content, too; then the folders, and that of its name last.
    assert {"a", "b"} < set(synced[:3])
    assert 16 in map(len, synced[:3])
    assert {"p", "t", ".hoodie"} <= set(synced[3:-1])
    assert synced[-1] == ".hoodie"


def test_a_file_whose_content_cannot_be_synced_does_not_appear(storage, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", _refuse_sync)
        with pytest.raises(StorageError, match=r"cannot sync .*Input/output error"):
            storage.commit("a", b"x")
    assert not storage.exists("a")
    storage.commit("a", b"y")
    assert storage.read("a") == b"y"


def test_the_time_of_syncing_is_counted(storage, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: time.sleep(0.02))
    before = seconds_synced()
    storage.put("a", b"x")
    assert seconds_synced() == before
    storage.sync()
    assert 0.02 <= seconds_synced() - before < 10


def test_nothing_is_deleted_before_what_was_put_lasts(storage, synced):
    storage.put("old", b"x")
    storage.sync()
    synced.clear()
    storage.put("archive", b"x")
    storage.delete("old")
    assert synced == ["archive", "t"]
    storage.sync()
    assert synced == ["archive", "t", "t"]


@pytest.mark.parametrize(
    ("verb", "path", "folder"), [("delete", "p/q/a", "q"), ("delete_tree", "p/q", "p")]
)
def test_a_sync_beside_a_deletion_comes_too_early_for_it(
    storage, synced, monkeypatch, verb, path, folder
):
    storage.put("p/q/a", b"1")
    storage.sync()
    removed = []

    def after_a_sync(remove):
        def call(*arguments, **named):
            if not removed:
                storage.sync()
            removed.append(arguments)
            synced.clear()
            return remove(*arguments, **named)

        return call

    monkeypatch.setattr(Path, "unlink", after_a_sync(Path.unlink))
    monkeypatch.setattr(shutil, "rmtree", after_a_sync(shutil.rmtree))
    getattr(storage, verb)(path)
    storage.sync()
    assert folder in synced


def test_what_a_writer_takes_back_is_not_synced(storage, synced):
    storage.put("a", b"x")
    storage.put("b", b"x")
    storage.delete("a")
    assert synced == []


def _refuse_sync(_):
    raise OSError(5, "Input/output error")


def test_a_file_whose_sync_failed_is_written_again_before_the_next_commit(storage, monkeypatch):
    """The kernel reports an error once; a second sync alone would say that all is well."""
    storage.put("a", b"content")
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", _refuse_sync)
        with pytest.raises(StorageError, match=r"cannot sync .*/a: Input/output error"):
            storage.sync()
    events = []
    pwrite, fsync = os.pwrite, os.fsync

    def noted_write(fd, data, offset):
        events.append(("write", _name_of(fd), bytes(data)))
        return pwrite(fd, data, offset)

    def noted_sync(fd):
        events.append(("sync", _name_of(fd), b""))
        fsync(fd)

    monkeypatch.setattr("os.pwrite", noted_write)
    monkeypatch.setattr("os.fsync", noted_sync)
    storage.commit("b", b"x")
    assert events[:2] == [("write", "a", b"content"), ("sync", "a", b"")]
    assert storage.read("a") == b"content"
    events.clear()
    storage.commit("c", b"x")
    assert not [event for event in events if event[1] == "a"]


def test_nothing_is_committed_over_a_file_that_lost_its_content(storage, monkeypatch):
    """After a failed sync the kernel may drop what was written, and show what the disk has."""
    storage.put("a", b"content")
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", _refuse_sync)
        with pytest.raises(StorageError, match="cannot sync"):
            storage.sync()
    Path(storage.root, "a").write_bytes(b"\0" * 7)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"cannot sync .*/a: its content was lost"):
            storage.commit("b", b"x")
    assert not storage.exists("b")
    storage.delete("a")
    storage.commit("b", b"x")


def test_a_file_that_cannot_be_deleted_is_still_to_be_synced(storage, synced, monkeypatch):
    storage.put("a", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: _refuse_sync(0))
        with pytest.raises(StorageError, match="cannot delete a"):
            storage.delete("a")
    storage.sync()
    assert "a" in synced


def _name_of(fd):
    return Path(f"/proc/self/fd/{fd}").readlink().name


def test_a_file_that_could_not_be_synced_can_be_taken_back(storage, monkeypatch):
    def fail(fd):
        if Path(f"/proc/self/fd/{fd}").readlink().name == "a":
            raise OSError(5, "Input/output error")

    storage.put("a", b"x")
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(StorageError, match=r"cannot sync .*/a: Input/output error"):
        storage.sync()
    storage.delete("a")
    storage.commit("b", b"x")


def test_without_syncing(tmp_path, synced):
    storage = LocalStorage.at(tmp_path / "t", create=True, durable=False)
    storage.put("a", b"x")
    storage.commit("b", b"x")
    storage.replace("b", b"y")
    storage.delete("a")
    assert synced == []


def test_roots(tmp_path):
    assert LocalStorage.at(f"file://{tmp_path}").root == str(tmp_path)
    assert LocalStorage.at(tmp_path / "a/../b").root == str(tmp_path / "b")
    assert not (tmp_path / "b").exists()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot create"):
        LocalStorage.at(tmp_path / "file/below", create=True)


def test_a_folder_with_a_mount_in_it_is_not_deleted(tmp_path, monkeypatch):
    """A bind mount may be the table itself, whose files would go."""
    (tmp_path / "a/b c").mkdir(parents=True)
    (tmp_path / "a/b c/file").write_bytes(b"x")
    storage = LocalStorage.at(str(tmp_path))
    monkeypatch.setattr(
        "keymark.table.storage.local_files.mount_points", lambda: ["/", f"{tmp_path}/a/b c"]
    )
    for path in ("a", "a/b c"):
        with pytest.raises(StorageError, match="a/b c is a mount"):
            storage.delete_tree(path)
    assert (tmp_path / "a/b c/file").exists()
    (tmp_path / "a/b").mkdir()
    storage.delete_tree("a/b")


def test_mounts_are_known():
    assert "/" in mount_points()
