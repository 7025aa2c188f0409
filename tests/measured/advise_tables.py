"""Twenty tables drawn from a seed, ten with a planted fault, and what `advise` says about each.

    python tests/measured/advise_tables.py --seed 20261201 --out DIR            some minutes
    python tests/measured/advise_tables.py --seed 20261201 --out DIR --best     an hour more

Apache Hudi 0.15.0, 1.1.1 and 1.2.0 and Keymark make them, some of Hudi's merge-on-read. A table
that is there is not made again. Every fault of the list is drawn at least once. Draw with a seed
that was chosen after the rules were committed.

With `--best` three global indexes are measured on a copy of each copy-on-write table
(`keymark run` with `table.source`), by the engine that made it, and the index that is recommended
is judged by what it adds to a write: right is what adds at most a tenth more than the best. Where
several are told as a tie, the best as measured must be one of them.

DIR/score.json has each table with its fault, the findings and the indexes, DIR/score.md the same as
a table, and DIR/runs.jsonl a line for each call: what is printed last says which call it was.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.datasets.profiles.shapes import java_hashes
from keymark.harness.engines import jars
from keymark.harness.engines.hudi_process import session_conf
from keymark.reports.plan.calibration import shipped

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
GLOBAL = ("record", "global_simple", "global_bloom")
"""That are right for any table, so that `advise` chooses among them."""
OTHER_INDEX = "other_index"
"""The finding that is judged by the measured best, and is no fault."""
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
        merge_on_read: whether upserts go to log files.
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
    merge_on_read: bool

    @property
    def kind(self) -> str:
        """Of its table, in words."""
        return "merge on read" if self.merge_on_read else "copy on write"


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
        # Keymark writes copy on write only; files that no clean deletes are base files there.
        merge_on_read=maker != "native" and fault != "cleaning_lags" and chance.random() < 0.4,
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
    if table.merge_on_read:
        found["hoodie.datasource.write.table.type"] = "MERGE_ON_READ"
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


def added(table: Drawn, folder: Path) -> dict[str, float]:
    """Seconds that each global index adds to a write of a copy of the table, as measured.

    Nothing of merge-on-read tables: a run copies those of copy on write.
    """
    if table.merge_on_read:
        return {}
    out = folder / "best"
    if not (out / "summary.json").exists():
        subprocess.run(["rm", "-rf", str(out)], check=True)
        words = [sys.executable, "-m", "keymark", "run", "quickstart", "--engine", table.maker]
        words += [word for index in GLOBAL for word in ("--index", index)]
        settings = {
            "table.source": str(folder / "table"),
            "table.options.keymark.local.bytes": "67108864",
            "dataset.batch_rows": table.batch,
            "workload.lookup_present": 0,
            "workload.lookup_absent": 0,
            "workload.point_query": "false",
        }
        words += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        # An index that is not verified is left out below.
        subprocess.run([*words, "--out", str(out)], check=False, stdout=subprocess.DEVNULL)
    cells = json.loads((out / "summary.json").read_text())["cells"]
    return {
        cell["index"]: sum(
            each["median"]
            for each in cell["metrics"]
            if (each["step"], each["metric"]) == ("upsert_1", "wall_s")
            and each["phase"] in ("tag", "index")
        )
        for cell in cells
        if cell["verified"]
    }


def advised(table: Drawn, path: Path) -> dict[str, Any]:
    """What `advise` says about a table: by the constants of its maker where these ship."""
    words = [sys.executable, "-m", "keymark", "advise", str(path), "--json"]
    words += ["--index", table.index, "--batch", str(table.batch)]
    words += ["--engine", table.maker] if table.maker in shipped() else []
    ran = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def judged(table: Drawn, said: Mapping[str, Any], measured: Mapping[str, float]) -> dict[str, Any]:
    """A table with what was said about it, and whether that was right; None: it was not judged."""
    kinds = [each["kind"] for each in said["findings"] if each["kind"] != OTHER_INDEX]
    plan = said["plan"]
    recommended = plan and plan["recommended"]
    tied = [plan["order"][0], *plan["ties"]] if plan and plan["ties"] else []
    best = min(measured, key=lambda index: measured[index], default=None)
    is_right = None
    if best is not None and recommended is not None:
        is_right = recommended in measured and measured[recommended] <= 1.1 * measured[best]
    elif best is not None and tied:
        is_right = best in tied
    return asdict(table) | {
        "findings": kinds,
        "right": kinds == ([table.fault] if table.fault else []),
        "engine": plan and plan["engine"],
        "recommended": recommended,
        "tied": [] if recommended else tied,
        "measured": dict(measured),
        "best": best,
        "recommended_right": is_right,
    }


def score(told: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the tables say together."""
    faulty = [each for each in told if each["fault"]]
    named = sum(each["fault"] in each["findings"] for each in faulty)
    alarms = sum(len(set(each["findings"]) - {each["fault"]}) for each in told)
    said = [f"{named} of {len(faulty)} faults named, {alarms} false alarms in {len(told)} tables"]
    compared = [each for each in told if each["best"]]
    if compared:
        made = [each for each in compared if each["recommended"]]
        ties = [each for each in compared if each["tied"]]
        right, among = (sum(bool(each["recommended_right"]) for each in of) for of in (made, ties))
        said.append(
            f"the recommended index was the best as measured, or within a tenth of it, in {right} "
            f"of {len(made)} tables; the best was one of those tied in {among} of {len(ties)}; "
            f"{len(told) - len(compared)} tables were not measured"
        )
    return said


def rows(told: Sequence[Mapping[str, Any]]) -> list[str]:
    """The tables as a table of Markdown."""
    heads = ("table", "made by", "fault", "found", "recommended", "best as measured")
    lines = [heads, ("---",) * len(heads)]
    for each in told:
        kind = "merge on read" if each["merge_on_read"] else "copy on write"
        lines.append((
            f"{each['number']}, {kind}, {each['rows']:,} rows",
            each["maker"],
            each["fault"] or "none",
            ", ".join(each["findings"]) or "nothing",
            each["recommended"] or " = ".join(each["tied"]) or "nothing",
            each["best"] or "not measured",
        ))  # fmt: skip
    return [f"| {' | '.join(line)} |" for line in lines]


def counted(out: Path, seed: int, *, best: bool) -> int:
    """Note a call; how many there were with this seed."""
    log = out / "runs.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(json.dumps({"seed": seed, "started": moment, "best": best}) + "\n")
    return sum(json.loads(line)["seed"] == seed for line in log.read_text().splitlines())


def main() -> int:
    """Make, advise, measure, score; 1 where a fault was missed or a healthy table got a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--best", action="store_true", help="measure the best index of each table")
    asked = parser.parse_args()
    calls = counted(asked.out, asked.seed, best=asked.best)
    told = []
    for table in draw(asked.seed):
        folder = asked.out / f"{asked.seed}-{table.number:02d}"
        path = make(table, folder)
        said = judged(table, advised(table, path), added(table, folder) if asked.best else {})
        told.append(said)
        print(
            f"{table.number:2} {table.maker:12} {table.kind:13} {table.fault or 'healthy':14} "
            f"{said['findings']} recommended {said['recommended']}, best {said['best']}",
            flush=True,
        )
    lines = score(told)
    kept = {"seed": asked.seed, "call": calls, "score": lines, "tables": told}
    (asked.out / "score.json").write_text(json.dumps(kept, indent=1))
    (asked.out / "score.md").write_text("\n".join([*lines, "", *rows(told), ""]))
    print("\n".join([*lines, f"call {calls} with seed {asked.seed}"]))
    return int(not all(each["right"] for each in told))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main())
