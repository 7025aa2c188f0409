"""Keymark's own engine without Spark: its tables in a process, its limits, a run of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness_fakes import SMALL, time_of

from keymark.datasets.generate.digest import RowsDigest
from keymark.harness.engines import WITHOUT_SPARK, is_native, is_without_spark
from keymark.harness.engines.base import Layout
from keymark.harness.engines.without_spark import WithoutSparkEngine, WithoutSparkProcess
from keymark.harness.errors import LimitError
from keymark.harness.measure.counters import counter_samples
from keymark.harness.measure.environment import synced
from keymark.harness.run import notes
from keymark.harness.scenario import scenario
from keymark.harness.tables.table_folders import LocalTables
from keymark.table.index.protocol import LookupStats
from keymark.table.properties.options import EVENT_TIME_PAYLOAD, PAYLOAD_CLASS

ROOT = Path(__file__).parents[2]
LAYOUT = Layout(name="t", record_key=("k",), partition_path=("dt",), ordering="ts")
OPTIONS = {PAYLOAD_CLASS: EVENT_TIME_PAYLOAD}
COLUMNS = ("k", "dt", "ts", "v")


class Frame:
    """A data frame that was read from one file."""

    def __init__(self, path: Path, rows: list[tuple[str, str, int, float]]) -> None:
        self.path = path
        columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
        pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), path)

    def inputFiles(self):  # noqa: N802 - PySpark's name
        return [self.path.as_uri()]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    work = tmp_path_factory.mktemp("without_spark")
    process = WithoutSparkProcess(WITHOUT_SPARK, work=work, cores=1, memory=8_000_000_000)
    said = process.start()
    assert said["conf"] == {"cores": "1", "memory": "8000000000"}
    assert said["versions"]["pyarrow"] == pa.__version__
    yield WithoutSparkEngine(process, LocalTables())
    process.close()


def test_tables_are_written_and_read_without_spark(engine, tmp_path):
    path = tmp_path / "a table"
    table = engine.create(path, LAYOUT, index="record", options=OPTIONS)
    load = [("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 5, 3.0), ("d", "y", 1, 4.0)]
    loaded = table.bulk_insert(engine.hold_rows(Frame(tmp_path / "load.parquet", load)))
    assert loaded.files_written == 2
    # The row of `c` is older than the stored one.
    batch = [("b", "x", 2, 20.0), ("c", "y", 4, 30.0), ("e", "x", 1, 5.0)]
    written = table.upsert(engine.hold_rows(Frame(tmp_path / "batch.parquet", batch)))
    assert {"tag", "write", "index", "commit"} <= set(written.phases)
    table.delete(engine.hold_rows(Frame(tmp_path / "gone.parquet", load[3:])))

    opened = engine.open(path, index="record", options=OPTIONS)
    expected = [("a", "x", 1, 1.0), ("b", "x", 2, 20.0), ("c", "y", 5, 3.0), ("e", "x", 1, 5.0)]
    rows = pa.table(dict(zip(COLUMNS, map(list, zip(*expected, strict=True)), strict=True)))
    digest = RowsDigest.of(rows, sorted(COLUMNS))
    assert engine.digest(opened.read(), COLUMNS) == (4, digest.hex)
    assert (opened.info().index, opened.check().ok) == ("record", True)

    asked, stats = pa.array(["e", "d", "nowhere"]), LookupStats()
    engine.hold_keys(asked, opened)
    places = engine.answer(opened.lookup(None, stats=stats), asked)
    assert places["record_key"].to_pylist() == ["e", "d", "nowhere"]
    assert places["partition_path"].to_pylist() == ["x", None, None]
    assert stats.shards_read > 0

    one = opened.read(keys=["b"])
    assert [row.asDict()["v"] for row in one.collect()] == [20.0]
    assert len(one.inputFiles()) == 1
    some = opened.read(where="v >= 3.0 AND v < 20.0")
    assert sorted(row.asDict()["k"] for row in some.collect()) == ["c", "e"]
    chosen = opened.read(where="k IN ('a', 'c')")
    assert sorted(row.asDict()["k"] for row in chosen.collect()) == ["a", "c"]


def test_a_process_at_its_memory_limit_is_ended_and_named(tmp_path):
    process = WithoutSparkProcess(WITHOUT_SPARK, work=tmp_path, cores=1, memory=20_000_000)
    told = r"^native@without-spark held more than 0\.0 GB \(schedule\.memory_gb\)$"
    with pytest.raises(LimitError, match=told):
        process.start()
    process.close()


def test_it_is_keymark_without_a_session_and_without_counters():
    assert is_native(WITHOUT_SPARK)
    assert is_without_spark(WITHOUT_SPARK)
    assert is_without_spark("pyiceberg@0.12.0")
    assert not is_without_spark("native")
    assert synced(WITHOUT_SPARK, {}, remote=False) == synced("native", {}, remote=False)
    asked = scenario.load("ci", overrides={"engines": ["native", WITHOUT_SPARK]})
    (told,) = (note for note in notes.notes(asked, {}) if note.startswith("Without Spark"))
    assert told.endswith(f": {WITHOUT_SPARK}.")
    assert list(counter_samples([time_of(WITHOUT_SPARK, "record")], {})) == []


OWN = f"""
name = "own"
engines = ["native", "{WITHOUT_SPARK}"]
indexes = ["record", "global_simple"]
[dataset]
delete_rows = 20
[dataset.settings]
late = 5
duplicates = 5
moves = 3
[table.options]
"{PAYLOAD_CLASS}" = "{EVENT_TIME_PAYLOAD}"
"hoodie.record.index.update.partition.path" = "true"
"hoodie.simple.index.update.partition.path" = "true"
[workload]
range_query = "fare"
"""


@pytest.mark.spark
def test_a_run_measures_it_beside_native(tmp_path):
    (tmp_path / "own.toml").write_text(OWN)
    command = [sys.executable, str(ROOT / "run_bench.py"), "run", "own.toml", "--json"]
    command += ["--out", "run", *(word for each in SMALL for word in ("--set", each))]
    command += ["--set", "schedule.repetitions=1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verified"] is True
    cells = {cell["cell"]: cell["metrics"] for cell in summary["cells"]}
    assert set(cells) == {
        f"{engine}/{index}"
        for engine in ("native", WITHOUT_SPARK)
        for index in ("record", "global_simple")
    }
    told = {(m["step"], m["phase"], m["metric"]) for m in cells[f"{WITHOUT_SPARK}/record"]}
    assert ("upsert_1", "write", "wall_s") in told
    assert ("range_query", "total", "wall_s") in told
    assert not any(metric == "tasks" for _, _, metric in told)
