"""A run folder of many cells made by arithmetic: indexes x shapes of keys x rows x batches."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from synthetic_runs import INFO, sample, write_run

SHAPES = ("random", "time_ordered", "skewed")
INDEXES = ("record", "global_simple", "simple", "global_bloom", "bloom", "bucket", "hbase")
SIZES = (20_000, 80_000, 320_000)
BATCHES = (1_000, 16_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Microseconds of tagging: at all, per row of the table, per row of the batch."""

    start: float
    table: float
    batch: float
    random: float = 1.0
    skewed: float = 1.0


COSTS = {
    "record": Cost(start=90_000, table=0.05, batch=9, skewed=1.1),
    "global_simple": Cost(start=150_000, table=9, batch=4),
    "simple": Cost(start=140_000, table=6, batch=4, skewed=1.5),
    "global_bloom": Cost(start=200_000, table=3, batch=25, random=3.0),
    "bloom": Cost(start=120_000, table=1.5, batch=12, random=2.5),
    "bucket": Cost(start=20_000, table=0.0, batch=1.2, skewed=1.2),
    "hbase": Cost(start=60_000, table=0.0, batch=40),
}


def matrix(
    path: Path,
    *,
    indexes: Sequence[str] = INDEXES,
    shapes: Sequence[str] = SHAPES,
    sizes: Sequence[int] = SIZES,
    batches: Sequence[int] = BATCHES,
    engines: Mapping[str, float] | None = None,
    noise: float = 0.1,
    repetitions: int = 3,
) -> Path:
    """Write the run; `engines` says how many times ours each takes."""
    draw = random.Random(1)
    engines = engines or {"native": 1.0}
    samples, cells = [], []
    for engine, index, shape, rows, batch in product(engines, indexes, shapes, sizes, batches):
        at = f"{engine}/{index}" + (f"/shape-{shape}" if shape else "")
        at += f"/rows-{rows}" * (len(sizes) > 1) + f"/batch-{batch}" * (len(batches) > 1)
        said = {"shape": shape, "rows": rows, "batch": batch if len(batches) > 1 else 0}
        cells.append({"cell": at, "engine": engine, "index": index, "options": {}} | said)
        for repetition in range(repetitions):
            times = engines[engine] * (1 + noise * draw.uniform(-1, 1))
            shared = {"cell": at, "engine": engine, "index": index, "repetition": repetition}
            samples += _cell(shared, COSTS[index], times, shape=shape, rows=rows, batch=batch)
    dataset = INFO["scenario"]["dataset"] | {
        "sizes": list(sizes) if len(sizes) > 1 else [],
        "batches": list(batches) if len(batches) > 1 else [],
        "shapes": {shape: {} for shape in shapes if shape},
        "rows": sizes[-1],
        "batch_rows": batches[-1],
    }
    scenario = INFO["scenario"] | {
        "name": "index_matrix",
        "engines": list(engines),
        "indexes": list(indexes),
        "dataset": dataset,
    }
    info = INFO | {"run_id": "m1", "cells": cells, "scenario": scenario, "notes": []}
    return write_run(path, [each for each in samples if each], info)


def _cell(shared: dict, cost: Cost, times: float, *, shape: str, rows: int, batch: int) -> list:
    factor = {"random": cost.random, "skewed": cost.skewed}.get(shape, 1.0) * times / 1e6
    tag = (cost.start + cost.table * rows + cost.batch * batch) * factor
    write = (250_000 + 0.8 * rows + 30 * batch) * times / 1e6
    record = shared["index"] == "record"
    index = (120_000 + 12 * batch) * times / 1e6 if record else 0.0
    lookup = (0.6 * cost.start + 0.9 * cost.table * rows + cost.batch * 10_000) * factor
    shared = shared | {"run_id": "m1"}
    upsert = {"step": "upsert_1", "round": 1}
    walls = {"tag": tag, "write": write, "commit": 0.15 * times}
    walls |= {"index": index} if record else {}
    made = [sample(**shared, **upsert, phase=name, value=value) for name, value in walls.items()]
    made.append(sample(**shared, **upsert, value=sum(walls.values())))
    joined = {"record": 0.0, "bucket": 0.0, "hbase": 40.0 * batch}
    shuffled = joined.get(shared["index"], 45.0 * rows)
    counts = {
        "shuffle_write_bytes": shuffled,
        "input_bytes": 30.0 * rows,
        "bytes_written": 200.0 * rows,
        "index_bytes": 31.0 * rows if record else 0.0,
        "keys": float(batch),
    }
    made += [sample(**shared, **upsert, metric=name, value=each) for name, each in counts.items()]
    made.append(sample(**shared, step="lookup", round=1, value=lookup))
    made.append(sample(**shared, step="lookup", round=1, metric="keys", value=10_000.0))
    query = 0.05 * times if record else 0.4 * times + rows / 1e6
    made.append(sample(**shared, step="point_query", round=1, value=query))
    if shared["engine"] == "native":
        made.append(sample(**shared, step="point_query_spark", round=1, value=query))
    if shared["repetition"] == 0:
        load = {"step": "bulk_insert", "round": 0}
        made.append(sample(**shared, **load, value=3.0 * times))
        stored = 31.0 * rows if record else 0.0
        made.append(sample(**shared, **load, metric="index_bytes", value=stored))
        made.append(sample(**shared, **load, metric="keys", value=float(rows)))
    return made
