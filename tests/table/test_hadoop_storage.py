"""What is Hadoop's own: lost answers, dead writers' leavings, errors, and the JVM.

Where no server is needed, over Hadoop's local file system, of which the disk can be looked at.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from keymark.table.errors import StorageError
from keymark.table.layout.naming import STAGING
from keymark.table.storage.hadoop_storage import HadoopStorage
from keymark.table.storage.stores import storage_at

SECRET = "canary-of-a-secret"
# No checksum side-cars: what is on the disk is what was put.
RAW = {"fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs"}
NEVER = {"keymark.storage.ipc.client.connect.max.retries": "0"}
CHILD = """
import sys
from keymark.table.runtime import jvm
from keymark.table.storage.hadoop_storage import HadoopStorage

HadoopStorage(sys.argv[1]).put("a", b"x")
door = jvm.gateway()
print(door.jvm.java.lang.ProcessHandle.current().pid(), flush=True)
print(jvm.configuration(door).get("keymark.test"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def storage(tmp_path):
    return HadoopStorage(f"file://{tmp_path}/t", RAW)


def on_disk(tmp_path):
    root = tmp_path / "t"
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def losing(monkeypatch, *, done, deleted=False):
    """Let no rename be answered, after it was done (and undone by another writer) or without."""
    rename = HadoopStorage._rename

    def lost(self, temporary, path, *, over):
        if done:
            rename(self, temporary, path, over=over)
        if deleted:
            self.delete(path)
        raise StorageError(f"cannot write {path}: EOFException")

    monkeypatch.setattr(HadoopStorage, "_rename", lost)


def test_a_rename_that_was_done_is_known_without_an_answer(storage, tmp_path, monkeypatch):
    storage.put("theirs", b"theirs")
    losing(monkeypatch, done=True)
    storage.put("p/mine", b"mine")
    storage.replace("theirs", b"replaced")
    with pytest.raises(FileExistsError):
        storage.put("theirs", b"again")
    assert on_disk(tmp_path) == {"p/mine": b"mine", "theirs": b"replaced"}


def test_a_rename_that_was_not_done_never_will_be(storage, tmp_path, monkeypatch):
    storage.put("theirs", b"theirs")
    losing(monkeypatch, done=False)
    for use in (lambda: storage.put("p/mine", b"mine"), lambda: storage.replace("theirs", b"x")):
        with pytest.raises(StorageError, match=r"EOFException$"):
            use()
    # Nothing is left that a late rename could move.
    assert on_disk(tmp_path) == {"theirs": b"theirs"}


def test_what_nobody_can_tell_is_an_error_that_says_so(storage, monkeypatch):
    losing(monkeypatch, done=True, deleted=True)
    with pytest.raises(StorageError, match="it is unknown whether it was done"):
        storage.put("mine", b"mine")
    losing(monkeypatch, done=False)
    monkeypatch.setattr(HadoopStorage, "_delete", broken)
    with pytest.raises(StorageError, match="EOFException; it is unknown whether it was done"):
        storage.put("mine", b"mine")


def broken(*_, **__):
    raise StorageError("cannot delete: ConnectException")


def test_a_put_that_fails_leaves_nothing(storage, tmp_path):
    storage.put("a", b"x")
    for use in (lambda: storage.put("a/b", b""), lambda: storage.replace("a/b", b"")):
        with pytest.raises(StorageError, match=rf"^cannot write file://{tmp_path}/t/a/b: "):
            use()
    with pytest.raises(FileExistsError):
        storage.put("a", b"y")
    assert on_disk(tmp_path) == {"a": b"x"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOENT])
def test_a_local_disk_without_room_is_a_typed_error(storage, tmp_path, monkeypatch, number):
    """Much data goes through a local file; Python calls it missing where no folder has room."""
    storage.put("a", bytes(100_000))

    def full(*_, **__):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "NamedTemporaryFile", full)
        for use in (
            lambda: storage.put("b", bytes(100_000)),
            lambda: storage.replace("a", bytes(200_000)),
            lambda: storage.read("a"),
        ):
            with pytest.raises(StorageError, match=os.strerror(number)) as caught:
                use()
            assert not isinstance(caught.value, FileNotFoundError)
    assert on_disk(tmp_path) == {"a": bytes(100_000)}


