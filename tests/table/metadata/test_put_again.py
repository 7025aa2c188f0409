"""A task that runs twice puts its log file once."""

from __future__ import annotations

import pytest

from keymark.table.errors import CommitConflictError
from keymark.table.metadata.writer import put_again
from keymark.table.storage.local_storage import LocalStorage


def test_the_same_bytes_count_and_others_are_refused(tmp_path):
    storage = LocalStorage.at(tmp_path)
    put_again(storage, "p/log", b"block")
    put_again(storage, "p/log", b"block")
    assert storage.read("p/log") == b"block"
    with pytest.raises(CommitConflictError, match="p/log"):
        put_again(storage, "p/log", b"another")
    assert storage.read("p/log") == b"block"
