"""What small commits cost with all services on, and whether that grows with their number.

    python tests/benchmarks/commit_slope.py [--commits 200] [--json FILE]

Every commit updates some rows, deletes some and inserts as many, so that the table stays as large
as it was. Two tables are written in turns in one process. One grows older: after six cycles of
twenty commits, when few rows are left as the bulk insert wrote them and files no longer become
larger by that, it is measured for the commits asked for. The control is put back at the start of
every cycle to what that table was then: its commits are always at the same age and the same place
in the cycle, and whatever makes the machine faster or slower meets both.

The growth is the slope of log(measured / control) over the pairs, Theil and Sen's with its 95 %
interval, as a share over all commits. Counted are the bytes read, the files opened and the names
listed through the storage, and the log files per shard: those of the table's third cycle and of
its last one.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.progress import track
from scipy import stats

from keymark import Table
from keymark.table.layout.naming import HOODIE, METADATA
from keymark.table.state.table_state import TableState
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import FileStatus, RangeReader

KEYS, BATCH, CHURN, CYCLE = 2000, 100, 25, 20
AGEING_CYCLES, THIRD = 6, 2
GROWTH_MAX = 0.1
COUNTS = ("bytes_read", "files_opened", "timeline_entries", "names_listed")
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

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))

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
        self.counts["names_listed"] += len(found)
        if path in (HOODIE, f"{METADATA}/{HOODIE}"):
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


class Batches:
    """The batches of one table, one after another; a copy goes on in the same way."""

    def __init__(self) -> None:
        self._chosen = np.random.default_rng(7)
        self._live, self._fresh, self._number = list(range(KEYS)), KEYS, 0

    def next(self) -> pa.Table:
        """Updates and inserts, and as many deletes as inserts."""
        self._number += 1
        live, chosen = self._live, self._chosen
        gone = [live.pop(int(chosen.integers(len(live)))) for _ in range(CHURN)]
        updated = chosen.choice(live, BATCH - 2 * CHURN, replace=False).tolist()
        added = list(range(self._fresh, self._fresh + CHURN))
        self._fresh += CHURN
        live += added
        batch = rows([*updated, *added, *gone], self._number)
        flags = [False] * (len(updated) + CHURN) + [True] * CHURN
        return batch.append_column("_hoodie_is_deleted", pa.array(flags))


@dataclass
class Written:
    """A table under measurement and the batches that it gets."""

    root: str
    batches: Batches

    def __post_init__(self) -> None:
        self.storage = CountingStorage(self.root)
        self.table = Table(self.storage, OPTIONS)

    def commit(self) -> dict[str, float]:
        """One commit: its seconds and its counts."""
        batch = self.batches.next()
        counts = self.storage.counts
        counts.update(dict.fromkeys(counts, 0))
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        self.table.upsert(batch)
        spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        return {**spent, **counts}


def log_files(root: str) -> int:
    """Log files of the fullest shard."""
    metadata = TableState.load(LocalStorage(root)).metadata
    assert metadata is not None
    return max(len(item.log_files) for item in metadata.slices("record_index"))


Line = dict[str, dict[str, float]]
"""What a commit cost, by the name of the table: measured, control."""


def measure(folder: str, commits: int, cycle: int = CYCLE) -> tuple[list[Line], list[Line]]:
    """The commits before the pairs, and the pairs.

    Args:
        folder: where the tables are made.
        commits: how many pairs.
        cycle: commits after which the control is put back.
    """
    identity = {"record_key": "k", "partition_path": "p", "ordering": "ts"}
    Table.create(f"{folder}/m", name="slope", options=OPTIONS, **identity)
    measured = Written(f"{folder}/m", Batches())
    measured.table.bulk_insert(rows(range(KEYS), 0))
    ageing = [
        {"measured": {**measured.commit(), "logs": log_files(measured.root)}}
        for _ in track(range(AGEING_CYCLES * cycle), "ageing", disable=None)
    ]
    shutil.copytree(f"{folder}/m", f"{folder}/seed")
    seed = copy.deepcopy(measured.batches)
    lines = []
    for number in track(range(commits), "commits", disable=None):
        if number % cycle == 0:
            shutil.rmtree(f"{folder}/c", ignore_errors=True)
            shutil.copytree(f"{folder}/seed", f"{folder}/c")
            control = Written(f"{folder}/c", copy.deepcopy(seed))
        pair = {"measured": measured, "control": control}
        # In turns: what the first of a pair costs more, or less, favours neither.
        first, second = list(pair)[:: 1 if number % 2 else -1]
        line = {first: pair[first].commit(), second: pair[second].commit()}
        line["measured"]["logs"] = log_files(measured.root)
        lines.append(line)
    for written in (measured, control):
        checked = written.table.check()
        assert checked.ok, checked
        assert checked.keys == KEYS
    return ageing, lines


@dataclass(frozen=True)
class Growth:
    """How much more the last commit costs than the first, as a share: estimate and 95 % interval.

    `needed` is the number of commits with whose interval, at this scatter and with this growth per
    commit, the growth over as many commits as were measured would be told from the limit; None
    where it is told already, or where the estimate is not below the limit.
    """

    share: float
    low: float
    high: float
    needed: int | None


def growth(measured: Sequence[float], control: Sequence[float]) -> Growth:
    """The Theil-Sen slope of log(measured / control), over all pairs."""
    ratios = np.log(np.asarray(measured) / np.asarray(control))
    count = len(ratios)
    slope, _, low, high = stats.theilslopes(ratios, np.arange(count), 0.95)
    limit, needed = math.log1p(GROWTH_MAX), None
    if high * count >= limit > slope * count:
        # The interval of a slope narrows with the power 3/2 of the number of pairs.
        width = (high - slope) * count / (limit - slope * count)
        needed = math.ceil(count * width ** (2 / 3))
    share, lowest, highest = (float(np.expm1(x * count)) for x in (slope, low, high))
    return Growth(share, lowest, highest, needed)


def report(ageing: Sequence[Line], lines: Sequence[Line], cycle: int = CYCLE) -> dict[str, Any]:
    """The third cycle against the last, and the growth of wall and CPU time."""
    measured = [line["measured"] for line in (*ageing, *lines)]
    cycles = measured[THIRD * cycle : (THIRD + 1) * cycle], measured[-cycle:]
    answer: dict[str, Any] = {
        "commits": len(lines),
        "cycles": {
            name: [sum(line[name] for line in part) for part in cycles]
            for name in (*COUNTS, "logs")
        },
        "pairs_that_opened_other_files": sum(
            line["measured"]["files_opened"] != line["control"]["files_opened"] for line in lines
        ),
    }
    for clock in ("wall", "cpu"):
        spent, control = ([line[name][clock] for line in lines] for name in ("measured", "control"))
        answer[clock] = {
            "median_seconds": float(np.median(spent)),
            "by_cycle": _by_cycle(spent, cycle),
            "control_by_cycle": _by_cycle(control, cycle),
            "growth": vars(growth(spent, control)),
            "growth_without_control": vars(growth(spent, np.ones(len(spent)))),
        }
    return answer


def _by_cycle(seconds: Sequence[float], cycle: int) -> list[float]:
    """The median of each cycle."""
    parts = (seconds[first : first + cycle] for first in range(0, len(seconds), cycle))
    return [round(float(np.median(part)), 4) for part in parts]


def main() -> None:
    """Run, and print the answer."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--commits", type=int, default=200)
    arguments.add_argument("--json", type=Path)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ageing, lines = measure(folder, chosen.commits)
    answer = report(ageing, lines)
    if chosen.json:
        chosen.json.write_text(json.dumps({**answer, "ageing": ageing, "lines": lines}))
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
