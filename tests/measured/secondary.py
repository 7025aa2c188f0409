"""A secondary index on 10,000,000 rows: its build, what it adds to a write, what it saves a query.

    python tests/measured/secondary.py --out DIR

Each owner has 1 row in 100,000, in files all over the table. Two tables start from the same files,
one of them with an index on `owner`, and take turns at the same upserts (half of the rows new, the
others in all files). Every query is compared with the owners that were written. DIR/secondary.json
has all figures. Tables that are there are used again.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import shutil
import time
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


def main() -> None:
    """Make the tables if they are not there, write, ask, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=30_000)
    parser.add_argument("--turns", type=int, default=5)
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
    figures: dict[str, Any] = {"rows": asked.rows, "owners": owners}
    figures["build_s"], _ = timed(lambda: tables["with"].build_secondary("owner"))
    (part,) = (p for p in tables["with"].indexes() if p.partition == "secondary(owner)")
    figures |= {"bytes_a_row": part.bytes / asked.rows, "runs": part.file_groups}
    figures["writes"] = []
    for turn in range(1, asked.turns + 1):
        data, order = batch(asked.rows, owners, turn, asked.batch), list(tables)
        took = {}
        for name in order if turn % 2 else order[::-1]:
            _, result = timed(lambda name=name, data=data: tables[name].upsert(data))
            took[name] = result.phases
        figures["writes"].append(took)
    figures["queries"] = queries(tables["with"], owners, 20)
    if not tables["with"].check().ok:
        raise SystemExit("the index differs from the data")
    (asked.out / "secondary.json").write_text(json.dumps(figures, indent=1))
    _tell(figures)


def _tell(figures: dict[str, Any]) -> None:
    print(f"build {figures['build_s']:.1f} s, {figures['bytes_a_row']:.1f} bytes a row")
    writes = figures["writes"]
    record = median(w["without"]["index"] for w in writes)
    added = median(w["with"]["services"] - w["without"]["services"] for w in writes)
    merged = median(w["with"]["write"] / w["without"]["write"] for w in writes)
    whole = median(w["with"]["total"] / w["without"]["total"] for w in writes)
    print(
        f"a write: {added:.2f} s of upkeep, the record index {record:.2f} s: {added / record:.2f}"
    )
    print(f"with it merging takes {merged:.3f} times as long, the whole write {whole:.3f} times")
    asked = figures["queries"]
    print(
        f"a query: {median(q['files'] for q in asked):.0f} of {asked[0]['of']} files, "
        f"found in {1000 * median(q['find_s'] for q in asked):.0f} ms"
    )


if __name__ == "__main__":
    main()
