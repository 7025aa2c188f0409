"""Tables of version 8 and 9 that Hudi made: read without Hudi, and as the source of a run."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from keymark.harness.engines import hudi_version, jars, table_version
from keymark.harness.errors import HarnessError
from keymark.harness.tables import hudi_rs, independent

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


@pytest.fixture
def unlisted(monkeypatch):
    """A hudi-rs that lists no table."""

    def refuse(path):
        raise HarnessError(f"hudi-rs cannot list {path}: source had 11 children")

    monkeypatch.setattr(hudi_rs, "slices", refuse)


@pytest.mark.parametrize(
    "table", ["1.0.2-own", "1.1.1-own", "1.2.0-own_partitioned"], indirect=True
)
def test_what_hudi_rs_cannot_list_is_listed_by_the_names_of_the_files(table, request):
    listed = {(each.group, each.instant, each.path) for each in independent.slices(table)}
    request.getfixturevalue("unlisted")
    assert {(each.group, each.instant, each.path) for each in independent.slices(table)} == listed
    assert independent.rows(table).num_rows > 1000


@pytest.mark.parametrize("table", ["1.1.1-own"], indirect=True)
@pytest.mark.usefixtures("unlisted")
def test_files_of_commits_that_are_not_complete_or_were_replaced_do_not_count(table, monkeypatch):
    timeline = table / ".hoodie" / "timeline"
    *_, last = sorted(timeline.glob("*_*.commit"))
    begin = last.name.partition("_")[0]
    before = independent.slices(table)
    written = [each for each in before if each.instant == begin]
    assert written
    last.unlink()
    kept = {each.group: each.instant for each in independent.slices(table)}
    assert all(kept.get(each.group, "") < begin for each in written)
    # A replacement that follows takes the whole group away.
    gone = before[0].group
    (timeline / f"{begin}9_{begin}99.replacecommit").touch()
    monkeypatch.setattr(hudi_rs, "replaced", lambda _: {gone: f"{begin}9"})
    assert gone not in {each.group for each in independent.slices(table)}


@pytest.mark.parametrize("table", ["1.2.0-own_merge_on_read"], indirect=True)
@pytest.mark.usefixtures("unlisted")
def test_log_files_need_hudi_rs(table):
    with pytest.raises(HarnessError, match="hudi-rs cannot list"):
        independent.slices(table)


@pytest.mark.parametrize("table", ["1.2.0-own_merge_on_read"], indirect=True)
def test_a_replaced_group_with_log_files_does_not_come_back(table, monkeypatch):
    """hudi-rs leaves it out; it is no group of log files alone."""
    whole = independent.slices(table)
    gone = next(each for each in whole if each.has_base and each.logs)
    listed = [each for each in hudi_rs.slices(table) if each.file_id != gone.file_id]
    monkeypatch.setattr(hudi_rs, "slices", lambda _: listed)
    assert independent.slices(table) == tuple(each for each in whole if each != gone)


@pytest.mark.parametrize("table", ["1.2.0-own_merge_on_read"], indirect=True)
def test_the_key_of_a_group_of_log_files_alone_is_read(table, monkeypatch):
    part = next(each for each in independent.slices(table) if each.logs)
    alone = replace(part, has_base=False, path=table / part.logs[0])
    monkeypatch.setattr(independent, "slices", lambda _: (alone,))
    assert independent.named_key(table) is None


@pytest.mark.parametrize("table", ["1.1.1-own"], indirect=True)
def test_partitions_of_a_custom_key_generator_are_refused_by_name(table):
    properties = table / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines()
    name = "hoodie.table.partition.fields="
    changed = [f"{name}dt:simple" if line.startswith(name) else line for line in lines]
    properties.write_text("\n".join(changed))
    with pytest.raises(
        HarnessError, match="has partitions by dt:simple, of a custom key generator"
    ):
        independent.source_facts(table)


def test_a_merge_on_read_table_is_a_source_from_version_8_on(tmp_path):
    for name in ("1.2.0-own_merge_on_read", "0.15.0-variants"):
        with tarfile.open(DATA / f"hudi-{name}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
    assert independent.source_facts(tmp_path / "own_merge_on_read" / "table").is_merge_on_read
    with pytest.raises(HarnessError, match="is MERGE_ON_READ of version 6; such tables are read f"):
        independent.source_facts(tmp_path / "f")


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
    [
        ("1.2.0-own_merge_on_read", "hudi@1.2.0"),
        ("1.0.2-own", "hudi@1.2.0"),
        ("1.0.2-own", "hudi@1.2.0-v8"),
        ("1.0.2-own", "hudi@1.0.2"),
        ("1.1.1-own", "hudi@1.1.1"),
        ("1.1.1-own", "hudi@1.2.0"),
    ],
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
