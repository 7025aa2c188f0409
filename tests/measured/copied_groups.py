"""What copying untouched row groups saves a write, by the share of rows that the batch changes.

    python tests/measured/copied_groups.py --out DIR

One table of 1,000,000 rows in 20 files. For each share two copies of it take turns at the same
updates: one whose files have row groups of 2,048 rows, one that writes files whole. Beside each
turn the same 20 files are copied and synced by the operating system, which is the least that any
rewriting takes. All rows are compared at the end. DIR/copied_groups.json has all figures.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark import Table
from keymark.datasets.generate.digest import digest_arrow
from keymark.datasets.generate.hashing import derive, draw
from keymark.reports.stats.statistics import summarize

FILES, SEED = 20, 1
SHARES = (0.0001, 0.001, 0.01, 0.1)
COLUMNS = ["k", "p", "ts", "rider", "fare", "payload"]
OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "1000",
}
GROUPS = {"copied": "2048", "whole": "0"}


def rows(numbers: npt.NDArray[np.int64], turn: int) -> pa.Table:
    """Rows by their numbers, in FILES partitions."""
    words = draw(derive(SEED, "key"), numbers)
    fares = draw(derive(SEED, "fare", turn), numbers) % np.uint64(10_000)
    payload = draw(derive(SEED, "payload", turn), numbers)
    return pa.table(
        {
            "k": [f"{word:016x}-{n:08x}" for word, n in zip(words, numbers, strict=True)],
            "p": [f"p{number % FILES:02d}" for number in numbers.tolist()],
            "ts": np.full(len(numbers), turn),
            "rider": [f"rider-{number % 997}" for number in numbers.tolist()],
            "fare": fares.astype(np.float64) / 100,
            "payload": [f"{word:016x}" * 6 for word in payload],
        }
    )


def make(path: Path, count: int) -> None:
    """The table: one file a partition."""
    table = Table.create(
        path, record_key="k", partition_path="p", ordering="ts", index="record", options=OPTIONS
    )
    table.bulk_insert(rows(np.arange(count), 0))


def copy_and_sync(table: Table, to: Path) -> float:
    """Seconds in which the newest files are read, written and synced, one after the other."""
    files = [Path(table.storage.root) / file.path for file in table.files()]
    to.mkdir()
    began = time.perf_counter()
    for number, file in enumerate(files):
        with (to / str(number)).open("wb") as copy:
            copy.write(file.read_bytes())
            os.fsync(copy.fileno())
    took = time.perf_counter() - began
    shutil.rmtree(to)
    return took


def measure(start: Path, out: Path, share: float, turns: int) -> dict[str, Any]:
    """Seconds of the writes of one share, by phase; bytes of the files at the end."""
    tables = {}
    for name, group_rows in GROUPS.items():
        path = out / name
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(start, path, copy_function=os.link)
        options = {**OPTIONS, "keymark.parquet.group.rows": group_rows}
        tables[name] = Table.open(path, options=options)
    count = sum(result.num_rows for result in tables["whole"].scan(columns=["k"]).tables())
    figures: dict[str, Any] = {"share": share, "rows": int(count * share), "writes": [], "copy": []}
    for turn in range(turns + 1):
        chance = np.random.default_rng(turn)
        data = rows(chance.choice(count, int(count * share), replace=False), turn + 1)
        took, order = {}, list(tables)
        for name in order if turn % 2 else order[::-1]:
            took[name] = tables[name].upsert(data).phases
        # The first write gives the files their row groups.
        if turn:
            figures["writes"].append(took)
            figures["copy"].append(copy_and_sync(tables["copied"], out / "copy"))
    digests = set()
    for name, table in tables.items():
        found = pa.concat_tables([part.select(COLUMNS) for part in table.scan().tables()])
        digests.add(digest_arrow(found))
        figures[f"{name}_bytes"] = sum(file.size for file in table.files())
        if not table.check().ok:
            raise SystemExit(f"{name}: the table differs from itself")
    if len(digests) != 1:
        raise SystemExit(f"share {share}: the two tables have different rows")
    return figures


def tell(figures: dict[str, Any]) -> None:
    """A line for a share."""
    for phase in ("total", "write"):
        writes = figures["writes"]
        ratio = summarize([each["whole"][phase] / each["copied"][phase] for each in writes])
        copied = summarize([each["copied"][phase] for each in writes])
        print(
            f"{figures['rows']} rows, {phase}: {copied.median:.3f} s, "
            f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) times as fast as whole files"
        )
    grown = figures["copied_bytes"] / figures["whole_bytes"] - 1
    print(f"  copy and sync alone {summarize(figures['copy']).median:.3f} s; files {grown:+.1%}")


def main() -> None:
    """Make the table if it is not there, and measure each share."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    asked = parser.parse_args()
    start = asked.out / f"table-{asked.rows}"
    if not start.exists():
        make(start, asked.rows)
    found = []
    for share in SHARES:
        found.append(measure(start, asked.out, share, asked.turns))
        (asked.out / "copied_groups.json").write_text(json.dumps(found, indent=1))
        tell(found[-1])


if __name__ == "__main__":
    main()
