"""More shards for a record index: dealt out by Keymark, or built anew from the data.

    python tests/measured/reshard_beside.py --out DIR [--rows 10000000] [--turns 5]

One table of rows of 1 KB has a record index of --before shards. In each turn copies of it take
turns at getting --after shards:

    reshard      Keymark deals the index out
    bootstrap    Keymark builds the index from the data; the old one was dropped before
    hudi@...     Apache Hudi initialises it in the same way (--engine; "" leaves it out)

After each, the digest of the index must be that of the data. Keymark's two are done once more
through a storage that counts requests as an object store does, which is not timed. Each process
begins with small tables that nothing is measured on. DIR/reshard_beside.json has all figures. What
is in it is not done again: the same command resumes where it was stopped.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from keymark import Table
from keymark.harness.engines import hudi_name
from keymark.harness.engines.hudi import HudiEngine
from keymark.harness.engines.hudi_process import HudiProcess
from keymark.harness.scenario.workload_section import SparkSection
from keymark.harness.tables.table_folders import LocalTables
from keymark.table.runtime.runner import LocalRunner, no_progress
from keymark.table.services.check.verify_index import compare_digests
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.requests import pages
from keymark.table.storage.storage import FileStatus, RangeReader, WindowReader

sys.path.insert(0, str(Path(__file__).parents[1] / "table" / "histories"))
from history_storage import PassingStorage

INDEX = "record_index"
PARTITIONS, LOAD_ROWS, WARM_ROWS = 40, 500_000, 20_000
HEX_BYTES = 960
"""Letters of a row's filler; with keys and meta columns a row has 1 KB."""

Call = Callable[[Path], None]


def counts(shards: int) -> dict[str, str]:
    """The options for so many shards."""
    return {
        f"hoodie.metadata.record.index.{end}.filegroup.count": str(shards) for end in ("min", "max")
    }


def rows(first: int, end: int) -> pa.Table:
    """Rows by their numbers."""
    count = end - first
    text = np.random.default_rng(first).bytes(count * HEX_BYTES // 2).hex().encode()
    offsets = np.arange(0, (count + 1) * HEX_BYTES, HEX_BYTES, dtype=np.int32)
    filler = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))
    numbers = range(first, end)
    return pa.table(
        {
            "k": [f"key-{number:012d}" for number in numbers],
            "p": [f"p{number % PARTITIONS:02d}" for number in numbers],
            "ts": np.zeros(count, np.int64),
            "filler": filler,
        }
    )


def make(path: Path, count: int, shards: int) -> None:
    """The table; one that is half done is filled up."""
    new = path.with_name(f"{path.name}.new")
    if not new.exists():
        Table.create(new, record_key="k", partition_path="p", ordering="ts", options=counts(shards))
    table = Table.open(new)
    done = len(table.state().timeline.commit_times())
    for first in range(done * LOAD_ROWS, count, LOAD_ROWS):
        table.bulk_insert(rows(first, min(first + LOAD_ROWS, count)))
    new.rename(path)


def copy_of(start: Path, to: Path, *, without_index: bool) -> Path:
    """A copy of the table. Base files never change: links do for them."""

    def link_or_copy(source: str, target: str) -> None:
        (os.link if source.endswith(".parquet") else shutil.copy2)(source, target)

    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(start, to, copy_function=link_or_copy)
    if without_index:
        Table.open(to).drop_index(INDEX)
    return to


