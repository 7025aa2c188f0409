"""Keymark's own tables started from one load, beside tables that loaded themselves."""

from __future__ import annotations

import hashlib
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from keymark.harness.engines.native import NativeEngine
from keymark.harness.errors import HarnessError
from keymark.harness.run import cell as cells
from keymark.harness.run.checks import check_loads
from keymark.harness.run.context import RunContext
from keymark.harness.run.inputs import write_inputs
from keymark.harness.run.notes import notes
from keymark.harness.run.workload import steps
from keymark.harness.scenario import matrix, scenario
from keymark.harness.tables.table_folders import LocalTables

TINY = (
    "dataset.rows=300",
    "dataset.partitions=2",
    "dataset.batch_rows=40",
    "dataset.delete_rows=10",
    "workload.rounds=1",
    "workload.lookup_present=30",
    "workload.lookup_absent=10",
    "indexes=['record','global_simple','global_bloom']",
    "table.shared_load=true",
    "dataset.load_files=false",
)


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.spark
def test_a_started_table_answers_exactly_as_one_that_loaded_itself(tmp_path, spark):
    resolved = scenario.load("ci", sets=TINY)
    inputs = write_inputs(spark, resolved, tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").glob("*/load")] == []
    runtime = SimpleNamespace(spark=spark, step=lambda _label: nullcontext())
    tools = {
        name: RunContext(
            inputs=next(iter(inputs.values())),
            engines={"native": NativeEngine(runtime, LocalTables())},
            work=tmp_path / name,
            source=None,
            clock=time.perf_counter,
        )
        for name in ("own", "shared")
    }
    schedule = matrix.Schedule.of(matrix.expand(resolved), resolved)
    loaded, *started = (trial for trial in schedule.load_trials())
    assert cells.load(tools["shared"], loaded).mistake is None
    kept = cells.snapshot_path(tools["shared"], loaded.cell)
    before = contents(kept)
    for trial in started:
        builds = schedule.builds(trial.cell)
        built = cells.start(tools["shared"], trial, loaded.cell, builds=builds)
        assert (built is None) == (trial.cell.index == "global_bloom")
        assert built is None or built.mistake is None
        assert cells.load(tools["own"], trial).mistake is None
        answers = [answer(context, trial.cell) for context in tools.values()]
        assert answers[0] == answers[1]
        results = cells.repeat(tools["shared"], trial, steps(resolved.workload))
        assert {result.mistake for result in results} == {None}
        path = cells.snapshot_path(tools["shared"], trial.cell)
        for file in kept.rglob("*.parquet"):
            if ".hoodie" not in file.parts:
                assert (path / file.relative_to(kept)).samefile(file)
    assert contents(kept) == before


def answer(context, cell):
    """Places of keys, rows, and what the table says about its index."""
    path = cells.snapshot_path(context, cell)
    table = context.engines["native"].open(path, index=cell.index, options=cell.options)
    keys = context.inputs.lookup_keys().column("record_key").combine_chunks()
    rows = sorted(tuple(row)[5:] for row in table.read().collect())
    facts = {
        name: value
        for name, value in table.config.properties.items()
        if value and ("index" in name or "metadata" in name)
    }
    # The instant is that of the load, which is another one.
    places = table.lookup(keys).drop_columns(["instant_time"]).to_pylist()
    return places, rows, facts, table.info().index


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        (["engines=['native','hudi@0.15.0']", "table.shared_load=false"], "hudi@0.15.0/record is"),
        (["engines=['hudi@0.15.0']"], "hudi@0.15.0/record is loaded from files"),
        (["engines=['native','hudi@0.15.0']", "indexes=['record','bucket']"], "0.15.0/bucket is"),
    ],
)
def test_an_engine_that_loads_from_files_must_have_them(sets, told):
    with pytest.raises(HarnessError, match=told):
        check_loads(scenario.load("ci", sets=[*TINY, *sets]))


def test_what_starts_from_keymarks_load_needs_no_files_and_the_report_says_so():
    resolved = scenario.load("ci", sets=[*TINY, "engines=['native','hudi@0.15.0']"])
    check_loads(resolved)
    told = [note for note in notes(resolved, {}) if note.startswith("Loads made their rows")]
    assert len(told) == 1
    assert not any("Loads made" in note for note in notes(scenario.load("ci"), {}))


class Noting(NativeEngine):
    """Notes how many rows it is given."""

    def hold_rows(self, df, /):
        self.held = [*getattr(self, "held", []), df.count()]
        return df


@pytest.mark.spark
@pytest.mark.parametrize(("rounds", "rows"), [(0, 300), (1, 40)])
def test_a_table_warms_up_with_rows_of_the_load_where_there_is_no_batch(
    tmp_path, spark, rounds, rows
):
    sets = [*TINY, f"workload.rounds={rounds}", "workload.delete=false"]
    resolved = scenario.load("ci", sets=sets)
    [inputs] = write_inputs(spark, resolved, tmp_path / "data").values()
    runtime = SimpleNamespace(spark=spark, step=lambda _label: nullcontext())
    engine = Noting(runtime, LocalTables())
    context = RunContext(
        inputs=inputs,
        engines={"native": engine},
        work=tmp_path / "work",
        source=None,
        clock=time.perf_counter,
    )
    cells.warm_load(context, matrix.expand(resolved)[0], None, all_steps=True)
    assert engine.held == [rows, rows]
    assert not list((tmp_path / "work").rglob("*.parquet"))
