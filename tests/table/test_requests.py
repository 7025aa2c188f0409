"""Requests to a store are counted as the store counts them."""

from __future__ import annotations

import multiprocessing
import pickle

import pytest

from keymark import Table
from keymark.table.errors import FileTakenError, MissingFileError, StorageError
from keymark.table.properties.options import REQUEST_LOG
from keymark.table.storage import requests
from keymark.table.storage.requests import Request
from keymark.table.storage.stores import storage_at


@pytest.fixture
def storage(s3, tmp_path):
    return storage_at(s3.bucket() + "/t", {**s3.options, REQUEST_LOG: str(tmp_path)})


def each_call(storage):
    """Every request that the storage makes, and some that fail."""
    storage.put("a/b", b"1")
    with pytest.raises(FileTakenError):
        storage.put("a/b", b"2")
    storage.replace("a/b", b"2")
    with pytest.raises(MissingFileError):
        storage.open("a/c")
    storage.open("a/b").read(0, 1)
    storage.read("a/b")
    storage.list("a")
    list(storage.walk(""))
    assert storage.exists("a/b")
    assert storage.exists("a")
    assert not storage.exists("z")
    storage.time(1 << 60)
    with storage.guard():
        pass
    storage.delete("a/c")
    storage.put("a/d", b"")
    storage.delete_tree("a")


def test_each_call_counts_what_the_server_counts(s3, storage, tmp_path):
    before = s3.counts()
    each_call(storage)
    after = s3.counts()
    served = {kind: after.get(kind, 0) - before.get(kind, 0) for kind in after}
    counted = requests.counted(tmp_path)
    assert {kind: number for kind, number in counted.items() if number} == {
        kind: number for kind, number in served.items() if number
    }


def test_listings_of_many_files_take_several_requests(s3, storage, tmp_path):
    import obstore

    for number in range(1001):
        obstore.put(storage._store, f"t/many/{number}", b"")
    before = s3.counts()
    assert len(storage.list("many")) == len(list(storage.walk("many"))) == 1001
    storage.delete_tree("many")
    after = s3.counts()
    counted = requests.counted(tmp_path)
    for kind in (Request.LIST, Request.DELETE):
        assert counted[kind] == after[kind] - before.get(kind, 0)


def _read(pickled):
    pickle.loads(pickled).read("a")


def test_processes_count_together(storage, tmp_path):
    storage.put("a", b"")
    spawned = multiprocessing.get_context("spawn").Process(
        target=_read, args=(pickle.dumps(storage),)
    )
    spawned.start()
    spawned.join()
    assert requests.counted(tmp_path)[Request.GET] == 1
    assert requests.counted(tmp_path)[Request.PUT] == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_without_a_log_nothing_is_counted(s3, tmp_path):
    storage_at(s3.bucket() + "/t", s3.options).put("a", b"")
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_be_written_is_no_missing_table(tmp_path):
    absent = {REQUEST_LOG: str(tmp_path / "absent")}
    with pytest.raises(StorageError, match=f"cannot count requests in {tmp_path}/absent: No such"):
        Table.open(f"memory://{tmp_path.name}/t", options=absent)
    storage = storage_at(f"memory://{tmp_path.name}/t", absent)
    for use in (lambda: storage.put("a", b""), lambda: storage.read("a"), lambda: storage.list("")):
        with pytest.raises(StorageError, match="cannot count requests") as caught:
            use()
        assert not isinstance(caught.value, FileNotFoundError)
