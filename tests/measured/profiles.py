"""Where the time of each operation goes: flame graphs, and the shares of stages.

    pip install py-spy
    python tests/measured/profiles.py --out DIR --pages docs/results/speed

The tables are made once, in DIR: 1,000,000 rows of the dataset trips in 20 files, and those of
`shard_lookup.py` and `fixed_costs.py`. Each operation runs in a process of its own, which py-spy
watches once it is ready: once for the flame graph, once for the stacks that are counted by stage. A
sample belongs to the innermost function that STAGES names. Samples of all threads count.

What the same bytes cost alone stands beside it, measured on one thread: for writes of many rows and
for one shard, to read, inflate and decode the files or blocks that the operation reads, to encode,
deflate, write and sync those that it writes. For the others a turn is recorded: its reads, what it
inflates and the files that it writes are done again with nothing around them. `--pages` gets a
flame graph for each, DIR/profiles.json all figures.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import fixed_costs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shard_lookup
from isal import isal_zlib

from keymark import Table
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec
from keymark.table.format.parquet.base_file import BaseFileOptions, encode
from keymark.table.format.parquet.file_body import FileBody
from keymark.table.format.parquet.footer_groups import COMPRESSED
from keymark.table.format.parquet.inflated import SomePages
from keymark.table.format.parquet.page_scan import scan_pages
from keymark.table.format.parquet.pages import inflate
from keymark.table.format.parquet.parquet_gzip import gzip_pages
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.spool import whole

ROWS, HALF = 1_000_000, 500_000
SPEC = load_spec("trips", {"rows": ROWS, "date_partitions": 10})
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "4",
    "hoodie.metadata.record.index.max.filegroup.count": "4",
    "hoodie.datasource.write.payload.class": (
        "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    ),
}
PAGE_ROWS = 2048
RATE = 400

# By stage: functions, each with a part of the path of its file where its name is not enough.
STAGES = {
    "sync": ("sync durability", "_sync_all", "_sync"),
    "inflate": ("inflate", "_inflate"),
    "decode": ("read inflated", "read_columns", "strings_of_page", "split_cells"),
    "deflate": ("gzipped", "gzip_pages", "compressed", "compress_block", "deflate_cells"),
    "encode": ("_write base_file", "indices", "page_of", "dictionary_columns", "write_next_file"),
    "write files": ("put local_storage", "_written_aside", "commit local_storage"),
    "read files": ("read local_storage", "read_fully", "read local_files"),
    "footer": ("read_footer", "read_metadata", "hudi_entries", "end_of_file", "check_entries"),
    "merge": ("merge_rows", "compose", "changed_columns", "layout_of", "meta_columns"),
    "keys": ("key_order", "split_by_shard", "record_keys", "partition_paths", "_places lookup"),
    "index": ("lookup hfile/reader", "lookup metadata/reader", "location_codes", "changes.log"),
    "lease and folders": ("hold", "_acquire", "release", "staged", "delete_tree", "delete", "list"),
    "metadata": ("_instants", "decode_commit", "listing", "snapshot", "load_config", "slices"),
}


def trips(numbers: np.ndarray, version: int) -> pa.Table:
    """Rows of trips by their numbers."""
    return make_rows(SPEC, numbers.astype(np.int64), np.full(len(numbers), version, np.int64))


def empty(path: Path) -> Table:
    """A table of trips without rows."""
    return Table.create(
        path,
        record_key="uuid",
        partition_path="dt",
        ordering="ts",
        index="record",
        options=OPTIONS,
    )


def loaded(out: Path) -> Path:
    """The table of trips: 20 files, two in each partition."""
    path = out / "trips"
    if not path.exists():
        part = out / "trips-part"
        shutil.rmtree(part, ignore_errors=True)
        table = empty(part)
        for start in (0, HALF):
            table.bulk_insert(trips(np.arange(start, start + HALF), 0))
        part.rename(path)
    return path


def copies(source: Path, out: Path, count: int) -> list[Path]:
    """Copies of a table whose files are links to its own, which no write changes."""
    made = []
    for number in range(count):
        path = out / "copies" / str(number)
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(source, path, copy_function=os.link)
        made.append(path)
    return made


def batch(count: int) -> pa.Table:
    """Two thirds of them update rows all over the table, the others are new."""
    old = np.random.default_rng(count).choice(ROWS, 2 * count // 3, replace=False)
    return trips(np.concatenate([old, np.arange(ROWS, ROWS + count - len(old))]), 1)


def upserts(out: Path, count: int, turns: int) -> Iterator[Callable[[], Any]]:
    """Upserts of the same batch into copies of the table."""
    rows = batch(count)
    for path in copies(loaded(out), out, turns):
        table = Table.open(path)
        yield lambda table=table: table.upsert(rows)


def loads(out: Path, turns: int) -> Iterator[Callable[[], Any]]:
    """Bulk inserts of all rows into tables without rows."""
    rows = trips(np.arange(ROWS), 0)
    for number in range(turns):
        path = out / "copies" / str(number)
        shutil.rmtree(path, ignore_errors=True)
        table = empty(path)
        yield lambda table=table: table.bulk_insert(rows)


def lookups(out: Path, present: int, absent: int, turns: int) -> Iterator[Callable[[], Any]]:
    """Lookups of keys, each by a handle that has read nothing."""
    rng = np.random.default_rng(present)
    numbers = np.concatenate([rng.choice(ROWS, present, replace=False), ROWS + np.arange(absent)])
    keys = trips(numbers, 0)["uuid"].combine_chunks()
    for _ in range(turns):
        table = Table.open(loaded(out))
        yield lambda table=table: table.lookup(keys)


def one_shard(out: Path, turns: int) -> Iterator[Callable[[], Any]]:
    """Lookups of 100,000 keys in one shard of 1,000,000, on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    path = out / f"shard-{shard_lookup.ROWS}-{1 << 20}"
    if not path.exists():
        shard_lookup.make(path, shard_lookup.ROWS, 1 << 20)
    numbers = np.random.default_rng(2).choice(shard_lookup.ROWS, shard_lookup.KEYS, replace=False)
    keys = shard_lookup.keys_of(numbers)
    for _ in range(turns):
        table = Table.open(path, options={"keymark.hfile.block.cache.bytes": "0"})
        yield lambda table=table: table.lookup(keys)


