"""Rows per second and core: ours, dbldatagen's and lake-loader's, in one Spark session, in turns.

    python tests/benchmarks/generation_speed.py [--repetitions 5] [--share 1.0]

dbldatagen is no dependency; without it (`pip install dbldatagen` beside `pyspark pandas faker
numba pyarrow pydantic xxhash`) its lines are missing. Spark's own compiler makes lake-loader's
recipe (`lake_loader_recipe.scala`).

One core: the master is local[1]. The time is that of the clock; beside it stands the processor time
of the virtual machine (compiler and garbage collector included) and of its Python workers, which
other work on the machine disturbs less. Every DataFrame goes into the same sink, `noop`, which
takes each row and keeps none; what is written to Parquet goes through Spark's writer, and while it
does the stack of its task is looked at: that shows what the time goes into.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import pyspark
from pyspark.sql import DataFrame, SparkSession

from keymark.datasets.columns.keys import Uuid
from keymark.datasets.columns.kind import Values
from keymark.datasets.generate import files
from keymark.datasets.generate.files import Round
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import DatasetSpec

try:
    import dbldatagen
except ImportError:
    dbldatagen = None

SEED = 42
# Rows of a measurement, which take seconds.
ROWS = {"keymark": 1_500_000, "lake-loader's recipe": 60_000, "dbldatagen": 300_000}
CITIES = [f"city {number}" for number in range(200)]
# The same eight columns for ours and dbldatagen's.
EIGHT = {
    "id": {"kind": "uuid"},
    "dt": {"kind": "partition"},
    "city": {"kind": "choice", "values": CITIES},
    "name": {"kind": "template", "text": "{first_name} {last_name}"},
    "fare": {"kind": "double", "low": 5, "high": 200},
    "at": {"kind": "timestamp", "low": "2024-01-01", "high": "2024-01-30"},
    "number": {"kind": "int", "low": 1, "high": 1_000_000},
    "note": {"kind": "template", "text": "Order {number} for {city}"},
}
# Those of lake-loader's recipe, with payloads of its mean length.
RECORD_BYTES = 1024
TEN = {
    "key": {"kind": "uuid"},
    "partition": {"kind": "partition"},
    "round": {"kind": "version"},
    "ts": {"kind": "ordering"},
    **{f"text{number}": {"kind": "payload"} for number in range(1, 6)},
    "number": {"kind": "long", "low": 0, "high": 2**61},
}


def spec(columns: dict[str, Any], key: str, rows: int) -> DatasetSpec:
    """A dataset of these columns."""
    return DatasetSpec.model_validate(
        {
            "name": "speed",
            "seed": SEED,
            "rows": rows,
            "record_key": (key,),
            "payload_bytes": RECORD_BYTES // len(TEN) * 3 // 2,
            "columns": columns,
        }
    )


def ours(spark: SparkSession, columns: dict[str, Any], key: str, rows: int) -> DataFrame:
    """Rows of this project's."""
    return GeneratedDataset(spec(columns, key, rows), partitions=1).load(spark)


def dbldatagen_rows(spark: SparkSession, key: dict[str, str], rows: int) -> DataFrame:
    """The same columns as EIGHT by dbldatagen, all random; with either way to make a key."""
    days = [f"2024-01-{day:02d}" for day in range(1, 21)]
    made = (
        dbldatagen.DataGenerator(spark, name="speed", rows=rows, partitions=1, randomSeed=SEED)
        .withColumn("id", "string", **key)
        .withColumn("dt", "string", values=days, random=True)
        .withColumn("city", "string", values=CITIES, random=True)
        .withColumn("name", "string", template=r"\w \w", random=True)
        .withColumn("fare", "double", minValue=5, maxValue=200, step=0.01, random=True)
        .withColumn(
            "at",
            "timestamp",
            begin="2024-01-01 00:00:00",
            end="2024-01-30 23:59:59",
            interval="1 second",
            random=True,
        )
        .withColumn("number", "int", minValue=1, maxValue=1_000_000, random=True)
        .withColumn("note", "string", template=r"Order \N for \w", random=True)
    )
    return made.build()


def lake_loader(spark: SparkSession, rows: int) -> DataFrame:
    """Rows of lake-loader's recipe."""
    recipe = spark._jvm.keymark.benchmarks.LakeLoaderRecipe
    return DataFrame(recipe.rows(spark._jsparkSession, rows, 1, RECORD_BYTES), spark)


