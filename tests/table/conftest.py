"""What the tests of tables share as fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def synced(monkeypatch):
    """The names of files and folders that are synced, in order."""
    names, sync = [], os.fsync

    def noted(fd):
        names.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        sync(fd)

    monkeypatch.setattr("os.fsync", noted)
    return names
