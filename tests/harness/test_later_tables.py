"""Tables of version 8 and 9 that Hudi made: read without Hudi, and as the source of a run."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from keymark.harness.engines import hudi_version, jars, table_version
from keymark.harness.tables import independent

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
TABLES = {
    "1.0.2-own": 8,
    "1.1.1-own": 9,
    "1.2.0-own_partitioned": 9,
    "1.2.0-own_merge_on_read": 9,
}
"""The tables and their versions."""


@pytest.fixture
def table(request, tmp_path):
    with tarfile.open(DATA / f"hudi-{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / request.param.partition("-")[2] / "table"


def content(folder):
    """A digest of each file of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(("table", "version"), TABLES.items(), indirect=["table"])
def test_rows_are_those_that_hudi_reads(table, version):
    facts = independent.source_facts(table)
    assert facts.version == version
    assert facts.record_key == ("uuid",)
    found = independent.rows(table)
    expected = pq.read_table(table.parent / "expected.parquet")
    columns = ["_hoodie_record_key", "_hoodie_partition_path", "ts", "id", "city", "fare", "paid"]
    order = [(name, "ascending") for name in columns[:2]]
    ours, hudis = (rows.select(columns).sort_by(order).to_pylist() for rows in (found, expected))
    assert ours == hudis


@pytest.mark.parametrize("table", ["1.1.1-own", "1.2.0-own_merge_on_read"], indirect=True)
def test_places_are_those_of_the_files(table):
    located = independent.locations(table).to_pydict()
    assert len(located["record_key"]) == len(set(located["record_key"]))
    key = located["record_key"][7]
    (row,) = independent.find(table, key, ["uuid", "dt"])
    assert row["uuid"] == key
    assert row["dt"] == located["partition_path"][7]


def test_only_a_merge_on_read_table_has_log_files(tmp_path):
    held = {}
    for name in ("1.1.1-own", "1.2.0-own_merge_on_read"):
        with tarfile.open(DATA / f"hudi-{name}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        slices = independent.slices(tmp_path / name.partition("-")[2] / "table")
        held[name] = sum(bool(part.logs) for part in slices)
    assert held["1.1.1-own"] == 0
    assert held["1.2.0-own_merge_on_read"] > 0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("hudi")
@pytest.mark.parametrize(
    ("table", "engine"),
    [("1.2.0-own_merge_on_read", "hudi@1.2.0")],
    indirect=["table"],
)
def test_a_release_measures_copies_and_leaves_the_source(table, engine, tmp_path):
    if missing := jars.missing_bundle(hudi_version(engine)):
        pytest.skip(missing)
    before = content(table)
    command = [sys.executable, str(ROOT / "run_bench.py"), "run", "ci", "--json"]
    command += ["--engine", engine, "--index", "record", "--out", str(tmp_path / "run")]
    sets = (
        f"table.source={table}",
        "schedule.repetitions=1",
        "schedule.warmups=0",
        "workload.lookup_present=50",
        "workload.lookup_absent=0",
        "spark.conf.spark.driver.memory=1g",
    )
    command += [word for each in sets for word in ("--set", each)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"] is True
    assert content(table) == before
    notes = json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
    is_upgraded = independent.facts(table).version < table_version(engine)
    assert is_upgraded == any("with its first write, as it does by default" in n for n in notes)
