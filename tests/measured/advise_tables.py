"""Twenty tables drawn from a seed, ten with a planted fault, and what `advise` says of each.

    python tests/measured/advise_tables.py --seed 20261201 --out DIR

Apache Hudi 0.15.0, 1.1.1 and 1.2.0 and Keymark make them. A table that is there is not made again.
DIR/score.json has each table with its fault and the findings; the last line is the score. Every
fault of the list is drawn at least once. Draw with a seed that was chosen after the rules were
committed, and count each rerun.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.datasets.profiles.shapes import java_hashes
from keymark.harness.engines import jars
from keymark.harness.engines.hudi_process import session_conf

TABLES, FAULTY = 20, 10
MAKERS = ("hudi@0.15.0", "hudi@1.1.1", "hudi@1.2.0", "native")
FAULTS = (
    "few_shards",
    "skewed_shard",
    "small_files",
    "cleaning_lags",
    "small_filter",
    "index_unused",
    "index_missing",
)
TYPES = {
    "record": "RECORD_INDEX",
    "global_simple": "GLOBAL_SIMPLE",
    "global_bloom": "GLOBAL_BLOOM",
    "bloom": "BLOOM",
    "simple": "SIMPLE",
}
_RECORD = "hoodie.metadata.record.index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A table as it is to be made.

    Attributes:
        number: its place in the draw.
        maker: engine that makes it.
        fault: that is planted; None: it is healthy.
        index: that the writer's options name.
        rows, partitions, tasks: of the bulk insert; a task makes a file of each partition.
        commits, batch: upserts after it, and rows of one.
        shards: of the record index.
    """

    number: int
    maker: str
    fault: str | None
    index: str
    rows: int
    partitions: int
    tasks: int
    commits: int
    batch: int
    shards: int


def draw(seed: int) -> list[Drawn]:
    """The tables of a seed."""
    chance = Random(seed)
    faults = [*FAULTS, *chance.choices(FAULTS, k=FAULTY - len(FAULTS))]
    every = [*faults, *[None] * (TABLES - FAULTY)]
    chance.shuffle(every)
    makers = [MAKERS[number % len(MAKERS)] for number in range(TABLES)]
    chance.shuffle(makers)
    return [
        _one(chance, number, maker, fault)
        for number, (maker, fault) in enumerate(zip(makers, every, strict=True))
    ]


def _one(chance: Random, number: int, maker: str, fault: str | None) -> Drawn:
    index = {
        "few_shards": "record",
        "skewed_shard": "record",
        "index_missing": "record",
        "index_unused": chance.choice(["global_simple", "global_bloom"]),
        "small_filter": chance.choice(["global_bloom", "bloom"]),
    }.get(fault or "", chance.choice(list(TYPES)))
    rows = chance.choice([150_000, 250_000]) if fault == "few_shards" else 20_000
    rows = rows if fault else chance.choice([5_000, 50_000, 200_000])
    return Drawn(
        number=number,
        maker=maker,
        fault=fault,
        index=index,
        rows=rows,
        partitions=1 if fault == "small_filter" else chance.randint(2, 6),
        tasks=30 if fault == "small_files" else chance.randint(1, 2),
        commits=40 if fault == "cleaning_lags" else chance.randint(3, 6),
        batch=chance.choice([500, 2_000]),
        shards=1 if fault == "few_shards" else 10,
    )


def options(table: Drawn) -> dict[str, str]:
    """The writer's options."""
    has_index = table.index == "record" or table.fault == "index_unused"
    found = {
        "hoodie.table.name": f"t{table.number}",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": TYPES[table.index],
        "hoodie.metadata.enable": "true",
        f"{_RECORD}.enable": str(has_index and table.fault != "index_missing").lower(),
        f"{_RECORD}.min.filegroup.count": str(table.shards),
        f"{_RECORD}.max.filegroup.count": str(table.shards),
        "hoodie.bulkinsert.shuffle.parallelism": str(table.tasks),
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.clean.automatic": str(table.fault != "cleaning_lags").lower(),
    }
    if table.fault == "small_filter":
        found |= {
            "hoodie.bloom.index.filter.type": "SIMPLE",
            "hoodie.index.bloom.num_entries": "1000",
        }
    return found