def scans(out: Path, turns: int) -> Iterator[Callable[[], Any]]:
    """Rows by one key each, of a handle that is open."""
    table = Table.open(loaded(out))
    for key in trips(np.arange(0, 7 * turns, 7), 0)["uuid"].to_pylist():
        yield lambda key=key: list(table.scan([key]).tables())


def openings(out: Path, turns: int) -> Iterator[Callable[[], Any]]:
    """A table of 1,000 commits and 20,000 files is opened and a read planned."""
    path = out / f"long-{fixed_costs.COMMITS}-{fixed_costs.FILES}"
    if not path.exists():
        fixed_costs.make_long(path, fixed_costs.COMMITS, fixed_costs.FILES)
    for _ in range(turns):
        yield lambda: Table.open(path).scan()


def one_rows(out: Path, turns: int) -> Iterator[Callable[[], Any]]:
    """Writes of one row into a table of one file."""
    path = out / "profile_one_row"
    shutil.rmtree(path, ignore_errors=True)
    table = fixed_costs.create(path, fixed_costs.OPTIONS)
    for turn in range(turns):
        yield lambda turn=turn: table.upsert(fixed_costs.rows(0, 1, turn))


# By operation: how its turns are made, and how many are profiled.
WORKS: dict[str, tuple[Callable[[Path, int], Iterator[Callable[[], Any]]], int]] = {
    "upsert_30000": (lambda out, turns: upserts(out, 30_000, turns), 6),
    "upsert_100": (lambda out, turns: upserts(out, 100, turns), 8),
    "bulk_insert": (loads, 3),
    "lookup_50000": (lambda out, turns: lookups(out, 40_000, 10_000, turns), 20),
    "lookup_110": (lambda out, turns: lookups(out, 100, 10, turns), 40),
    "shard_100000": (one_shard, 15),
    "point_query": (scans, 200),
    "opening": (openings, 15),
    "one_row": (one_rows, 40),
}

# Beside these a turn's own bytes stand; beside the others those of files, or of blocks.
TURNS_ALONE = ("lookup_50000", "lookup_110", "point_query", "opening", "one_row")


def child(out: Path, name: str) -> None:
    """Make ready, wait for a line, take the turns, and print the seconds of each."""
    make, turns = WORKS[name]
    first, *works = make(out, turns + 1)
    first()
    print("ready", flush=True)
    input()
    took = []
    for work in works:
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    print(json.dumps(took), flush=True)


