"""200 small commits with all services on: what each costs, and whether that grows.

    python tests/benchmarks/commit_slope.py [--commits 200] [--json FILE]

Every commit updates some rows, deletes some and inserts as many, so that the table stays as large
as it was. Counted are the bytes read, the files opened and the names listed through the storage,
and the log files per shard; they are compared between the third compaction cycle and the last.
The slope of the commits' times is Theil and Sen's, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.progress import track
from scipy import stats

from table import Table
from table.storage import FileStatus, LocalStorage, RangeReader
from table.write.transaction import TableState

KEYS, BATCH, CHURN, CYCLE = 2000, 100, 25, 20
# A cycle is twenty commits: each is followed by a clean, and both are delta commits.
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.metadata.compact.max.delta.commits": str(2 * CYCLE),
    "hoodie.cleaner.commits.retained": "5",
    "hoodie.keep.min.commits": "8",
    "hoodie.keep.max.commits": "9",
    "hoodie.index.bloom.num_entries": "2000",
}


@dataclass
class CountingReader:
    """A file whose reads are counted."""

    inner: RangeReader
    counts: dict[str, int]

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def size(self) -> int:
        return self.inner.size

    def read(self, offset: int, length: int) -> bytes:
        data = self.inner.read(offset, length)
        self.counts["bytes_read"] += len(data)
        return data


@dataclass(frozen=True, slots=True)
class CountingStorage(LocalStorage):
    """A local storage that counts what is read and listed."""

    counts: dict[str, int] = field(default_factory=dict)

    def open(self, path: str) -> RangeReader:
        self.counts["files_opened"] += 1
        return CountingReader(LocalStorage.open(self, path), self.counts)

    def read(self, path: str) -> bytes:
        data = LocalStorage.read(self, path)
        self.counts["files_opened"] += 1
        self.counts["bytes_read"] += len(data)
        return data

    def list(self, path: str) -> list[FileStatus]:
        found = LocalStorage.list(self, path)
        if path.endswith(".hoodie"):
            self.counts["timeline_entries"] += len(found)
        return found


def rows(keys: Any, number: int) -> pa.Table:
    """Rows of the benchmark's table."""
    names = [f"key-{key:07d}" for key in keys]
    return pa.table(
        {
            "k": names,
            "p": [f"p{key % 4}" for key in keys],
            "ts": pa.array([number] * len(names), pa.int64()),
            "v": [f"{key * 2654435761 % 2**32:08x}{number:06d}" for key in keys],
        }
    )


def log_files(table: Table) -> int:
    """Log files of the fullest shard."""
    metadata = TableState.load(LocalStorage(table.storage.root)).metadata
    assert metadata is not None
    return max(len(item.log_files) for item in metadata.slices("record_index"))


def measure(root: str, commits: int) -> list[dict[str, float]]:
    """One line of counts per commit."""
    identity = {"record_key": "k", "partition_path": "p", "ordering": "ts"}
    Table.create(root, name="slope", options=OPTIONS, **identity)
    counts = dict.fromkeys(("files_opened", "bytes_read", "timeline_entries"), 0)
    table = Table(CountingStorage(root, counts=counts), OPTIONS)
    table.bulk_insert(rows(range(KEYS), 0))
    chosen = np.random.default_rng(7)
    live, fresh, lines = list(range(KEYS)), KEYS, []
    for number in track(range(1, commits + 1), "commits", disable=None):
        gone = [live.pop(int(chosen.integers(len(live)))) for _ in range(CHURN)]
        updated = chosen.choice(live, BATCH - 2 * CHURN, replace=False).tolist()
        added = list(range(fresh, fresh + CHURN))
        fresh += CHURN
        live += added
        batch = rows([*updated, *added, *gone], number)
        flags = [False] * (len(updated) + CHURN) + [True] * CHURN
        batch = batch.append_column("_hoodie_is_deleted", pa.array(flags))
        counts.update(dict.fromkeys(counts, 0))
        started = time.perf_counter()
        table.upsert(batch)
        lines.append({"seconds": time.perf_counter() - started, **counts, "logs": log_files(table)})
    checked = table.check()
    assert checked.ok, checked
    assert checked.keys == KEYS
    return lines


def report(lines: list[dict[str, float]]) -> dict[str, Any]:
    """Third cycle against the last, and the slope."""
    third, last = lines[2 * CYCLE : 3 * CYCLE], lines[-CYCLE:]
    seconds = [line["seconds"] for line in lines]
    slope, _, low, high = stats.theilslopes(seconds, np.arange(len(seconds)), 0.95)
    over_all = len(lines) / float(np.median(seconds))
    return {
        "commits": len(lines),
        "cycles": {
            name: [sum(line[name] for line in cycle) for cycle in (third, last)]
            for name in ("bytes_read", "files_opened", "timeline_entries", "logs")
        },
        "median_seconds": float(np.median(seconds)),
        "growth_over_all": [float(x) * over_all for x in (slope, low, high)],
    }


def main() -> None:
    """Run, and print the answer."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--commits", type=int, default=200)
    arguments.add_argument("--json", type=Path)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = measure(f"{folder}/t", chosen.commits)
    answer = report(lines)
    if chosen.json:
        chosen.json.write_text(json.dumps({**answer, "lines": lines}))
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
