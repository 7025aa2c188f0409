"""Files that are made on the local disk before they are put: whole, told apart, typed errors."""

from __future__ import annotations

import errno
import os
import tempfile

import pytest

from keymark.table.errors import CommitConflictError, StorageError
from keymark.table.layout.naming import content_token
from keymark.table.metadata.writer import put_again
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.spool import LocalFile, Spool, pieces, whole

DATA = bytes(range(256)) * 9000


def spooled(data: bytes, memory: int | None):
    spool = Spool("a test", memory)
    for start in range(0, len(data), 70_000):
        assert spool.tell() == start
        spool.write(data[start : start + 70_000])
    return spool.content()


@pytest.mark.parametrize("memory", [None, 0, 100_000, len(DATA)])
def test_content_is_the_same_wherever_it_is(tmp_path, memory):
    content = spooled(DATA, memory)
    assert isinstance(content, LocalFile) == (memory in (0, 100_000))
    assert len(content) == len(DATA)
    assert b"".join(pieces(content)) == whole(content) == DATA
    assert content_token(content) == content_token(DATA)
    storage = LocalStorage.at(tmp_path, create=True)
    storage.put("f", content)
    storage.sync()
    assert storage.read("f") == DATA
    with pytest.raises(FileExistsError):
        storage.put("f", content)


def test_the_same_content_may_be_put_again(tmp_path):
    storage = LocalStorage.at(tmp_path, create=True)
    put_again(storage, "f", spooled(DATA, 0))
    put_again(storage, "f", spooled(DATA, 0))
    put_again(storage, "f", DATA)
    for other in (DATA[:-1], DATA + b"x", b"x" + DATA[1:]):
        with pytest.raises(CommitConflictError, match="f exists with another content"):
            put_again(storage, "f", spooled(other, 0))


def test_no_room_for_temporary_files_is_no_missing_file(monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    with pytest.raises(StorageError, match=r"^cannot make temporary files: No usable") as caught:
        spooled(DATA, 10)
    assert not isinstance(caught.value, FileNotFoundError)


def test_a_full_local_disk_is_one_line(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    monkeypatch.setattr(os, "pwrite", full)
    place = f"the temporary file of a test in {tmp_path}"
    with pytest.raises(StorageError, match=f"^cannot write {place}: No space left on device$"):
        spooled(DATA, 10)


def test_a_local_file_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    content = spooled(DATA, 10)
    assert len(content) == len(DATA)
    assert list(tmp_path.iterdir()) == []
