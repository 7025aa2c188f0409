"""What syncing costs: upserts that rewrite 64 MB of base files in 20 files, by turns.

    python tests/benchmarks/sync_cost.py --turns 10 --folder /path/on/the/disk

Each turn upserts one row of each file, once with syncing and once without, on one table; the order
changes from turn to turn. The last lines are the medians and what a synced upsert waits for.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow as pa

from keymark import Table

FILES, FILE_BYTES, VALUE_BYTES = 20, 64 * 10**6 // 20, 1000
ROWS = FILE_BYTES // VALUE_BYTES


def rows(keys: list[int], ts: int) -> pa.Table:
    """Rows whose values do not compress, each in the partition of its number."""
    return pa.table(
        {
            "k": [f"k{key}" for key in keys],
            "p": [f"p{key % FILES}" for key in keys],
            "ts": [ts] * len(keys),
            "v": pa.array([os.urandom(VALUE_BYTES) for _ in keys], pa.binary()),
        }
    )


def upsert(path: str, turn: int, *, sync: bool) -> tuple[float, Counter[str]]:
    """Seconds of an upsert, and seconds waited by kind of file."""
    waited: Counter[str] = Counter()
    real = os.fsync

    def fsync(target: int) -> None:
        started = time.perf_counter()
        real(target)
        synced = str(Path(f"/proc/self/fd/{target}").readlink())
        kind = "folders" if Path(synced).is_dir() else "timeline and index files"
        kind = "base files" if synced.endswith(".parquet") else kind
        waited[f"{kind}, seconds"] += time.perf_counter() - started
        waited[f"{kind}, calls"] += 1

    table = Table.open(path, options={"keymark.local.sync": str(sync).lower()})
    batch = rows([ROWS * FILES // 2 + number for number in range(FILES)], turn)
    with mock.patch.object(os, "fsync", fsync):
        started = time.perf_counter()
        result = table.upsert(batch)
        spent = time.perf_counter() - started
    assert result.updated == FILES
    return spent, waited


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--folder", default=None, help="on the disk to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = f"{folder}/t"
        Table.create(path, name="t", record_key="k", partition_path="p", ordering="ts")
        Table.open(path).bulk_insert(rows(list(range(ROWS * FILES)), 0))
        spent: dict[bool, list[float]] = {True: [], False: []}
        waits: Counter[str] = Counter()
        for turn in range(1, options.turns + 1):
            for sync in (True, False) if turn % 2 else (False, True):
                seconds, waited = upsert(path, turn, sync=sync)
                spent[sync].append(seconds)
                waits.update(waited)
                print(f"turn {turn}: sync {sync}: {seconds:.3f} s")
    on, off = (statistics.median(spent[sync]) for sync in (True, False))
    print(f"median: {on:.3f} s with syncing, {off:.3f} s without: {100 * (on / off - 1):+.1f} %")
    for kind, amount in sorted(waits.items()):
        print(f"  {kind}: {amount / options.turns:.3f} an upsert, added over parallel calls")


if __name__ == "__main__":
    main()
