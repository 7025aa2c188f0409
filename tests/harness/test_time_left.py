"""The time left of a run, where a cell takes far longer than another."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from harness_fakes import SAMPLE, HonestTable, Quiet, Taker, context
from job_cases import job, say

from keymark.harness import cli
from keymark.harness.run.time_left import TimeLeft, TrialKind, duration
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.store import RunFolder

UPSERT, ONCE = frozenset({"upsert_1"}), frozenset({"upsert_1", "spread"})


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def take(left, clock, kind, seconds):
    left.begin()
    clock.now += seconds
    left.end(kind)


def wall(cell, step, seconds, **changes):
    return replace(
        SAMPLE, cell=cell, step=step, phase="total", metric="wall_s", value=seconds, **changes
    )


def test_nothing_is_told_before_anything_is_known(clock):
    left = TimeLeft(clock)
    left.plan([TrialKind("native/record", UPSERT)])
    assert left.seconds() is None


def test_a_slow_cell_counts_by_its_own_time(clock):
    left = TimeLeft(clock)
    slow, fast = TrialKind("hudi@0.15.0/simple", UPSERT), TrialKind("native/bucket", UPSERT)
    left.plan([slow, fast] * 3)
    take(left, clock, slow, 1200.0)
    take(left, clock, fast, 2.0)
    assert left.seconds() == 2 * 1200 + 2 * 2
    # Warm caches: the last trial of a cell tells more than those before.
    take(left, clock, slow, 1000.0)
    assert left.seconds() == 1000 + 2 * 2
    assert left.seconds(failed={slow.cell}) == 2 * 2


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        (TrialKind("hudi@1.2.0/simple/rows-100", UPSERT), 30.0),
        # With a step that is taken once, nearest is the cell itself.
        (TrialKind("hudi@1.2.0/simple/rows-100", ONCE), 30.0),
        (TrialKind("hudi@1.2.0/simple/rows-900", UPSERT), (30 + 50) / 2),
        (TrialKind("hudi@1.2.0/record/rows-100", UPSERT), (30 + 50 + 100) / 3),
        (TrialKind("hudi@1.2.0/record/rows-100", ONCE), (30 + 50 + 100) / 3),
        (TrialKind("hudi@0.15.0/record", UPSERT), (30 + 50 + 100 + 4) / 4),
        # Loads are like loads.
        (TrialKind("hudi@1.2.0/simple/rows-100"), 7.0),
    ],
)
def test_a_cell_without_a_time_takes_that_of_its_neighbours(clock, kind, seconds):
    left = TimeLeft(clock)
    for cell, took in (("simple/rows-100", 30), ("simple/rows-500", 50), ("bloom/rows-100", 100)):
        take(left, clock, TrialKind(f"hudi@1.2.0/{cell}", UPSERT), took)
    take(left, clock, TrialKind("native/record", UPSERT), 4)
    take(left, clock, TrialKind("native/record"), 7)
    left.plan([kind])
    assert left.seconds() == pytest.approx(seconds)


def test_before_any_repetition_loads_are_all_that_is_known(clock):
    left = TimeLeft(clock)
    take(left, clock, TrialKind("native/record"), 7)
    record = TrialKind("native/record", UPSERT)
    left.plan([record, record])
    assert (left.seconds(), left.unknown()) == (14, ["each repetition"])
    assert left.unknown(failed={record.cell}) == []
    take(left, clock, record, 60)
    assert (left.seconds(), left.unknown()) == (60, [])


def test_an_engine_that_was_not_seen_yet_is_named(clock):
    left = TimeLeft(clock)
    take(left, clock, TrialKind("native/record", UPSERT), 7)
    hudi = [TrialKind(f"hudi@1.2.0/{index}", UPSERT) for index in ("record", "simple")]
    left.plan([TrialKind("native/record", UPSERT), *hudi])
    assert left.unknown() == ["hudi@1.2.0"]
    assert left.unknown(failed={each.cell for each in hudi}) == []
    take(left, clock, hudi[0], 90)
    assert left.unknown() == []


def test_its_time_is_told_as_a_guess(capsys):
    with cli.Shown() as shown:
        shown.begin("loading", 200.0, ["hudi@1.2.0"])
        shown.begin("loading", 200.0)
    told = capsys.readouterr().err
    assert "(3 min left if hudi@1.2.0 took as long as what was measured)" in told
    assert "(about 3 min left)" in told


def test_samples_tell_what_another_process_took(clock):
    left = TimeLeft(clock)
    found = [
        wall("native/record", "bulk_insert", 60.0, warmup=False, repetition=0),
        wall("native/record", "upsert_1", 9.0, warmup=True, repetition=0),
        wall("native/record", "lookup", 1.0, warmup=True, repetition=0),
        wall("native/record", "upsert_1", 5.0, warmup=False, repetition=0),
        replace(wall("native/record", "upsert_1", 5.0, repetition=0), phase="tag"),
        wall("native/record", "lookup", 0.5, warmup=False, repetition=0),
    ]
    left.learn(found, {"bulk_insert"})
    steps = frozenset({"upsert_1", "lookup"})
    left.plan([TrialKind("native/record"), TrialKind("native/record", steps)])
    assert left.seconds() == 60 + 5.5


def run(tmp_path, progress, *, earlier=()):
    steps = ("workload.rounds=2", "workload.delete=true", "schedule.repetitions=2")
    resolved = scenario.load("quickstart", sets=["indexes=['record','bucket']", *steps])
    folder = RunFolder.create(tmp_path / "run")
    tools = context(tmp_path / "work", table=HonestTable)
    taker = Taker(resolved, tools, folder, progress, earlier=earlier)
    assert taker.run(matrix.expand(resolved)).failed == {}
    return folder.samples()


def test_a_run_tells_the_time_left_with_each_trial(tmp_path):
    first = Quiet()
    samples = run(tmp_path / "a", first)
    # Nothing is known before the first load has ended.
    known = [left is not None for left in first.left]
    assert known == sorted(known)
    assert known[-1]
    again = Quiet()
    run(tmp_path / "b", again, earlier=samples)
    assert None not in again.left
    walls = [each for each in samples if (each.phase, each.metric) == ("total", "wall_s")]
    last = {(each.cell, each.step): each.value for each in walls}
    loads = sum(value for (_, step), value in last.items() if step == "bulk_insert")
    # A warm-up and two repetitions of each cell.
    assert again.left[0] == loads + 3 * (sum(last.values()) - loads)


def test_a_job_tells_it_too(capsys, tmp_path):
    _, told = say(capsys, "run", job(tmp_path, repetitions=2), "--out", tmp_path / "run")
    lines = [line for line in told.splitlines() if "repetition" in line]
    assert lines[0] == "[0/2] job/nightly: repetition 1"
    assert re.fullmatch(r"\[1/2\] job/nightly: repetition 2 \(about \d+ s left\)", lines[1])


def test_durations_for_readers():
    assert [duration(s) for s in (4.4, 99, 100, 5999, 6001)] == [
        "4 s", "99 s", "2 min", "100 min", "1.7 h",
    ]  # fmt: skip
