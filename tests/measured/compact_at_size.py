"""What exactness adds to the compact index: candidates, and answers that base files prove.

    python tests/measured/compact_at_size.py --out DIR [--rows 100000000]

A table of rows with random keys, in files of 50,000 rows, has the index `compact`. For each number
of keys, present and absent ones are asked in turns, each time by a new handle, cold (out of the
system's cache) and warm: once for their candidates alone, and once for proven answers. Of each
answer the partition and the instant are compared with what was written. DIR/compact.json has all
figures. Rows and figures that are there are not made again: the same command resumes where it was
stopped.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark import Table
from keymark.datasets.generate.hashing import derive, draw
from keymark.indexes.shared.hash_candidates import candidates
from keymark.table.index.protocol import LookupStats

INDEX = "compact"
PARTITIONS, FILE_ROWS, SEED, TURNS = 40, 50_000, 1, 5
ASKED = (1, 100, 10_000, 400_000)
OPTIONS = {
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}

Numbers = npt.NDArray[np.int64]


def keys_of(numbers: Numbers) -> list[str]:
    """The key of each row; rows that were never written have keys, too."""
    words = draw(derive(SEED, "key"), numbers)
    return [f"{word:016x}-{number:010x}" for word, number in zip(words, numbers, strict=True)]


def partition_of(number: int) -> str:
    """The partition of a row."""
    return f"p{number % PARTITIONS:02d}"


def make(path: Path, rows: int) -> None:
    """The table; one that is half done is filled up, a load after the other."""
    if not path.exists():
        Table.create(
            path, record_key="k", partition_path="p", ordering="ts", index=INDEX, options=OPTIONS
        )
    table = Table.open(path, options=OPTIONS)
    load = FILE_ROWS * PARTITIONS
    done = len(table.state().timeline.commit_times())
    for first in range(done * load, rows, load):
        numbers = np.arange(first, min(first + load, rows))
        fares = draw(derive(SEED, "fare"), numbers) % np.uint64(10_000)
        data = {
            "k": keys_of(numbers),
            "p": [partition_of(number) for number in numbers.tolist()],
            "ts": np.zeros(len(numbers), np.int64),
            "fare": fares.astype(np.float64),
        }
        table.bulk_insert(pa.table(data))


def forget(path: Path) -> None:
    """Take the table out of the system's cache."""
    for each in path.rglob("*"):
        if each.is_file():
            with each.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def check(found: pa.Table, numbers: Numbers, instants: list[str], *, present: bool) -> None:
    """Each present key must be in its partition, written by its load; others nowhere."""
    load = FILE_ROWS * PARTITIONS
    wanted = [(None, None)] * len(numbers)
    if present:
        wanted = [(partition_of(n), instants[n // load]) for n in numbers.tolist()]
    columns = (found["partition_path"].to_pylist(), found["instant_time"].to_pylist())
    if list(zip(*columns, strict=True)) != wanted:
        raise SystemExit("a key is not where it was written")


def measure(path: Path, rows: int, asked: int, turn: int, *, present: bool) -> dict[str, Any]:
    """Ask for keys: their candidates, and proven answers."""
    chance = np.random.default_rng([SEED, asked, turn])
    numbers = np.unique(chance.integers(0, rows, asked)) + (0 if present else rows)
    keys = pa.array(keys_of(numbers))
    instants = sorted(Table.open(path).state().timeline.commit_times())
    took: dict[str, Any] = {"keys": len(keys), "turn": turn, "present": present}
    for what in ("candidates", "proven"):
        forget(path)
        for cache in ("cold", "warm"):
            stats, table = LookupStats(), Table.open(path)
            if what == "candidates":
                context = table._context(table.state(), stats)
                seconds, found = timed(lambda context=context: candidates(keys, context))
                took["candidates"] = len(found[0])
            else:
                seconds, found = timed(
                    lambda table=table, stats=stats: table.lookup(keys, stats=stats)
                )
                check(found, numbers, instants, present=present)
            took[f"{what}_{cache}_s"] = seconds
    told = ("proven", "false_positives", "files_read", "pages_read")
    return took | {name: getattr(stats, name) for name in told}


def tell(figures: dict[str, Any]) -> None:
    """Medians for each number of keys."""
    print(
        f"{figures['rows']:,} rows, {figures['files']:,} files, index {figures['bytes_a_key']:.2f}"
    )
    print(
        "| keys | candidates, of them false | files, pages read | candidates cold, warm, s | "
        "proven cold, warm, s |\n|---|---|---|---|---|"
    )
    groups: dict[tuple[int, bool], list[dict[str, Any]]] = {}
    for each in figures["asked"].values():
        groups.setdefault((each["asked"], each["present"]), []).append(each)
    for (asked, present), turns in sorted(groups.items()):
        middle = {name: median(turn[name] for turn in turns) for name in turns[0]}
        seconds = [
            f"{middle[f'{what}_cold_s']:.3f}, {middle[f'{what}_warm_s']:.3f}"
            for what in ("candidates", "proven")
        ]
        print(
            f"| {asked:,} {'present' if present else 'absent'} | {middle['candidates']:,.0f}, "
            f"{middle['false_positives']:,.0f} | {middle['files_read']:,.0f}, "
            f"{middle['pages_read']:,.0f} | {' | '.join(seconds)} |"
        )


def main(words: list[str] | None = None) -> None:
    """Make the table, ask what was not yet asked, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--turns", type=int, default=TURNS)
    given = parser.parse_args(words)
    given.out.mkdir(parents=True, exist_ok=True)
    path, told = given.out / f"table-{given.rows}", given.out / "compact.json"
    make(path, given.rows)
    table = Table.open(path)
    size = sum(part.bytes for part in table.indexes() if part.partition == INDEX)
    figures: dict[str, Any] = {"rows": given.rows, "asked": {}}
    if told.exists():
        figures = json.loads(told.read_text())
        if figures["rows"] != given.rows:
            raise SystemExit(f"{told} has figures of {figures['rows']:,} rows: give another --out")
    figures |= {"files": len(table.files()), "bytes_a_key": size / given.rows}
    for turn in range(given.turns):
        for asked in ASKED:
            for present in (True, False):
                name = f"{asked} {'present' if present else 'absent'} {turn}"
                if asked > given.rows or name in figures["asked"]:
                    continue
                took = measure(path, given.rows, asked, turn, present=present)
                figures["asked"][name] = {"asked": asked, **took}
                told.write_text(json.dumps(figures, indent=1))
    tell(figures)


if __name__ == "__main__":
    main()
