"""The digest of generated rows, by Spark in several numbers of partitions, and without Spark.

    python tests/benchmarks/digest_partitions.py [--rows 100000000] [--partitions 1,7,200]

Needs of Keymark only the package `datasets`, so that it runs with any release of PySpark, by an
interpreter of its own: `pip install pyspark faker numba numpy pyarrow pydantic xxhash`.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pyspark.sql import SparkSession

from keymark.datasets.generate.digest import Truth
from keymark.datasets.generate.files import Round
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.spark import digest_dataframe
from keymark.datasets.specs.spec import load_spec


def timed(name: str, work: Callable[[], Truth]) -> Truth:
    """Run, and print a line."""
    begin = time.perf_counter()
    truth = work()
    seconds = round(time.perf_counter() - begin, 1)
    line = {"what": name, "rows": truth.rows, "digest": truth.digest, "seconds": seconds}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    return truth


def truth_of(rows: Round) -> Truth:
    """The digest without Spark."""
    return rows.digest().truth


def main() -> int:
    """Run, and return 1 if two digests differ."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--dataset", default="trips")
    arguments.add_argument("--rows", type=int, default=100_000_000)
    arguments.add_argument("--columns", default="uuid", help="names, or 'all'")
    arguments.add_argument("--partitions", default="1,7,200")
    arguments.add_argument("--master", default="local[2]")
    chosen = arguments.parse_args()
    spec = load_spec(chosen.dataset, {"rows": chosen.rows})
    columns = None if chosen.columns == "all" else chosen.columns.split(",")
    spark = (
        SparkSession.builder.master(chosen.master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    found = set()
    for count in map(int, chosen.partitions.split(",")):
        dataset = GeneratedDataset(spec, partitions=count, columns=columns)
        name = f"PySpark {spark.version}, {count} partitions"
        found.add(timed(name, functools.partial(digest_dataframe, dataset.load(spark))))
    dataset = GeneratedDataset(spec, columns=columns)
    for count in map(int, chosen.partitions.split(",")):
        rows = Round(dataset=dataset, number=0, partitions=count, advance=lambda _: None)
        found.add(timed(f"without Spark, {count} ranges", functools.partial(truth_of, rows)))
    return int(len(found) > 1)


if __name__ == "__main__":
    sys.exit(main())
