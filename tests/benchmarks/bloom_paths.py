"""Bloom lookups by footers and by the metadata table: time, bytes read, false positives.

    python tests/benchmarks/bloom_paths.py [--files 20 200] [--keys 10 1000 30000]

Tables of 2,000 keys a file without partitions. `random` keys are anywhere, so that no range leaves
a file out; `ordered` ones come in their order, so that ranges leave one file for each key. Half of
the keys asked are there. `default` filters are Hudi's (431 KB of text), `small` ones are made for
2,000 keys and one false positive in a hundred. Both paths answer the same keys in turns; every
answer is checked.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa

from keymark import Table
from keymark.table.index.protocol import LookupStats, load_index
from keymark.table.state.table_state import TableState
from keymark.table.storage.local_storage import LocalStorage

FILE_ROWS = 2000
# What a bulk insert takes a row of these for.
ROW_BYTES = 7
METADATA = {
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
FILTERS = {
    "default": {},
    "small": {"hoodie.index.bloom.num_entries": "2000", "hoodie.index.bloom.fpp": "0.01"},
}
USE = "hoodie.bloom.index.use.metadata"
REPETITIONS = 5


class CountingStorage:
    """A storage that remembers how many bytes were read of its files."""

    def __init__(self, inner: LocalStorage) -> None:
        self._inner = inner
        self.lengths: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open(self, path: str) -> Any:
        return _CountingReader(self._inner.open(path), self.lengths)


class _CountingReader:
    def __init__(self, inner: Any, lengths: list[int]) -> None:
        self._inner, self._lengths = inner, lengths
        self.name, self.size = inner.name, inner.size

    def read(self, offset: int, length: int) -> bytes:
        data: bytes = self._inner.read(offset, length)
        self._lengths.append(len(data))
        return data


def make(root: str, order: str, files: int, filters: str) -> tuple[Table, Any]:
    """A table, and its keys (pa.Array of string)."""
    numbers = np.arange(files * FILE_ROWS)
    if order == "random":
        numbers = np.random.default_rng(5).permutation(numbers)
    # Odd numbers are absent.
    keys = pa.array([f"{2 * n:012d}" for n in numbers.tolist()])
    options = {
        **METADATA,
        **FILTERS[filters],
        "hoodie.parquet.max.file.size": str(FILE_ROWS * ROW_BYTES),
    }
    table = Table.create(root, name="t", record_key="k", index="global_bloom", options=options)
    table.bulk_insert(pa.table({"k": keys, "v": pa.array(numbers)}))
    return table, keys


def look_up(table: Table, path: str, asked: Any, expected: int) -> tuple[float, int, LookupStats]:
    """Seconds, bytes read, and what was touched."""
    storage = CountingStorage(LocalStorage.at(table.storage.root))
    opened = Table(storage, {USE: str(path == "metadata").lower()})
    stats = LookupStats()
    context = opened._context(TableState.load(storage), stats)
    context = dataclasses.replace(context, cache=None)
    storage.lengths.clear()
    started = time.perf_counter()
    found = load_index("global_bloom").lookup(asked, context)
    seconds = time.perf_counter() - started
    if len(asked) - found["file_id"].null_count != expected:
        sys.exit(f"wrong answer by {path}: {len(asked) - found['file_id'].null_count} found")
    return seconds, sum(storage.lengths), stats


def measure(table: Table, keys: Any, count: int, shape: tuple[str, ...]) -> None:
    """Print a line for each path."""
    rng = np.random.default_rng(7)
    held = keys.take(pa.array(rng.choice(len(keys), count // 2, replace=False)))
    absent = [f"{2 * n + 1:012d}" for n in rng.choice(len(keys), count - len(held), replace=False)]
    asked = pa.concat_arrays([held, pa.array(absent)])
    runs: dict[str, list[tuple[float, int, LookupStats]]] = {"footers": [], "metadata": []}
    for _ in range(REPETITIONS):
        for path, done in runs.items():
            done.append(look_up(table, path, asked, len(held)))
    for path, done in runs.items():
        seconds = sorted(seconds for seconds, _, _ in done)
        _, read, stats = done[-1]
        rate = stats.false_positives / max(1, stats.candidates - len(held))
        cells = [
            *shape,
            f"{count:,}",
            path,
            f"{statistics.median(seconds) * 1e3:,.0f} ({seconds[0] * 1e3:,.0f})",
            f"{read / 1e6:,.1f}",
            f"{stats.candidates:,}",
            f"{stats.files_read}",
            f"{rate:.2g}",
        ]
        sys.stdout.write("| " + " | ".join(cells) + " |\n")
        sys.stdout.flush()


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--keys", type=int, nargs="+", default=[10, 1000, 30000])
    given = parser.parse_args()
    sys.stdout.write(
        "| keys | filters | files | keys asked | path | ms: median (least) | MB read | candidates "
        "| key columns read | false positives |\n| --- | --- | ---: | ---: | --- | ---: | ---: "
        "| ---: | ---: | ---: |\n"
    )
    for order, filters in (("random", "default"), ("ordered", "default"), ("random", "small")):
        for files in given.files:
            with tempfile.TemporaryDirectory() as folder:
                table, keys = make(f"{folder}/t", order, files, filters)
                count = len(TableState.load(table.storage).snapshot.files)
                for asked in given.keys:
                    measure(table, keys, asked, (order, filters, str(count)))


if __name__ == "__main__":
    main()
