"""Runs of several formats as `run formats` leaves them, with the numbers that a test gives."""

from __future__ import annotations

from synthetic_runs import sample, write_run

from keymark.reports.model.projection import load
from keymark.reports.sections.formats_part import formats_part

NATIVE, DELTA, ICEBERG = "native/record", "delta@3.3.2/merge_dv", "iceberg@1.10.0/merge_mor"
MIB = float(1 << 20)


def run_of(path, told, *, shapes=("hot",), repetitions=3, run_id="r1"):
    """A run whose cells have `told[cell]["step phase metric"]`: a value, or one a repetition."""
    samples, cells = [], []
    for name, numbers in told.items():
        engine, index, *_ = name.split("/")
        for shape in shapes:
            cell = f"{name}/shape-{shape}"
            cells.append({"cell": cell, "index": index, "options": {}, "shape": shape, "rows": 9})
            for key, given in numbers.items():
                step, phase, metric = key.split()
                values = given if isinstance(given, list) else [given] * repetitions
                # A table is loaded once.
                values = values[:1] if step == "bulk_insert" else values
                samples += [
                    sample(
                        run_id=run_id,
                        cell=cell,
                        engine=engine,
                        index=index,
                        step=step,
                        phase=phase,
                        metric=metric,
                        repetition=at,
                        value=float(value),
                    )
                    for at, value in enumerate(values)
                ]
    scenario = {"dataset": {"rows": 9}}
    return write_run(path, samples, {"run_id": run_id, "cells": cells, "scenario": scenario})


def said_of(path, told, **changes):
    """The sentences on the only kind of data, by the words of the question."""
    (run,) = load([run_of(path / "run", told, **changes)])
    ((_, said),) = formats_part(run).tables
    return {each.topic: each.words for each in said}


def rounds_of(*seconds, step="upsert", **more):
    """One repetition of the steps `<step>_1`, `<step>_2`, ... with these seconds."""
    timed = {f"{step}_{n} total wall_s": value for n, value in enumerate(seconds, start=1)}
    return timed | {key.replace("__", " "): value for key, value in more.items()}


WRITES = {
    NATIVE: {
        "upsert_1 total wall_s": [1.0, 1.1, 1.2],
        "upsert_1 open wall_s": 0.1,
        "upsert_1 tag wall_s": 0.2,
        "upsert_1 write wall_s": 0.5,
        "upsert_1 total rows_written": 100_000,
        "upsert_1 total tasks": 3,
    },
    DELTA: {
        "upsert_1 total wall_s": [3.0, 3.3, 3.6],
        "upsert_1 tag wall_s": 2.0,
        "upsert_1 write wall_s": 0.6,
        "upsert_1 total rows_written": 20_000,
        "upsert_1 total tasks": 30,
    },
    ICEBERG: {
        "upsert_1 total wall_s": [4.0, 4.4, 4.8],
        "upsert_1 write wall_s": 1.0,
        "upsert_1 total rows_written": 20_000,
    },
}
