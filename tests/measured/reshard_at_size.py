"""A large record index dealt out to more shards while a writer commits every twenty seconds.

    python tests/measured/reshard_at_size.py --out DIR --keys 100000000 --before 8 --after 64

The index holds keys that are in no base file (as `run mappings` makes it), so that any size fits on
the disk; the writer's rows are new. The writer works in a process of its own, before and while the
index is dealt out; a further process does that, and its memory is sampled. Then keys are looked up
and compared with the generator, those of the writer too. DIR/reshard.json has all figures. A table
that is there is used again.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from keymark import Table
from keymark.datasets.changes.stream import NEVER_INSERTED
from keymark.datasets.generate.mappings import Mappings
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec

sys.path.insert(0, str(Path(__file__).parents[1] / "table" / "memory"))
from peak import sample

PARTITIONS, FILE_ROWS = 50, 1_000_000
BATCH, ASKED = 1_000, 200_000
ORDINARY_WRITES = 4
_SAMPLE_SECONDS = 0.2


def mappings(keys: int) -> Mappings:
    """Keys and their places."""
    spec = load_spec("trips", {"rows": keys, "seed": 1, "date_partitions": PARTITIONS})
    return Mappings(spec, FILE_ROWS)


def make(path: Path, keys: int, shards: int) -> float:
    """The table with its index; seconds of the build."""
    given, none = mappings(keys), np.zeros(0, np.int64)
    counts = {
        f"hoodie.metadata.record.index.{end}.filegroup.count": str(shards) for end in ("min", "max")
    }
    table = Table.create(
        path,
        record_key=given.spec.record_key,
        partition_path=given.spec.partition_path,
        ordering=given.spec.ordering,
        index="record",
        options=counts,
    )
    table.bulk_insert(make_rows(given.spec, none, none))
    table.drop_index("record_index")
    began = time.perf_counter()
    Table.open(path, options=counts).build_mappings(given)
    return time.perf_counter() - began


def write_on(path: Path, keys: int, every: float, out: Path) -> None:
    """Upsert new rows again and again, until a file `stop` appears; a line for each write."""
    spec, number = mappings(keys).spec, 0
    table = Table.open(path)
    while not (out / "stop").exists():
        numbers = NEVER_INSERTED + number * BATCH + np.arange(BATCH, dtype=np.int64)
        rows = make_rows(spec, numbers, np.zeros_like(numbers))
        at, began = time.time(), time.perf_counter()
        done = table.upsert(rows)
        took = time.perf_counter() - began
        with (out / "writes.jsonl").open("a") as log:
            log.write(json.dumps({"at": at, "seconds": took, "inserted": done.inserted}) + "\n")
        number += 1
        time.sleep(max(0.0, every - took))


def reshard(path: Path, shards: int) -> None:
    """Deal the index out, and say when and what."""
    at, began = time.time(), time.perf_counter()
    done = Table.open(path).reshard_index(shards)
    told = {"at": at, "seconds": time.perf_counter() - began, "entries": done.entries}
    print(json.dumps({**told, "log_files": done.log_files, "after": done.after}))


def check_answers(path: Path, keys: int, written: int) -> dict[str, int]:
    """Look up present keys, absent ones, and the writer's; how many, all of them right."""
    given, table = mappings(keys), Table.open(path)
    numbers = given.sample(0, ASKED)
    asked, places = given.make(numbers)
    _, file_ids = given.places()
    found = table.lookup(table.keys_of(asked))["file_id"].to_pylist()
    if found != [file_ids[place] for place in places]:
        raise SystemExit("a key is somewhere else than before")
    own = NEVER_INSERTED + np.arange(written, dtype=np.int64)
    asked, _ = given.make(own)
    if table.lookup(table.keys_of(asked))["file_id"].null_count:
        raise SystemExit("a key of the writer's is not found")
    asked, _ = given.make(own + written + BATCH)
    if table.lookup(table.keys_of(asked))["file_id"].null_count != len(asked):
        raise SystemExit("a key is found that nobody wrote")
    return {"present": ASKED, "written": written, "absent": len(asked)}


def child(asked: argparse.Namespace, role: str, **pipes: Any) -> subprocess.Popen[str]:
    """Another process of this file, for one part of the work."""
    words = [f"--{name}={getattr(asked, name)}" for name in ("out", "keys", "after", "every")]
    return subprocess.Popen([sys.executable, __file__, *words, "--role", role], text=True, **pipes)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Writes alone, then writes beside the re-sharding; what both took."""
    out = asked.out
    for name in ("stop", "writes.jsonl"):
        (out / name).unlink(missing_ok=True)
    writer = child(asked, "write")
    try:
        while len(writes(out)) < ORDINARY_WRITES:
            time.sleep(1)
        working, peak = child(asked, "reshard", stdout=subprocess.PIPE), 0
        while working.poll() is None:
            peak = max(peak, sample(working.pid)["all"])
            time.sleep(_SAMPLE_SECONDS)
        assert working.stdout is not None
        done = json.loads(working.stdout.read())
        after = len(writes(out))
        while len(writes(out)) < after + 2:
            time.sleep(1)
    finally:
        (out / "stop").touch()
        writer.wait()
    every = writes(out)
    end = done["at"] + done["seconds"]
    beside = [w["seconds"] for w in every if w["at"] + w["seconds"] > done["at"] and w["at"] < end]
    return {
        **done,
        "peak_bytes": peak,
        "writes_before": [w["seconds"] for w in every if w["at"] + w["seconds"] <= done["at"]],
        "writes_beside": beside,
        "writes_after": [w["seconds"] for w in every if w["at"] >= end],
        "written": len(every) * BATCH,
    }


def writes(out: Path) -> list[dict[str, float]]:
    """What the writer has told so far."""
    log = out / "writes.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def main() -> None:
    """Make the table, measure, check, tell; or do one part, as a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keys", type=int, default=100_000_000)
    parser.add_argument("--before", type=int, default=8)
    parser.add_argument("--after", type=int, default=64)
    parser.add_argument("--every", type=float, default=20.0)
    parser.add_argument("--role", choices=("all", "write", "reshard"), default="all")
    asked = parser.parse_args()
    path = asked.out / "table"
    if asked.role == "write":
        write_on(path, asked.keys, asked.every, asked.out)
        return
    if asked.role == "reshard":
        reshard(path, asked.after)
        return
    built = None
    if not path.exists():
        built = make(asked.out / "new", asked.keys, asked.before)
        shutil.move(asked.out / "new", path)
    found = {"keys": asked.keys, "before": asked.before, "build_seconds": built, **measure(asked)}
    found["checked"] = check_answers(path, asked.keys, found["written"])
    (asked.out / "reshard.json").write_text(json.dumps(found, indent=1))
    shards = f"from {asked.before} to {found['after']} shards"
    print(f"{asked.keys:,} keys {shards} in {found['seconds']:.0f} s")
    print(
        f"peak memory {found['peak_bytes'] >> 20:,} MiB, {found['log_files']} log files dealt out"
    )
    for name in ("writes_before", "writes_beside", "writes_after"):
        took = found[name]
        if took:
            print(f"{name}: {len(took)}, median {median(took):.2f} s, longest {max(took):.2f} s")


if __name__ == "__main__":
    main()