def test_folders_may_nest_more_deeply_than_calls_of_python(storage):
    deep = "/".join(["d"] * 1100)
    storage.put(f"{deep}/f", b"x")
    storage.put("d/e", b"x")
    storage.put("e", b"x")
    assert [status.path for status in storage.walk("")] == ["e", "d/e", f"{deep}/f"]
    storage.delete_tree("d")
    assert [status.path for status in storage.walk("")] == ["e"]


def test_the_dead_are_swept_after_a_day(storage, tmp_path):
    storage.put("a", b"x")
    for name in ("dead", "alive"):
        (tmp_path / "t" / STAGING / name).write_bytes(b"half")
    os.utime(tmp_path / "t" / STAGING / "dead", (0, 0))
    storage.sweep()
    assert on_disk(tmp_path) == {"a": b"x", f"{STAGING}/alive": b"half"}


def test_tasks_connect_by_themselves(storage):
    storage.put("a", b"x")
    copy = pickle.loads(pickle.dumps(storage))
    assert (copy, copy.settings, copy.read("a")) == (storage, RAW, b"x")


def test_a_host_that_is_not_there_is_one_line_without_settings():
    storage = storage_at("hdfs://127.0.0.1:9/t", {**NEVER, "keymark.storage.x.password": SECRET})
    assert isinstance(storage, HadoopStorage)
    uses = (
        lambda: storage.put("p/file", b""),
        lambda: storage.replace("p/file", b""),
        lambda: storage.read("p/file"),
        lambda: storage.open("p/file"),
        lambda: storage.delete("p/file"),
        lambda: storage.list("p/file"),
        lambda: list(storage.walk("p/file")),
        lambda: storage.exists("p/file"),
    )
    for use in uses:
        with pytest.raises(
            StorageError, match=r"^cannot \w+ hdfs://127\.0\.0\.1:9/t/p/file: ConnectException: "
        ) as told:
            use()
        assert "\n" not in str(told.value)
        assert told.value.__suppress_context__
    wrong = storage_at("hdfs://127.0.0.1:9/t", {"keymark.storage.dfs.replication": SECRET})
    with pytest.raises(StorageError) as refused:
        wrong.put("a", b"")
    shown = [repr(storage), str(told.value), str(refused.value)]
    assert SECRET not in " ".join(shown)
    with pytest.raises(StorageError, match="hdfs:///t names no host"):
        storage_at("hdfs:///t", {}).read("a")


@pytest.mark.spark
def test_a_wrong_setting_is_not_told_by_errors_that_spark_makes(spark):
    """A session makes errors of its own of some of Java's, for all of the process."""
    assert spark
    wrong = storage_at("hdfs://127.0.0.1:9/t", {"keymark.storage.dfs.replication": SECRET})
    with pytest.raises(StorageError, match="NumberFormatException") as refused:
        wrong.put("a", b"")
    assert SECRET not in str(refused.value)


def test_a_jvm_reads_the_configuration_and_ends_with_its_process(tmp_path):
    site = "<configuration><property><name>keymark.test</name><value>{}</value></property>"
    (tmp_path / "core-site.xml").write_text(site.format("told") + "</configuration>")
    command = [sys.executable, "-c", CHILD, f"file://{tmp_path}/t"]
    root = Path(__file__).parents[2]
    surroundings = {**os.environ, "HADOOP_CONF_DIR": str(tmp_path), "PYTHONPATH": str(root)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings
    ) as child:
        pid = int(child.stdout.readline())
        assert child.stdout.readline() == "told\n"
        descriptor = os.pidfd_open(pid)
        os.kill(child.pid, signal.SIGKILL)
    with contextlib.closing(os.fdopen(descriptor)):
        ended, _, _ = select.select([descriptor], [], [], 60)
    assert ended == [descriptor]
