"""Run folders made by arithmetic: what a quickstart run leaves, without a run."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from keymark.harness.store.results import Beat, Sample
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder
from keymark.harness.store.units import METRICS

INDEXES = ("record", "global_simple", "global_bloom", "bucket")
MIB = float(1 << 20)

# Seconds of tag, write, index, commit of an upsert; lookup and point query; then bytes.
COSTS = {
    "record": (0.41, 1.9, 0.35, 0.22, 0.31, 0.052, 0.9 * MIB, 7.6 * MIB),
    "global_simple": (3.9, 1.95, 0.0, 0.21, 3.4, 2.1, 14.5 * MIB, 0.0),
    "global_bloom": (2.6, 1.92, 0.0, 0.21, 2.2, 0.9, 2.3 * MIB, 3.1 * MIB),
    "bucket": (0.09, 1.8, 0.0, 0.2, 0.06, 0.08, 0.8 * MIB, 0.0),
}

INFO = {
    "run_id": "20261121T190300-quickstart",
    "started": "2026-11-21T19:03:00+00:00",
    "command": [".venv/bin/python", "run_bench.py", "run", "quickstart", "--out", "runs/first"],
    "status": "complete",
    "repetitions": 3,
    "failed": {},
    "scenario": {
        "name": "quickstart",
        "description": "four indexes on one table",
        "engines": ["native"],
        "indexes": list(INDEXES),
        "dataset": {
            "name": "trips",
            "rows": 200_000,
            "seed": 1,
            "partitions": 20,
            "batch_rows": 10_000,
            "update_share": 0.5,
            "delete_rows": 2_000,
        },
        "table": {"source": None, "options": {}, "index_options": {}},
        "workload": {
            "rounds": 2,
            "delete": True,
            "lookup_present": 8_000,
            "lookup_absent": 2_000,
            "point_query": True,
        },
        "schedule": {"repetitions": 3, "warmups": 1, "loads": 1},
        "spark": {"master": "local[2]", "conf": {}},
    },
    "versions": {"keymark": "0.1.0", "python": "3.11.2", "spark": "3.5.5", "java": "17.0.13"},
    "machine": {
        "system": "Linux",
        "processor": "an example of a CPU",
        "cores": 2,
        "memory_bytes": 8 << 30,
    },
    "spark_conf": {"spark.master": "local[2]", "spark.speculation": "false"},
    "notes": ["bucket: the rows were re-loaded into a bucket table, off the clock"],
}


def sample(**changes) -> Sample:
    """One valid, verified sample; `changes` lay over its fields."""
    fields = {
        "run_id": "r1",
        "cell": "native/record",
        "engine": "native",
        "index": "record",
        "step": "upsert_1",
        "round": 1,
        "repetition": 0,
        "warmup": False,
        "phase": "total",
        "metric": "wall_s",
        "value": 1.0,
        "verified": True,
        "valid": True,
        "reason": "",
    } | changes
    fields.setdefault("unit", METRICS[fields["metric"]].unit.value)
    return Sample(**fields)


def write_run(path: Path, samples: Iterable[Sample], info: dict | None = None) -> Path:
    """A run folder that holds the samples."""
    folder = RunFolder.create(path)
    folder.write_record(RunRecord.model_validate(info or {"run_id": "r1"}))
    folder.append(samples)
    return path


def quickstart(path: Path, *, seed: int = 1, run_id: str = INFO["run_id"], repetitions=3) -> Path:
    """A run folder as the quickstart scenario leaves it, with noise of some per cent."""
    draw = random.Random(seed)
    samples = []
    for repetition, warmup in [(0, True), *((number, False) for number in range(repetitions))]:
        for index in INDEXES:
            shared = {
                "run_id": run_id,
                "cell": f"native/{index}",
                "index": index,
                "repetition": repetition,
                "warmup": warmup,
            }
            samples += _repetition(index, shared, draw, slow=2.0 if warmup else 1.0)
    return write_run(path, samples, INFO | {"run_id": run_id})


def _repetition(index: str, shared: dict, draw: random.Random, *, slow: float) -> list[Sample]:
    *phases, lookup, query, shuffle, stored = COSTS[index]
    made = []

    def add(step, round_, phase, metric, value):
        noise = draw.uniform(0.94, 1.08) * slow if metric == "wall_s" else 1.0
        changes = {"step": step, "round": round_, "phase": phase, "metric": metric}
        made.append(sample(**shared, **changes, value=value * noise))

    def write(step, round_, scale, tagged):
        total = 0.0
        names = ("tag", "write", "index", "commit")
        for name, cost in zip(names, phases, strict=True):
            if cost and (tagged or name != "tag"):
                add(step, round_, name, "wall_s", cost * scale)
                total += made[-1].value
        made.append(
            sample(**shared, step=step, round=round_, phase="total", metric="wall_s",
                   value=total + 0.08)
        )  # fmt: skip
        add(step, round_, "total", "shuffle_write_bytes", shuffle * scale)
        add(step, round_, "total", "shuffle_read_bytes", shuffle * scale)
        add(step, round_, "total", "tasks", 60)
        add(step, round_, "total", "files_written", 20)
        add(step, round_, "total", "bytes_written", 9.7 * MIB)
        add(step, round_, "total", "index_bytes", stored)

    if shared["repetition"] == 0 and not shared["warmup"]:
        write("bulk_insert", 0, 4.0, tagged=False)
    write("upsert_1", 1, 1.0, tagged=True)
    write("upsert_2", 2, 1.05, tagged=True)
    write("delete", 3, 0.6, tagged=True)
    for step, cost in (("lookup", lookup), ("point_query", query)):
        add(step, 3, "total", "wall_s", cost)
        add(step, 3, "total", "files_read", 1 if step == "point_query" else 0)
    return made


def beats(path: Path, taken: Sequence[float]) -> None:
    """Let the canary of a run have taken these seconds, one beat every ten."""
    folder = RunFolder.open(path)
    for number, seconds in enumerate(taken):
        folder.append_beat(
            Beat(
                at=1_000_000_000.0 + 10 * number,
                before=f"native/record|r{number}",
                cpu_s=seconds,
                disk_s=0.004,
                memory_s=0.003,
                load_1m=0.5,
                mhz=2100.0,
                steal_s=0.0,
            )
        )
