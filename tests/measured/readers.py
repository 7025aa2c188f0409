"""One row by its key among 1,000 files: DuckDB, Polars, Keymark and Hudi's Spark, in turns.

    python tests/measured/readers.py --out DIR --engine hudi@0.15.0 --engine hudi@1.2.0-v6

The table has 1,000 partitions of one file each, 1,000,000 rows and a record index. Each turn asks
all readers for the same key, in another order. Readers keep what they have open: a connection, a
session, a table. Every answer is compared with the row that was written. DIR/readers.json has all
times; the last lines are a table of medians with bootstrap intervals.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

import keymark.duckdb
import keymark.polars
from keymark import Table
from keymark.harness.engines import hudi_name
from keymark.harness.engines.hudi import HudiEngine
from keymark.harness.engines.hudi_process import HudiProcess
from keymark.harness.scenario.workload_section import SparkSection
from keymark.harness.tables.table_folders import LocalTables

PARTITIONS, ROWS_EACH = 1_000, 1_000
SEED = 1
SHARDS = {f"hoodie.metadata.record.index.{end}.filegroup.count": "10" for end in ("min", "max")}
# Filters of Hudi's default size would be most of such a file.
FILTERS = {"hoodie.index.bloom.num_entries": "1000", "hoodie.bloom.index.filter.type": "SIMPLE"}

Reader = Callable[[str], list[tuple[str, int]]]
"""(key, value) of the rows with a key."""


def row(number: int) -> tuple[str, int]:
    """Key and value of a row."""
    return f"key-{number:012d}", number * 7


def make(path: Path) -> None:
    """The table, in one bulk insert."""
    numbers = np.arange(PARTITIONS * ROWS_EACH)
    keys = [row(number)[0] for number in numbers]
    rows = {
        "k": keys,
        "p": [f"p{number % PARTITIONS:04d}" for number in numbers],
        "ts": np.zeros(len(numbers), np.int64),
        "v": numbers * 7,
        "filler": [f"{number:0200d}" for number in numbers],
    }
    table = Table.create(
        path,
        record_key="k",
        partition_path="p",
        ordering="ts",
        index="record",
        options={**SHARDS, **FILTERS},
    )
    table.bulk_insert(pa.table(rows))


def readers(path: Path, out: Path, engines: list[str], opened: ExitStack) -> dict[str, Reader]:
    """All readers by name, each with what it keeps open."""
    con = duckdb.connect()
    held = Table.open(path)
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    opened.callback(spark.stop)
    in_spark = Table.open(path, spark=spark)

    def by_duckdb(key: str) -> list[tuple[str, int]]:
        return keymark.duckdb.read(con, held, f"k = '{key}'").project("k, v").fetchall()

    def by_polars(key: str) -> list[tuple[str, int]]:
        return (
            keymark.polars.scan(held).filter(pl.col("k") == key).select("k", "v").collect().rows()
        )

    def by_scan(key: str) -> list[tuple[str, int]]:
        found = held.scan(keys=[key], columns=["k", "v"]).to_arrow()
        return list(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))

    def by_spark(key: str) -> list[tuple[str, int]]:
        rows = in_spark.read(keys=[key], columns=["k", "v"]).collect()
        return [(found.k, found.v) for found in rows]

    made: dict[str, Reader] = {
        "Polars": by_polars,
        "DuckDB": by_duckdb,
        "Table.scan": by_scan,
        "Table.read (Spark)": by_spark,
    }
    for name in engines:
        made[f"{name} (Spark)"] = by_hudi(path, out, name, opened)
    return made


def by_hudi(path: Path, out: Path, name: str, opened: ExitStack) -> Reader:
    """A release of Hudi with its metadata table and data skipping on, in a process of its own."""
    events, section = out / "events", SparkSection()
    events.mkdir(parents=True, exist_ok=True)
    process = HudiProcess(name, section=section, events=events, work=out / "work")
    opened.callback(process.close)
    (out / "work").mkdir(exist_ok=True)
    process.start()
    engine = HudiEngine(hudi_name(name), process, LocalTables(), parallelism=2)
    table = engine.open(path, index="record", options={})

    def read(key: str) -> list[tuple[str, int]]:
        return [(found["k"], found["v"]) for found in table.read([key]).collect()]

    return read


def turns(made: dict[str, Reader], count: int, chance: Random) -> Iterator[dict[str, float]]:
    """Seconds of each reader, turn by turn; an answer that is wrong ends it."""
    names = list(made)
    for _ in range(count):
        wanted = row(chance.randrange(PARTITIONS * ROWS_EACH))
        chance.shuffle(names)
        took = {}
        for name in names:
            began = time.perf_counter()
            found = made[name](wanted[0])
            took[name] = time.perf_counter() - began
            if found != [wanted]:
                raise SystemExit(f"{name} found {found} for {wanted}")
        yield took


def interval(values: list[float]) -> tuple[float, float]:
    """The middle 95 % of medians of 2,000 bootstrap draws."""
    drawn = np.random.default_rng(SEED).choice(values, (2_000, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    """Make the table if it is not there, ask, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engine", action="append", default=[])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--warm", type=int, default=3, help="turns before those that count")
    asked = parser.parse_args()
    path = asked.out / "table"
    if not path.exists():
        make(path)
    with ExitStack() as opened:
        made = readers(path, asked.out, asked.engine, opened)
        chance = Random(SEED)
        cold = next(turns(made, 1, chance))
        for _ in turns(made, asked.warm, chance):
            pass
        warm = list(turns(made, asked.turns, chance))
    (asked.out / "readers.json").write_text(json.dumps({"cold": cold, "warm": warm}, indent=1))
    print("| reader | first, ms | warm, ms | interval |\n|---|---|---|---|")
    for name in made:
        values = [1000 * took[name] for took in warm]
        low, high = interval(values)
        print(
            f"| {name} | {1000 * cold[name]:.0f} | {median(values):.1f} | {low:.1f} to {high:.1f} |"
        )


if __name__ == "__main__":
    main()
