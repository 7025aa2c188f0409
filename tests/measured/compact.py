"""A compact index file of 1,000,000,000 keys among 20,000 file groups: build, bytes, lookups.

    python tests/measured/compact.py --out DIR [--keys 1000000000]

Keys and file groups are those of the dataset `trips`; there are no base files. Making keys is not
counted. Every candidate is compared with the generator: of a key that is there one must be right,
all others are false, as are all of absent keys. DIR/compact.json has all figures. A file that is
there is asked again.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from keymark.datasets.generate.mappings import Mappings
from keymark.datasets.specs.spec import load_spec
from keymark.harness.tables.key_text import encode_keys
from keymark.table.format.compact.reader import CompactFile
from keymark.table.format.compact.writer import CompactWriter

GROUPS, BATCH, ASKED, TURNS = 20_000, 2_000_000, 400_000, 5


def mappings(keys: int) -> Mappings:
    """Keys and file groups."""
    spec = load_spec("trips", {"rows": keys, "seed": 1, "partitions": 50})
    return Mappings(spec, file_rows=-(-keys // GROUPS))


def build(path: Path, source: Mappings) -> dict[str, float]:
    """Write the file; seconds without those that make keys."""
    names = source.places()[1]
    writer = CompactWriter(names, folder=path.parent)
    took = 0.0
    for start in range(0, source.rows, BATCH):
        made, groups = source.make(np.arange(start, min(start + BATCH, source.rows)))
        keys = encode_keys(made)
        began = time.perf_counter()
        writer.add(keys, groups)
        took += time.perf_counter() - began
        if start % (50 * BATCH) == 0:
            print(f"{start:,} keys, {took:.0f} s", flush=True)
    began = time.perf_counter()
    writer.finish(path)
    took += time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"build_s": took, "keys_a_second": source.rows / took, "peak_bytes": peak}


def forget(path: Path) -> None:
    """Take the file out of the system's cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ask(path: Path, source: Mappings, turn: int, *, present: bool, cold: bool) -> dict[str, Any]:
    """Look keys up with an own handle; seconds, and false candidates."""
    numbers = source.sample(turn, ASKED) if present else source.absent(turn, ASKED)
    made, groups = source.make(numbers)
    keys = encode_keys(made)
    if cold:
        forget(path)
    began = time.perf_counter()
    with CompactFile.open(path) as file:
        found = file.find(keys)
    took = time.perf_counter() - began
    right = np.zeros(len(keys), bool)
    if present:
        right[found.rows[found.groups == groups[found.rows]]] = True
        if not right.all():
            raise SystemExit(f"{int((~right).sum())} keys were not found in their file group")
    false = len(found.rows) - int(right.sum())
    return {"present": present, "cold": cold, "seconds": took, "false": false}


def main() -> None:
    """Build the file if it is not there, and ask it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keys", type=int, default=1_000_000_000)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    path, source = asked.out / f"compact-{asked.keys}", mappings(asked.keys)
    figures: dict[str, Any] = {"keys": asked.keys, "groups": GROUPS}
    if not path.exists():
        figures |= build(path, source)
        print(f"built in {figures['build_s']:.0f} s, {figures['keys_a_second']:,.0f} keys a second")
    figures["bytes_a_key"] = path.stat().st_size / asked.keys
    print(f"{figures['bytes_a_key']:.3f} bytes a key", flush=True)
    figures["asked"] = [
        ask(path, source, turn, present=present, cold=cold)
        for turn in range(TURNS)
        for cold in (True, False)
        for present in (True, False)
    ]
    (asked.out / f"compact-{asked.keys}.json").write_text(json.dumps(figures, indent=1))
    for cold in (True, False):
        for present in (True, False):
            turns = [
                each
                for each in figures["asked"]
                if (each["cold"], each["present"]) == (cold, present)
            ]
            seconds = sorted(each["seconds"] for each in turns)
            false = sum(each["false"] for each in turns)
            print(
                f"{'cold' if cold else 'warm'}, {'present' if present else 'absent'}: "
                f"{seconds[len(seconds) // 2]:.2f} s ({seconds[0]:.2f} to {seconds[-1]:.2f}), "
                f"{false} false candidates of {ASKED * TURNS:,} keys"
            )


if __name__ == "__main__":
    main()
