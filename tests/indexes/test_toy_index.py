"""An index is a unit: one that only tests know goes through everything that the others do.

It is installed as any other package is, by an entry point, and in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HISTORIES = """
import sys, tempfile
from conformance import SHAPES, History
from test_conformance import play
for number, shape in enumerate(SHAPES):
    for seed, store in ((number, {}), (number + 1, {"keymark.batch.collect.bytes": "0"})):
        path = tempfile.mkdtemp()
        history = History.start(path + "/t", "toy", shape, seed=seed, store=store)
        play(history, ("toy",), 5)
        assert history.by_hudi_rs() == history.model.contents()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The environment of processes in which the toy is installed."""
    place = tmp_path_factory.mktemp("installed")
    info = place / "toy_index-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-index\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[keymark.indexes]\ntoy = toy_index:ToyIndex\n")
    return {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{Path(__file__).parent}"}


def python(env, *words):
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    return done.stdout


def test_it_conforms(installed):
    python(installed, "-W", "ignore", "-c", HISTORIES)


@pytest.mark.spark
@pytest.mark.slow
def test_it_is_measured_reported_and_planned(installed, tmp_path):
    run = tmp_path / "run"
    python(
        installed, "run_bench.py", "run", "ci", "--out", run, "--set", 'indexes=["toy"]',
        "--set", "dataset.rows=2000", "--set", "dataset.batch_rows=200",
        "--set", "dataset.delete_rows=40", "--set", "workload.lookup_present=100",
        "--set", "workload.lookup_absent=40",
    )  # fmt: skip
    kept = json.loads((run / "run.json").read_text())
    assert not kept["failed"]
    assert kept["indexes"]["toy"]["color"] == "#123456"
    lines = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    counted = [line for line in lines if line["metric"] == "toy_entries_read"]
    assert counted
    assert all(line["verified"] and line["value"] > 0 for line in counted)
    # A report needs no index installed.
    python(os.environ, "run_bench.py", "report", run)
    (page,) = run.rglob("index.html")
    assert "#123456" in page.read_text()
    said = python(
        installed, "run_bench.py", "plan", "--calibration", run, "--records", 10_000, "--batch",
        1_000, "--json",
    )  # fmt: skip
    planned = json.loads(said)
    assert planned["recommended"] == "toy"
    assert planned["options"] == {"hoodie.index.type": "TOY"}
    (added,) = (p for p in planned["predictions"] if (p["metric"]) == "added_s")
    assert added["value"] > 0
