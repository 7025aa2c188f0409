"""Real deltalake and pyiceberg; skipped by name where an environment was not made.

`keymark engine install` makes them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from format_streams import play
from harness_fakes import SMALL

from keymark.harness.engines import engine_indexes
from keymark.harness.engines.formats import ROW_ORDER
from keymark.harness.engines.libraries.engine import LibraryEngine
from keymark.harness.engines.libraries.environments import missing_environment
from keymark.harness.engines.libraries.names import LIBRARIES, LibraryName, pinned
from keymark.harness.engines.libraries.process import LibraryProcess
from keymark.harness.tables.table_folders import LocalTables

ROOT = Path(__file__).parents[2]
NAMES = [LibraryName(library, pinned(library)[-1]) for library in LIBRARIES]
STREAMS = 6

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("libraries")]


def title(name):
    return f"{name.library}@{name.version}"


def skip_without(name):
    missing = missing_environment(name)
    if missing:
        pytest.skip(missing)


@pytest.fixture(params=NAMES, ids=title)
def name(request):
    skip_without(request.param)
    return request.param


@pytest.fixture
def engine(name, tmp_path):
    process = LibraryProcess(name, work=tmp_path, cores=2, memory=4_000_000_000)
    process.start()
    yield LibraryEngine(name, process, LocalTables(), work=tmp_path)
    process.close()


def test_random_streams_end_in_the_truth(engine, name, tmp_path):
    [mode] = engine_indexes(title(name))
    wrong = []
    for seed in range(STREAMS):
        wrong += play(engine, mode, tmp_path, seed, compacts=name.library != "pyiceberg")
    assert wrong == []


def test_ordered_tables_hold_the_same_rows(engine, name, tmp_path):
    """In every order that a library makes; pyiceberg makes none."""
    [mode] = engine_indexes(title(name))
    wrong = []
    for order in name.orders:
        for seed in range(2):
            options = {ROW_ORDER: order}
            wrong += play(engine, mode, tmp_path / order, seed, options=options)
    assert wrong == []


def run(folder, *words, sets=()):
    command = [sys.executable, str(ROOT / "run_bench.py"), "run", *words, "--json"]
    command += ["--out", "run", *(word for each in sets for word in ("--set", each))]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


OWN = """
name = "own"
engines = ["native", "{engine}"]
indexes = ["record", "{mode}"]
[engine_indexes]
native = ["record"]
"{engine}" = ["{mode}"]
[dataset]
delete_rows = 20
[dataset.settings]
late = 5
duplicates = 5
moves = 3
[table.options]
"hoodie.datasource.write.payload.class" = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
"hoodie.record.index.update.partition.path" = "true"
[workload]
column_query = "city"
"""


@pytest.mark.spark
def test_a_library_is_measured_and_verified_beside_native(name, tmp_path):
    engine, [mode] = title(name), engine_indexes(title(name))
    (tmp_path / "own.toml").write_text(OWN.format(engine=engine, mode=mode))
    done = run(tmp_path, "own.toml", sets=[*SMALL, "schedule.repetitions=2"])
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verified"] is True
    cells = {cell["cell"]: cell["metrics"] for cell in summary["cells"]}
    assert cells.keys() == {"native/record", f"{engine}/{mode}"}
    found = {(m["step"], m["phase"], m["metric"]): m["median"] for m in cells[f"{engine}/{mode}"]}
    steps = (
        "bulk_insert",
        "upsert_1",
        "upsert_2",
        "delete",
        "lookup",
        "point_query",
        "column_query",
    )
    assert all(found[step, "total", "wall_s"] > 0 for step in steps)
    assert (
        found["upsert_1", "total", "bytes_written"] > found["upsert_1", "commit", "bytes_written"]
    )
    assert found["upsert_1", "total", "rows_written"] >= 200
    for phase in ("prepare", "tag", "write", "commit"):
        assert ("upsert_1", phase, "wall_s") in found
    assert not any(metric in ("tasks", "shuffle_write_bytes") for _, _, metric in found)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["processes"][engine]["versions"][name.library] == name.version


@pytest.mark.spark
def test_a_cell_that_takes_too_much_memory_is_a_result_and_the_run_goes_on(name, tmp_path):
    """With 300 MB neither library loads 240 MB of rows."""
    engine, [mode] = title(name), engine_indexes(title(name))
    (tmp_path / "own.toml").write_text(OWN.format(engine=engine, mode=mode))
    sets = [*SMALL, "schedule.repetitions=1", "schedule.memory_gb=0.3", "dataset.rows=60000"]
    sets += ["dataset.payload_bytes=4000"]
    done = run(tmp_path, "own.toml", sets=sets)
    assert done.returncode == 0, done.stderr
    assert f"ENDED {engine}/{mode}: " in done.stderr
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["failed"], list(record["ended"])) == ({}, [f"{engine}/{mode}"])
    assert "out of memory at 60,000 rows: " in record["ended"][f"{engine}/{mode}"]
    assert "(schedule.memory_gb)" in record["ended"][f"{engine}/{mode}"]
    assert json.loads(done.stdout)["verified"] is True
    lines = (tmp_path / "run" / "samples.jsonl").read_text().splitlines()
    ended = [each for each in map(json.loads, lines) if "out of memory" in each["reason"]]
    assert ended
    assert all(not each["valid"] for each in ended)


@pytest.mark.spark
def test_a_library_that_is_not_there_is_left_out_and_the_rest_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    told = missing_environment(NAMES[0])
    engine, [mode] = title(NAMES[0]), engine_indexes(title(NAMES[0]))
    (tmp_path / "own.toml").write_text(OWN.format(engine=engine, mode=mode))
    done = run(tmp_path, "own.toml", sets=[*SMALL, "schedule.repetitions=1"])
    assert done.returncode == 0, done.stderr
    assert f"SKIPPED {engine}: {told}" in done.stderr
    assert [cell["engine"] for cell in json.loads(done.stdout)["cells"]] == ["native"]
