"""What a write and the opening of a table cost whatever is written or read.

    python tests/measured/fixed_costs.py --out DIR [--label after]

- One row is written into a table of one file, again and again: by one handle, and by a new one
  each time. Beside the time stand its phases, and how often and how long files were synced.
- A table of 1,000 commits and 20,000 files is opened and a read of it planned: of all files, and
  of one key. The commits are upserts of one row, the files one bulk insert. The first opening warms
  up the system's cache and compiles.

Revisions are compared by running this from each with one DIR and another label: the tables are made
once. DIR/fixed_costs.json has the figures by label.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from keymark import Table
from keymark.reports.stats.statistics import summarize

COMMITS, FILES, PARTITIONS = 1_000, 20_000, 100
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "4",
    "hoodie.metadata.record.index.max.filegroup.count": "4",
    # Filters of Hudi's default size would be nearly all of such files.
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.type": "SIMPLE",
}
KEPT = {"hoodie.archive.automatic": "false", "hoodie.clean.automatic": "false"}
UNSYNCED = {"keymark.local.sync": "false"}


def rows(first: int, count: int, ts: int) -> pa.Table:
    """Rows by their numbers, dealt out to partitions."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": [f"key-{number:09d}" for number in numbers],
            "p": [f"p{number % PARTITIONS:03d}" for number in numbers],
            "ts": np.full(count, ts),
            "v": np.arange(first, first + count),
        }
    )


def create(path: Path, options: dict[str, str]) -> Table:
    """An empty table with a record index."""
    return Table.create(
        path, record_key="k", partition_path="p", ordering="ts", index="record", options=options
    )


def make_long(path: Path, commits: int, files: int) -> None:
    """A table of so many commits and files."""
    part = path.with_name(f"{path.name}-part")
    shutil.rmtree(part, ignore_errors=True)
    table = create(part, {**OPTIONS, **KEPT, **UNSYNCED})
    for turn in range(commits - 1):
        table.upsert(rows(0, 1, turn))
    # A file of one row each.
    options = {**OPTIONS, **KEPT, **UNSYNCED, "hoodie.parquet.max.file.size": "1"}
    Table.open(part, options=options).bulk_insert(rows(PARTITIONS, files - 1, 0))
    part.rename(path)


@contextlib.contextmanager
def syncs_counted() -> Iterator[list[float]]:
    """Seconds of each fsync; those of several threads overlap."""
    took: list[float] = []
    fsync = os.fsync

    def timed(fd: int) -> None:
        began = time.perf_counter()
        fsync(fd)
        took.append(time.perf_counter() - began)

    with mock.patch("os.fsync", timed):
        yield took


def seconds(work: Callable[[], Any], turns: int) -> list[float]:
    """How long each turn took, after one that is not counted."""
    work()
    found = []
    for _ in range(turns):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


def one_row(path: Path, turns: int) -> dict[str, Any]:
    """Writes of one row into one file."""
    shutil.rmtree(path, ignore_errors=True)
    table = create(path, OPTIONS)
    table.upsert(rows(0, 1, 0))
    figures: dict[str, Any] = {}
    ts = 0

    def write(handle: Callable[[], Table], phases: list[dict[str, float]]) -> None:
        nonlocal ts
        ts += 1
        done = handle().upsert(rows(0, 1, ts))
        if done.updated != 1:
            raise SystemExit(f"write {ts} updated {done.updated} rows")
        phases.append(done.phases)

    handles = {"one_handle": lambda: table, "new_handle": lambda: Table.open(path)}
    for name, handle in handles.items():
        phases: list[dict[str, float]] = []
        with syncs_counted() as synced:
            took = seconds(lambda handle=handle, phases=phases: write(handle, phases), turns)
        figures[name] = {
            "seconds": took,
            "phases": phases[1:],
            "syncs": len(synced) / (turns + 1),
            "sync_seconds": sum(synced) / (turns + 1),
        }
    if [row["ts"] for part in Table.open(path).scan().tables() for row in part.to_pylist()] != [ts]:
        raise SystemExit("the row is not the one that was written last")
    return figures


def opening(path: Path, commits: int, files: int, turns: int) -> dict[str, Any]:
    """A table is opened, and a read is planned."""

    def plan(keys: list[str] | None, count: int) -> None:
        plan = Table.open(path).scan(keys)
        if len(plan.files) != count:
            raise SystemExit(f"{len(plan.files)} files are planned, {count} expected")

    timeline = list((path / ".hoodie").glob("*.commit"))
    if len(timeline) != commits:
        raise SystemExit(f"{len(timeline)} commits, {commits} expected")
    return {
        "all_files": seconds(lambda: plan(None, files), turns),
        "one_key": seconds(lambda: plan(["key-000000000"], 1), turns),
    }


def told(name: str, found: list[float]) -> str:
    """A median with its interval."""
    one = summarize(found)
    return f"{name}: {1000 * one.median:.0f} ms ({1000 * one.low:.0f} to {1000 * one.high:.0f})"


def main() -> None:
    """Make the long table if it is not there, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--label", default="after")
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--turns", type=int, default=15)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / f"long-{asked.commits}-{asked.files}"
    if not path.exists():
        make_long(path, asked.commits, asked.files)
    figures = {
        "one_row": one_row(asked.out / "one_row", asked.turns),
        "opening": opening(path, asked.commits, asked.files, asked.turns),
    }
    results = asked.out / "fixed_costs.json"
    known = json.loads(results.read_text()) if results.exists() else {}
    results.write_text(json.dumps({**known, asked.label: figures}, indent=1))
    for name, each in figures["one_row"].items():
        print(told(f"one row into one file, {name}", each["seconds"]))
        phases = {
            phase: summarize([found[phase] for found in each["phases"]]).median
            for phase in each["phases"][0]
        }
        print("  " + ", ".join(f"{phase} {1000 * took:.0f}" for phase, took in phases.items()))
        print(f"  {each['syncs']:.1f} syncs of {1000 * each['sync_seconds']:.1f} ms in all")
    for name, found in figures["opening"].items():
        what = f"{asked.commits:,} commits, {asked.files:,} files"
        print(told(f"opening and planning ({what}), {name}", found))


if __name__ == "__main__":
    main()
