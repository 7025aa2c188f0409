"""The machine's noise before the first step of a run, seen by a canary that is made up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from harness_fakes import Quiet
from job_cases import job
from test_canary import BEAT

from keymark import cli
from keymark.harness.errors import HarnessError
from keymark.harness.measure import noise_check
from keymark.harness.measure.environment import busy_core_seconds
from keymark.harness.measure.noise_check import POLL_S, Noise, NoiseCheck
from keymark.harness.run import bench
from keymark.harness.run.request import Request
from keymark.harness.scenario import scenario
from keymark.harness.store.run_record import RunRecord
from keymark.harness.store.store import RunFolder


class Machine:
    """Its canary varies by these shares, one after the other; time passes only by sleeping."""

    def __init__(self, *shares: float, taken: float = 0.0) -> None:
        self.noises = [Noise(varied=share, taken=taken) for share in shares]
        self.now, self.slept = 0.0, []

    def check(self, wait_s=None) -> NoiseCheck:
        return NoiseCheck(
            wait_s=wait_s,
            noise=lambda _: self.noises.pop(0),
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def earlier_run(path, seconds) -> None:
    """A run whose canary took these seconds."""
    folder = RunFolder.create(path)
    for each in seconds:
        folder.append_beat(replace(BEAT, cpu_s=each))


def test_on_a_quiet_machine_nothing_is_said(tmp_path):
    told = Quiet()
    Machine(0.03).check(60.0).warn_or_wait(told, threads=2, runs=tmp_path)
    assert (told.begun, told.warned) == ([], [])


def test_a_noisy_machine_is_told_at_once_and_the_run_begins(tmp_path):
    earlier_run(tmp_path / "quiet", [0.100, 0.101, 0.102, 0.103] * 5)
    earlier_run(tmp_path / "busy", [0.1, 0.2] * 10)
    earlier_run(tmp_path / "short", [0.1] * 3)
    (tmp_path / "none").mkdir()
    told = Quiet()
    Machine(0.14).check().warn_or_wait(told, threads=2, runs=tmp_path)
    assert told.begun == []
    (line,) = told.warned
    assert line == (
        "the machine is too noisy for this: the time of the same small work varies by 14 % "
        "(against 3 % in the quietest of the runs beside this one); --when-quiet 30m waits until "
        "it is quiet"
    )


def test_where_no_run_is_beside_it_the_limit_is_told(tmp_path):
    told = Quiet()
    Machine(0.14).check().warn_or_wait(told, threads=2, runs=tmp_path / "none")
    assert "varies by 14 % (reports warn from 10 % on);" in told.warned[0]


def test_a_program_that_takes_a_core_all_the_time_is_told_as_well(tmp_path):
    told = Quiet()
    Machine(0.01, taken=0.5).check().warn_or_wait(told, threads=2, runs=tmp_path)
    assert "too noisy for this: other programs take 50 % of its cores; --when" in told.warned[0]
    Machine(0.2, taken=0.5).check().warn_or_wait(told, threads=2, runs=tmp_path)
    assert "from 10 % on), and other programs take 50 % of its cores;" in told.warned[1]


def test_it_waits_until_the_machine_is_quiet_and_says_so_in_one_line(tmp_path):
    told, machine = Quiet(), Machine(0.66, 0.3, 0.04)
    machine.check(1800.0).warn_or_wait(told, threads=2, runs=tmp_path)
    assert machine.slept == [POLL_S, POLL_S]
    assert told.warned == []
    (line,) = told.begun
    assert "varies by 66 %" in line
    assert line.endswith("; waiting for at most 30 min")


def test_it_does_not_wait_for_ever(tmp_path):
    machine = Machine(0.66, 0.5, 0.4)
    with pytest.raises(HarnessError, match=r"not quiet within 40 s: .* varies by 40 %") as error:
        machine.check(40.0).warn_or_wait(Quiet(), threads=2, runs=tmp_path)
    assert machine.slept == [POLL_S, 10.0]
    assert "\n" not in str(error.value)


def test_the_canary_is_asked_as_often_as_is_said(monkeypatch):
    taken, slept = iter([9.0, *([1.0, 1.2] * 10)]), []
    monkeypatch.setattr(noise_check, "processor_work", lambda *_: next(taken))
    monkeypatch.setattr(noise_check.time, "sleep", slept.append)
    assert noise_check.noise_now(2).varied == pytest.approx(0.2 / 1.1)
    assert next(taken, None) is None
    assert sum(slept) == pytest.approx(2.0)


@pytest.mark.parametrize(("threads", "taken"), [(4, 0.25), (3, 0.0), (2, 0.0)])
def test_only_cores_that_the_run_needs_count_as_taken(monkeypatch, threads, taken):
    """Of four cores another program has one: for ten seconds, of which this process used none."""
    monkeypatch.setattr(noise_check, "processor_work", lambda *_: 1.0)
    monkeypatch.setattr(noise_check.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(noise_check, "busy_core_seconds", iter([100.0, 110.0]).__next__)
    monkeypatch.setattr(noise_check.time, "sleep", lambda _: None)
    monkeypatch.setattr(noise_check.time, "process_time", lambda: 5.0)
    monkeypatch.setattr(noise_check.time, "perf_counter", iter([50.0, 60.0]).__next__)
    assert noise_check.noise_now(threads) == Noise(varied=0.0, taken=taken)


def test_the_cores_of_this_machine_are_busy():
    before = busy_core_seconds()
    noise_check.processor_work(2, noise_check.time.perf_counter)
    assert 0 <= before <= busy_core_seconds()


def test_the_real_work_takes_time():
    assert noise_check.processor_work(2, noise_check.time.perf_counter) > 0


MAPPINGS = (
    "dataset.rows=20000",
    "dataset.partitions=2",
    "table.file_rows=5000",
    "workload.lookup_present=20",
    "workload.lookup_absent=20",
    "schedule.repetitions=1",
)


def mappings(out, noise) -> Request:
    return Request(scenario=scenario.load("mappings", sets=MAPPINGS), out=out, noise=noise)


def test_a_run_looks_before_its_first_step(tmp_path):
    told = Quiet()
    finished = bench.run(mappings(tmp_path / "run", Machine(0.3).check()), told)
    assert finished.failed == {}
    assert len(told.warned) == 1


def test_a_run_that_waited_in_vain_leaves_no_folder(tmp_path):
    with pytest.raises(HarnessError, match="--when-quiet"):
        bench.run(mappings(tmp_path / "run", Machine(0.3, 0.3).check(5.0)), Quiet())
    assert not (tmp_path / "run").exists()


def test_the_time_of_waiting_is_none_of_the_runs(tmp_path):
    asked = mappings(tmp_path / "run", Machine(0.3, 0.01).check(90.0))
    old = RunRecord(started="2026-01-01T10:00:00+00:00")
    assert asked.begin_when_quiet(old, Quiet(), threads=2).started > old.started
    again, resumed = replace(asked, noise=Machine(0.01).check()), old.but(sessions=2)
    assert again.begin_when_quiet(resumed, Quiet(), threads=2).started == old.started


@pytest.mark.parametrize("words", [[], ["--when-quiet", "1s"]])
def test_the_command_line_warns_or_waits(capsys, tmp_path, monkeypatch, words):
    taken = iter([1.0, 1.5] * 1000)
    monkeypatch.setattr(noise_check, "processor_work", lambda *_: next(taken))
    monkeypatch.setattr(noise_check, "_PAUSE_S", 0)
    out = tmp_path / "run"
    code = cli.main(["run", str(job(tmp_path, repetitions=1)), "--out", str(out), *words])
    lines = capsys.readouterr().err.splitlines()
    if words:
        assert code == 2
        assert lines[-1].startswith("error: --when-quiet: the machine was not quiet within 1 s:")
        assert not out.exists()
    else:
        assert code == 0
        assert [line for line in lines if line.startswith("warning: the machine is too noisy")]
        assert json.loads((out / "run.json").read_text())["status"] == "complete"
