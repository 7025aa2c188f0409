"""Building a record index against reading the record keys of the same files in the same tasks.

Tiny where benchmarks are disabled; `--benchmark-enable` takes 1,000,000 uuid-keyed rows in 20 date
partitions and about 220 base files. As a script it measures any size, peak memory included:

    python tests/benchmarks/test_bootstrap_benchmark.py FOLDER --rows 20000000 --groups 10

makes the table in FOLDER unless it is there, and prints one JSON document. With `--spark` tasks
run in a Spark session of two cores, else in two threads. `--growth CHART.svg` measures parts of the
table instead, the first quarter, half and so on, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from keymark import Table
from keymark.indexes.installed import specs
from keymark.reports.render.charts import GRID, INK, Drawing, Lettering
from keymark.table.format.parquet.base_file import read_base_file
from keymark.table.index.build.record_index import ENTRY_BYTES, build_record_index, scan_tasks
from keymark.table.index.build.scan import ScanTask
from keymark.table.index.build.target import BuildTarget
from keymark.table.keygen.stored import KEY_COLUMN
from keymark.table.layout.naming import METADATA
from keymark.table.runtime.runner import LocalRunner, SparkRunner
from keymark.table.runtime.spark import session
from keymark.table.state.table_state import TableState
from keymark.table.storage.local_storage import LocalStorage

PARTITIONS, FILES = 20, 220
CHUNK = 1_000_000
PARTS = (0.05, 0.25, 0.5, 0.75, 1.0)
FOLDER = ".hoodie/.keymark/build/benchmark"
INSTANT = "20990101000000000011"


def rows(seed: int, count: int) -> pa.Table:
    """Random uuids and three small columns."""
    text = np.random.default_rng(seed).bytes(16 * count).hex()
    cuts = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    starts = range(0, len(text), 32)
    keys = ["-".join(text[at + low : at + high] for low, high in cuts) for at in starts]
    return pa.table(
        {
            "uuid": keys,
            "dt": [f"2024-01-{n % PARTITIONS + 1:02d}" for n in range(count)],
            "ts": pa.array(np.ones(count, np.int64)),
            "fare": np.arange(count) * 0.25,
        }
    )


def make_table(folder: Path, count: int, chunk: int = CHUNK) -> None:
    """A table without record index; each chunk of rows is a bulk insert of about 220 files."""
    table = Table.create(
        str(folder),
        record_key="uuid",
        partition_path="dt",
        ordering="ts",
        index="global_simple",
        options={"hoodie.parquet.max.file.size": str(23 * min(count, chunk) // FILES)},
    )
    for seed, start in enumerate(range(0, count, chunk)):
        table.bulk_insert(rows(seed, min(chunk, count - start)))


def target_of(folder: Path, groups: int) -> BuildTarget:
    storage = LocalStorage.at(str(folder))
    state = TableState.load(storage)
    return BuildTarget(
        storage=storage,
        folder=FOLDER,
        partition="record_index",
        instant=INSTANT,
        files=state.snapshot.files,
        groups=groups,
        zone=state.config.zone,
    )


def clear(target: BuildTarget) -> None:
    target.storage.delete_tree(FOLDER)
    target.storage.delete_tree(f"{METADATA}/record_index")


def count_keys(task: ScanTask) -> int:
    """What a scan task reads, by Arrow, and nothing else."""
    return sum(
        read_base_file(task.storage.open(file.path), [KEY_COLUMN]).num_rows for file in task.files
    )


def read(target: BuildTarget, count: int, runner: Any) -> None:
    tasks = scan_tasks(target, count)
    weights = [sum(file.size for file in task.files) for task in tasks]
    assert sum(runner.run(count_keys, tasks, weights=weights)) == count


def build(target: BuildTarget, count: int, runner: Any) -> Any:
    built = build_record_index(target, rows=count, runner=runner)
    assert built.records == count
    return built


@pytest.fixture(scope="module")
def loaded(request, tmp_path_factory):
    """(folder of a table, its number of rows)."""
    count = 1_000_000 if request.config.getoption("benchmark_enable") else 4_000
    folder = tmp_path_factory.mktemp("bootstrap") / "loaded"
    make_table(folder, count)
    return folder, count


def test_read_the_keys(benchmark, loaded):
    folder, count = loaded
    target = target_of(folder, 4)
    benchmark.pedantic(read, args=(target, count, LocalRunner()), rounds=5, warmup_rounds=1)
    benchmark.extra_info["base_files"] = len(target.files)


@pytest.mark.parametrize("groups", [1, 10])
def test_build_the_index(benchmark, loaded, groups):
    folder, count = loaded
    target = target_of(folder, groups)
    built = benchmark.pedantic(
        build,
        setup=lambda: (clear(target), ((target, count, LocalRunner()), {}))[1],
        rounds=5,
        warmup_rounds=1,
    )
    clear(target)
    benchmark.extra_info["bytes_per_key"] = built.size / count
    if count >= 1_000_000:
        assert built.size <= 27 * count


def measure(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Both, interleaved in one process after a warm-up; then each alone for its peak memory."""
    count, groups = given.rows, given.groups
    target = target_of(folder, groups)
    seconds: dict[str, list[float]] = {"read": [], "build": []}
    built = None
    with runner_of(spark=given.spark) as runner:
        for number in range(given.rounds + 1):
            for name, work in (("read", read), ("build", build)):
                clear(target)
                start = time.perf_counter()
                built = work(target, count, runner)
                if number:
                    seconds[name].append(round(time.perf_counter() - start, 3))
        clear(target)
    ratios = [b / r for r, b in zip(seconds["read"], seconds["build"], strict=True)]
    peaks = {name: peak(folder, name, given) for name in seconds}
    return {
        "rows": count,
        "files": len(target.files),
        "groups": groups,
        "read_s": seconds["read"],
        "build_s": seconds["build"],
        "ratio": round(statistics.median(seconds["build"]) / statistics.median(seconds["read"]), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "peak_read_bytes": peaks["read"],
        "peak_build_bytes": peaks["build"],
        "two_shards_bytes": 2 * count * ENTRY_BYTES // groups,
        "bytes_per_key": round(built.size / count, 2),
    }


def measure_growth(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Both, for parts of the table; medians in seconds by million keys, and a chart of them."""
    whole = target_of(folder, given.groups)
    seconds: dict[str, dict[float, list[float]]] = {"read": {}, "build": {}}
    with runner_of(spark=given.spark) as runner:
        for number in range(given.rounds + 1):
            for part in PARTS:
                count = int(part * given.rows)
                times = sorted({file.instant_time for file in whole.files})
                last = times[round(part * len(times)) - 1]
                files = tuple(file for file in whole.files if file.instant_time <= last)
                target = replace(whole, files=files)
                for name, work in (("read", read), ("build", build)):
                    clear(target)
                    start = time.perf_counter()
                    work(target, count, runner)
                    if number:
                        known = seconds[name].setdefault(count / 1e6, [])
                        known.append(time.perf_counter() - start)
        clear(whole)
    medians = {
        name: {size: round(statistics.median(values), 3) for size, values in sizes.items()}
        for name, sizes in seconds.items()
    }
    draw_growth(medians, given.growth)
    return {"groups": given.groups, "rounds": given.rounds, **medians}


def draw_growth(medians: dict[str, dict[float, float]], path: Path) -> None:
    """Seconds by million keys, both from the same run, with a line through nought and the end."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, color in (("build", specs()["record"].color), ("read", INK)):
            sizes = sorted(medians[name])
            last = sizes[-1]
            axes.plot([0, last], [0, medians[name][last]], color=color, linewidth=1, alpha=0.5)
            axes.plot(sizes, [medians[name][size] for size in sizes], "o", color=color)
            label = "reading the key column" if name == "read" else "building the record index"
            axes.annotate(
                label,
                (last, medians[name][last]),
                (-12, 2 if name == "build" else 14),
                textcoords="offset points",
                ha="right",
                va="bottom" if name == "read" else "center",
                color=color,
            )
        axes.set_xlabel("million keys")
        axes.set_ylabel("seconds")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.grid(color=GRID)

    title = "Building a record index costs the same per key"
    path.write_text(Drawing(draw=draw, rows=7, title=title).pictures(Lettering()).svg)


@contextlib.contextmanager
def runner_of(*, spark: bool) -> Iterator[Any]:
    """Two threads, or a Spark session of two cores."""
    if not spark:
        yield LocalRunner()
        return
    started = session("local[2]", {"spark.ui.enabled": "false"})
    try:
        # However small: the first build of a process has kernels to load.
        yield SparkRunner(started, local_bytes=0)
    finally:
        started.stop()


def peak(folder: Path, what: str, given: argparse.Namespace) -> int:
    """Peak resident bytes of processes that do one of the two, kernels warm."""
    command = [sys.executable, __file__, str(folder), "--peak", what]
    command += ["--rows", str(given.rows), "--groups", str(given.groups)]
    command += ["--spark"] if given.spark else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout.split()[-1])


def show_peak(folder: Path, given: argparse.Namespace) -> None:
    """Load all kernels with a tiny table, do the work, print the peak.

    The table has a shard for every worker, and blocks that are compressed as large ones are.
    """
    tiny = folder.with_name(f"{folder.name}.tiny")
    shutil.rmtree(tiny, ignore_errors=True)
    make_table(tiny, 8000)
    with runner_of(spark=given.spark) as runner:
        build(target_of(tiny, 8), 8000, runner)
        shutil.rmtree(tiny)
        target = target_of(folder, given.groups)
        (build if given.peak == "build" else read)(target, given.rows, runner)
        clear(target)
        sys.stdout.write(f"{sum(map(peak_of, python_processes()))}\n")


def python_processes() -> list[int]:
    """This process and the Python workers below it: what Java takes is Spark's own."""
    below: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            below.setdefault(int(parent), []).append(int(folder.name))
    found, todo = [], [os.getpid()]
    while todo:
        todo += below.get(number := todo.pop(), [])
        # A process may end while it is looked at.
        with contextlib.suppress(OSError):
            if "python" in (Path("/proc") / str(number) / "exe").readlink().name:
                found.append(number)
    return found


def peak_of(number: int) -> int:
    """Unlike getrusage, this forgets what the process was before it became this program."""
    status = Path(f"/proc/{number}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--growth", type=Path)
    parser.add_argument("--peak", choices=("read", "build"))
    given = parser.parse_args()
    if given.peak:
        show_peak(given.folder, given)
        return
    if not given.folder.exists():
        make_table(given.folder, given.rows)
    taken = (measure_growth if given.growth else measure)(given.folder, given)
    sys.stdout.write(json.dumps(taken, indent=2) + "\n")


if __name__ == "__main__":
    main()
