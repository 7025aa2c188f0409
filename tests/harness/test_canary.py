from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from harness_fakes import SAMPLE

from keymark.harness.engines.bare import BareEngine
from keymark.harness.engines.native import NativeEngine
from keymark.harness.measure import canary as module
from keymark.harness.measure import event_log, processor_time
from keymark.harness.measure.canary import COST, FIRST, HASHINGS, Canary
from keymark.harness.measure.counters import counter_samples, unfinished
from keymark.harness.measure.event_log import Counters, StepCounters
from keymark.harness.measure.log_cost import LogClock
from keymark.harness.measure.processor_time import Spent
from keymark.harness.measure.session import SparkRuntime
from keymark.harness.run.cell import samples as lines_of
from keymark.harness.run.step import WHOLE, Step, StepResult
from keymark.harness.scenario.matrix import Cell, Trial
from keymark.harness.store.results import Beat
from keymark.harness.store.store import RunFolder
from keymark.harness.tables.table_folders import LocalTables

BEAT = Beat(
    at=1.0, before="a|r0", cpu_s=0.01, disk_s=0.02, memory_s=0.03, load_1m=1.5, mhz=2100.0,
    steal_s=0.0,
)  # fmt: skip


class Clock:
    """Seconds that pass only when told to, or by a little with each look."""

    def __init__(self, each: float) -> None:
        self.now, self.each = 0.0, each

    def __call__(self) -> float:
        self.now += self.each
        return self.now


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "run")


def canary(folder, clock):
    scratch = folder.path / "scratch"
    return Canary(folder, scratch, threads=2, clock=clock, sleep=lambda _: None)


def test_a_beat_has_all_that_is_told_and_leaves_nothing_behind(folder):
    take = canary(folder, Clock(0.001)).beat
    for number in range(FIRST):
        take(f"native/record|r{number}")
    beats = folder.beats()
    assert [beat.before for beat in beats] == [f"native/record|r{n}" for n in range(FIRST)]
    assert all(min(beat.cpu_s, beat.disk_s, beat.memory_s) > 0 for beat in beats)
    assert all(beat.at > 1e9 for beat in beats)
    assert list((folder.path / "scratch").iterdir()) == []
    (line, *_) = folder.canary_file.read_text().splitlines()
    assert list(json.loads(line)) == [field.name for field in dataclasses.fields(Beat)]


def test_it_costs_a_hundredth_of_the_run_at_most(folder):
    clock = Clock(0.01)
    take = canary(folder, clock).beat
    for _ in range(2000):
        clock.now += 0.5  # a trial
        take("x")
    # A beat looks at the clock at its start, twice for each piece of work, and at its end.
    spent = 0.01 * (2 * HASHINGS + 5) * len(folder.beats())
    assert 0.9 * COST < spent / clock.now <= COST


