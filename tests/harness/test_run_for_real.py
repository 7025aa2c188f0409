"""A tiny scenario through the real command line: Spark, tables, event log, report."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "tests" / "data" / "hudi-0.15.0-record_index.tar.gz"
INDEXES = ["record", "global_simple", "global_bloom", "bucket"]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def bench(out, *arguments, scenario="ci"):
    """Run `ci` in small, or a file; its exit code, the JSON document and what it said."""
    command = [sys.executable, "run_bench.py", "run", scenario, "--json", "--out", str(out)]
    sets = ["dataset.rows=400", "dataset.batch_rows=60", "dataset.delete_rows=20"]
    sets += ["workload.lookup_present=50", "workload.lookup_absent=20"]
    command += [word for each in sets if scenario == "ci" for word in ("--set", each)]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout), done.stderr


def metrics(summary):
    return {
        (cell["index"], each["step"], each["phase"], each["metric"]): each["median"]
        for cell in summary["cells"]
        for each in cell["metrics"]
    }


def test_four_indexes_are_measured_verified_and_reported(tmp_path):
    sets = ("workload.column_query=driver", "workload.lookup_few=7")
    code, summary, said = bench(
        tmp_path / "run", *(word for each in sets for word in ("--set", each))
    )
    assert code == 0, said
    assert summary["verified"] is True
    assert [cell["index"] for cell in summary["cells"]] == INDEXES
    found = metrics(summary)
    for index in INDEXES:
        for phase in ("tag", "write", "index", "commit", "total"):
            assert found[index, "upsert_1", phase, "wall_s"] >= 0
        assert found[index, "upsert_1", "total", "keys"] == 60
        assert found[index, "upsert_1", "total", "files_written"] > 0
        assert found[index, "bulk_insert", "write", "tasks"] > 0
        assert found[index, "lookup", "total", "keys"] == 70
    for step in ("point_query", "point_query_spark"):
        assert found["record", step, "total", "files_read"] == 1
    assert found["record", "lookup_few", "total", "keys"] == 7
    assert found["record", "column_query", "total", "keys"] >= 1
    assert found["record", "upsert_1", "total", "index_bytes"] > 0
    assert (tmp_path / "run" / "report" / "index.html").is_file()
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert info["synced"] == {"native": "files and folders"}
    assert not (tmp_path / "run" / "work").exists()


def test_virtual_keys_are_verified_against_keys_that_the_harness_makes(tmp_path):
    sets = {
        "table.variants.stored": "{}",
        "table.variants.virtual.hoodie.populate.meta.fields": "false",
        "dataset.shapes.several.record_key": "\"['city', 'uuid']\"",
        "dataset.shapes.several.columns.city.fixed": "true",
        "dataset.shapes.several.columns.uuid.kind": "sequence",
        "schedule.repetitions": "2",
    }
    given = [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
    code, summary, said = bench(tmp_path / "run", *given, "--index", "record", "--index", "bucket")
    assert code == 0, said
    assert summary["verified"] is True
    found = next(iter(summary["virtual_keys"].values()))
    assert [(each["index"], each["shape"]) for each in found] == [
        ("record", "several"),
        ("bucket", "several"),
    ]
    assert all(each["saved"] > 0 for each in found)
    queries = {"point_query", "point_query_spark"}
    assert set(found[0]["ratios"]) == {"write_latency", "tag", "lookup", *queries}


def contents(folder):
    return {
        path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_run_starts_from_a_table_of_hudis_and_leaves_it_as_it_was(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / "record_index" / "table"
    before = contents(source)
    code, summary, said = bench(tmp_path / "run", "--set", f"table.source={source}")
    assert code == 0, said
    assert [cell["index"] for cell in summary["cells"] if cell["verified"]] == INDEXES
    assert contents(source) == before
    found = metrics(summary)
    sizes = {index: found[index, "upsert_1", "total", "index_bytes"] for index in INDEXES}
    assert {index for index, size in sizes.items() if size} == {"record"}
    notes = json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
    assert any(note.startswith("native/bucket") and "bulk-inserted" in note for note in notes)


def test_a_run_takes_rows_of_the_users_own(tmp_path):
    folder = tmp_path / "orders"
    folder.mkdir()
    lines = [f"{number:05},2026-01-0{number % 3 + 1},{number}" for number in range(300)]
    (folder / "part.csv").write_text("\n".join(["id,dt,amount", *lines, ""]))
    scenario = tmp_path / "own.toml"
    scenario.write_text(
        """
        indexes = ["record", "global_bloom"]
        [dataset]
        batch_rows = 40
        delete_rows = 10
        source = { path = "orders", record_key = ["id"], partition_path = ["dt"] }
        [workload]
        rounds = 1
        lookup_present = 20
        lookup_absent = 10
        [schedule]
        repetitions = 1
        warmups = 0
        """
    )
    before = contents(folder)
    code, summary, said = bench(tmp_path / "run", scenario=str(scenario))
    assert code == 0, said
    assert [cell["index"] for cell in summary["cells"] if cell["verified"]] == INDEXES[:3:2]
    found = metrics(summary)
    assert found["record", "bulk_insert", "total", "keys"] == 300
    assert found["record", "upsert_1", "total", "keys"] == 40
    assert contents(folder) == before
    notes = json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
    assert any("orders (csv), which was only read; the column keymark_ordering" in n for n in notes)


def test_a_run_along_all_axes_loads_each_table_once(tmp_path):
    axes = {
        "dataset.batches": "[40, 80]",
        "dataset.shapes.random": "{}",
        "dataset.shapes.grown.columns.uuid.kind": "uuid7",
        "schedule.warm": "index",
    }
    sets = [word for key, value in axes.items() for word in ("--set", f"{key}={value}")]
    code, summary, said = bench(tmp_path / "run", "--index", "global_bloom", *sets)
    assert code == 0, said
    assert summary["verified"] is True
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    asked = [(cell["shape"], cell["rows"], cell["batch"]) for cell in info["cells"]]
    assert asked == [(shape, 400, batch) for shape in ("random", "grown") for batch in (40, 80)]
    lines = (tmp_path / "run" / "samples.jsonl").read_text().splitlines()
    keys = {
        (each["cell"].removeprefix("native/global_bloom/"), each["step"]): each["value"]
        for each in map(json.loads, lines)
        if each["metric"] == "keys" and not each["warmup"]
    }
    loads = {cell for cell, step in keys if step == "bulk_insert"}
    assert loads == {"shape-random/batch-40", "shape-grown/batch-40"}
    assert keys["shape-grown/batch-40", "upsert_1"] == 40
    assert keys["shape-grown/batch-80", "upsert_1"] == 80
    told = [json.loads(line)["metric"] for line in lines]
    assert told.count("candidates") == told.count("false_positives") == 4 + 1


FEW = {
    "dataset.batch_rows": "60",
    "workload.lookup_present": "50",
    "workload.lookup_absent": "20",
    "schedule.repetitions": "1",
    "schedule.warmups": "0",
}
SMALL = {
    "block_size": {"dataset.rows": "4000", "table.file_rows": "400"},
    "bootstrap": {"dataset.sizes": "[300, 600]", "table.variants": "{}"},
    "gdpr_delete": {"dataset.rows": "600", "dataset.delete_rows": "20", "indexes": "['record']"},
    "lookup": {"dataset.sizes": "[300, 600]", "indexes": "['global_bloom']"},
    "scaling": {"dataset.rows": "600", "table.variants": "{}"},
}
STEPS = {
    "block_size": ["build", "lookup"],
    "bootstrap": ["bulk_insert", "build_index", "lookup"],
    "gdpr_delete": [
        *("bulk_insert", "upsert_1", "null_columns", "delete", "purge"),
        *("lookup", "point_query", "point_query_spark"),
    ],
    "lookup": ["bulk_insert", "lookup", "lookup_again"],
    "scaling": ["bulk_insert", "upsert_1", "lookup"],
}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_an_experiment_in_small(tmp_path, name):
    """Those that take steps, masters or options which no other test of a whole run does."""
    sets = {**FEW, **SMALL[name]}
    given = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    code, summary, said = bench(tmp_path / "run", *given, scenario=name)
    assert code == 0, said
    assert summary["verified"] is True
    for cell in summary["cells"]:
        found = dict.fromkeys(each["step"] for each in cell["metrics"])
        assert [step for step in found if step in STEPS[name]] == STEPS[name]
