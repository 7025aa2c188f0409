"""Kill a real run with Spark at random points, resume it, and compare its samples.

`python tests/benchmarks/kill_resume.py [KILLS [SEED]]` (20 kills: 20 to 40 minutes on two cores).
Each kill is a SIGKILL to the run, its JVM and its Python workers, after a random share of the time
that the same run takes undisturbed. What was killed is resumed and killed again; a run that comes
to its end is compared with the undisturbed one, and a new one begins. Numbers that repeat exactly
(rows, files, tasks, shuffled records) are compared by value, of the others that each is there once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from keymark.harness.store.store import RunFolder
from keymark.harness.store.units import METRICS

ROOT = Path(__file__).parents[2]
SETS = {
    "dataset.rows": 400,
    "dataset.batch_rows": 60,
    "dataset.delete_rows": 20,
    "workload.lookup_present": 50,
    "workload.lookup_absent": 20,
    "schedule.repetitions": 2,
}
INDEXES = ("record", "global_bloom")


def command(out: Path, *, resume: bool) -> list[str]:
    words = [sys.executable, "run_bench.py", "run", "ci", "--json", "--out", str(out)]
    words += [word for name in INDEXES for word in ("--index", name)]
    sets = (f"{key}={value}" for key, value in SETS.items())
    words += [word for each in sets for word in ("--set", each)]
    return [*words, "--resume"] if resume else words


def run(out: Path, *, resume: bool, kill_after: float | None = None) -> bool:
    """Run or resume; whether it was killed before it came to its end."""
    with subprocess.Popen(
        command(out, resume=resume),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            _, said = child.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return True
    if child.returncode:
        raise RuntimeError(said)
    return False


def numbers(folder: Path) -> Counter:
    """Each number by what it is; by its value, too, where that repeats exactly."""
    return Counter(
        (
            *(s.cell, s.warmup, s.repetition, s.step, s.phase, s.metric, s.verified, s.valid),
            s.value if METRICS[s.metric].counter and not METRICS[s.metric].tolerance else None,
        )
        for s in RunFolder.open(folder).samples()
    )


def main(kills: int, seed: int) -> None:
    draw = random.Random(seed)
    work = Path(tempfile.mkdtemp())
    begin = time.monotonic()
    run(work / "whole", resume=False)
    whole = time.monotonic() - begin
    expected = numbers(work / "whole")
    told = {"seed": seed, "seconds": round(whole, 1), "samples": sum(expected.values())}
    told |= {"kills": 0, "runs": 0, "missing": 0, "doubled": 0, "strange": 0}
    points: list[float] = []
    while told["kills"] < kills:
        out = work / f"run{told['runs']}"
        alive = True
        while alive and told["kills"] < kills:
            # Before its folder is there, a run leaves nothing that could be resumed.
            share = draw.random()
            alive = run(out, resume=out.exists(), kill_after=share * whole)
            told["kills"] += alive
            points += [round(share, 2)] * alive
            sys.stderr.write(f"{told['kills']} kills, {points[-1:]}\n")
        if alive:
            run(out, resume=out.exists())
        found = numbers(out)
        told["runs"] += 1
        told["missing"] += sum((expected - found).values())
        told["doubled"] += sum(times - 1 for times in found.values())
        told["strange"] += len(set(found) - set(expected))
        sys.stderr.write(json.dumps(told) + "\n")
    sys.stdout.write(json.dumps(told | {"points": points}) + "\n")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    main(*given, *(20, 1)[len(given) :])
