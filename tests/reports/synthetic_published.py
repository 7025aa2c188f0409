"""A run that says all that a run with Spark says, by arithmetic: what is published, and altered.

Two indexes were measured three times, with a warm-up; of a third one the first upsert was wrong, so
that it was left out from there. One lookup had a Spark task that ran twice.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from synthetic_runs import sample

from keymark.harness.store.contents import content, pack
from keymark.harness.store.results import Beat, Sample, Stage
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder
from keymark.reports.errors import ReportError
from keymark.reports.model import projection
from keymark.reports.published import add, derived
from keymark.reports.sections.parts import Parts

RUN_ID = "20261126T090000-small"
CELLS = ("native/record", "native/global_simple", "native/bucket")
WRONG = "3 rows of 20,000 are not those that must be there"
RETRIED = "1 Spark tasks failed and ran again"
_ROWS, _BATCH, _ASKED = 200_000, 10_000, 100

INFO = {
    "run_id": RUN_ID,
    "started": "2026-11-26T09:00:00+00:00",
    "finished": "2026-11-26T09:05:00+00:00",
    "command": [".venv/bin/python", "run_bench.py", "run", "small", "--out", "runs/small"],
    "scenario": {
        "name": "small",
        "engines": ["native"],
        "indexes": ["record", "global_simple", "bucket"],
        "dataset": {
            "name": "trips", "rows": _ROWS, "seed": 1, "batch_rows": _BATCH, "update_share": 0.5,
        },
        "workload": {
            "rounds": 1, "lookup_present": 80, "lookup_absent": 20, "point_query": True,
            "build_index": False,
        },
        "schedule": {"repetitions": 3, "warmups": 1, "loads": 1},
        "spark": {"master": "local[2]"},
    },
    "cells": [{"cell": cell, "index": cell.split("/")[1], "rows": _ROWS} for cell in CELLS],
    "machine": {
        "system": "Linux", "release": "6.1.0-18-amd64", "architecture": "x86_64",
        "processor": "an example of a CPU", "cores": 2, "memory_bytes": 8 << 30, "load_1m": 0.4,
        "megahertz": 2100, "disk": {"bytes": 1 << 38, "file_system": "ext4"},
    },
    "versions": {
        "keymark": "0.1.0", "python": "3.11.2", "spark": "3.5.5", "revision": "0123456789ab",
    },
    "measured": {
        "rows": _ROWS, "batch_updates": 5000, "batch_inserts": 5000, "deletes": 0,
        "lookup_keys": _ASKED,
    },
    "seeded_ids": ["native"],
    "repetitions": 3,
    "notes": ["a note"],
    "failed": {CELLS[2]: f"upsert_1: {WRONG}"},
}  # fmt: skip

# Phase, seconds, tasks and bytes shuffled of each phase of an upsert, by index.
_PHASES = {
    "record": (("tag", 0.4, 4, 900), ("write", 1.9, 8, 0), ("index", 0.3, 2, 300),
               ("commit", 0.2, 0, 0)),
    "global_simple": (("tag", 3.9, 6, 14_000), ("write", 1.9, 8, 0), ("index", 0.0, 0, 0),
                      ("commit", 0.2, 0, 0)),
    "bucket": (("tag", 0.1, 0, 0), ("write", 1.8, 8, 0), ("index", 0.0, 0, 0),
               ("commit", 0.2, 0, 0)),
}  # fmt: skip


@dataclass(frozen=True)
class _Step:
    """A step of a repetition: its samples, and the stages that they were counted from."""

    samples: list[Sample]
    stages: list[Stage]


def run_folder(path: Path) -> Path:
    """The folder of the run, as `run` leaves it."""
    folder = RunFolder.create(path)
    draw = random.Random(5)
    steps = [_load(cell, draw) for cell in CELLS[:2]]
    for cell in CELLS:
        for repetition, warmup in ((0, True), (0, False), (1, False), (2, False)):
            if cell == CELLS[2] and not warmup:
                continue
            steps += _repetition(cell, repetition, warmup, draw)
    for step in steps:
        folder.append(step.samples)
    folder.write_stages([stage for step in steps for stage in step.stages])
    _take_beats(folder, draw)
    folder.finish(RunRecord.model_validate(INFO))
    return path


def published(path: Path) -> Path:
    """The same in a folder of published runs."""
    made = add.add(run_folder(path / "runs" / RUN_ID), path / "results")
    assert made.findings == ()
    return made.path


def repeated(path: Path, change=lambda sample: sample, run_id: str = RUN_ID, **record) -> Path:
    """Another run of the same on a machine a third as fast; its samples went through `change`."""
    source = RunFolder.open(run_folder(path / "source"))
    folder, draw = RunFolder.create(path / "again"), random.Random(9)
    for each in source.samples():
        slower = each.metric in ("wall_s", "cpu_s")
        value = each.value * 3 * draw.uniform(0.97, 1.03) if slower else each.value
        folder.append([change(replace(each, value=value, run_id=run_id))])
    folder.write_stages(source.stages())
    for beat in source.beats():
        folder.append_beat(beat)
    document = {**source.read_record().document, "run_id": run_id, **record}
    folder.finish(RunRecord.model_validate(document))
    return folder.path


def slower_tag(each: Sample) -> Sample:
    """The upsert of the index `record` takes twice as long."""
    hit = (each.step, each.index) == ("upsert_1", "record") and each.metric == "wall_s"
    return replace(each, value=each.value * 2) if hit else each


def _load(cell: str, draw: random.Random) -> _Step:
    values = {
        ("write", "bytes_written"): 9_000_000, ("index", "bytes_written"): 0,
        ("commit", "bytes_written"): 4_096, ("total", "bytes_written"): 9_004_096,
        ("total", "keys"): _ROWS, ("write", "wall_s"): 7.5,
        ("total", "wall_s"): 8 + draw.random(),
    }  # fmt: skip
    if not cell.endswith("record"):
        return _step(cell, "bulk_insert", 0, values)
    size = 8_000_000
    built = {
        ("total", "keys"): _ROWS, ("total", "keys_per_s"): _ROWS / 2.5,
        ("total", "index_bytes"): size, ("total", "bytes_per_key"): size / _ROWS,
        ("total", "wall_s"): 2.5,
    }  # fmt: skip
    return _step(cell, "build_index", 0, built, tasks=[("total", 6, 0)])


def _repetition(cell: str, repetition: int, warmup: bool, draw: random.Random) -> list[_Step]:
    phases = _PHASES[cell.split("/")[1]]
    spent = {(name, "wall_s"): s * draw.uniform(0.95, 1.05) for name, s, _, _ in phases if s}
    total = sum(spent.values()) + 0.05
    written = {"write": 9_700_000, "index": 40_000, "commit": 8_192}
    upsert = {
        **spent,
        **{(name, "bytes_written"): size for name, size in written.items()},
        ("total", "bytes_written"): sum(written.values()), ("total", "files_written"): 20,
        ("total", "keys"): _BATCH, ("total", "index_bytes"): 8_100_000,
        ("total", "cpu_s"): 1.6 * total, ("total", "wall_s"): total,
    }  # fmt: skip
    tasks = [(name, count, size) for name, _, count, size in phases if count]
    taken = {"repetition": repetition, "warmup": warmup}
    made = [_step(cell, "upsert_1", 1, upsert, tasks, **taken)]
    if cell == CELLS[2]:
        wrong = [replace(s, verified=False, reason=WRONG) for s in made[0].samples]
        return [_Step(wrong, made[0].stages)]
    asked = {("total", "keys"): _ASKED, ("total", "wall_s"): 0.3 * draw.uniform(0.9, 1.1)}
    made.append(_step(cell, "lookup", 1, asked, [("total", 2, 640)], **taken))
    if (cell, repetition, warmup) == (CELLS[1], 1, False):
        names = ("tasks", "input_bytes", "shuffle_write_bytes", "shuffle_read_bytes")
        names += ("shuffle_write_records", "shuffle_read_records")
        marked = [
            replace(s, valid=False, reason=RETRIED) if s.metric in names else s
            for s in made[-1].samples
        ]
        made[-1] = _Step(marked, made[-1].stages)
    scan, read = (
        {("total", "files_read"): 1, ("total", "wall_s"): seconds * draw.uniform(0.9, 1.1)}
        for seconds in (0.01, 0.06)
    )
    made.append(_step(cell, "point_query", 1, scan, **taken))
    return [*made, _step(cell, "point_query_spark", 1, read, [("total", 1, 0)], **taken)]


def _step(cell, name, round_, values, tasks=(), *, repetition=0, warmup=False) -> _Step:
    """Samples of the values, then of the counters that the stages add up to."""
    stages = [
        Stage(
            cell=cell, step=name, repetition=repetition, phase=phase, name=f"collect of {phase}",
            stages=1, wall_s=0.1, tasks=count, input_bytes=1000 * count, shuffle_write_bytes=size,
            shuffle_write_records=size // 9, shuffle_read_bytes=size,
            shuffle_read_records=size // 9,
        )
        for phase, count, size in tasks
    ]  # fmt: skip
    counted = {}
    names = ("input_bytes", "shuffle_write_bytes", "shuffle_write_records", "shuffle_read_bytes")
    names += ("shuffle_read_records", "tasks")
    for phase in dict.fromkeys([*(phase for phase, metric in values if metric == "wall_s")]):
        of_phase = [each for each in stages if phase in ("total", each.phase)]
        for metric in names:
            counted[phase, metric] = sum(getattr(each, metric) for each in of_phase)
    index = cell.split("/")[1]
    samples = [
        sample(
            run_id=RUN_ID, cell=cell, index=index, step=name, round=round_, warmup=warmup,
            repetition=repetition, phase=phase, metric=metric, value=value,
        )
        for (phase, metric), value in {**values, **counted}.items()
    ]  # fmt: skip
    return _Step(samples, [] if warmup else stages)


def _take_beats(folder: RunFolder, draw: random.Random) -> None:
    began = 1795683600.5
    names = [f"{CELLS[0]}|r0|load", f"{CELLS[1]}|r0|load"]
    names += [f"{cell}|w0" for cell in CELLS]
    names += [f"{cell}|r{number}" for number in range(3) for cell in CELLS[:2]]
    for number, name in enumerate(names):
        folder.append_beat(
            Beat(
                at=began + 20 * number, before=name, cpu_s=0.01 * draw.uniform(1, 1.04),
                disk_s=0.004, memory_s=0.003, load_1m=0.5, mhz=2100.0, steal_s=0.0,
            )
        )  # fmt: skip


@dataclass(frozen=True)
class Copy:
    """A published run to be altered."""

    path: Path

    def lines(self, name: str, change: Callable[[list[dict]], object]) -> None:
        """Alter lines of a packed file."""
        found = [json.loads(line) for line in content(self.path / name).splitlines()]
        change(found)
        texts = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in found)
        self.write(name, "".join(f"{text}\n" for text in texts).encode())

    def write(self, name: str, data: bytes) -> None:
        """Put other bytes into a packed file."""
        (self.path / f"{name}.gz").write_bytes(pack(data))

    def info(self, change: Callable[[dict], object]) -> None:
        """Alter run.json."""
        path = self.path / "run.json"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    def seal(self) -> None:
        """Make digest and summary anew, as somebody would who knows the code."""
        folder = RunFolder(self.path)
        self.info(lambda document: document.update(digest=folder.digest(document)))
        try:
            (run,) = projection.load([self.path])
        except ReportError:
            return
        self.write("summary.json", json.dumps(derived.summary(run, Parts.of([run]))).encode())


def one(found: list[dict], **where) -> dict:
    """The first line with these fields; of repetition 1 and no warm-up, unless it is said."""
    asked = {"repetition": 1, "warmup": False} | where
    asked = asked if "repetition" in found[0] else where
    return next(line for line in found if all(line[key] == asked[key] for key in asked))