def recorded(out: Path, name: str, kind: str, to: Path) -> list[float]:
    """Have py-spy watch an operation; the seconds of its turns."""
    # Where py-spy stops a thread for each sample, it finds it in system calls far too often: a loop
    # that inflates and reads showed 80 % of reading, which takes 1 % of its time.
    how = ["--nonblocking", "--rate", str(RATE), "--format", kind, "--output", str(to)]
    command = [sys.executable, __file__, "--out", str(out), "--child", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        if run.stdout.readline() != "ready\n":
            raise SystemExit(f"{name} does not get ready")
        spy = ["py-spy", "record", *how, "--pid", str(run.pid)]
        with subprocess.Popen(spy, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as watch:
            # It says nothing when it has begun.
            time.sleep(1)
            run.stdin.write("go\n")
            run.stdin.flush()
            took: list[float] = json.loads(run.stdout.readline())
            run.wait()
            watch.wait()
    return took


def stage_of(stack: str) -> str:
    """The stage of a stack, its frames from the outside in: `function (path:line);...`."""
    for frame in reversed(stack.split(";")):
        function, _, place = frame.partition(" (")
        function = function.rpartition(".")[2]
        for stage, names in STAGES.items():
            for name in names:
                wanted, _, part = name.partition(" ")
                if function == wanted and part in place:
                    return stage
    return "other"


def shares(folded: Path) -> dict[str, float]:
    """The share of the samples that is of each stage."""
    found: Counter[str] = Counter()
    for line in folded.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        stage = stage_of(stack)
        # Threads that wait for others are no work, but for those that wait for the disk.
        waits = stack.rpartition(";")[2].startswith("wait (threading.py")
        if "keymark/" in stack and "_renew (" not in stack and (not waits or stage == "sync"):
            found[stage] += int(count)
    return {stage: count / found.total() for stage, count in found.most_common()}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that it takes, the least of three, and what it gives."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        answer = work()
        best = min(best, time.perf_counter() - began)
    return best, answer


def alone(table: Path, to: Path) -> dict[str, float]:
    """Seconds of what reading and writing a table's base files takes at least, on one thread."""
    paths = [table / file.path for file in Table.open(table).files()]
    took: Counter[str] = Counter()
    to.mkdir(exist_ok=True)
    for path in paths:
        spent, data = timed(path.read_bytes)
        took["read"] += spent
        body = FileBody.of(data, path.name)
        starts = body.groups.starts
        ends = starts + body.groups.of_chunks(COMPRESSED)
        pages = scan_pages(np.frombuffer(data, np.uint8), starts, ends=ends, name=path.name)

        def inflate_all(body: FileBody = body, pages: list[Any] = pages) -> None:
            for page in pages:
                inflate(body.data[page.page : page.end], page.uncompressed, (body.name, 0))

        inflating, _ = timed(inflate_all)
        took["inflate"] += inflating
        names = [field.name for field in pq.read_schema(path)]
        some = SomePages(body, pages, range(len(starts)))
        spent, rows = timed(lambda some=some, names=names: some.read(names))
        # Reading inflates as well.
        took["decode"] += max(0.0, spent - inflating)
        options = BaseFileOptions(codec="uncompressed", page_rows=PAGE_ROWS)
        spent, plain = timed(
            lambda rows=rows, options=options: encode(rows, [rows.num_rows], options)
        )
        took["encode"] += spent
        spent, zipped = timed(lambda plain=plain: gzip_pages(plain))
        took["deflate"] += spent
        spent, _ = timed(lambda zipped=zipped: write_synced(to / "file", zipped.data))
        took["write and sync"] += spent
    shutil.rmtree(to)
    return dict(took)


def write_synced(path: Path, data: memoryview) -> None:
    """Write a file, and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())


@dataclass
class Traffic:
    """What a piece of work does with bytes, in its order.

    Attributes:
        reads: file, offset and length of each read of storage.
        inflated: what each gzip stream is made with, its bytes, and the most that it may hold.
        written: content of each file, and whether it is synced.
    """

    reads: list[tuple[str, int, int]] = field(default_factory=list)
    inflated: list[tuple[int, bytes, int]] = field(default_factory=list)
    written: list[tuple[bytes, bool]] = field(default_factory=list)

    def read(self) -> None:
        """Do the reads again; a file that follows itself stays open."""
        fd, opened = -1, ""
        for path, at, length in self.reads:
            if path != opened:
                if fd >= 0:
                    os.close(fd)
                fd, opened = os.open(path, os.O_RDONLY), path
            os.pread(fd, length, at)
        if fd >= 0:
            os.close(fd)

    def inflate(self) -> None:
        """Inflate the streams again."""
        for window, data, most in self.inflated:
            isal_zlib.decompressobj(window).decompress(data, most)

    def write(self, to: Path) -> None:
        """Write the files again, and wait for those that were synced."""
        for data, synced in self.written:
            with (to / "file").open("wb") as file:
                file.write(data)
                if synced:
                    file.flush()
                    os.fsync(file.fileno())


@contextlib.contextmanager
def recorded_traffic() -> Iterator[Traffic]:
    """Records what this process does meanwhile; reads of files that are gone at the end go too."""
    traffic = Traffic()
    pread, stream, aside = os.pread, isal_zlib.decompressobj, LocalStorage._written_aside

    def read(fd: int, length: int, at: int) -> bytes:
        traffic.reads.append((str(Path(f"/proc/self/fd/{fd}").readlink()), at, length))
        return pread(fd, length, at)

    class Stream:
        def __init__(self, window: int) -> None:
            self._window, self._stream = window, stream(window)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._stream, name)

        def decompress(self, data: bytes | memoryview, most: int) -> bytes:
            traffic.inflated.append((self._window, bytes(data), most))
            return self._stream.decompress(data, most)

    def write(self: LocalStorage, path: str, data: Any, **how: Any) -> Any:
        content = bytes(whole(data))
        traffic.written.append((content, self._lasts(path)))
        return aside(self, path, data, **how)

    with (
        mock.patch.object(os, "pread", read),
        mock.patch.object(isal_zlib, "decompressobj", Stream),
        mock.patch.object(LocalStorage, "_written_aside", write),
    ):
        yield traffic
    traffic.reads = [read for read in traffic.reads if Path(read[0]).exists()]


def turn_alone(work: Callable[[], Any], to: Path) -> dict[str, float]:
    """Seconds that the bytes of one turn take alone, on one thread, from the system's cache."""
    with recorded_traffic() as traffic:
        work()
    took = {"read": timed(traffic.read)[0], "inflate": timed(traffic.inflate)[0]}
    if traffic.written:
        to.mkdir(exist_ok=True)
        took["write and sync"] = timed(lambda: traffic.write(to))[0]
        shutil.rmtree(to)
    return took


def blocks_alone(out: Path) -> dict[str, float]:
    """The same of the blocks of the index that 100,000 keys of one shard are in."""
    path = out / f"shard-{shard_lookup.ROWS}-{1 << 20}"
    turns = shard_lookup.measure(path, shard_lookup.ROWS, shard_lookup.KEYS, 5)["turns"]
    inflated = min(turn["inflate"] for turn in turns)
    return {"read": min(turn["read"] for turn in turns) - inflated, "inflate": inflated}


def main() -> None:
    """Profile all operations, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pages", type=Path)
    parser.add_argument("--child", choices=WORKS)
    parser.add_argument("--only", nargs="+", choices=WORKS, default=list(WORKS))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.child:
        child(asked.out, asked.child)
        return
    if shutil.which("py-spy") is None:
        raise SystemExit("py-spy is not on the path: pip install py-spy")
    pages = asked.pages or asked.out
    pages.mkdir(parents=True, exist_ok=True)
    results = asked.out / "profiles.json"
    known = json.loads(results.read_text()) if results.exists() else {}
    for name in asked.only:
        drawing, folded = pages / f"{name}.svg", asked.out / f"{name}.folded"
        recorded(asked.out, name, "flamegraph", drawing)
        # Its title is the command, with folders of this machine. Its script's comments go, too.
        text = re.sub(r"py-spy record[^<]*", name, drawing.read_text())
        text = re.sub(r"^\s*//.*\n", "", text, flags=re.MULTILINE)
        drawing.write_text(text)
        took = recorded(asked.out, name, "raw", folded)
        known[name] = {"seconds": took, "shares": shares(folded)}
        print(f"{name}: {1000 * sorted(took)[len(took) // 2]:.0f} ms while watched")
        told = [f"{stage} {share:.0%}" for stage, share in known[name]["shares"].items()]
        print("  " + ", ".join(told))
        if name in TURNS_ALONE:
            # The first warms up; the state of an open handle is that of the profile.
            warm, turn = WORKS[name][0](asked.out, 2)
            warm()
            known[f"{name} alone"] = turn_alone(turn, asked.out / "alone")
    if {"upsert_30000", "upsert_100", "bulk_insert"} & set(asked.only):
        known["files alone"] = alone(loaded(asked.out), asked.out / "alone")
    if "shard_100000" in asked.only:
        known["blocks alone"] = blocks_alone(asked.out)
    for name in ("files alone", "blocks alone", *(f"{name} alone" for name in TURNS_ALONE)):
        parts = [f"{what} {1000 * spent:.1f} ms" for what, spent in known.get(name, {}).items()]
        print(f"{name}: {', '.join(parts)}")
    results.write_text(json.dumps(known, indent=1))


if __name__ == "__main__":
    main()
