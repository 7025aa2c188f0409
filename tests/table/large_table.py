"""A table of many files and commits, whose files are links to one of Hudi's."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
from table_cases import unpack

FILES, COMMITS, TOUCHED = 20_000, 1_000, 20


def make(folder: Path, *, files: int = FILES, commits: int = COMMITS) -> tuple[Path, int]:
    """A table of version 6: its first commit makes all files, each other one rewrites TOUCHED.

    Returns:
        The table, and the rows of each file.
    """
    small = unpack("hudi-0.15.0-record_index.tar.gz", folder) / "record_index" / "table"
    source = max(small.rglob("*.parquet"), key=lambda path: path.stat().st_size)
    root = folder / "table"
    (root / ".hoodie").mkdir(parents=True)
    properties = (small / ".hoodie/hoodie.properties").read_bytes()
    (root / ".hoodie/hoodie.properties").write_bytes(properties)
    chance = Random(1)
    groups = [
        (f"p{number % 100:02d}", f"{uuid.UUID(int=chance.getrandbits(128))}-0")
        for number in range(files)
    ]
    for name in {partition for partition, _ in groups}:
        (root / name).mkdir()
    size, rows = source.stat().st_size, pq.read_metadata(source).num_rows
    for number in range(commits):
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