@dataclass
class CountingStorage(PassingStorage):
    """Counts requests as an object store would get them; small reads fetch their surroundings."""

    found: Counter[str] = field(default_factory=Counter)
    lock: Any = field(default_factory=threading.Lock)

    def count(self, kind: str, number: int = 1) -> None:
        """Note requests; tasks of several threads make them."""
        with self.lock:
            self.found[kind] += number

    def open(self, path: str) -> RangeReader:
        self.count("head")
        file = self.inner.open(path)

        def fetch(_: str, offset: int, length: int) -> bytes:
            self.count("get")
            return file.read(offset, length)

        return WindowReader(path, file.size, fetch)

    def read(self, path: str) -> bytes:
        self.count("get")
        return self.inner.read(path)

    def list(self, path: str) -> list[FileStatus]:
        found = self.inner.list(path)
        self.count("list", pages(len(found)))
        return found

    def walk(self, path: str) -> Iterator[FileStatus]:
        found = [*self.inner.walk(path)]
        self.count("list", pages(len(found)))
        return iter(found)

    def exists(self, path: str) -> bool:
        self.count("head")
        return self.inner.exists(path)

    def put(self, path: str, data: bytes) -> None:
        self.count("put")
        self.inner.put(path, data)

    def commit(self, path: str, data: bytes) -> None:
        self.count("put")
        self.inner.commit(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self.count("put")
        self.inner.replace(path, data)

    def delete(self, path: str) -> None:
        self.count("delete")
        self.inner.delete(path)

    def delete_tree(self, path: str) -> None:
        self.count("delete")
        self.inner.delete_tree(path)


def by_keymark(shards: int, *, anew: bool) -> Callable[[Table], object]:
    """What gives an open table so many shards."""
    if anew:
        return lambda table: table.build_index(INDEX)
    return lambda table: table.reshard_index(shards)


def by_hudi(name: str, out: Path, memory: str, shards: int, opened: ExitStack) -> Call:
    """The initialisation of a release of Hudi, in a process that lives as long as this one."""
    events, section = out / "events", SparkSection(conf={"spark.driver.memory": memory})
    process = HudiProcess(name, section=section, events=events, work=out / "work")
    for folder in (events, out / "work"):
        folder.mkdir(parents=True, exist_ok=True)
    process.start()
    opened.callback(process.close)
    engine = HudiEngine(hudi_name(name), process, LocalTables(), parallelism=2)

    def build(path: Path) -> None:
        engine.open(path, index="record", options=counts(shards)).build_index()

    return build


def digest(path: Path, shards: int, keys: int) -> str:
    """The digest of index and data, which must be the same."""
    state = Table.open(path).state()
    found = compare_digests(state, LocalRunner(), no_progress)
    assert state.metadata is not None
    number = len(state.metadata.slices(INDEX))
    if (number, found.count) != (shards, keys):
        raise SystemExit(f"{path}: {number} shards, {found.count} keys, not {shards}, {keys}")
    return found.hex


@dataclass
class Sides:
    """What is measured beside each other, and on which copies of the table.

    Attributes:
        out: where copies are.
        shards: that they are to get.
        calls: what gives them, by name.
    """

    out: Path
    shards: int
    calls: dict[str, Call]

    def measure(self, start: Path, name: str, keys: int) -> dict[str, Any]:
        """Seconds of one side on a copy of a table, and the digest after it."""
        path = copy_of(start, self.out / "copy", without_index=name != "reshard")
        began = time.perf_counter()
        self.calls[name](path)
        took = time.perf_counter() - began
        found = {"seconds": took, "digest": digest(path, self.shards, keys)}
        shutil.rmtree(path)
        return found

    def requests(self, start: Path, name: str) -> dict[str, int]:
        """Requests of one of Keymark's sides."""
        anew = name != "reshard"
        path = copy_of(start, self.out / "copy", without_index=anew)
        storage = CountingStorage(LocalStorage.at(path))
        table = Table(storage, counts(self.shards))
        storage.found.clear()
        by_keymark(self.shards, anew=anew)(table)
        shutil.rmtree(path)
        return {**storage.found, "all": storage.found.total()}


def sides(asked: argparse.Namespace, opened: ExitStack) -> Sides:
    """All of them."""

    def of_keymark(*, anew: bool) -> Call:
        act = by_keymark(asked.after, anew=anew)
        return lambda path: act(Table.open(path, options=counts(asked.after)))

    calls: dict[str, Call] = {
        "reshard": of_keymark(anew=False),
        "bootstrap": of_keymark(anew=True),
    }
    if asked.engine:
        calls[asked.engine] = by_hudi(asked.engine, asked.out, asked.memory, asked.after, opened)
    return Sides(asked.out, asked.after, calls)


def measure(asked: argparse.Namespace, figures: dict[str, Any], save: Callable[[], None]) -> None:
    """Do what the figures lack."""
    start, small = asked.out / f"table-{asked.rows}", asked.out / f"table-{WARM_ROWS}"
    for path, count in ((start, asked.rows), (small, WARM_ROWS)):
        if not path.exists():
            make(path, count, asked.before)
    with ExitStack() as opened:
        made = sides(asked, opened)
        for name in made.calls:
            made.measure(small, name, WARM_ROWS)
        for turn in range(asked.turns):
            took = figures["turns"].setdefault(str(turn), {})
            order = [*made.calls] if turn % 2 else [*made.calls][::-1]
            for name in order:
                if name not in took:
                    took[name] = made.measure(start, name, asked.rows)
                    save()
        for name in ("reshard", "bootstrap"):
            if name not in figures["requests"]:
                figures["requests"][name] = made.requests(start, name)
                save()
    known = {each["digest"] for took in figures["turns"].values() for each in took.values()}
    if len(known) != 1:
        raise SystemExit(f"the indexes differ: digests {sorted(known)}")


def tell(figures: dict[str, Any]) -> None:
    """Medians, ratios and requests."""
    turns = [*figures["turns"].values()]
    for name in turns[0]:
        seconds = [took[name]["seconds"] for took in turns]
        ratios = [took[name]["seconds"] / took["reshard"]["seconds"] for took in turns]
        requests = figures["requests"].get(name, {}).get("all")
        counted = f", {requests:,} requests" if requests else ""
        print(
            f"{name}: {median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f}), "
            f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) times "
            f"the re-sharding{counted}"
        )


def main(words: list[str] | None = None) -> None:
    """Make the table, measure what is not yet measured, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--before", type=int, default=10)
    parser.add_argument("--after", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--engine", default="hudi@0.15.0")
    parser.add_argument("--memory", default="8g", help="of the process of Hudi")
    asked = parser.parse_args(words)
    # Hudi takes no relative path.
    asked.out = asked.out.absolute()
    asked.out.mkdir(parents=True, exist_ok=True)
    told = asked.out / "reshard_beside.json"
    setting = {name: getattr(asked, name) for name in ("rows", "before", "after", "memory")}
    figures: dict[str, Any] = {**setting, "turns": {}, "requests": {}}
    if told.exists():
        figures = json.loads(told.read_text())
        if {name: figures[name] for name in setting} != setting:
            raise SystemExit(f"{told} has figures of another setting: give another --out")

    def save() -> None:
        told.with_suffix(".new").write_text(json.dumps(figures, indent=1))
        told.with_suffix(".new").replace(told)

    measure(asked, figures, save)
    tell(figures)


if __name__ == "__main__":
    main()
