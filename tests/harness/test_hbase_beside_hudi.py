"""HBase as Hudi uses it beside Keymark; skipped by name where server or bundle are not there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness_fakes import SMALL

from keymark.harness.engines import jars
from keymark.indexes.hbase.cells import HBaseCells

ROOT = Path(__file__).parents[2]
SETS = [*SMALL, "schedule.repetitions=2"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("hudi")]


def test_both_engines_are_measured_and_verified(tmp_path):
    missing = HBaseCells().missing() or jars.missing_bundle("0.15.0")
    if missing:
        pytest.skip(missing)
    command = [sys.executable, str(ROOT / "run_bench.py"), "run", "hudi_vs_native", "--json"]
    command += ["--engine", "native", "--engine", "hudi@0.15.0", "--index", "hbase"]
    command += ["--out", "run", *(word for each in SETS for word in ("--set", each))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verified"] is True
    assert {cell["engine"] for cell in summary["cells"]} == {"native", "hudi@0.15.0"}
    for cell in summary["cells"]:
        sizes = [each["median"] for each in cell["metrics"] if each["metric"] == "index_bytes"]
        assert min(sizes) > 2000 * 36
