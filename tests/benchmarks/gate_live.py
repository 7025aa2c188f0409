"""Live gates: two revisions measured in turns, with nothing changed or tagging made slower.

    python tests/benchmarks/gate_live.py --out DIR [--same 20] [--slow 20] [--repetitions 72]

A gate's base is HEAD. Its candidate is another commit of the same files, or one that waits busily
after tagging for 5 % of the time that tagging took; both commits are made here and are on no
branch. Each side runs in a process of its own from its own files: it upserts the same rows into a
fresh copy of the same loaded table, without Spark. Base and candidate take turns, and the order
turns as well. What was measured is a run folder, judged by the gate's own code, tagging and
the whole required. A gate that is there already is not measured again; figures of all gates so
far are in DIR/gates.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keymark import Table
from keymark.datasets.columns.text import uuid_text
from keymark.harness.engines import revisions
from keymark.harness.store.results import Sample
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder
from keymark.reports.gate import run_numbers
from keymark.reports.gate.compare import Gate, compare
from keymark.reports.gate.policy import Kind, Level, Policy, PolicyRule

ROOT = Path(__file__).parents[2]
WRITER = "table/write/writer.py"
BEFORE = "        spent = self.writer.clock.seconds() - started\n"
AFTER = """\
        until = started + {factor} * (ended - started)
        while name == "tag" and self.writer.clock.seconds() < until:
            pass
"""
INDEX = "global_simple"
FILE_ROWS = 25_000
"""Rows of a partition. All are searched and one is written, so that tagging has its weight."""
PHASES = ("tag", "write", "commit", "total")
REQUIRED = Policy(
    rule=tuple(
        PolicyRule(metric="wall_s", phase=phase, level=Level.REQUIRED) for phase in ("tag", "total")
    )
)


def git(*words: str, **changes: str) -> str:
    """What git says."""
    named = {f"GIT_{who}_{what}": "gate@localhost" for who in ("AUTHOR", "COMMITTER")
             for what in ("NAME", "EMAIL")}  # fmt: skip
    made = subprocess.run(
        ["git", "-C", str(ROOT), *words],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, **named, **changes},
    )
    return made.stdout.decode().strip()


def candidate(slow: float) -> str:
    """A commit of HEAD's files, in which tagging takes longer by the factor `slow`."""
    if not slow:
        return git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "the same")
    text = git("show", f"HEAD:{WRITER}") + "\n"
    if text.count(BEFORE) != 1:
        raise AssertionError(f"{WRITER} measures phases in another way than this script knows")
    wait = f"        ended = self.writer.clock.seconds()\n{AFTER.format(factor=1 + slow)}"
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        changed = Path(folder, "writer.py")
        changed.write_text(text.replace(BEFORE, wait + BEFORE), encoding="utf-8")
        blob = git("hash-object", "-w", str(changed))
        git("read-tree", "HEAD", **index)
        git("update-index", "--cacheinfo", f"100644,{blob},{WRITER}", **index)
        return git("commit-tree", git("write-tree", **index), "-p", "HEAD", "-m", "slower")


