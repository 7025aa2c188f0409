"""Kill runs at seeded points, resume them, and see whether a sample is missing or doubled.

`python tests/harness/killed_runs.py FOLDER KILLS SEED` prints one JSON document. A run is a fork of
this process that measures tables without Spark through `bench.run`, and kills itself by SIGKILL
after so many function calls: anywhere between making the folder and the last line of run.json.
What is resumed is killed again, until KILLS kills are done; a run that comes to its end is compared
with one that nobody killed, and the next one begins.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

from harness_fakes import FakeEngine, FakeInputs, Quiet

from keymark.harness.engines.engine_pool import EnginePool
from keymark.harness.run import bench
from keymark.harness.run.request import Request
from keymark.harness.scenario import scenario
from keymark.harness.store.run_record import MeasuredRecord
from keymark.harness.store.store import RunFolder

SETS = [
    "indexes=['record','bucket']",
    "schedule.repetitions=3",
    "dataset.batches=[2, 4]",
    "workload.rounds=2",
    "workload.delete=true",
]


class NoSpark(EnginePool):
    """The engines of a run on tables without Spark."""

    def __enter__(self):
        return self

    spark = None

    def start(self, name):
        self.engines[name] = FakeEngine()

    def described(self):
        return {"seeded_ids": list(self.engines)}


def write_inputs(_spark, resolved, _folder):
    return dict.fromkeys(resolved.dataset.points, FakeInputs())


def measured_sizes(_inputs):
    return MeasuredRecord(rows=10, batch_updates=1, batch_inserts=1, deletes=1, lookup_keys=3)


def run(out: Path, *, resume: bool, kill_after: int | None = None) -> int:
    """Run or resume to the end, or to the kill; how many calls it took."""
    calls = 0

    def count(_frame, event, _arg):
        nonlocal calls
        if event == "call":
            calls += 1
            if calls == kill_after:
                os.kill(os.getpid(), signal.SIGKILL)

    bench.EnginePool = NoSpark
    bench.write_inputs, bench.measured_sizes = write_inputs, measured_sizes
    # It writes nothing, and a resumed run leaves most of it out: kills would come at its end only.
    bench.check = lambda _: "begin"
    request = Request(scenario=scenario.load("quickstart", sets=SETS), out=out, resume=resume)
    sys.setprofile(count)
    try:
        bench.run(request, Quiet())
    finally:
        sys.setprofile(None)
    return calls


def fork(out: Path, *, resume: bool, kill_after: int) -> bool:
    """The same in a process of its own; whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            run(out, resume=resume, kill_after=kill_after)
        except BaseException as error:  # noqa: BLE001 - told by the exit code
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if os.WEXITSTATUS(status):
        raise RuntimeError("a resumed run failed")
    return False


def identities(folder: Path) -> Counter:
    """What is there of each number; counters too, values not."""
    return Counter(
        (s.cell, s.warmup, s.repetition, s.step, s.phase, s.metric, s.verified, s.valid)
        for s in RunFolder.open(folder).samples()
    )


def main(work: Path, kills: int, seed: int) -> dict:
    draw = random.Random(seed)
    whole = run(work / "whole", resume=False)
    expected = identities(work / "whole")
    told = {"kills": 0, "runs": 0, "missing": 0, "doubled": 0, "strange": 0, "points": []}
    while told["kills"] < kills:
        out = work / f"run{told['runs']}"
        while told["kills"] < kills:
            point = draw.randrange(1, whole)
            if not fork(out, resume=out.exists(), kill_after=point):
                break
            told["kills"] += 1
            told["points"].append(round(point / whole, 3))
        run(out, resume=out.exists())
        found = identities(out)
        told["runs"] += 1
        told["missing"] += len(expected - found)
        told["doubled"] += sum(times - 1 for times in found.values())
        told["strange"] += len(set(found) - set(expected))
        record = RunFolder.open(out).read_record()
        assert record.status == "complete"
        assert record.digest == RunFolder.open(out).digest(record.document)
    return told | {"calls": whole, "samples": sum(expected.values())}


if __name__ == "__main__":
    answer = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps(answer) + "\n")
