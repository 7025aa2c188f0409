"""Real releases of Hudi as engines; skipped by name where a bundle is not in the cache."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness_fakes import SMALL

from keymark.harness.engines import engine_indexes, hudi_version, jars, table_version

ROOT = Path(__file__).parents[2]
PHASES = ("tag", "write", "index", "total")  # 1.1 commits without a Spark stage
SETS = [*SMALL, "schedule.repetitions=1"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("hudi")]


def skip_without(engine):
    missing = jars.missing_bundle(hudi_version(engine))
    if missing:
        pytest.skip(missing)


@pytest.mark.parametrize("engine", ["hudi@0.15.0", "hudi@1.1.1-v6"])
def test_a_release_is_measured_and_verified_beside_native(tmp_path, engine):
    skip_without(engine)
    command = [sys.executable, str(ROOT / "run_bench.py"), "run", "hudi_vs_native", "--json"]
    command += ["--engine", "native", "--engine", engine, "--out", "run"]
    command += [word for each in SETS for word in ("--set", each)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verified"] is True
    cells = {(cell["engine"], cell["index"]): cell["metrics"] for cell in summary["cells"]}
    assert set(cells) == {(e, i) for e in ("native", engine) for i in ("record", "global_simple")}
    for index in ("record", "global_simple"):
        found, native = (
            {
                (each["step"], each["phase"], each["metric"]): each["median"]
                for each in cells[name, index]
            }
            for name in (engine, "native")
        )
        for step in ("bulk_insert", "upsert_1"):
            files = step, "total", "files_written"
            assert found[files] == native[files]
        times = [found["upsert_1", phase, "wall_s"] for phase in PHASES]
        assert all(value > 0 for value in times)
        assert sum(times[:-1]) < times[-1]
        assert found["upsert_1", "tag", "shuffle_write_bytes"] > 0
        assert found["upsert_1", "write", "tasks"] >= 3
        assert found["lookup", "total", "keys"] == 80
        assert found["point_query", "total", "files_read"] == (1 if index == "record" else 6)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["skipped"] == {}
    assert run["processes"][engine]["conf"]["spark.sql.extensions"].startswith("org.apache")


OWN = """
name = "own"
engines = ["{engine}"]
indexes = {indexes}
[table.variants.cow]
[table.variants.mor]
"hoodie.datasource.write.table.type" = "MERGE_ON_READ"
[table.variant_engines]
cow = ["{engine}"]
mor = ["{engine}"]
[table.variant_indexes]
cow = ["{first}"]
[workload]
rounds = 1
lookup_absent = 0
merge_on_read = ["mor"]
"""


@pytest.mark.parametrize(
    ("engine", "tables", "indexes"),
    [
        ("hudi@1.2.0", "9", ["record", "partitioned_record"]),
        ("hudi@1.2.0", "9", ["simple"]),
        ("hudi@1.0.2", "8", ["record", "partitioned_record", "simple"]),
    ],
)
def test_tables_of_a_releases_own_version_are_verified(tmp_path, engine, tables, indexes):
    skip_without(engine)
    first = indexes[0]
    own = OWN.format(engine=engine, indexes=json.dumps(indexes), first=first)
    (tmp_path / "own.toml").write_text(own)
    sets = [*SETS, "dataset.delete_rows=5", "workload.lookup_absent=0"]
    command = [sys.executable, str(ROOT / "run_bench.py"), "run", "own.toml", "--json"]
    command += ["--out", "run", *(word for each in sets for word in ("--set", each))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verified"] is True
    cells = {cell["cell"]: {each["step"] for each in cell["metrics"]} for cell in summary["cells"]}
    held = [index for index in indexes if index in engine_indexes(engine)]
    assert cells.keys() == {f"{engine}/{first}/cow", *(f"{engine}/{each}/mor" for each in held)}
    assert "compact_rows" in cells[f"{engine}/{first}/mor"]
    assert "compact_rows" not in cells[f"{engine}/{first}/cow"]
    assert table_version(engine) == int(tables)


def test_compaction_is_on_the_bill_as_a_step_or_inside_of_an_upsert(tmp_path):
    skip_without("hudi@1.2.0")
    command = [sys.executable, str(ROOT / "run_bench.py"), "run", "compaction", "--json"]
    own = ["dataset.delete_rows=5", "workload.rounds=5", "workload.upkeep_every=2"]
    sets = [*SETS, *own, "workload.lookup_present=0", "workload.lookup_absent=0"]
    command += ["--out", "run", *(word for each in sets for word in ("--set", each))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verified"] is True
    written = {
        cell["cell"].rpartition("/")[2]: {
            each["step"]: each["median"]
            for each in cell["metrics"]
            if (each["phase"], each["metric"]) == ("total", "bytes_written")
        }
        for cell in summary["cells"]
    }
    assert {"compact_rows_2", "compact_rows_4", "compact_rows"} <= written["scheduled"].keys()
    assert "compact_rows_2" not in written["inline"]
    assert "compact_rows" not in written["cow"]
    # Hudi compacts after five delta commits that follow the load.
    assert written["inline"]["upsert_5"] > 1.5 * written["inline"]["upsert_4"]
    bills = {
        (each["cell"].rpartition("/")[2], each["measure"])
        for each in summary["compactions"][summary["run_id"]]
    }
    assert {("cow", "bill"), ("scheduled", "bill"), ("inline", "bill")} <= bills


def measured(path, scenario, *sets):
    """Run a scenario with Hudi 1.2.0; its numbers by cell, step, phase and metric."""
    skip_without("hudi@1.2.0")
    command = [sys.executable, str(ROOT / "run_bench.py"), "run", scenario, "--json"]
    command += ["--engine", "hudi@1.2.0", "--out", "run"]
    given = [*SETS, "dataset.delete_rows=5", "workload.lookup_absent=0", *sets]
    command += [word for each in given for word in ("--set", each)]
    done = subprocess.run(command, cwd=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verified"] is True
    return {
        (cell["cell"].removeprefix("hudi@1.2.0/"), each["step"], each["phase"], each["metric"]): (
            each["median"]
        )
        for cell in summary["cells"]
        for each in cell["metrics"]
    }


def test_a_secondary_index_is_a_query_path_and_costs_each_write(tmp_path):
    # As many drivers as rows: the rows of one are in few files, and statistics leave none out.
    found = measured(tmp_path, "secondary_index", "dataset.settings.columns.driver.size=2000")
    read, written = (
        {
            variant: found[f"record/{variant}", step, "total", metric]
            for variant in ("default", "no_statistics", "secondary")
        }
        for step, metric in (("column_query", "files_read"), ("upsert_1", "bytes_written"))
    )
    assert read["secondary"] < read["default"] <= read["no_statistics"]
    assert written["secondary"] > written["default"] > written["no_statistics"]
    told = (tmp_path / "run" / "report" / "variants.md").read_text()
    assert "- secondary: beside default; changed: " in told


CONSISTENT = """
name = "own"
indexes = ["consistent_bucket"]
[workload]
rounds = 2
"""


def test_consistent_buckets_are_verified(tmp_path):
    (tmp_path / "own.toml").write_text(CONSISTENT)
    found = measured(tmp_path, "own.toml")
    steps = {step for cell, step, _, _ in found if cell == "consistent_bucket"}
    assert steps >= {"bulk_insert", "upsert_1", "upsert_2", "delete", "lookup", "point_query"}


def test_a_release_that_is_not_there_is_left_out_and_the_rest_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    command = [sys.executable, "run_bench.py", "run", "ci", "--json", "--index", "record"]
    command += ["--engine", "native", "--engine", "hudi@0.15.0", "--out", str(tmp_path / "run")]
    command += [word for each in [*SETS, "dataset.delete_rows=5"] for word in ("--set", each)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"SKIPPED hudi@0.15.0: {jars.missing_bundle('0.15.0')}" in done.stderr
    assert [cell["engine"] for cell in json.loads(done.stdout)["cells"]] == ["native"]
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert list(run["skipped"]) == ["hudi@0.15.0"]