def rows(low: int, high: int, ts: int) -> pa.Table:
    """Rows as a function of their number."""
    draw = np.random.default_rng(7)
    high_half, low_half = draw.integers(0, 1 << 63, (2, 1 << 22)).astype(np.uint64)
    keys = uuid_text(high_half, low_half).slice(low, high - low)
    numbers = np.arange(low, high)
    return pa.table(
        {
            "uuid": keys,
            "dt": pa.array((numbers // FILE_ROWS).astype(str)),
            "ts": np.full(high - low, ts),
            "fare": numbers * 0.25,
        }
    )


def load(folder: Path, count: int) -> None:
    """The table that every repetition starts from, once."""
    if folder.exists():
        return
    parts = folder.with_name("table.parts")
    table = Table.create(parts, record_key="uuid", partition_path="dt", ordering="ts", index=INDEX)
    table.bulk_insert(rows(0, count, 1))
    parts.rename(folder)


CHILD = """
import json, shutil, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import pyarrow.parquet as pq
from keymark import Table
loaded, batch = Path(sys.argv[2]), pq.read_table(sys.argv[3])
for turn in sys.stdin:
    copy = Path(sys.argv[4])
    shutil.copytree(loaded, copy)
    table = Table.open(copy)
    start = time.perf_counter()
    done = table.upsert(batch)
    total = time.perf_counter() - start
    right = (done.inserted, done.updated) == (batch.num_rows // 2, batch.num_rows // 2)
    shutil.rmtree(copy)
    print(json.dumps({**done.phases, "total": total, "right": right}), flush=True)
"""


class Side:
    """The process of one revision."""

    def __init__(self, commit: str, work: Path, name: str) -> None:
        ready = revisions.checkout(f"native@{commit}", ROOT)
        words = [ready.root, work / "table", work / "batch.parquet", work / f"copy-{name}"]
        self._process = subprocess.Popen(
            [str(ready.python), "-c", CHILD, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ready.root,
            env={**os.environ, "PYTHONPATH": str(ready.root)},
            text=True,
        )

    def take(self) -> dict[str, float]:
        """Seconds of each phase of one upsert.

        Raises:
            AssertionError: its answer was wrong.
        """
        assert self._process.stdin
        assert self._process.stdout
        print(file=self._process.stdin, flush=True)
        found = json.loads(self._process.stdout.readline())
        if not found.pop("right"):
            raise AssertionError("an upsert counted other rows than it was given")
        return {phase: found[phase] for phase in PHASES}

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def measure(out: Path, commits: tuple[str, str], work: Path, repetitions: int) -> None:
    """One gate's run folder, whole or not at all."""
    both = [Side(commit, work, name) for commit, name in zip(commits, "bc", strict=True)]
    names = [f"native@{commit[:12]}" for commit in commits]
    found: list[Sample] = []
    try:
        for repetition in range(-3, repetitions):
            order = (0, 1) if repetition % 2 else (1, 0)
            for number in order:
                times = both[number].take()
                found += (
                    samples(out.name, names[number], repetition, times) if repetition >= 0 else []
                )
    finally:
        for side in both:
            side.close()
    parts = out.with_name(f".{out.name}")
    folder = RunFolder.create(parts)
    folder.append(found)
    told = {"run_id": out.name, "status": "complete", "scenario": {"engines": names}}
    told["load"] = os.getloadavg()[0]
    folder.write_record(RunRecord.model_validate(told))
    parts.rename(out)


def samples(run_id: str, engine: str, repetition: int, times: dict[str, float]) -> Iterator[Sample]:
    """One upsert as lines of a run."""
    for phase, seconds in times.items():
        yield Sample(
            run_id=run_id,
            cell=f"{engine}/{INDEX}",
            engine=engine,
            index=INDEX,
            step="upsert_1",
            round=1,
            repetition=repetition,
            warmup=False,
            phase=phase,
            metric="wall_s",
            unit="s",
            value=seconds,
            verified=True,
            valid=True,
            reason="",
        )


def judge(folder: Path) -> Gate:
    """The gate's answer to one run folder."""
    base, other = json.loads((folder / "run.json").read_text())["scenario"]["engines"]
    return compare(run_numbers.load(folder, base), run_numbers.load(folder, other), REQUIRED)


def figures(folder: Path) -> dict[str, object]:
    """What is told of a gate."""
    answer = judge(folder)
    times = {
        each.key.phase: {
            "seconds": each.base,
            "ratio": each.judged.ratio,
            "spread": each.judged.spread,
            "verdict": each.judged.verdict.value,
            "needed": each.judged.needed,
            "pairs": each.judged.pairs,
        }
        for each in answer.findings
        if each.demand.kind is Kind.TIME
    }
    load = json.loads((folder / "run.json").read_text())["load"]
    return {"gate": folder.name, "verdict": answer.verdict.value, "load": load, "times": times}


def main(arguments: list[str] | None = None) -> None:
    """Measure what is wanting, and report all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--same", type=int, default=20)
    parser.add_argument("--slow", type=int, default=20)
    parser.add_argument("--by", type=float, default=0.05)
    parser.add_argument("--repetitions", type=int, default=72)
    parser.add_argument("--rows", type=int, default=390_000)
    given = parser.parse_args(arguments)
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    load(out / "table", given.rows)
    change = rows(given.rows - 1000, given.rows + 1000, 2)
    pq.write_table(change, out / "batch.parquet")
    base = git("rev-parse", "HEAD")
    others = {"same": candidate(0.0), "slow": candidate(given.by)}
    turns = [(kind, n) for n in range(max(given.same, given.slow)) for kind in others
             if n < getattr(given, kind)]  # fmt: skip
    for kind, number in turns:
        folder = out / f"{kind}-{number:02d}"
        if not folder.exists():
            started = time.monotonic()
            measure(folder, (base, others[kind]), out, given.repetitions)
            sys.stderr.write(f"{folder.name}: {time.monotonic() - started:.0f} s\n")
        told = [figures(each) for each in sorted(out.glob("s*-[0-9][0-9]"))]
        text = "".join(json.dumps(each) + "\n" for each in told)
        (out / "gates.jsonl").write_text(text, encoding="utf-8")
    sys.stdout.write((out / "gates.jsonl").read_text())


if __name__ == "__main__":
    main()
