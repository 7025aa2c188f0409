"""How well the bytes of a record index repeat, with file ids from a seed and by chance.

    python tests/benchmarks/index_bytes_repeat.py [--loads 20]

Every load makes a table of equal rows with two shards, upserts a tenth of them, and adds up what
the record index takes on storage.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from keymark import Table
from keymark.datasets.columns.text import uuid_text
from keymark.table.runtime.ids import RANDOM, Ids, SeededIds

SHARDS = {f"hoodie.metadata.record.index.{end}.filegroup.count": "2" for end in ("min", "max")}


def rows(count: int, partitions: int, *, ts: int) -> pa.Table:
    """Equal rows each time."""
    draw = np.random.default_rng(3)
    halves = draw.integers(0, 1 << 63, (2, count)).astype(np.uint64)
    numbers = np.arange(count)
    return pa.table(
        {
            "uuid": uuid_text(*halves),
            "dt": pa.array((numbers % partitions).astype(str)),
            "ts": np.full(count, ts),
            "fare": numbers * 0.25,
        }
    )


def index_bytes(folder: Path, count: int, partitions: int, ids: Ids) -> int:
    """What the index of one load takes."""
    table = Table.create(
        folder, record_key="uuid", partition_path="dt", ordering="ts", options=SHARDS, ids=ids
    )
    table.bulk_insert(rows(count, partitions, ts=1))
    table.upsert(rows(count + count // 10, partitions, ts=2).slice(count - count // 10))
    found = folder.glob(".hoodie/metadata/record_index/*")
    return sum(path.stat().st_size for path in found if path.name.count("_") >= 2)


def main(arguments: list[str] | None = None) -> None:
    """Load, and print a line for each kind of table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=20)
    given = parser.parse_args(arguments)
    for count, partitions in ((2_000, 4), (20_000, 4), (20_000, 20)):
        for kind in ("seeded", "random"):
            sizes = []
            for _ in range(given.loads):
                ids: Ids = SeededIds("x") if kind == "seeded" else RANDOM
                with tempfile.TemporaryDirectory() as folder:
                    sizes.append(index_bytes(Path(folder, "t"), count, partitions, ids))
            told = {"rows": count, "partitions": partitions, "ids": kind, "loads": given.loads}
            told |= {"least": min(sizes), "most": max(sizes)}
            sys.stdout.write(json.dumps(told | {"range": max(sizes) / min(sizes) - 1}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
