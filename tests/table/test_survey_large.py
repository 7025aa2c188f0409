"""A timeline of 1,000 commits and 20,000 files: seconds, memory, requests."""

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

_PEAK = """
import json, sys
from keymark.table.storage.stores import storage_at
from keymark.table.survey.survey import survey
found = survey(sys.argv[1], storage_at(sys.argv[1], {}))
# Not ru_maxrss: it begins with the size of the process that started this one.
status = open("/proc/self/status").read()
peak = 1024 * int(status.partition("VmHWM:")[2].split()[0])
files = found.files
print(json.dumps({"files": files.base_files, "rows": found.rows, "writes": len(found.writes),
                  "old": files.old_files, "overdue": files.overdue_files, "peak": peak}))
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


def test_seconds_and_memory(large):
    root, rows = large
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-c", _PEAK, str(root)], capture_output=True, text=True, check=True
    )
    took = time.monotonic() - began
    told = json.loads(ran.stdout)
    assert told["files"] == FILES
    assert told["writes"] == COMMITS
    assert told["rows"] == rows * FILES
    assert told["old"] == (COMMITS - 1) * TOUCHED
    # All but what the last twenty commits replaced.
    assert told["old"] - told["overdue"] == 19 * TOUCHED
    assert took < 10
    assert told["peak"] < 512 << 20
