"""`advise` on a timeline of 1,000 commits and 20,000 files: seconds, memory, requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from random import Random

import pyarrow.parquet as pq
import pytest
from table_cases import unpack

FILES, COMMITS, TOUCHED = 20_000, 1_000, 20

# What a store would be asked beside the listing: whole files, and files in ranges.
_COMMAND = """
import json, sys
from keymark import cli
from keymark.table.storage.local_storage import LocalStorage
calls = {"read": 0, "open": 0}
def count(name):
    own = getattr(LocalStorage, name)
    def call(self, *words, **named):
        calls[name] += 1
        return own(self, *words, **named)
    setattr(LocalStorage, name, call)
for name in calls:
    count(name)
code = cli.main(["advise", sys.argv[1], "--json", "--engine", "native"])
# Not ru_maxrss: it begins with the size of the process that started this one.
status = open("/proc/self/status").read()
peak = 1024 * int(status.partition("VmHWM:")[2].split()[0])
print(json.dumps({"code": code, "peak": peak, **calls}), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A table of version 6 whose files are links to a file of Hudi's."""
    folder = tmp_path_factory.mktemp("large")
    small = unpack("hudi-0.15.0-record_index.tar.gz", folder) / "record_index" / "table"
    source = max(small.rglob("*.parquet"), key=lambda path: path.stat().st_size)
    root = folder / "table"
    (root / ".hoodie").mkdir(parents=True)
    properties = (small / ".hoodie/hoodie.properties").read_bytes()
    (root / ".hoodie/hoodie.properties").write_bytes(properties)
    chance = Random(1)
    groups = [
        (f"p{number % 100:02d}", f"{uuid.UUID(int=chance.getrandbits(128))}-0")
        for number in range(FILES)
    ]
    for name in {partition for partition, _ in groups}:
        (root / name).mkdir()
    size, rows = source.stat().st_size, pq.read_metadata(source).num_rows
    for number in range(COMMITS):
        instant = f"2026010100{number // 60:02d}{number % 60:02d}000"
        touched = groups if number == 0 else chance.sample(groups, TOUCHED)
        stats: dict[str, list[dict[str, object]]] = {}
        for partition, file_id in touched:
            name = f"{partition}/{file_id}_0-0-{number}_{instant}.parquet"
            os.link(source, root / name)
            stats.setdefault(partition, []).append({
                "fileId": file_id, "path": name, "prevCommit": "null", "numWrites": rows,
                "numDeletes": 0, "numUpdateWrites": 5 if number else 0,
                "numInserts": 0 if number else rows, "totalWriteBytes": size,
            })  # fmt: skip
        document = {
            "partitionToWriteStats": stats,
            "compacted": False,
            "extraMetadata": {},
            "operationType": "UPSERT",
        }
        (root / ".hoodie" / f"{instant}.commit").write_text(json.dumps(document))
        for state in ("commit.requested", "inflight"):
            (root / ".hoodie" / f"{instant}.{state}").touch()
    return root, rows


def test_seconds_memory_and_requests(large):
    root, rows = large
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-c", _COMMAND, str(root)], capture_output=True, text=True, check=True
    )
    took = time.monotonic() - began
    told = json.loads(ran.stdout)
    files = told["table"]["files"]
    assert files["base_files"] == FILES
    assert len(told["writes"]) == COMMITS
    assert told["table"]["rows"] == rows * FILES
    assert files["old_files"] == (COMMITS - 1) * TOUCHED
    # All but what the last twenty commits replaced.
    assert files["old_files"] - files["overdue_files"] == 19 * TOUCHED
    assert told["plan"]["predictions"]
    asked = json.loads(ran.stderr.splitlines()[-1])
    assert asked["code"] == 0
    assert took < 10
    assert asked["peak"] < 512 << 20
    # A request a commit, and few more for properties and samples.
    assert asked["read"] + asked["open"] <= COMMITS + 50
