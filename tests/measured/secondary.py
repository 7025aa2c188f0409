"""A secondary index on 10,000,000 rows: its build, what it adds to a write, what it saves a query.

    python tests/measured/secondary.py --out DIR

Each owner has 1 row in 100,000, in files all over the table. Two tables start from the same files,
one of them with an index on `owner`, and take turns at the same upserts (half of the rows new, the
others in all files). Each upsert with the index takes longer than the same one without it: what it
adds is divided by what the record index took in the one without, its tagging and its writing of
entries. The turns are enough for runs of the index to be merged. The first turn, which starts
Spark, is not counted.

Every query is compared with the owners that were written. DIR/secondary.json has all figures.
Tables that are there are used again. The scenario `secondary_index` measures Hudi's own beside it.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark import Table
from keymark.datasets.generate.hashing import derive, draw

PARTITIONS, LOADS, SEED = 40, 10, 1
OPTIONS = {
    **{f"hoodie.metadata.record.index.{end}.filegroup.count": "10" for end in ("min", "max")},
    # What a table service costs is not the index's.
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "1000",
    # New rows open files.
    "hoodie.parquet.small.file.limit": "0",
}


def owner_of(numbers: npt.NDArray[np.int64], owners: int, turn: int) -> pa.Array:
    """The owner of each row, who changes with every turn."""
    mixed = draw(derive(SEED, "owner", turn), numbers) % np.uint64(owners)
    return pa.array([f"owner-{number:07d}" for number in mixed.tolist()])


def rows(numbers: npt.NDArray[np.int64], owners: int, turn: int) -> pa.Table:
    """Rows by their numbers."""
    return pa.table(
        {
            "k": [f"key-{number:012d}" for number in numbers.tolist()],
            "p": [f"p{number % PARTITIONS:02d}" for number in numbers.tolist()],
            "ts": np.full(len(numbers), turn),
            "owner": owner_of(numbers, owners, turn),
            "filler": [f"{number:0100d}" for number in numbers.tolist()],
        }
    )


def make(path: Path, count: int, owners: int) -> None:
    """The table without the index: LOADS bulk inserts of as many rows."""
    table = Table.create(
        path, record_key="k", partition_path="p", ordering="ts", index="record", options=OPTIONS
    )
    for load in range(LOADS):
        numbers = np.arange(load * count // LOADS, (load + 1) * count // LOADS)
        table.bulk_insert(rows(numbers, owners, 0))


def batch(count: int, owners: int, turn: int, size: int) -> pa.Table:
    """Half new rows, half updates."""
    known = np.random.default_rng(turn).choice(count, size // 2, replace=False)
    new = count + turn * size + np.arange(size // 2)
    return rows(np.concatenate([known, new]), owners, turn)


def timed(call: Any) -> tuple[float, Any]:
    """Seconds and result."""
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def queries(table: Table, owners: int, count: int) -> list[dict[str, float]]:
    """Rows of random owners; the files with a match are known by reading them all once."""
    chance, plan = np.random.default_rng(SEED), table.scan(columns=["owner"])
    parts = [part["owner"].combine_chunks() for part in plan.tables()]
    told = []
    for number in chance.integers(0, owners, count).tolist():
        name = f"owner-{number:07d}"
        wanted = [
            file.path
            for file, part in zip(plan.files, parts, strict=True)
            if part.index(name).as_py() >= 0
        ]
        seconds, files = timed(lambda name=name: table.files(where=f"owner = '{name}'"))
        if [file.path for file in files] != wanted:
            raise SystemExit(f"{name}: {len(files)} files, {len(wanted)} have a match")
        told.append({"files": len(files), "of": len(plan.files), "find_s": seconds})
    return told


def compared(writes: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    """What the index adds to an upsert, beside what the record index takes in it.

    Args:
        writes: by turn, of the tables `with` and `without` the seconds of each phase.

    Returns:
        Means of both in seconds, and their ratio with the middle 95 % of 10,000 draws of turns.
    """
    added = np.array([turn["with"]["total"] - turn["without"]["total"] for turn in writes])
    record = np.array([turn["without"]["tag"] + turn["without"]["index"] for turn in writes])
    draws = np.random.default_rng(SEED).integers(0, len(writes), (10_000, len(writes)))
    ratios = added[draws].sum(axis=1) / record[draws].sum(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975]).tolist()
    phases = {
        name: float(np.mean([turn["with"][name] - turn["without"][name] for turn in writes]))
        for name in writes[0]["with"]
    }
    return {
        "added_s": float(added.mean()),
        "added_s_by_phase": phases,
        "record_index_s": float(record.mean()),
        "ratio": float(added.sum() / record.sum()),
        "ratio_low": low,
        "ratio_high": high,
    }


def main() -> None:
    """Make the tables if they are not there, write, ask, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=30_000)
    parser.add_argument("--turns", type=int, default=20)
    asked = parser.parse_args()
    owners, start = asked.rows // 100, asked.out / f"table-{asked.rows}"
    if not start.exists():
        make(start, asked.rows, owners)
    paths = {name: asked.out / name for name in ("without", "with")}
    for path in paths.values():
        shutil.rmtree(path, ignore_errors=True)
        # Base files never change: links do.
        shutil.copytree(start, path, copy_function=os.link)
    tables = {name: Table.open(path, options=OPTIONS) for name, path in paths.items()}
    figures: dict[str, Any] = {
        "rows": asked.rows,
        "owners": owners,
        "batch": asked.batch,
        "files": len(tables["with"].files()),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    figures["build_s"], _ = timed(lambda: tables["with"].build_secondary("owner"))
    figures |= {f"{name}_built": value for name, value in size_of(tables["with"]).items()}
    writes = []
    for turn in range(asked.turns + 1):
        data, order = batch(asked.rows, owners, turn + 1, asked.batch), list(tables)
        took = {}
        for name in order if turn % 2 else order[::-1]:
            took[name] = tables[name].upsert(data).phases
        if turn:
            writes.append(took)
    figures |= {f"{name}_after": value for name, value in size_of(tables["with"]).items()}
    figures |= {"upkeep": compared(writes), "writes": writes}
    figures["queries"] = queries(tables["with"], owners, 20)
    if not tables["with"].check().ok:
        raise SystemExit("the index differs from the data")
    (asked.out / "secondary.json").write_text(json.dumps(figures, indent=1))
    _tell(figures)


def size_of(table: Table) -> dict[str, int]:
    """The index's bytes, and its files."""
    (part,) = (p for p in table.indexes() if p.partition == "secondary(owner)")
    return {"bytes": part.bytes, "runs": part.file_groups}


def _tell(figures: dict[str, Any]) -> None:
    each = figures["bytes_built"] / figures["rows"]
    print(f"build {figures['build_s']:.1f} s, {each:.1f} bytes a row")
    upkeep, writes = figures["upkeep"], figures["writes"]
    print(
        f"{len(writes)} upserts: the index adds {upkeep['added_s']:.2f} s to each, which is "
        f"{upkeep['ratio']:.2f} times ({upkeep['ratio_low']:.2f} to {upkeep['ratio_high']:.2f}) "
        f"what the record index takes, {upkeep['record_index_s']:.2f} s"
    )
    print("| phase | with, s | without, s | more, s |\n|---|---|---|---|")
    for name, more in upkeep["added_s_by_phase"].items():
        took = [
            float(np.mean([turn[side][name] for turn in writes])) for side in ("with", "without")
        ]
        print(f"| {name} | {took[0]:.3f} | {took[1]:.3f} | {more:.3f} |")
    asked = figures["queries"]
    print(
        f"a query: {median(q['files'] for q in asked):.0f} of {asked[0]['of']} files, "
        f"found in {1000 * median(q['find_s'] for q in asked):.0f} ms"
    )


if __name__ == "__main__":
    main()