def test_work_of_others_that_ends_soon_is_not_seen(folder, monkeypatch):
    times = iter([0.03] * (HASHINGS // 2) + [0.01] * HASHINGS)
    monkeypatch.setattr(module, "processor_work", lambda *_: next(times))
    canary(folder, Clock(0.001)).beat("x")
    assert folder.beats()[0].cpu_s == 0.01


def test_a_run_of_short_trials_still_has_some_beats(folder):
    take = canary(folder, Clock(1.0)).beat
    for _ in range(9):
        take("x")
    assert len(folder.beats()) == FIRST


def test_beats_survive_a_kill_and_damage(folder):
    folder.append_beat(BEAT)
    with folder.canary_file.open("a") as file:
        file.write(BEAT.to_json()[:-9])
    folder.append_beat(BEAT)  # joins the line that was cut off
    folder.append_beat(BEAT)
    assert folder.beats() == [BEAT, BEAT]


@pytest.mark.parametrize(
    "line",
    ["", "[]", "{}", '{"at": "x"}', BEAT.to_json().replace("0.01", "NaN"),
     BEAT.to_json().replace('"a|r0"', "3")],
    ids=["empty", "list", "nothing", "text", "nan", "number"],
)  # fmt: skip
def test_what_is_no_beat_is_left_out(folder, line):
    folder.canary_file.write_text(line + "\n")
    assert folder.beats() == []


def test_a_run_without_a_canary_has_no_beats(folder):
    assert folder.beats() == []


def test_the_last_line_of_a_slot_is_the_time_of_its_last_step():
    cell = Cell(
        cell_id="native/record",
        table_id="t",
        engine="native",
        index="record",
        options={},
        data=None,
    )
    values = {WHOLE: 1.0, ("tag", "wall_s"): 0.5, ("total", "keys"): 3.0}
    results = [StepResult(step=Step(name=name, round=1), values=values) for name in ("a", "b")]
    made = lines_of("r", Trial(cell=cell, repetition=0, warmup=False), results)
    assert [(s.step, s.phase, s.metric) for s in made[-3:]] == [
        ("b", "tag", "wall_s"),
        ("b", "total", "keys"),
        ("b", "total", "wall_s"),
    ]


@pytest.mark.parametrize("engine", ["native", "hudi@0.15.0"])
def test_counters_that_a_kill_cut_off_are_found_wherever_it_cut(engine):
    timed = [
        dataclasses.replace(SAMPLE, engine=engine, cell=f"{engine}/record", phase=phase)
        for phase in ("tag", "total")
    ]
    timed = timed if engine == "native" else timed[1:]
    label = f"{engine}/record|r0|upsert_1"
    logged = {label: StepCounters({"total": Counters(tasks=7)}, {"tag": [(1, 2)], "write": []})}
    logged = logged if engine != "native" else {label: StepCounters({"total": Counters(tasks=7)})}
    counted = list(counter_samples(timed, logged))
    for cut in range(len(counted) + 1):
        kept = [*timed, *counted[:cut]]
        torn = unfinished(kept)
        left = [sample for sample in kept if not torn(sample)]
        again = [*left, *counter_samples(left, logged)]
        assert sorted(map(repr, again)) == sorted(map(repr, [*timed, *counted]))


def process(proc: Path, pid: int, *, parent: int, ticks=(0, 0, 0, 0), command=b"java") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    values = ["R", parent, *range(9), *ticks, 20, 0]
    (folder / "stat").write_text(f"{pid} (a ) b) {' '.join(map(str, values))}")
    (folder / "cmdline").write_bytes(command)


def test_only_processes_of_this_run_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(processor_time.os, "getpid", lambda: 10)
    monkeypatch.setattr(processor_time.os, "sysconf", lambda _: 100)
    worker = b"python\0-m\0pyspark.daemon\0"
    process(tmp_path, 10, parent=1, ticks=(999, 0, 0, 0), command=worker)
    process(tmp_path, 11, parent=10, ticks=(500, 0, 0, 0))
    process(tmp_path, 12, parent=11, ticks=(1, 2, 30, 40), command=worker)
    process(tmp_path, 13, parent=12, ticks=(100, 200, 0, 0), command=worker)
    process(tmp_path, 14, parent=1, ticks=(7000, 0, 0, 0), command=worker)
    (tmp_path / "15").mkdir()  # ended while it was read
    assert processor_time.spent(tmp_path) == Spent(total=9.99 + 5.0 + 3.73, workers=3.73)


def test_where_the_system_does_not_tell_nothing_is_said(tmp_path):
    assert processor_time.spent(tmp_path) is None


def test_what_is_not_logged_has_no_counters():
    bare = dataclasses.replace(SAMPLE, engine="native@bare", cell="native@bare/record")
    assert list(counter_samples([bare], {})) == []
    assert len(list(counter_samples([SAMPLE], {}))) == 9


@pytest.mark.spark
def test_a_bare_step_leaves_nothing_in_the_event_log(spark, tmp_path):
    """Both engines of the scenario `canary` in one session whose events go to a file."""
    runtime = SparkRuntime.__new__(SparkRuntime)
    runtime.spark = spark
    context = spark.sparkContext._jsc.sc()
    jvm = spark.sparkContext._jvm
    conf = context.conf().clone().set("spark.eventLog.compress", "false")
    conf.set("spark.eventLog.rolling.enabled", "false")
    log = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "app", jvm.scala.Option.empty(), jvm.java.net.URI(tmp_path.as_uri()), conf,
        context.hadoopConfiguration(),
    )  # fmt: skip
    log.start()
    context.listenerBus().addToEventLogQueue(log)
    runtime.event_log = lambda: log
    runtime._log_clock = LogClock(jvm)
    costs = {}
    try:
        for name, engine in (("a", NativeEngine), ("b", BareEngine), ("c", NativeEngine)):
            with engine(runtime, LocalTables()).step(f"{name}|r0|upsert_1") as cost:
                spark.range(4).count()
            costs[name] = cost
    finally:
        context.listenerBus().removeListener(log)
        log.stop()
    (written,) = (path for path in tmp_path.iterdir() if not path.name.endswith(".crc"))
    assert set(event_log.read(written)) == {"a|r0|upsert_1", "c|r0|upsert_1"}
    # The log's thread is another one after it was taken away.
    assert costs["a"].seconds > 0
    assert costs["b"] is None
    assert costs["c"].seconds > 0
