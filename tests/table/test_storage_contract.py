"""What every storage promises: the local disk, a store in memory, a real S3, Hadoop's, a real HDFS.

Hadoop's own local file system (`file:`) stands in for HDFS where there is no server: the code is
the same, but its rename is not atomic.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from keymark.table.errors import StorageError
from keymark.table.storage.hadoop_storage import HadoopStorage
from keymark.table.storage.storage import FileStatus
from keymark.table.storage.stores import storage_at

NAMES = (
    "p=a b/f", "p=a%20b/f", "p=a%2Fb/f", "p=x:y/f", "ü/ß €", "p=#?&+/f", "{x}/f", "*[?]/f",
    ".hoodie/.temp/f", "~/f", "a=/f", "'q\"/f", "\U0001f600/\uff5e",
)  # fmt: skip


@pytest.fixture(params=["local", "memory", "s3", "hadoop", "hdfs"])
def storage(request, tmp_path):
    if request.param == "local":
        return storage_at(tmp_path / "t", {}, create=True)
    if request.param == "memory":
        return storage_at(f"memory://{tmp_path.name}/a folder/t", {})
    if request.param == "hadoop":
        return HadoopStorage(f"file://{tmp_path}/a folder/t")
    if request.param == "hdfs":
        server = request.getfixturevalue("hdfs")
        return storage_at(f"{server.url}/{tmp_path.name}/a folder/t", {})
    server = request.getfixturevalue("s3")
    return storage_at(f"{server.bucket()}/a folder/t", server.options)


def scheme(storage):
    return storage.root.partition("://")[0]


def paths(storage, folder=""):
    return sorted(status.path for status in storage.walk(folder))


def test_what_is_put_is_read(storage):
    storage.put("a/b.bin", b"content")
    storage.put("a/empty", b"")
    assert (storage.read("a/b.bin"), storage.read("a/empty")) == (b"content", b"")
    source = storage.open("a/b.bin")
    assert (source.name, source.size) == ("a/b.bin", 7)
    assert (source.read(2, 3), source.read(5, 10), source.read(9, 1)) == (b"nte", b"nt", b"")
    assert storage.open("a/empty").read(0, 10) == b""


def test_ranges_of_a_large_file(storage):
    data = os.urandom(700_000)
    storage.put("large", data)
    source = storage.open("large")
    for offset, length in [(0, 10), (699_990, 10), (600_000, 99_000), (5, 400_000), (9, 1), (0, 1)]:
        assert source.read(offset, length) == data[offset : offset + length]


def test_a_put_is_never_over_a_file(storage):
    storage.put("a", b"first")
    # Equal bytes are no excuse, nor are others.
    for data in (b"first", b"second"):
        with pytest.raises(FileExistsError):
            storage.put("a", data)
    assert storage.read("a") == b"first"
    assert paths(storage) == ["a"]
    storage.replace("a", b"third")
    storage.replace("b/new", b"x")
    assert storage.read("a") == b"third"
    with pytest.raises(FileExistsError):
        storage.put("b/new", b"y")
    storage.delete("a")
    storage.put("a", b"again")
    assert storage.read("a") == b"again"


def test_of_many_putting_one_path_one_wins(storage):
    if scheme(storage) == "file":
        pytest.skip("a rename of Hadoop's local file system looks first and replaces then")

    def put(number):
        try:
            storage.put("x/same", str(number).encode() * 1000)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(put, range(40)))
    assert won.count(True) == 1
    assert storage.read("x/same") == str(won.index(True)).encode() * 1000
    assert paths(storage) == ["x/same"]


def test_a_file_is_moved_and_never_over_another(storage):
    storage.put("a/one", b"first")
    storage.put("b/two", b"second")
    with pytest.raises(FileExistsError):
        storage.move("a/one", "b/two")
    assert (storage.read("a/one"), storage.read("b/two")) == (b"first", b"second")
    storage.move("a/one", "new/folder/three")
    assert storage.read("new/folder/three") == b"first"
    assert paths(storage) == ["b/two", "new/folder/three"]
    for target in ("b/four", "b/two"):
        with pytest.raises(FileNotFoundError if target == "b/four" else (OSError, StorageError)):
            storage.move("a/one", target)
    assert paths(storage) == ["b/two", "new/folder/three"]


def test_listings(storage):
    for path in ("a/2", "a/1", "a/b/c/3", "ab/4", "5"):
        storage.put(path, b"x" * len(path))
    assert storage.list("a") == [FileStatus(path="a/1", size=3), FileStatus(path="a/2", size=3)]
    assert [status.path for status in storage.list("")] == ["5"]
    assert storage.list("missing") == storage.list("a/1") == storage.list("a/b") == []
    assert paths(storage) == ["5", "a/1", "a/2", "a/b/c/3", "ab/4"]
    assert paths(storage, "a") == ["a/1", "a/2", "a/b/c/3"]
    assert paths(storage, "a/b") == ["a/b/c/3"]
    assert paths(storage, "missing") == []
    found = [storage.exists(path) for path in ("a", "a/b", "a/1", "5", "a/3", "b", "a/b/c/3")]
    assert found == [True, True, True, True, False, False, True]


def test_what_is_absent(storage):
    for read in (storage.read, storage.open):
        with pytest.raises(FileNotFoundError):
            read("missing")
    storage.put("file", b"x")
    assert storage.list("file/below") == []
    assert not storage.exists("file/below")
    storage.delete("file")
    storage.delete("missing")
    storage.delete_tree("missing")
    storage.sweep()
    assert paths(storage) == []


def test_deleting(storage):
    for path in ("a/1", "a/b/2", "ab/3"):
        storage.put(path, b"x")
    storage.delete("a/1")
    assert paths(storage) == ["a/b/2", "ab/3"]
    storage.delete_tree("a")
    assert paths(storage) == ["ab/3"]


def test_names_are_kept_as_they_are(storage):
    names = NAMES
    if scheme(storage) == "hdfs":
        names = [name for name in NAMES if ":" not in name]
        with pytest.raises(StorageError, match=r"cannot write hdfs://.*/p=x:y/f"):
            storage.put("p=x:y/f", b"")
    for name in names:
        storage.put(name, name.encode())
    assert paths(storage) == sorted(names)
    assert [storage.read(name).decode() for name in names] == list(names)
    for name in names:
        storage.delete(name)
    assert paths(storage) == []


@pytest.mark.parametrize("path", ["../a", "a/../../b"])
def test_no_path_leaves_the_table(storage, path):
    for use in (storage.read, storage.list, storage.delete, lambda p: storage.put(p, b"")):
        with pytest.raises(StorageError, match="leaves the table"):
            use(path)


def test_the_guard_says_whether_others_are_kept_out(storage):
    with storage.guard() as alone:
        assert alone == storage.root.startswith("/")
    storage.put("a", b"x")
    with storage.hold("a"):
        assert storage.held("a")
