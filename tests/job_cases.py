"""Jobs in plain Python that say what Spark says: event logs by hand, no Spark."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from keymark import cli
from keymark.harness.measure.noise_check import NoiseCheck

FAKE = '''
"""A job without Spark: writes rows as files, and an event log as Spark writes it.

Called with what it shuffles, in bytes; then words that make it go wrong.
"""
import json, os, pathlib, sys, time

shuffled, *how = sys.argv[1:]
out = pathlib.Path(os.environ["OUT"])
out.mkdir(parents=True, exist_ok=True)
(out / "part-0").write_text("x" * 100)
if "fail" in how:
    print("reading the rows")
    raise ValueError("no such column: uuid")
if "hang" in how:
    time.sleep(600)
stage = {
    "Stage ID": 0, "Stage Attempt ID": 0, "Stage Name": "save at job.py:7",
    "Submission Time": 1000, "Completion Time": 3000,
    "RDD Info": [{"Scope": json.dumps({"id": "1", "name": "Exchange"})}],
}
task = {
    "Shuffle Write Metrics": {"Shuffle Bytes Written": int(shuffled), "Shuffle Records Written": 9},
    "Input Metrics": {"Bytes Read": 400, "Records Read": 40},
    "Output Metrics": {"Bytes Written": 100, "Records Written": 9},
    "Disk Bytes Spilled": 0, "Executor CPU Time": 250_000_000,
}
events = [
    {"Event": "SparkListenerLogStart", "Spark Version": "3.5.3"},
    {"Event": "SparkListenerApplicationStart", "App Name": "nightly", "Timestamp": 1000},
    {"Event": "SparkListenerStageSubmitted", "Stage Info": stage, "Properties": {}},
    *({"Event": "SparkListenerTaskEnd", "Stage ID": 0, "Stage Attempt ID": 0,
       "Task End Reason": {"Reason": "Success"}, "Task Metrics": task} for _ in range(2)),
    {"Event": "SparkListenerStageCompleted", "Stage Info": stage},
    {"Event": "SparkListenerApplicationEnd", "Timestamp": 4000},
]
if "cut" in how:
    events = events[:4]
if "silent" not in how:
    log = pathlib.Path(os.environ["KEYMARK_EVENTS"]) / "app-1"
    log.write_text("".join(json.dumps(event) + "\\n" for event in events))
'''


def job(folder: Path, *, how="well", more="", repetitions=2, timeout="20s") -> Path:
    """A job file, and beside it the program that it runs.

    Args:
        folder: where both are made.
        how: words that make the program go wrong.
        more: further lines of `[job]`.
        repetitions: how often.
        timeout: of each command.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fake.py").write_text(FAKE)
    path = folder / "job.toml"
    path.write_text(
        dedent(f"""\
        [job]
        name = "nightly"
        repetitions = {repetitions}
        warmups = 0
        timeout = "{timeout}"
        restore = "rm -rf {{work}}/out"
        writes = ["{{work}}/out"]
        environment = {{OUT = "{{work}}/out"}}
        values = {{shuffled = "1000", how = "{how}"}}
        """)
        + more
        + dedent(f"""

        [[job.step]]
        name = "load"
        command = "{sys.executable} fake.py {{shuffled}} {{how}}"
        """)
    )
    return path


def say(capsys, *words, code=0):
    """What a command prints, on both outputs; runs do not look at the machine's noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoiseCheck, "warn_or_wait", lambda *_, **__: None)
        found = cli.main([str(word) for word in words])
    said = capsys.readouterr()
    assert found == code, (found, said.out, said.err)
    return said.out, said.err


def samples(folder: Path) -> list[dict]:
    """The samples of a run."""
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def value(folder: Path, metric: str, *, cell="job/nightly", step="load", repetition=0) -> float:
    """One number of a run."""
    (found,) = (
        each["value"]
        for each in samples(folder)
        if (each["cell"], each["step"], each["metric"]) == (cell, step, metric)
        and (each["repetition"], each["phase"]) == (repetition, "total")
    )
    return found


def git(folder: Path, *words: str) -> None:
    """Git in a repository of a test's own."""
    import subprocess

    own = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", *own, *words], cwd=folder, check=True, env=environment)
