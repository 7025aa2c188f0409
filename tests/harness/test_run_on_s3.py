"""A comparison with its tables on an S3 server, by the real command line, in Spark tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from s3_server import KEY, SECRET
from small_run import SMALL

from keymark.table.storage.stores import storage_at

ROOT = Path(__file__).parents[2]


def run(*arguments, **environment):
    """Run the command line; its exit code, output and what it said."""
    done = subprocess.run(
        [sys.executable, "run_bench.py", "run", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_a_comparison_on_s3(tmp_path, s3):
    """All indexes of `ci`, all work sent to tasks, which connect by themselves."""
    url, folder = s3.bucket(), tmp_path / "run"
    sets = [f"{name}={value}" for name, value in SMALL.items()]
    connection = {k: v for k, v in s3.options.items() if v not in (KEY, SECRET)}
    given = {**connection, "keymark.local.bytes": "0"}
    sets += [f"table.options.{name}={value}" for name, value in given.items()]
    code, told, said = run(
        *("ci", "--json", "--out", folder, "--tables", f"{url}/runs"),
        *(word for each in sets for word in ("--set", each)),
        AWS_ACCESS_KEY_ID=KEY,
        AWS_SECRET_ACCESS_KEY=SECRET,
    )
    assert code == 0, said
    summary = json.loads(told)
    assert summary["verified"] is True
    found = {
        (cell["index"], each["step"], each["phase"], each["metric"]): each["median"]
        for cell in summary["cells"]
        for each in cell["metrics"]
    }
    for index in ("record", "global_simple", "global_bloom", "bucket"):
        # A bucket follows from the key: there is nothing to look up.
        assert (found[index, "upsert_1", "tag", "tasks"] > 0) == (index != "bucket")
        assert found[index, "upsert_1", "write", "tasks"] > 0
        assert found[index, "upsert_1", "total", "files_written"] > 0
        assert found[index, "upsert_1", "write", "bytes_written"] > 0
    assert found["record", "upsert_1", "total", "index_bytes"] > 0
    info = json.loads((folder / "run.json").read_text())
    assert info["scenario"]["table"]["location"] == f"{url}/runs"
    assert list(storage_at(url, s3.options).walk("")) == []


@pytest.mark.spark
@pytest.mark.slow
def test_secrets_of_a_store_stay_out_of_run_json(tmp_path, s3):
    """Given as options, which they may be."""
    given = SMALL | {"workload.rounds": 1, "schedule.repetitions": 1}
    sets = [f"table.options.{name}={value}" for name, value in s3.options.items()]
    sets += [f"{name}={value}" for name, value in given.items()]
    places = ("--out", tmp_path / "run", "--tables", f"{s3.bucket()}/runs")
    code, told, said = run(
        *("ci", "--index", "bucket", *places),
        *(word for each in sets for word in ("--set", each)),
    )
    assert code == 0, said
    text = (tmp_path / "run" / "run.json").read_text()
    assert "keymark.storage.endpoint" in text
    for kept in (text, told, said):
        assert SECRET not in kept
        assert KEY not in kept


def test_a_store_that_is_not_there_leaves_no_run_folder(tmp_path, s3):
    options = {**s3.options, "keymark.storage.endpoint": "http://127.0.0.1:9"}
    options |= {"keymark.storage.max_retries": "0", "keymark.storage.retry_seconds": "1"}
    sets = [f"table.options.{name}={value}" for name, value in options.items()]
    code, told, said = run(
        *("ci", "--out", tmp_path / "run", "--tables", "s3://nowhere/runs"),
        *(word for each in sets for word in ("--set", each)),
    )
    assert code == 2
    assert told == ""
    assert len([line for line in said.splitlines() if line.startswith("error: ")]) == 1
    assert SECRET not in said
    assert KEY not in said
    assert not (tmp_path / "run").exists()
