"""Bytes per key of the record index: in log blocks, after compaction, and built from files.

    python tests/benchmarks/index_size.py [--rows 1000000]

Random uuids in 20 date partitions and about 220 files, in one file group and in ten.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile

import numpy as np
import pyarrow as pa

from keymark import Table

GROUPS = "hoodie.metadata.record.index.{}.filegroup.count"
PARTITIONS, FILES_PER_PARTITION = 20, 11


def uuids(count: int) -> pa.Array:
    """Random version 4 uuids as text."""
    words = np.random.default_rng(11).integers(0, 1 << 32, (count, 4), np.uint32)
    rows = ("".join(f"{word:08x}" for word in row) for row in words.tolist())
    return pa.array(
        [f"{t[:8]}-{t[8:12]}-4{t[13:16]}-a{t[17:20]}-{t[20:]}" for t in rows], pa.string()
    )


def rows(count: int) -> pa.Table:
    """Key, partition and a number."""
    number = np.arange(count)
    days = pa.array([f"2026-01-{day + 1:02d}" for day in range(PARTITIONS)])
    return pa.table(
        {
            "k": uuids(count),
            "dt": days.take(pa.array(number % PARTITIONS)),
            "v": pa.array(number),
        }
    )


def measure(root: str, data: pa.Table, groups: int) -> dict[str, float]:
    """Bytes per key in the three forms."""
    options = {
        GROUPS.format("min"): str(groups),
        GROUPS.format("max"): str(groups),
        "hoodie.index.bloom.num_entries": "5000",
        "hoodie.parquet.max.file.size": str(
            data.num_rows * 24 // PARTITIONS // FILES_PER_PARTITION
        ),
    }
    table = Table.create(root, name="t", record_key="k", partition_path="dt", options=options)
    table.bulk_insert(data)
    found = {"files": float(table.info().base_files), "logs": table.info().bytes_per_key or 0.0}
    table.compact()
    found["compacted"] = table.info().bytes_per_key or 0.0
    table.drop_index()
    table.build_index()
    found["built"] = table.info().bytes_per_key or 0.0
    checked = table.check()
    assert checked.ok, checked
    return found


def main() -> None:
    """Run, and print the answer."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--keep", help="folder for the tables")
    chosen = arguments.parse_args()
    data = rows(chosen.rows)
    with tempfile.TemporaryDirectory() as folder:
        place = chosen.keep or folder
        answer = {str(n): measure(f"{place}/groups_{n}", data, n) for n in (1, 10)}
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
