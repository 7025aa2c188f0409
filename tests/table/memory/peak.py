"""Peak memory of each step of a table's life, of driver, JVM and workers, as a Markdown table.

    peak.py ROWS FOLDER         PSS of the process tree, sampled five times a second

A base file has 500,000 rows whatever the table's size: a step's bound is one of files, not of rows.
Every step runs in a process of its own, so that no step is charged for what an earlier one left.
Figures of finished steps are in FOLDER/peaks.jsonl, and as a table in peaks.md: after a kill the
same command goes on with the step that was cut off, which the table takes back first. The tables
go when all steps are done.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from keymark import Table
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.specs.spec import load_spec
from keymark.table.runtime.spark import session

_SAMPLE_SECONDS = 0.2
_BATCH, _LARGE, _DELETED = 400_000, 20_000_000, 10_000
_PARTITION = 1_000_000
"""Rows of a partition."""
_KINDS = ("driver", "java", "workers", "all")


@dataclass(frozen=True)
class Bench:
    """The table under test: rows of its load, shards of its record index, and where it is."""

    rows: int
    shards: int
    folder: Path
    spark: SparkSession

    @property
    def path(self) -> Path:
        """Of the table."""
        return self.folder / f"table-{self.shards}"

    @property
    def savepoint(self) -> Path:
        """The file that names the savepoint after the load."""
        return self.folder / f"savepoint-{self.shards}"

    def dataset(self, batch: int) -> GeneratedDataset:
        """Batches of so many rows: half of them new, the others in the newest partitions."""
        partitions = max(1, self.rows // _PARTITION)
        newest = min(5 if batch <= _BATCH else 20, partitions)
        half = batch // 2
        settings = {
            "rows": self.rows,
            "seed": 1,
            "date_partitions": partitions,
            "updates": half,
            "inserts": half,
            "deletes": min(_DELETED, self.rows // 100),
            "update_choice.kind": "partitions",
            "update_choice.shares": [1 / newest] * newest,
        }
        return GeneratedDataset(load_spec("trips", settings))

    def table(self) -> Table:
        """The table that the load made."""
        return Table.open(str(self.path), spark=self.spark)

    @property
    def hot(self) -> GeneratedDataset:
        """Its batches are the common ones."""
        return self.dataset(hot_rows(self.rows))

    def keys(self, rows: DataFrame) -> DataFrame:
        """The key columns of rows."""
        return rows.select(*self.hot.record_key)


def hot_rows(rows: int) -> int:
    """Rows of a batch whose updates are at most half of the newest twentieth of a table."""
    return min(_BATCH, rows // 20)


def load(bench: Bench) -> str:
    """Bulk insert, and a savepoint."""
    shutil.rmtree(bench.path, ignore_errors=True)
    dataset = bench.hot
    prefix = "hoodie.metadata.record.index"
    table = Table.create(
        str(bench.path),
        record_key=list(dataset.record_key),
        partition_path=list(dataset.partition_path),
        ordering=dataset.ordering,
        index="record",
        options={
            f"{prefix}.min.filegroup.count": str(bench.shards),
            f"{prefix}.max.filegroup.count": str(bench.shards),
        },
        spark=bench.spark,
    )
    done = table.bulk_insert(dataset.load(bench.spark))
    bench.savepoint.write_text(table.savepoint(), "utf-8")
    return f"{done.inserted:,} rows"


def upsert(bench: Bench, batch: int) -> str:
    """Upsert the first batch of so many rows."""
    done = bench.table().upsert(bench.dataset(batch).batch(bench.spark, 1))
    return f"{done.inserted:,} inserted, {done.updated:,} updated"


def delete(bench: Bench) -> str:
    """Delete keys of the newest partitions."""
    keys = bench.keys(bench.hot.deletes(bench.spark, 1))
    return f"{bench.table().delete(keys).deleted:,} deleted"


def lookup(bench: Bench) -> str:
    """Look up the keys of the batch after the first, whose new keys are absent."""
    found = bench.table().lookup(bench.keys(bench.hot.batch(bench.spark, 2)))
    return f"{len(found) - found['file_id'].null_count:,} of {len(found):,} keys"


def check(bench: Bench) -> str:
    """Compare the table with itself."""
    found = bench.table().check()
    assert found.ok, found
    return f"{found.keys:,} keys"


def compact(bench: Bench) -> str:
    """Merge the logs of the metadata table, those of the load first of all."""
    return f"instant {bench.table().compact()}"


def restore(bench: Bench) -> str:
    """Take all that came after the load back."""
    return f"instant {bench.table().restore(bench.savepoint.read_text('utf-8'))}"


Step = tuple[int, Callable[[Bench], str]]


def steps(rows: int) -> dict[str, Step]:
    """By name: shards of the record index, and what is done."""
    hot, large = hot_rows(rows), min(_LARGE, 2 * rows)
    return {
        "load, 64 shards": (64, load),
        "check, 64 shards": (64, check),
        "load, 4 shards": (4, load),
        "check, 4 shards": (4, check),
        f"upsert of {hot:,}": (4, lambda bench: upsert(bench, hot)),
        f"upsert of {large:,}": (4, lambda bench: upsert(bench, large)),
        "delete": (4, delete),
        f"lookup of {hot:,}": (4, lookup),
        "compaction": (4, compact),
        "check after it": (4, check),
        "restore": (4, restore),
        "check after the restore": (4, check),
    }


def processes() -> dict[int, list[int]]:
    """The children of each process."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text("utf-8", errors="replace")
        except OSError:
            continue
        parent = int(status.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(folder.name))
    return children


