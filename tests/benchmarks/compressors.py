"""Bytes and time per key of gzip compressors on the data blocks of a record index.

    python tests/benchmarks/index_size.py --keep FOLDER
    pip install deflate zlib-ng
    python tests/benchmarks/compressors.py FOLDER/groups_1

Each compressor takes the same blocks in turns; of its times the shortest counts.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import deflate
import numpy as np
from isal import isal_zlib
from zlib_ng import zlib_ng

from keymark.table.format.hfile.deflate import deflate_cells

GZIP = 31
HEADER_BYTES = 33
TURNS = 3
# Every so many blocks of the file are enough.
STRIDE = 6

Compressor = Callable[[np.ndarray], bytes]


def payloads(shard: bytes) -> list[np.ndarray]:
    """The uncompressed data blocks of an HFile."""
    found, at = [], 0
    while shard[at : at + 8] == b"DATABLK*":
        found.append(np.frombuffer(zlib.decompress(shard[at + HEADER_BYTES :], GZIP), np.uint8))
        at += HEADER_BYTES + int.from_bytes(shard[at + 8 : at + 12], "big")
    return found


def compressors() -> dict[str, Compressor]:
    """By name and level."""
    found: dict[str, Compressor] = {"Keymark's": lambda block: deflate_cells(block) or b""}
    for level in range(4):
        found[f"isal {level}"] = lambda block, at=level: isal_zlib.compress(block, at, GZIP)
    for level in (1, 4, 6, 7, 8, 9, 10, 12):
        found[f"libdeflate {level}"] = lambda block, at=level: deflate.gzip_compress(block.data, at)
    for level in range(2, 10):
        found[f"zlib-ng {level}"] = lambda block, at=level: zlib_ng.compress(block, at, GZIP)
    found["zlib 6"] = lambda block: zlib.compress(block, 6, GZIP)
    return found


def shortest(action: Callable[[], object], turns: int = TURNS) -> float:
    """Seconds of this thread."""
    times = []
    for _ in range(turns):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return min(times)


def main() -> None:
    """Measure, and print a line for each, the smallest first."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("table", help="a table of index_size.py with one shard")
    arguments.add_argument("--rows", type=int, default=1_000_000)
    chosen = arguments.parse_args()
    folder = Path(chosen.table) / ".hoodie/metadata/record_index"
    blocks = payloads(max(folder.glob("*.hfile")).read_bytes())
    sample = blocks[::STRIDE]
    keys = chosen.rows * sum(map(len, sample)) / sum(map(len, blocks))
    lines = []
    for name, compress in compressors().items():
        stored = [compress(block) for block in sample]
        spent = shortest(lambda use=compress: [use(block) for block in sample])
        inflated = shortest(lambda of=stored: [isal_zlib.decompress(each, GZIP) for each in of])
        lines.append((sum(map(len, stored)) / keys, name, spent / keys, inflated / keys))
    for size, name, spent, inflated in sorted(lines):
        sys.stdout.write(f"| {name} | {size:.2f} | {spent * 1e9:,.0f} | {inflated * 1e9:,.0f} |\n")


if __name__ == "__main__":
    main()