def contenders(spark: SparkSession) -> dict[str, Callable[[int], DataFrame]]:
    """What is compared, each as rows of a number."""
    found: dict[str, Callable[[int], DataFrame]] = {
        "keymark, 8 columns": functools.partial(ours, spark, EIGHT, "id"),
        "keymark, 10 columns of 1 KB": functools.partial(ours, spark, TEN, "key"),
        "lake-loader's recipe, 10 columns of 1 KB": functools.partial(lake_loader, spark),
    }
    if dbldatagen is not None:
        uuid, template = {"expr": "uuid()"}, {"template": "kkkkkkkk-kkkk-4kkk-8kkk-kkkkkkkkkkkk"}
        found["dbldatagen, 8 columns, key by uuid()"] = functools.partial(
            dbldatagen_rows, spark, uuid
        )
        found["dbldatagen, 8 columns, key by template"] = functools.partial(
            dbldatagen_rows, spark, template
        )
    return found


def to_noop(df: DataFrame) -> None:
    """Make every row and keep none."""
    df.write.format("noop").mode("overwrite").save()


def rate(work: Callable[[], None], rows: int) -> float:
    """Rows per second of one run."""
    begin = time.perf_counter()
    work()
    return rows / (time.perf_counter() - begin)


def in_turns(
    spark: SparkSession,
    made: dict[str, Callable[[int], DataFrame]],
    repetitions: int,
    share: float,
) -> None:
    """Measure all contenders, one after the other in each repetition, and print lines."""
    counts = {name: max(1, round(share * ROWS[name.partition(",")[0]])) for name in made}
    for name, rows_of in made.items():
        to_noop(rows_of(counts[name]))  # all is compiled
    rates: dict[str, list[float]] = {name: [] for name in made}
    processor: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(repetitions):
        for name, rows_of in made.items():
            before = processor_seconds(spark)
            work = functools.partial(to_noop, rows_of(counts[name]))
            rates[name].append(rate(work, counts[name]))
            processor[name].append(counts[name] / (processor_seconds(spark) - before))
    for name, found in rates.items():
        by_processor = round(statistics.median(processor[name]))
        answer(name, found, rows=counts[name], rows_per_processor_second=by_processor)


def processor_seconds(spark: SparkSession) -> float:
    """Processor time of the virtual machine, all its threads, and of its Python workers."""
    ticks, todo = 0, [spark.sparkContext._gateway.proc.pid]
    while todo:
        folder = Path("/proc") / str(todo.pop())
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
        for task in (folder / "task").iterdir():
            with contextlib.suppress(OSError):  # the thread has ended
                todo += map(int, (task / "children").read_text().split())
    return ticks / os.sysconf("SC_CLK_TCK")


