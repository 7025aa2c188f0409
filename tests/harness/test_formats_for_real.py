"""Delta and Iceberg for real; skipped by name where their jars are not in the cache."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from format_streams import Files, local, play
from harness_fakes import SMALL

from keymark.harness.engines import engine_indexes, format_name
from keymark.harness.engines.base import Layout
from keymark.harness.engines.format_engine import FormatEngine
from keymark.harness.engines.format_jars import missing_jars
from keymark.harness.engines.format_process import FormatProcess
from keymark.harness.engines.formats import ROW_ORDER
from keymark.harness.errors import CellError
from keymark.harness.scenario.workload_section import SparkSection
from keymark.harness.tables import independent

ROOT = Path(__file__).parents[2]
DELTA, ICEBERG = "delta@3.3.2", "iceberg@1.10.0"
STREAMS = 1
ROWS = Layout(name="t", record_key=("k",), partition_path=("dt",), ordering=None)
POSTPONING = ("merge_dv", "merge_mor")
"""Modes that leave the rewriting of files to a compaction."""

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("formats")]


def rows():
    """Keys that come in no order, in two partitions."""
    numbers = [(7919 * at) % 1000 for at in range(1000)]
    return pa.table(
        {"k": [f"{each:04d}" for each in numbers], "dt": [str(each % 2) for each in numbers]}
    )


def skip_without(*engines):
    for name in engines:
        if missing := missing_jars(name):
            pytest.skip(missing)


@pytest.fixture(scope="module", params=[DELTA, ICEBERG])
def opened(request, tmp_path_factory):
    """An engine with its process."""
    skip_without(request.param)
    folder = tmp_path_factory.mktemp("formats")
    events = folder / "events"
    events.mkdir()
    section = SparkSection(conf={"spark.driver.memory": "1g"})
    process = FormatProcess(request.param, section=section, events=events, work=folder)
    process.start()
    yield request.param, FormatEngine(request.param, process, local()), folder
    process.close()


def test_random_change_streams_end_in_the_rows_that_the_generator_says(opened):
    name, engine, folder = opened
    found = []
    for mode in engine_indexes(name):
        for seed in range(STREAMS):
            found += play(engine, mode, folder / mode, seed)
    assert found == []


def test_ordered_tables_hold_the_same_rows(opened):
    """Loads and compactions in every order that the format makes."""
    name, engine, folder = opened
    mode, found = engine_indexes(name)[-1], []
    for order in format_name(name).release.orders:
        options = {ROW_ORDER: order}
        found += play(engine, mode, folder / order / mode, 0, options=options)
        loaded = engine.create(folder / order / "ns" / "t", ROWS, index=mode, options=options)
        loaded.bulk_insert(engine.hold_rows(Files(folder / order / "rows.parquet", rows())))
        slices = independent.slices(folder / order / "ns" / "t")
        keys = [each.of_format.read(["k"])["k"].to_pylist() for each in slices]
        assert sum(map(len, keys)) == len(rows())
        if name == ICEBERG:
            assert all(each == sorted(each) for each in keys)
    assert found == []


def test_a_formats_own_error_is_one_line(opened, tmp_path):
    name, engine, _ = opened
    layout = Layout(name="t", record_key=("k",), partition_path=(), ordering=None)
    table = engine.create(tmp_path / "ns" / "t", layout, index=engine_indexes(name)[0], options={})
    with pytest.raises(CellError) as caught:
        table.read(where="nothing").collect()
    assert "\n" not in str(caught.value)


SETS = [
    *SMALL,
    "dataset.delete_rows=20",
    "schedule.repetitions=1",
    "workload.rounds=2",
    "workload.read_every=1",
    "workload.upkeep_every=1",
    "workload.lookup_absent=0",
    "workload.range_width=20",
    # Each format with rows of one shape: the engine's code is the same for both.
    'dataset.shape_indexes.hot=["record","merge_dv"]',
    'dataset.shape_indexes.spread=["record","merge_mor"]',
]


def test_the_scenario_is_measured_and_verified_beside_native(tmp_path):
    skip_without(DELTA, ICEBERG)
    command = [sys.executable, str(ROOT / "run_bench.py"), "run", "formats", "--json"]
    command += [word for each in ("native", DELTA, ICEBERG) for word in ("--engine", each)]
    command += [word for each in ("record", *POSTPONING) for word in ("--index", each)]
    command += ["--out", "run", *(word for each in SETS for word in ("--set", each))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verified"] is True
    cells = {cell["cell"]: cell["metrics"] for cell in summary["cells"]}
    modes = zip((DELTA, ICEBERG), POSTPONING, strict=True)
    for shape, (name, postponing) in zip(("hot", "spread"), modes, strict=True):
        for engine, mode in (("native", "record"), (name, postponing)):
            found = {
                (each["step"], each["phase"], each["metric"]): each["median"]
                for each in cells[f"{engine}/{mode}/defaults/shape-{shape}"]
            }
            assert found["point_query_1", "total", "keys"] == 1
            assert (("point_query_spark", "total", "wall_s") in found) == (engine == "native")
            assert ("point_query_spark_1", "total", "wall_s") not in found
            assert found["range_query", "total", "keys"] >= 1
            assert found["lookup", "total", "keys"] == 60
            assert found["upsert_2", "total", "files_written"] >= 1
            assert found["upsert_2", "total", "rows_written"] >= 200
            assert found["upsert_2", "write", "bytes_written"] > 0
            assert ("compact_rows_1", "total", "wall_s") not in found
            assert found["upsert_2", "write", "wall_s"] > 0
            assert found["upsert_2", "total", "tasks"] > 0
        kept = {each["step"] for each in cells[f"{name}/{postponing}/kept/shape-{shape}"]}
        assert "compact_rows_1" in kept
        assert "compact_rows_2" not in kept


def test_an_engine_without_its_jars_is_left_out_and_the_rest_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    command = [sys.executable, "run_bench.py", "run", "ci", "--json", "--index", "record"]
    command += ["--engine", "native", "--engine", DELTA, "--out", str(tmp_path / "run")]
    small = [*SMALL, "schedule.repetitions=1", "dataset.delete_rows=5"]
    command += [word for each in small for word in ("--set", each)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"SKIPPED {DELTA}: {missing_jars(DELTA)}" in done.stderr
    assert [cell["engine"] for cell in json.loads(done.stdout)["cells"]] == ["native"]
