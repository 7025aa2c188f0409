"""Keymark on a Spark standalone cluster of two workers: conformance, kills and a comparison.

A process has one Spark, and these tests need one of their own: what is asked is in the modules
`suite_*.py`, each run by a pytest of its own. `--cluster full` asks for more.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_run import SMALL
from standalone import StandaloneCluster, mortal
from table_cases import rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(sys.platform != "linux", reason="a task finds its worker through /proc"),
]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SMALL_ON_CLUSTER = {
    **SMALL,
    "spark.conf.spark.executor.memory": "600m",
    "spark.conf.spark.ui.enabled": "false",
}


LONGEST_S = 2400
"""A suite that takes longer on however slow a machine stands still."""


def python(*arguments):
    """Run this Python with the modules of the tests at hand; exit code, output, what it said.

    It ends with this process, and its cluster with it.
    """
    folders = [ROOT, HERE, ROOT / "tests/table", ROOT / "tests/indexes"]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    done = subprocess.run(
        mortal(sys.executable, *map(str, arguments)),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("suite", "cases"),
    [("suite_conformance", {"share": 27, "full": 79}), ("suite_kills", {"share": 7, "full": 16})],
    ids=["conformance", "kills"],
)
def test_suite(request, tmp_path, suite, cases):
    asked = request.config.getoption("--cluster")
    chosen = ["-k", "share"] if asked == "share" else []
    code, told, said = python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", tmp_path / "child"),
        *("--cluster", asked, HERE / f"{suite}.py", *chosen),
    )
    assert code == 0, told + said
    assert int(re.search(r"(\d+) passed", told)[1]) == cases[asked]
    assert "skipped" not in told


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def test_a_comparison_on_executors(tmp_path, cluster):
    """All indexes of `ci`, with no work small enough for the driver."""
    sets = [
        word for name, value in SMALL_ON_CLUSTER.items() for word in ("--set", f"{name}={value}")
    ]
    local = ("--set", 'table.options={"keymark.local.bytes" = "0"}')
    code, told, said = python(
        *("run_bench.py", "run", "ci", "--json", "--out", tmp_path / "run", *sets, *local),
        *("--master", cluster.url),
    )
    assert code == 0, said
    summary = json.loads(told)
    assert summary["verified"] is True
    tasks = {
        (cell["index"], each["phase"]): each["median"]
        for cell in summary["cells"]
        for each in cell["metrics"]
        if (each["step"], each["metric"]) == ("upsert_1", "tasks")
    }
    for index in ("record", "global_simple", "global_bloom", "bucket"):
        # A bucket follows from the key: there is nothing to look up.
        assert (tasks[index, "tag"] > 0) == (index != "bucket")
        assert tasks[index, "write"] > 0
    conf = json.loads((tmp_path / "run" / "run.json").read_text())["spark_conf"]
    assert conf["spark.master"] == cluster.url


def test_commands_of_tables_take_a_master(tmp_path, cluster, monkeypatch):
    memory = f"--conf spark.executor.memory={SMALL_ON_CLUSTER['spark.conf.spark.executor.memory']}"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{memory} pyspark-shell")
    pq.write_table(rows(range(40)), tmp_path / "rows.parquet")
    path = tmp_path / "t"

    def table(*arguments):
        words = (*arguments, "--json", "--master", cluster.url)
        code, told, said = python("run_bench.py", "table", *words)
        assert code == 0, said
        return json.loads(told)

    distributed = ("--option", "keymark.local.bytes=0")
    table("create", path, "--key", "k", "--partition", "p", "--ordering", "ts")
    assert table("bulk-insert", path, tmp_path / "rows.parquet", *distributed)["inserted"] == 40
    assert table("check", path, *distributed)["keys"] == 40


def test_a_master_that_is_none_is_one_line(tmp_path):
    python("run_bench.py", "table", "create", tmp_path / "t", "--key", "k")
    code, _, said = python(
        "run_bench.py", "table", "check", tmp_path / "t", "--master", "sparc://x"
    )
    assert code == 2
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "Spark does not start on sparc://x" in line