def held(process: int) -> int:
    """PSS of a process in bytes; 0 if it is gone."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    found = text.partition("\nPss:")[2].split()
    return int(found[0]) << 10 if found else 0


def sample(driver: int) -> dict[str, int]:
    """Bytes of driver, JVM and workers."""
    children, left = processes(), [driver]
    found = dict.fromkeys(_KINDS, 0)
    while left:
        process = left.pop()
        left += children.get(process, [])
        try:
            name = Path(f"/proc/{process}/comm").read_text("utf-8", errors="replace").strip()
        except OSError:
            continue
        kind = "driver" if process == driver else "java" if name == "java" else "workers"
        size = held(process)
        found[kind] += size
        found["all"] += size
    return found


def measured(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Run a step in a process of its own and watch it.

    Raises:
        SystemExit: the step failed.
    """
    command = [sys.executable, __file__, str(given.rows), str(given.folder)]
    command += ["--heap", given.heap, "--step", name]
    started = time.perf_counter()
    log = given.folder / "step.log"
    peak = dict.fromkeys(_KINDS, 0)
    with log.open("w", encoding="utf-8") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        while child.poll() is None:
            peak = {kind: max(peak[kind], size) for kind, size in sample(child.pid).items()}
            time.sleep(_SAMPLE_SECONDS)
    if child.returncode:
        sys.exit(f"{name} failed:\n{log.read_text('utf-8')[-4000:]}")
    seconds, _, done = log.read_text("utf-8").rstrip().rpartition("\n")[2].partition(" ")
    total = time.perf_counter() - started
    return {"step": name, "done": done, "seconds": float(seconds), "with_start": total, **peak}


def run_step(name: str, given: argparse.Namespace) -> None:
    """Do a step and say how long it took and what it did."""
    shards, work = steps(given.rows)[name]
    spark = session("local[2]", {"spark.driver.memory": given.heap, "spark.ui.enabled": "false"})
    started = time.perf_counter()
    done = work(Bench(given.rows, shards, given.folder, spark))
    sys.stdout.write(f"\n{time.perf_counter() - started:.1f} {done}\n")
    spark.stop()


def report(rows: int, heap: str, figures: dict[str, dict[str, Any]]) -> str:
    """The Markdown table."""
    lines = [
        f"{rows:,} rows, 2 cores, JVM heap of at most {heap}; peak PSS in MiB.",
        "",
        "| step | seconds | driver | workers | JVM | all at once | what was done |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for name in steps(rows):
        if name not in figures:
            lines.append(f"| {name} | | | | | | not yet |")
            continue
        found = figures[name]
        sizes = [f"{found[kind] >> 20:,}" for kind in ("driver", "workers", "java", "all")]
        cells = [name, f"{found['seconds']:.1f}", *sizes, found["done"]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Do the steps that are not done, and print what is known after each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", type=int, help="of the load")
    parser.add_argument("folder", type=Path, help="for the tables and the figures")
    parser.add_argument("--heap", default="2g", help="spark.driver.memory")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        run_step(given.step, given)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    known = given.folder / "peaks.jsonl"
    lines = known.read_text("utf-8").splitlines() if known.exists() else []
    figures = {found["step"]: found for found in map(json.loads, lines)}
    for name in steps(given.rows):
        if name in figures:
            continue
        figures[name] = measured(name, given)
        with known.open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures[name]) + "\n")
        (given.folder / "peaks.md").write_text(report(given.rows, given.heap, figures), "utf-8")
        sys.stderr.write(f"{name}: {figures[name]['all'] >> 20:,} MiB\n")
        if name == "check, 64 shards":
            shutil.rmtree(given.folder / "table-64")
    sys.stdout.write(report(given.rows, given.heap, figures))
    shutil.rmtree(given.folder / "table-4", ignore_errors=True)


if __name__ == "__main__":
    main()
