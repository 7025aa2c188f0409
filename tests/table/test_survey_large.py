"""`advise` on a timeline of 1,000 commits and 20,000 files: seconds, memory, requests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import large_table
import pytest
from large_table import COMMITS, FILES, TOUCHED

CHILD = Path(__file__).with_name("advise_child.py")


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The table, and the rows of each of its files."""
    return large_table.make(tmp_path_factory.mktemp("large"))


def advised(*words):
    """The answer, and what the process took."""
    ran = subprocess.run(
        [sys.executable, CHILD, *words], capture_output=True, text=True, check=True
    )
    told = json.loads(ran.stderr.splitlines()[-1])
    assert told["code"] == 0
    return json.loads(ran.stdout), told


def test_seconds_and_memory(large):
    root, rows = large
    told, took = advised(root)
    # Of a processor: other work on the machine does not count.
    assert took["processor_s"] < 10
    assert took["peak"] < 512 << 20
    files = told["table"]["files"]
    assert files["base_files"] == FILES
    assert len(told["writes"]) == COMMITS
    assert told["table"]["rows"] == rows * FILES
    assert files["old_files"] == (COMMITS - 1) * TOUCHED
    # All but what the last twenty commits replaced.
    assert files["old_files"] - files["overdue_files"] == 19 * TOUCHED
    assert told["plan"]["predictions"]


def test_requests(large, tmp_path):
    """A request a commit and for 1,000 listed files, and few more for properties and samples."""
    root, _ = large
    requests = advised(root, tmp_path)[1]["requests"]
    listed = sum(path.is_file() for path in root.rglob("*"))
    assert requests["list"] == -(-listed // 1000)
    assert sum(requests.values()) <= COMMITS + 50
    assert requests["put"] == requests["delete"] == 0