def answer(name: str, rates: list[float], **more: Any) -> None:
    """One line of the answer."""
    line = {
        "what": name,
        "rows_per_second_per_core": round(statistics.median(rates)),
        "low": round(min(rates)),
        "high": round(max(rates)),
        **more,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def keys_alone(repetitions: int, rows: int = 2_000_000) -> None:
    """UUID texts as Arrow arrays, by one thread without Spark."""
    shape, kind = spec(EIGHT, "id", rows).shape, Uuid(kind="uuid")

    def make() -> None:
        for start in range(0, rows, 65_536):
            numbers = np.arange(start, min(rows, start + 65_536))
            kind.arrow(Values(shape=shape, name="id", numbers=numbers, versions=numbers))

    make()
    answer("keymark, uuid keys, numba", [rate(make, rows) for _ in range(repetitions)], rows=rows)


def rows_alone(repetitions: int, rows: int = 500_000) -> None:
    """EIGHT as Arrow tables, by one thread without Spark; then as Parquet files."""
    of_eight = spec(EIGHT, "id", rows)

    def make() -> None:
        for start in range(0, rows, 65_536):
            numbers = np.arange(start, min(rows, start + 65_536))
            make_rows(of_eight, numbers, np.zeros_like(numbers))

    def write(folder: Path) -> None:
        dataset = GeneratedDataset(of_eight)
        round_ = Round(dataset=dataset, number=0, partitions=1, advance=lambda _: None)
        round_.write(folder)

    make()
    answer("keymark, 8 columns, Arrow", [rate(make, rows) for _ in range(repetitions)], rows=rows)
    with tempfile.TemporaryDirectory() as folder:
        rates = [
            rate(functools.partial(write, Path(folder) / str(number)), rows)
            for number in range(repetitions + 1)
        ]
        size = sum(file.stat().st_size for file in (Path(folder) / "0").iterdir())
        # Apart from what was timed.
        shares = shares_of(functools.partial(write, Path(folder) / "profiled"))
        answer(
            "keymark, 8 columns, `data write` (Parquet and digest)",
            rates[1:],
            rows=rows,
            bytes_per_row=round(size / rows, 1),
            profile_percent=shares,
        )


def shares_of(work: Callable[[], None]) -> dict[str, float]:
    """Percents of the time of a `data write` by one thread: its parts, in one look at each call."""
    spent: Counter[str] = Counter()

    def timed(call: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timing(*given: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                spent[part] += time.perf_counter() - begin

        return timing

    writer, digest = files.pq.ParquetWriter, files.RowsDigest
    with (
        mock.patch.object(writer, "write_table", timed(writer.write_table, "the Parquet writer")),
        mock.patch.object(files, "make_rows", timed(files.make_rows, "making rows")),
        mock.patch.object(digest, "of", timed(digest.of, "the digest")),
    ):
        whole = timed(work, "all")
        whole()
    every = spent.pop("all")
    return {part: round(100 * seconds / every, 1) for part, seconds in spent.most_common()}


def parquet(spark: SparkSession, repetitions: int, rows: int = 2_000_000) -> None:
    """EIGHT through Spark's Parquet writer, with a profile of its task."""
    rates, processor = [], []
    with tempfile.TemporaryDirectory() as folder:
        writers = [
            functools.partial(ours(spark, EIGHT, "id", rows).write.parquet, f"{folder}/{number}")
            for number in range(repetitions + 2)
        ]
        writers[0]()  # all is compiled
        for write in writers[1:-1]:
            before = processor_seconds(spark)
            rates.append(rate(write, rows))
            processor.append(rows / (processor_seconds(spark) - before))
        profile = Profile(spark)  # which takes time, too
        with profile:
            writers[-1]()
        size = sum(file.stat().st_size for file in Path(f"{folder}/0").glob("*.parquet"))
    seen = profile.seen
    samples = sum(seen.values())
    shares = {name: round(count / samples, 3) for name, count in seen.most_common()}
    by_processor = round(statistics.median(processor))
    more = {
        "rows_per_processor_second": by_processor,
        "bytes_per_row": round(size / rows, 1),
        "samples": samples,
        "shares": shares,
    }
    answer("keymark, 8 columns, Spark's Parquet writer", rates, rows=rows, **more)


class Profile:
    """Looks at the stack of the task that runs, some dozen times a second, and says what it is in.

    Attributes:
        seen: samples whose innermost known frame belongs to the Parquet writer, to the file
            system, or to the expressions that make rows.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._thread_class = spark._jvm.java.lang.Thread
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._sample)
        self.seen: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._sampler.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.01):
            for frames in self._stacks():
                self.seen[part(frames)] += 1

    def _stacks(self) -> Iterator[list[str]]:
        """Class names of the frames of every task's thread, the innermost first."""
        entries = self._thread_class.getAllStackTraces().entrySet()
        for entry in entries:
            if entry.getKey().getName().startswith("Executor task launch"):
                yield [frame.getClassName() for frame in entry.getValue()]


def part(frames: list[str]) -> str:
    """What a stack is in."""
    for name in frames:
        if name.startswith(("org.apache.parquet", "org.xerial.snappy")) or "ParquetWrite" in name:
            return "the Parquet writer"
        if name.startswith("org.apache.hadoop.fs"):
            return "the file system"
        if "GeneratedClass" in name or name.startswith("org.apache.spark.sql.catalyst"):
            return "making rows"
    return "else"


def compiled(folder: Path) -> str:
    """Compile lake-loader's recipe by the compiler that comes with Spark; the class path."""
    jars = Path(pyspark.__file__).parent / "jars"
    java = str(Path(os.environ["JAVA_HOME"]) / "bin/java") if "JAVA_HOME" in os.environ else "java"
    source = Path(__file__).parent / "lake_loader_recipe.scala"
    subprocess.run(
        [java, "-cp", f"{jars}/*", "scala.tools.nsc.Main", "-usejavacp", "-d", folder, source],
        check=True,
    )
    return str(folder)


def main() -> None:
    """Run, and print a line of JSON for everything that is measured."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--repetitions", type=int, default=5)
    arguments.add_argument("--share", type=float, default=1.0, help="of the rows of a measurement")
    chosen = arguments.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "3g")
            .config("spark.driver.extraClassPath", compiled(Path(folder)))
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        in_turns(spark, contenders(spark), chosen.repetitions, chosen.share)
        parquet(spark, chosen.repetitions)
    keys_alone(chosen.repetitions)
    rows_alone(chosen.repetitions)


if __name__ == "__main__":
    main()
