"""An engine at a limit of memory or time: its cell is a result, and the run goes on."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from harness_fakes import FakeEngine, HonestTable, Taker, context, time_of

from keymark.harness.engines.libraries import process as library_process
from keymark.harness.engines.libraries.names import LibraryName
from keymark.harness.errors import CellError, LimitError
from keymark.harness.measure import counters
from keymark.harness.measure.event_log import StepCounters
from keymark.harness.run import cell as cells
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.store import RunFolder

SETS = (
    "indexes=['record','bucket']",
    "schedule.repetitions=2",
    "schedule.warmups=0",
    "workload.delete=true",
)
TOLD = "out of memory at 10 rows: it held more than 1.0 GB (schedule.memory_gb)"


class LacksMemory(HonestTable):
    """One of the two cells has too little memory for a step."""

    step = "upsert"

    def _step(self, step):
        if self.index == "bucket" and step == self.step:
            raise LimitError("it held more than 1.0 GB (schedule.memory_gb)")

    def upsert(self, df, /):
        self._step("upsert")
        return super().upsert(df)

    def bulk_insert(self, df, /):
        self._step("bulk_insert")
        return super().bulk_insert(df)


class LacksMemoryToLoad(LacksMemory):
    step = "bulk_insert"


class IsSlowToLoad(HonestTable):
    """The jobs of one of the two loads are cancelled."""

    def bulk_insert(self, df, /):
        if self.index == "bucket":
            raise RuntimeError("Job 7 cancelled as part of cancellation of all jobs")
        return super().bulk_insert(df)

    def info(self):
        assert self.rows(), "a table whose load was ended is not asked"
        return super().info()


class LimitedEngine(FakeEngine):
    """Notes how long it may take; nothing here is interrupted."""

    def __init__(self, table) -> None:
        super().__init__(table)
        self.limits: list[float] = []

    def limited(self, seconds):
        self.limits.append(seconds)
        return nullcontext()


def run(tmp_path, table, *sets, limit=None):
    resolved = scenario.load("quickstart", sets=[*SETS, *sets])
    folder = RunFolder.create(tmp_path / "run")
    tools = context(tmp_path / "work", table=table)
    if limit is not None:
        tools = replace(tools, engines={"native": LimitedEngine(table)}, trial_limit_s=limit)
    outcome = Taker(resolved, tools, folder).run(matrix.expand(resolved))
    return folder.samples(), outcome, tools, matrix.expand(resolved)


@pytest.mark.parametrize(
    ("table", "step"), [(LacksMemory, "upsert_1"), (LacksMemoryToLoad, "bulk_insert")]
)
def test_the_cell_ends_with_its_size_and_the_others_are_measured(tmp_path, table, step):
    samples, outcome, _, _ = run(tmp_path, table)
    assert outcome.failed == {}
    assert outcome.ended == {"native/bucket": f"{step}: {TOLD}"}
    ended = [sample for sample in samples if sample.reason]
    assert {(s.cell, s.step, s.valid, s.reason) for s in ended} == {
        ("native/bucket", step, False, TOLD)
    }
    assert {s.repetition for s in ended} == {0}
    assert any(TOLD in note for note in outcome.notes)
    assert {s.repetition for s in samples if s.cell == "native/record"} == {0, 1}
    assert all(s.valid and s.verified for s in samples if s.cell == "native/record")


def test_a_load_that_takes_too_long_ends_its_cell_as_a_step_does(tmp_path):
    samples, outcome, tools, expanded = run(tmp_path, IsSlowToLoad, limit=2.0)
    told = "at 10 rows: a load or a repetition takes at most 2 s (schedule.trial_minutes)"
    assert (outcome.failed, set(outcome.ended)) == ({}, {"native/bucket"})
    assert outcome.ended["native/bucket"].startswith("bulk_insert: ended after ")
    assert outcome.ended["native/bucket"].endswith(told)
    ended = [sample for sample in samples if sample.reason]
    assert {(s.cell, s.step, s.verified, s.valid) for s in ended} == {
        ("native/bucket", "bulk_insert", True, False)
    }
    assert {s.repetition for s in samples if s.cell == "native/record"} == {0, 1}
    assert not cells.is_kept(tools, expanded[1])
    # What is left of the time when the engine is called.
    assert all(left <= 2.0 for left in tools.engines["native"].limits)


def test_a_load_to_warm_up_is_limited_too(tmp_path):
    _, _, tools, _ = run(tmp_path, HonestTable, "schedule.warmups=1", limit=1e6)
    # Of the two loads to warm up all of it; of measured loads and steps what is left.
    assert tools.engines["native"].limits[:2] == [1e6, 1e6]
    assert all(left < 1e6 for left in tools.engines["native"].limits[2:])


def test_a_table_whose_load_was_ended_is_not_taken_for_a_loaded_one(tmp_path):
    _, _, tools, expanded = run(tmp_path, LacksMemoryToLoad)
    kept = {cell.cell_id: cells.is_kept(tools, cell) for cell in expanded}
    assert kept == {"native/record": True, "native/bucket": False}


def test_cells_that_share_the_table_end_with_its_load(tmp_path):
    sets = ("dataset.batches=[100,200]", "workload.rounds=1")
    _, outcome, _, _ = run(tmp_path, LacksMemoryToLoad, *sets)
    assert outcome.failed == {}
    assert set(outcome.ended) == {"native/bucket/batch-100", "native/bucket/batch-200"}
    assert set(outcome.ended.values()) == {f"bulk_insert: {TOLD}"}


class HoldsFewRows(LacksMemory):
    """The smallest of its tables takes all steps."""

    def _step(self, step):
        if "rows-10" not in str(self.path):
            super()._step(step)


class LoadsFewRows(HoldsFewRows):
    step = "bulk_insert"


@pytest.mark.parametrize(
    ("table", "untried"), [(HoldsFewRows, "upsert_1"), (LoadsFewRows, "bulk_insert")]
)
def test_larger_tables_are_not_tried_once_a_smaller_one_came_to_a_limit(tmp_path, table, untried):
    samples, outcome, _, _ = run(tmp_path, table, "dataset.sizes=[10,20,30,50]")
    assert outcome.failed == {}
    told = {name: reason for name, reason in outcome.ended.items() if "not tried" in reason}
    reason = f"{untried}: not tried, since native/bucket/rows-20 came to a limit"
    assert told == {f"native/bucket/rows-{rows}": reason for rows in (30, 50)}
    assert set(outcome.ended) == {*told, "native/bucket/rows-20"}
    assert {s.repetition for s in samples if s.cell == "native/bucket/rows-10"} == {0, 1}
    assert {s.repetition for s in samples if s.cell == "native/record/rows-50"} == {0, 1}
    of_untried = [s for s in samples if s.cell in told and s.reason]
    assert [(s.step, s.value, s.verified, s.valid) for s in of_untried] == [
        (untried, 0.0, True, False)
    ] * 2


def test_what_a_process_may_hold_and_use_is_the_scenarios(tmp_path):
    name = LibraryName("pyiceberg", "0.12.0")
    said = scenario.load("ci", sets=["schedule.memory_gb=3", "spark.master='local[1]'"])
    process = library_process.process_for(name, said, tmp_path)
    assert (process._memory, process._cores) == (3_000_000_000, 1)
    whole = library_process.process_for(name, scenario.load("ci"), tmp_path)._memory
    assert whole > 0
    assert issubclass(LimitError, CellError)


def test_an_engine_without_spark_has_no_counters_and_keeps_its_phases():
    times = [time_of("deltalake@1.6.6", "merge", phase) for phase in ("tag", "total")]
    logged = {counters.label_of(times[0]): StepCounters()}
    assert list(counters.counter_samples(times, logged)) == []
    torn = counters.unfinished(times)
    assert not any(map(torn, times))
    assert counters.unfinished([time_of("hudi@1.2.0", "merge", "tag")])(
        time_of("hudi@1.2.0", "merge", "tag")
    )


def test_times_that_an_engine_with_an_event_log_told_outlive_a_kill():
    """Delta measures some phases of a MERGE; what a kill cut off is counted anew from the log."""
    told, whole, logged = (
        time_of("delta@3.3.2", "merge", phase) for phase in ("tag", "total", "commit")
    )
    torn = counters.unfinished([told, whole, logged])
    assert [torn(each) for each in (told, whole, logged)] == [False, False, True]