def write_inputs(table: Drawn, folder: Path) -> None:
    """The rows of each step, as Parquet: half of an upsert's keys are new."""
    chance = np.random.default_rng(table.number)
    keys = _keys(table, table.rows + table.commits * table.batch)
    folder.mkdir(parents=True)
    for step in range(table.commits + 1):
        start = table.rows + (step - 1) * table.batch // 2
        places = (
            np.arange(table.rows)
            if step == 0
            else np.concatenate(
                [
                    chance.choice(table.rows, table.batch // 2, replace=False),
                    np.arange(start, start + table.batch // 2),
                ]
            )
        )
        rows = pa.table({
            "k": keys.take(pa.array(places)),
            "p": pa.array([f"p{place % table.partitions}" for place in places.tolist()]),
            "ts": pa.array(np.full(len(places), step), pa.int64()),
            "v": pa.array(chance.random(len(places))),
        })  # fmt: skip
        pq.write_table(rows, folder / f"{step:03d}.parquet")


def _keys(table: Drawn, count: int) -> pa.Array:
    """Keys; of a skewed table nine of ten hash into one shard."""
    if table.fault != "skewed_shard":
        return pa.array([f"key-{number * 2654435761 % 2**32:010d}" for number in range(count)])
    made = [f"key-{number:010d}" for number in range(count * 11)]
    in_first = np.abs(java_hashes(made)) % table.shards == 0
    first = [made[place] for place in np.flatnonzero(in_first)[: count * 9 // 10]]
    others = [made[place] for place in np.flatnonzero(~in_first)[: count - len(first)]]
    keys = np.array([*first, *others])
    return pa.array(np.random.default_rng(1).permutation(keys).tolist())


def make(table: Drawn, folder: Path) -> Path:
    """Make a table; what was made is left."""
    path = folder / "table"
    if (folder / "made").exists():
        return path
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    write_inputs(table, folder / "inputs")
    if table.maker == "native":
        _by_keymark(table, folder)
    else:
        _by_hudi(table, folder)
    (folder / "made").touch()
    return path


def _by_keymark(table: Drawn, folder: Path) -> None:
    from keymark import Table

    given = {
        name: value
        for name, value in options(table).items()
        if not name.startswith(("hoodie.table.", "hoodie.datasource.", "hoodie.index.type"))
        and "shuffle.parallelism" not in name
    }
    made = Table.create(
        str(folder / "table"),
        record_key="k",
        partition_path="p",
        ordering="ts",
        index=table.index,
        options=given | {"hoodie.parquet.small.file.limit": "0"} if table.tasks > 2 else given,
    )
    for step, path in enumerate(sorted((folder / "inputs").iterdir())):
        rows = pq.read_table(path)
        if step:
            made.upsert(rows)
            continue
        for part in range(table.tasks):
            made.bulk_insert(rows.take(list(range(part, rows.num_rows, table.tasks))))


def _by_hudi(table: Drawn, folder: Path) -> None:
    """In a process of its own: a JVM has the classes of one release."""
    version = table.maker.partition("@")[2]
    words = [sys.executable, __file__, "--child", str(jars.bundle(version)), str(folder)]
    (folder / "options.json").write_text(json.dumps(options(table)))
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def child(jar: str, folder: Path) -> None:
    """Write the steps with the release in a jar."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        **session_conf([Path(jar)], folder / "warehouse", folder),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    given = json.loads((folder / "options.json").read_text())
    tasks = int(given["hoodie.bulkinsert.shuffle.parallelism"])
    for step, path in enumerate(sorted((folder / "inputs").iterdir())):
        rows = spark.read.parquet(str(path)).repartition(tasks if step == 0 else 2)
        writer = rows.write.format("hudi").options(**given)
        operation = "upsert" if step else "bulk_insert"
        writer = writer.option("hoodie.datasource.write.operation", operation)
        writer.mode("append").save(str(folder / "table"))


def main() -> int:
    """Make, advise, score; 1 where a fault was missed or a healthy table got a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    told = []
    for table in draw(asked.seed):
        path = make(table, asked.out / f"{asked.seed}-{table.number:02d}")
        words = [sys.executable, "-m", "keymark", "advise", str(path), "--json"]
        ran = subprocess.run(
            [*words, "--index", table.index], check=True, capture_output=True, text=True
        )
        kinds = [each["kind"] for each in json.loads(ran.stdout)["findings"]]
        right = kinds == ([table.fault] if table.fault else [])
        told.append(asdict(table) | {"findings": kinds, "right": right})
        print(
            f"{table.number:2} {table.maker:12} {table.fault or 'healthy':14} {kinds}", flush=True
        )
    (asked.out / "score.json").write_text(json.dumps(told, indent=1))
    missed = sum(bool(each["fault"]) and each["fault"] not in each["findings"] for each in told)
    alarms = sum(len(set(each["findings"]) - {each["fault"]}) for each in told)
    print(f"{FAULTY - missed} of {FAULTY} faults named, {alarms} false alarms in {TABLES} tables")
    return int(bool(missed or alarms))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main())
