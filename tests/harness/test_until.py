"""Repetitions until intervals are narrow, and ended runs that go on with more repetitions."""

from __future__ import annotations

import json
from dataclasses import replace

import killed_runs
import pytest
from harness_fakes import Quiet, Taker, context

from keymark.harness import cli
from keymark.harness.errors import HarnessError, RunFolderError
from keymark.harness.run import bench
from keymark.harness.run.request import Request
from keymark.harness.run.until import Until, Widest, percent, widest_of
from keymark.harness.scenario import matrix, scenario
from keymark.harness.store.store import RunFolder

SMALL = ("indexes=['record','bucket']", "workload.rounds=2", "workload.delete=true")


class Widths:
    """What is found between repetitions, one after the other; the last one stays."""

    def __init__(self, *found):
        self.found, self.asked = list(found), 0

    def __call__(self):
        self.asked += 1
        width = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        return None if width is None else Widest(half_width=width, what="Upsert batch, a to b")


def take(tmp_path, widths, *, most=60, folder=None):
    """Take repetitions until the widths are below a tenth."""
    resolved = scenario.load("quickstart", sets=[*SMALL, "schedule.warmups=0"])
    folder = folder or RunFolder.create(tmp_path / "run")
    progress = Quiet()
    taker = Taker(resolved, context(tmp_path / "work"), folder, progress)
    until = Until(half_width=0.1, most=most, widest=widths)
    return taker.run(matrix.expand(resolved), until=until), progress, folder


def test_repetitions_are_taken_until_the_widest_interval_is_narrow(tmp_path):
    widths = Widths(0.3, 0.125, 0.09)
    outcome, progress, folder = take(tmp_path, widths)
    assert (outcome.repetitions, widths.asked) == (8, 3)
    counted = {s.repetition for s in folder.samples() if s.step == "upsert_1"}
    assert counted == set(range(8))
    assert progress.begun[-1] == "native/record: repetition 8; the widest interval is ±12 %"
    assert "native/record: repetition 6" in progress.begun
    assert outcome.notes[-1] == (
        "After 8 repetitions every interval is narrower than ±10 %; the widest is ±9.0 %: "
        "Upsert batch, a to b."
    )
    assert progress.planned[-1] == progress.ended == 2 + 8 * 2


def test_a_run_whose_intervals_stay_wide_ends_anyway(tmp_path):
    outcome, _, _ = take(tmp_path, Widths(0.2), most=9)
    assert outcome.repetitions == 9
    assert "not every interval is narrower than ±10 %; the widest is ±20 %" in outcome.notes[-1]


def test_a_run_without_a_headline_takes_the_least(tmp_path):
    outcome, _, _ = take(tmp_path / "none", Widths(None))
    assert outcome.repetitions == 6
    assert not any("interval" in note for note in outcome.notes)


def test_a_run_that_goes_on_looks_after_one_more_repetition(tmp_path):
    _, _, folder = take(tmp_path, Widths(0.2, 0.05))
    before = folder.samples()
    widths = Widths(0.2, 0.05)
    outcome, _, _ = take(tmp_path, widths, folder=folder)
    assert (outcome.repetitions, widths.asked) == (9, 2)
    assert folder.samples()[: len(before)] == before
    outcome, _, _ = take(tmp_path, Widths(0.2), most=7, folder=folder)
    assert outcome.repetitions == 9


@pytest.fixture
def without_spark(monkeypatch):
    """`bench.run` on tables without Spark."""
    monkeypatch.setattr(bench, "EnginePool", killed_runs.NoSpark)
    monkeypatch.setattr(bench, "write_inputs", killed_runs.write_inputs)
    monkeypatch.setattr(bench, "measured_sizes", killed_runs.measured_sizes)
    monkeypatch.setattr(bench, "check", lambda _: "begin")


def asked(out, repetitions, **changes):
    sets = [*SMALL, f"schedule.repetitions={repetitions}"]
    return Request(scenario=scenario.load("quickstart", sets=sets), out=out, **changes)


def digest(folder):
    document = json.loads(folder.info_file.read_text())
    return document["digest"], folder.digest(document)


@pytest.mark.usefixtures("without_spark")
def test_an_ended_run_goes_on_with_more_repetitions(tmp_path, monkeypatch):
    out = tmp_path / "run"
    folder = bench.run(asked(out, 2), Quiet()).folder
    before, first = folder.samples(), digest(folder)[0]
    monkeypatch.setattr("sys.argv", ["keymark", "run", "quickstart", "--resume"])
    bench.run(asked(out, 4, resume=True), Quiet())
    record, samples = folder.read_record(), folder.samples()
    assert samples[: len(before)] == before
    whole = [s for s in samples if (s.phase, s.metric) == ("total", "wall_s")]
    taken = [(s.cell, s.step, s.repetition) for s in whole]
    assert {number for _, step, number in taken if step == "upsert_1"} == {0, 1, 2, 3}
    assert len([each for each in taken if each[1] == "bulk_insert"]) == 2
    assert (record.repetitions, record.sessions, record.status) == (4, 2, "complete")
    assert record.scenario.schedule.repetitions == 4
    assert record.command == ["keymark", "run", "quickstart", "--resume"]
    now, right = digest(folder)
    assert now == right != first
    with pytest.raises(
        RunFolderError, match=r"schedule\.repetitions=4; it is resumed with as many"
    ):
        bench.run(asked(out, 3, resume=True), Quiet())
    other = scenario.load("quickstart", sets=[*SMALL, "dataset.seed=9"])
    with pytest.raises(RunFolderError, match="another scenario"):
        bench.run(replace(asked(out, 5, resume=True), scenario=other), Quiet())


@pytest.mark.usefixtures("without_spark")
def test_a_run_asks_the_statistics_of_reports(tmp_path):
    """Times of stand-ins vary by more than a thousandth."""
    finished = bench.run(asked(tmp_path / "run", 7, half_width=0.001), Quiet())
    record = finished.folder.read_record()
    assert record.repetitions == 7
    (note,) = (each for each in record.notes if "the widest is" in each)
    assert note.startswith("After 7 repetitions not every interval is narrower than ±0.1 %; ")
    assert widest_of(finished.folder.path).half_width > 0.001
    # Without it, none of them are taken again, and their number stays.
    bench.run(asked(tmp_path / "run", 7, resume=True), Quiet())
    assert finished.folder.read_record().repetitions == 7


def test_a_folder_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(HarnessError, match=r"the intervals of .* are not known: .*no run\.json"):
        widest_of(tmp_path)


def test_the_option_is_a_share():
    assert cli.parse_share("--until", "10%") == 0.1
    assert cli.parse_share("--until", "2.5 %") == 0.025
    assert cli.parse_share("--until", None) is None
    for wrong in ("10", "0%", "100%", "x"):
        with pytest.raises(HarnessError, match="expected a share like 10%"):
            cli.parse_share("--until", wrong)
    assert percent(0.004) == "±0.4 %"
