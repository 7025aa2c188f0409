"""Runs made by arithmetic for the cost model: every time is a formula's amounts times constants."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType

from synthetic_runs import INFO, sample, write_run

from keymark.harness.store.run_record import RunRecord
from keymark.indexes.workload import FILTER_BYTES, Workload, rewritten
from keymark.reports.plan.formulas import KEYMARK, CostModel, cost_model
from keymark.reports.plan.observe import asked

INDEXES = ("record", "global_simple", "simple", "global_bloom", "bloom", "bucket")
PARTITIONS = {"random": 10, "ordered": 40}
ROW_BYTES = 110.0

TRUE = {
    "once": 0.2,
    "once_tasks": 0.2,
    "once_threads": 0.03,
    "shards": 0.05,
    "shards_tasks": 0.05,
    "shards_threads": 0.004,
    "block_mb": 2e-3,
    "keys": 1e-5,
    "found": 1.5e-4,
    "absent": 2e-5,
    "keys_tasks": 1e-5,
    "keys_threads": 2e-7,
    "sorted": 1e-7,
    "files": 4e-3,
    "described": 6e-3,
    "paths": 2e-2,
    "files_tasks": 4e-3,
    "files_threads": 8e-4,
    "rows": 2e-6,
    "footers": 5e-3,
    "pairs": 4e-7,
    "row_mb": 0.02,
    "copied_mb": 4e-3,
    "paged": 5e-3,
    "rows_random": 37.0,
    "rows_ordered": 27.0,
    "keys_random": 41.0,
    "keys_ordered": 31.0,
    "listed": 3e-5,
    "listed_groups": 1e-4,
    "batch_mb": 2e6,
    "groups": 0.01,
    "names": 1e-4,
    "entries": 5e-8,
    "once_lookup": 0.1,
    "files_lookup": 8e-3,
    "footers_lookup": 9e-3,
    "sampled": 3e-4,
    "written": 3.0,
    "asked": 1.5,
}
"""Constants by the name of their amount, the same in all equations."""


def plan_run(
    path: Path,
    *,
    run_id: str = "c1",
    sizes=(25_000, 100_000),
    batches=(1_000, 8_000),
    noise: float = 0.0,
    repetitions: int = 2,
    indexes=INDEXES,
    on_store: bool = False,
    engine: str = "native",
    on_one_load: bool = False,
    new_shares: Mapping[str, float] = MappingProxyType({}),
) -> Path:
    """Write a run of the axes of `calibrate`.

    Shapes may have a share of new keys of their own.
    On a store, S3, the requests of a write are counted. With a shared load only `global_simple` and
    `bucket` load their tables, and the record index is built upon files that are there.
    """
    draw = random.Random(1)
    model = cost_model(engine)
    samples, cells = [], []
    variants = {"tasks": ("0", 4), "shards": ("0", 16), "threads": (str(64 << 20), 4)}
    if model.of_hudi:
        del variants["threads"]
    for index, variant, shape, rows, batch in product(
        indexes, variants, PARTITIONS, sizes, batches
    ):
        local, shards = variants[variant]
        table = f"{engine}/{index}/{variant}/shape-{shape}/rows-{rows}"
        cell = f"{table}/batch-{batch}"
        options = {
            "keymark.local.bytes": local,
            "hoodie.metadata.record.index.min.filegroup.count": str(shards),
            "hoodie.bucket.index.num.buckets": "2",
        }
        cells.append({
            "cell": cell, "engine": engine, "index": index, "options": options,
            "rows": rows, "shape": shape, "batch": batch,
        })  # fmt: skip
        at = place(rows=rows, batch=batch, shape=shape, shards=shards, local=float(local))
        at = replace(at, new_share=new_shares.get(shape, at.new_share))
        named = {"run_id": run_id, "cell": cell, "engine": engine, "index": index}
        for repetition in range(repetitions):
            disturbed = 1 + noise * draw.random()
            numbered = named | {"repetition": repetition}
            said = _Truth(model, index, at, disturbed)
            samples += _upsert(numbered, said, on_store=on_store)
        said = _Truth(model, index, at)
        if batch == batches[0] and (not on_one_load or index in ("global_simple", "bucket")):
            samples += _load(named | {"repetition": 0}, said)
        elif batch == batches[0]:
            step = {"step": "build_index", "round": 0, "repetition": 0, "metric": "index_bytes"}
            samples.append(sample(**named, **step, value=said.of("index_bytes")))
    shapes = {
        "random": {"columns.uuid.kind": "uuid", "date_partitions": 10},
        "ordered": {"columns.uuid.kind": "uuid7", "date_partitions": 40},
    }
    for shape, share in new_shares.items():
        shapes[shape]["update_share"] = 1 - share
    dataset = INFO["scenario"]["dataset"] | {"shapes": shapes, "update_share": 0.5, "settings": {}}
    tables = {"table": {"source": None, "location": "s3://bucket/runs" if on_store else None}}
    scenario = INFO["scenario"] | {"dataset": dataset, "spark": {"master": "local[2]"}} | tables
    conf = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
    info = INFO | {"run_id": run_id, "cells": cells, "scenario": scenario, "spark_conf": conf}
    return write_run(path, samples, info)


def place(*, rows, batch, shape="random", shards=4, local=0.0) -> Workload:
    """The workload of a cell."""
    partitions = PARTITIONS[shape]
    return Workload(
        rows=rows,
        batch=batch,
        partitions=partitions,
        files=2.0 * partitions,
        shards=shards,
        buckets=2.0 * partitions,
        row_bytes=ROW_BYTES,
        ordered=shape == "ordered",
        local_bytes=local,
        broadcast_bytes=-1,
    )


def true(quantity: str, index: str, at: Workload, model: CostModel = KEYMARK) -> float:
    """What a quantity of an index is there."""
    name = model.equation_of(quantity, index, at)
    mode = model.mode_of(quantity, index, at)
    work = model.amounts(quantity, index, at, mode) if name else {}
    return sum(TRUE[amount] * value for amount, value in work.items())


@dataclass(frozen=True)
class _Truth:
    """What an index takes in a cell; times are so many times as long."""

    model: CostModel
    index: str
    at: Workload
    disturbed: float = 1.0

    def of(self, quantity):
        return true(quantity, self.index, self.at, self.model)

    def seconds(self, quantity):
        return self.disturbed * self.of(quantity)


def _upsert(shared, said, *, on_store):
    step = {"step": "upsert_1", "round": 1}
    walls = {phase: said.seconds(phase) for phase in ("tag", "write", "index")}
    whole = sum(walls.values()) + said.seconds("around")
    made = [sample(**shared, **step, phase=name, value=value) for name, value in walls.items()]
    made.append(sample(**shared, **step, value=whole))
    files = rewritten(said.at)
    made.append(sample(**shared, **step, metric="files_written", value=files))
    stored = files * said.at.file_bytes
    made.append(sample(**shared, **step, phase="write", metric="bytes_written", value=stored))
    moved = said.of("shuffle")
    made.append(sample(**shared, **step, phase="tag", metric="shuffle_write_bytes", value=moved))
    if said.model.of_hudi:
        every = moved + said.of("shuffle_rest")
        made.append(sample(**shared, **step, metric="shuffle_write_bytes", value=every))
    if on_store:
        kinds = ("get_requests", "put_requests")
        made += [sample(**shared, **step, metric=kind, value=said.of(kind)) for kind in kinds]
    keys = asked(RunRecord.model_validate(INFO), said.at)
    quantity = "lookup" if said.model.name_of("lookup", said.index) else "tag"
    looked_up = said.disturbed * true(quantity, said.index, keys, said.model)
    made.append(sample(**shared, step="lookup", round=1, value=looked_up))
    queried = said.seconds("point_query")
    return [*made, sample(**shared, step="point_query", round=1, value=queried)]


def _load(shared, said):
    step = {"step": "bulk_insert", "round": 0}
    built = said.of("bootstrap")
    stored = said.at.rows * ROW_BYTES + said.at.files * FILTER_BYTES
    return [
        sample(**shared, **step, value=built or 1.0),
        sample(**shared, **step, phase="index", value=built),
        sample(**shared, **step, metric="files_written", value=said.at.files),
        sample(**shared, **step, phase="write", metric="bytes_written", value=stored),
        sample(
            **shared, **step, phase="index", metric="bytes_written",
            value=said.of("index_bytes"),
        ),
    ]  # fmt: skip
