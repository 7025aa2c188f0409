"""A lookup of 100,000 keys in one shard of 1,000,000, on one core, beside inflating its blocks.

    python tests/measured/shard_lookup.py --out DIR [--label after] [--block-size 1048576]

In each turn, after one that is not counted: the blocks that can hold one of the keys are inflated
and nothing else; they are read, checked and inflated; the shard is asked for the sorted keys; the
table is asked for them in any order. No cache of blocks is used, every answer is compared, and
files lie in the system's cache. DIR/shard_lookup.json has all times by label.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from keymark import Table
from keymark.reports.stats.statistics import summarize
from keymark.table.format.hfile.block import HEADER_SIZE, BlockKind
from keymark.table.format.hfile.index import data_blocks
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.strings import from_arrow
from keymark.table.format.kernels.order import key_order
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.shard import Shard
from keymark.table.state.table_state import TableState

ROWS, KEYS = 1_000_000, 100_000
GZIP = 31


def keys_of(numbers: np.ndarray) -> pa.Array:
    """Texts shaped like UUIDs, as functions of numbers."""
    words = np.random.default_rng(1).integers(0, 1 << 62, (int(numbers.max()) + 1, 2))[numbers]
    return pa.array([f"{a:016x}-{b:016x}abc" for a, b in words.tolist()])


def make(path: Path, rows: int, block_size: int) -> None:
    """A table of keys, its record index one shard of one HFile."""
    groups = {f"hoodie.metadata.record.index.{end}.filegroup.count": "1" for end in ("min", "max")}
    table = Table.create(
        path,
        record_key="k",
        ordering="ts",
        index="record",
        options={**groups, "hoodie.hfile.block.size": str(block_size)},
    )
    table.bulk_insert(pa.table({"k": keys_of(np.arange(rows)), "ts": np.zeros(rows, np.int64)}))
    table.compact()


def shard_of(path: Path) -> Shard:
    """The only shard."""
    metadata = TableState.load(Table.open(path).storage).metadata
    assert metadata is not None
    (shard,) = metadata.shards(RECORD_INDEX)
    return shard


def needed(reader: HFileReader, keys: pa.Array) -> list[tuple[int, int]]:
    """Offset and size of each block that can hold one of the keys."""
    root = reader._layout.root
    refs = data_blocks(reader._blocks, root, from_arrow(keys, "key"))
    return [(ref.at, ref.size) for ref in refs]


def timed(work: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(path: Path, rows: int, count: int, turns: int) -> dict[str, Any]:
    """Seconds by turn of each of the four."""
    chosen = np.random.default_rng(2).choice(rows, count, replace=False)
    asked = keys_of(chosen)
    ordered = asked.take(pa.array(key_order(asked)))
    (reader,) = (source for source in shard_of(path).sources if isinstance(source, HFileReader))
    places = needed(reader, ordered)
    stored, sizes = [], []
    for at, size in places:
        sizes.append(len(reader._blocks.read(at, BlockKind.DATA, size)))
        block = reader._blocks.raw(at, size)
        stored.append(block[HEADER_SIZE:])
    options = {"keymark.hfile.block.cache.bytes": "0"}

    def inflate() -> None:
        for block, size in zip(stored, sizes, strict=True):
            isal_zlib.decompressobj(GZIP).decompress(block, size)

    def read() -> None:
        for at, size in places:
            reader._blocks.read(at, BlockKind.DATA, size)

    def ask_shard() -> None:
        positions, _ = shard_of(path).lookup(ordered)
        if len(positions) != count:
            raise SystemExit(f"the shard has {len(positions)} of {count} keys")

    def ask_table() -> None:
        found = Table.open(path, options=options).lookup(asked)
        if found["file_id"].null_count or not found["record_key"].combine_chunks().equals(asked):
            raise SystemExit("keys that are there were not found")

    works = {"inflate": inflate, "read": read, "shard": ask_shard, "table": ask_table}
    figures = [{name: timed(work) for name, work in works.items()} for _ in range(turns + 1)]
    return {"blocks": len(places), "bytes": sum(sizes), "turns": figures[1:]}


def main() -> None:
    """Make the table if it is not there, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--label", default="after")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--block-size", type=int, default=1 << 20)
    parser.add_argument("--turns", type=int, default=15)
    asked = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    path = asked.out / f"shard-{asked.rows}-{asked.block_size}"
    if not path.exists():
        make(path, asked.rows, asked.block_size)
    figures = measure(path, asked.rows, asked.keys, asked.turns)
    results = asked.out / "shard_lookup.json"
    known = json.loads(results.read_text()) if results.exists() else {}
    label = f"{asked.label}, {asked.keys} keys, blocks of {asked.block_size}"
    results.write_text(json.dumps({**known, label: figures}, indent=1))
    print(f"{figures['blocks']} blocks, {figures['bytes'] / 1e6:.1f} MB inflated")
    for name in ("inflate", "read", "shard", "table"):
        took = summarize([turn[name] for turn in figures["turns"]])
        ratio = summarize([turn[name] / turn["inflate"] for turn in figures["turns"]])
        print(
            f"{name}: {1000 * took.median:.1f} ms, {ratio.median:.2f} ({ratio.low:.2f} to "
            f"{ratio.high:.2f}) times inflating"
        )


if __name__ == "__main__":
    main()
