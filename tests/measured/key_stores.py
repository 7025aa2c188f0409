"""What an index of keys costs in several stores: compact, record (HFiles) and RocksDB.

    python tests/measured/key_stores.py --out DIR [--keys 100000000] [--stores compact,record,...]
    python tests/measured/key_stores.py --out DIR --keys 1000000000 --remove

Keys and file groups are those of the dataset `trips`, 20,000 file groups, no base files. Each store
is built and asked in processes of its own, so that memory is that of one. All stores are asked the
same keys in turns, cold (out of the system's cache) and warm; with --remove one store after the
other, each removed once it is measured. The canary, a small fixed load, runs between. Making keys
is not counted. Every answer is compared with the generator: of a key that is there one must be
right; all others are false, as are all of absent keys.

DIR/key_stores-<keys>.json has all figures, and the chart beside it shows them. What is in it is not
done again: the same command resumes where it was stopped. RocksDB needs
`pip install rocksdict==0.3.29`.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import rocksdb_store
from matplotlib.figure import Figure
from rocksdb_store import BATCH, Groups, Rows

from keymark import Table
from keymark.datasets.generate.mappings import Mappings
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec
from keymark.harness.measure.canary import Canary
from keymark.harness.store.results import Beat
from keymark.harness.tables.key_text import encode_keys
from keymark.indexes.installed import color_of
from keymark.reports.stats.statistics import Summary, summarize
from keymark.table.format.compact.reader import CompactFile
from keymark.table.format.compact.writer import CompactWriter, hashes_of
from keymark.table.storage.local_storage import LocalStorage

GROUPS, ASKED, TURNS = 20_000, 400_000, 5
WARM_KEYS = 16
"""Asked before those that count: a process compiles or loads its loops then."""

Builder = Callable[[Path, "Source", "Clock"], None]
Asker = Callable[[Path, pa.Array], tuple[Rows, Groups]]


@dataclass(frozen=True, slots=True)
class Source:
    """Keys and their file groups."""

    mappings: Mappings

    @classmethod
    def of(cls, keys: int) -> Source:
        """So many keys."""
        spec = load_spec("trips", {"rows": keys, "seed": 1, "date_partitions": 50})
        return cls(Mappings(spec, file_rows=-(-keys // GROUPS)))

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.mappings.rows

    def keys(self, numbers: Rows) -> tuple[pa.Array, Groups]:
        """Those of some rows."""
        made, groups = self.mappings.make(numbers)
        return encode_keys(made), groups

    def batches(self) -> Iterator[tuple[pa.Array, Groups]]:
        """All of them."""
        for start in range(0, self.rows, BATCH):
            yield self.keys(np.arange(start, min(start + BATCH, self.rows)))


class Clock:
    """Seconds of some calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def time(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """What the call gives."""
        began = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            self.seconds += time.perf_counter() - began


def build_compact(path: Path, source: Source, clock: Clock) -> None:
    """A compact index file."""
    path.mkdir()
    writer = CompactWriter(source.mappings.places()[1])
    for keys, groups in source.batches():
        clock.time(writer.add, keys, groups)
    with (path / "keys").open("wb") as file:
        clock.time(writer.finish, file.write)
        clock.time(file.flush)
        clock.time(os.fsync, file.fileno())


def ask_compact(path: Path, keys: pa.Array) -> tuple[Rows, Groups]:
    """Candidates."""
    with CompactFile.open(LocalStorage.at(path).open("keys")) as file:
        found = file.find(hashes_of(keys))
    return found.rows, found.groups


def builder_of_record(block_size: int) -> Builder:
    """The record index in HFiles."""

    def build(path: Path, source: Source, clock: Clock) -> None:
        spec, none = source.mappings.spec, np.zeros(0, np.int64)
        shards = str(max(1, source.mappings.rows // 2_000_000))
        limits = {
            f"hoodie.metadata.record.index.{end}.filegroup.count": shards for end in ("min", "max")
        }
        table = Table.create(
            path,
            record_key=spec.record_key,
            partition_path=spec.partition_path,
            ordering=spec.ordering,
            index="record",
            options={**limits, "hoodie.hfile.block.size": str(block_size)},
        )
        table.bulk_insert(make_rows(spec, none, none))
        table.drop_index("record_index")
        clock.time(table.build_mappings, source.mappings)

    return build


def asker_of_record(source: Source) -> Asker:
    """Places of keys; the file id tells the file group."""
    file_ids = pa.array(source.mappings.places()[1])

    def ask(path: Path, keys: pa.Array) -> tuple[Rows, Groups]:
        found = pc.index_in(Table.open(path).lookup(keys)["file_id"], value_set=file_ids)
        rows = np.flatnonzero(found.is_valid().to_numpy())
        return rows, found.drop_null().to_numpy().astype(np.int32)

    return ask


def builder_of_rocksdb(*, bloom: bool) -> Builder:
    """A database of sorted files."""

    def build(path: Path, source: Source, clock: Clock) -> None:
        clock.seconds += rocksdb_store.build(path, source, bloom=bloom)

    return build


def stores(source: Source) -> dict[str, tuple[Builder, Asker]]:
    """How each store is built and asked."""
    ask_record = asker_of_record(source)
    return {
        "compact": (build_compact, ask_compact),
        "record": (builder_of_record(1 << 20), ask_record),
        "record_64k": (builder_of_record(1 << 16), ask_record),
        "record_16k": (builder_of_record(1 << 14), ask_record),
        "rocksdb": (builder_of_rocksdb(bloom=False), partial(rocksdb_store.ask, bloom=False)),
        "rocksdb_bloom": (builder_of_rocksdb(bloom=True), partial(rocksdb_store.ask, bloom=True)),
    }


def files_of(path: Path) -> list[Path]:
    """The files of a store."""
    return [each for each in path.rglob("*") if each.is_file()]


def forget(path: Path) -> None:
    """Take a store out of the system's cache."""
    for each in files_of(path):
        with each.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def peak_bytes() -> int:
    """Most memory that this process had; pages of files that it maps are counted, too."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def build(source: Source, path: Path, builder: Builder) -> dict[str, float]:
    """Make a store, whole or not at all."""
    new, clock = path.with_name(f"{path.name}.new"), Clock()
    shutil.rmtree(new, ignore_errors=True)
    builder(new, source, clock)
    new.rename(path)
    return {"build_s": clock.seconds, "peak_bytes": peak_bytes()}


def ask(source: Source, path: Path, asker: Asker, turn: int, *, present: bool) -> dict[str, Any]:
    """Look keys up cold, then warm if the store fits into memory; seconds, and false answers."""
    mappings = source.mappings
    numbers = mappings.sample(turn, ASKED) if present else mappings.absent(turn, ASKED)
    keys, groups = source.keys(numbers)
    asker(path, keys.slice(0, WARM_KEYS))
    forget(path)
    took: dict[str, Any] = {}
    size = sum(each.stat().st_size for each in files_of(path))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for state in ("cold", "warm") if 2 * size < memory else ("cold",):
        clock = Clock()
        rows, found = clock.time(asker, path, keys)
        took[f"{state}_s"] = clock.seconds
        right = np.zeros(len(keys), bool)
        if present:
            right[rows[found == groups[rows]]] = True
            if not right.all():
                raise SystemExit(f"{path.name}: {int((~right).sum())} keys were not found")
        took["false"] = len(rows) - int(right.sum())
    return {**took, "peak_bytes": peak_bytes()}


def in_process(asked: argparse.Namespace, store: str, *words: str) -> dict[str, Any]:
    """What a process of its own says about a store."""
    command = [sys.executable, __file__, f"--out={asked.out}", f"--keys={asked.keys}"]
    command += [f"--stores={store}", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def one_part(asked: argparse.Namespace) -> None:
    """What such a process does."""
    source, path = Source.of(asked.keys), asked.out / f"{asked.stores}-{asked.keys}"
    builder, asker = stores(source)[asked.stores]
    if asked.role == "build":
        print(json.dumps(build(source, path, builder)))
    else:
        present = asked.role == "present"
        print(json.dumps(ask(source, path, asker, asked.turn, present=present)))


@dataclass
class Figures:
    """All that was measured, kept in a file."""

    path: Path
    known: dict[str, Any] = field(default_factory=lambda: {"stores": {}, "beats": []})

    def __post_init__(self) -> None:
        if self.path.exists():
            self.known = json.loads(self.path.read_text())

    def of(self, store: str) -> dict[str, Any]:
        """Those of a store."""
        found: dict[str, Any] = self.known["stores"].setdefault(store, {"asked": {}})
        return found

    def append_beat(self, beat: Beat) -> None:
        """What the canary saw."""
        self.known["beats"].append(asdict(beat))

    def save(self) -> None:
        """Keep them."""
        self.path.with_suffix(".new").write_text(json.dumps(self.known, indent=1))
        self.path.with_suffix(".new").replace(self.path)


def measure(asked: argparse.Namespace, figures: Figures) -> None:
    """Build and ask what the figures lack."""
    canary = Canary(
        figures,  # type: ignore[arg-type]  of a run folder it wants this method only
        asked.out,
        threads=os.cpu_count() or 1,
        clock=time.perf_counter,
    )
    chosen = asked.stores.split(",")
    parts = [f"{turn} {kind}" for turn in range(asked.turns) for kind in ("present", "absent")]
    for group in [[name] for name in chosen] if asked.remove else [chosen]:
        left = [name for name in group if not figures.of(name)["asked"].keys() >= set(parts)]
        for name in left:
            path = asked.out / f"{name}-{asked.keys}"
            if not path.exists():
                canary.beat(f"{name} build")
                figures.of(name).update(in_process(asked, name, "--role=build"))
            size = sum(each.stat().st_size for each in files_of(path))
            figures.of(name)["bytes_a_key"] = size / asked.keys
            figures.save()
            built = figures.of(name).get("build_s", float("nan"))
            print(f"{name}: built in {built:.0f} s, {size / asked.keys:.2f} B a key", flush=True)
        for number, part in enumerate(parts):
            for name in left if number % 2 else left[::-1]:
                if part not in figures.of(name)["asked"]:
                    turn, kind = part.split()
                    canary.beat(f"{name} {part}")
                    words = (f"--role={kind}", f"--turn={turn}")
                    figures.of(name)["asked"][part] = in_process(asked, name, *words)
                    figures.save()
        for name in group if asked.remove else ():
            shutil.rmtree(asked.out / f"{name}-{asked.keys}", ignore_errors=True)


def summaries(figures: Figures, store: str) -> Iterator[tuple[str, str, Summary, int]]:
    """present or absent, cold or warm; seconds; false answers."""
    asked = figures.of(store)["asked"]
    for kind in ("present", "absent"):
        turns = [took for part, took in asked.items() if part.endswith(kind)]
        for state in ("cold", "warm"):
            if f"{state}_s" in turns[0]:
                seconds = summarize([took[f"{state}_s"] for took in turns])
                yield kind, state, seconds, sum(took["false"] for took in turns)


def tell(figures: Figures, names: list[str]) -> None:
    """A line for each figure."""
    for name in names:
        for kind, state, found, false in summaries(figures, name):
            print(
                f"{name}, {kind}, {state}: {found.median:.2f} s "
                f"({found.low:.2f} to {found.high:.2f}), {false} false answers"
            )


def draw_chart(figures: Figures, names: list[str], keys: int) -> None:
    """Bytes a key, time of the build, and lookups with their intervals, as SVG."""
    panels: dict[str, list[tuple[str, float, float, float]]] = {"bytes a key": [], "build, s": []}
    for name in names:
        known = figures.of(name)
        panels["bytes a key"].append((name, *(known["bytes_a_key"],) * 3))
        panels["build, s"].append((name, *(known.get("build_s", 0.0),) * 3))
        for kind, state, found, _ in summaries(figures, name):
            title = f"{ASKED:,} {kind} keys, {state}, s"
            panels.setdefault(title, []).append((name, found.median, found.low, found.high))
    with mpl.rc_context({"svg.hashsalt": "keymark", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 6), layout="constrained")
        figure.suptitle(f"{keys:,} keys in {GROUPS:,} file groups")
        grid = figure.subplots(3, 2).flat
        for axes, (title, bars) in zip(grid, panels.items(), strict=False):
            shown, *values = zip(*bars, strict=True)
            middle, low, high = np.array(values)
            colors = [color_of(name.partition("_")[0]) for name in shown]
            rows = [names.index(name) for name in shown]
            axes.barh(rows, middle, xerr=[middle - low, high - middle], color=colors)
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.set_title(title, loc="left")
            axes.bar_label(axes.containers[-1], fmt="{:,.2f}", padding=3)
            axes.set_xlim(right=1.25 * high.max())
        for axes in grid[len(panels) :]:
            axes.remove()
        figure.savefig(figures.path.with_suffix(".svg"), metadata={"Date": None})


def main(words: list[str] | None = None) -> None:
    """Build the stores, ask them in turns, tell and draw; or do one part of that."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keys", type=int, default=100_000_000)
    parser.add_argument("--stores", default="compact,record,record_64k,rocksdb,rocksdb_bloom")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--remove", action="store_true", help="each store once it is measured")
    parser.add_argument("--role", choices=("all", "build", "present", "absent"), default="all")
    parser.add_argument("--turn", type=int, default=0, help="of a process for one part")
    asked = parser.parse_args(words)
    if asked.role != "all":
        one_part(asked)
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    figures = Figures(asked.out / f"key_stores-{asked.keys}.json")
    measure(asked, figures)
    figures.save()
    names = asked.stores.split(",")
    tell(figures, names)
    draw_chart(figures, names, asked.keys)


if __name__ == "__main__":
    main()
