"""Runs of mappings: built, resumed, asked, verified and reported, without Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from harness_fakes import Quiet

from keymark import Table
from keymark.harness.errors import HarnessError, ScenarioError
from keymark.harness.measure.build_progress import BuildProgress
from keymark.harness.run import bench, mappings
from keymark.harness.run import request as request_module
from keymark.harness.run.request import Request
from keymark.harness.run.until import Widest
from keymark.harness.scenario import scenario
from keymark.harness.store.store import RunFolder
from keymark.reports.publish import publish
from keymark.table.errors import CorruptFileError, StorageError

ROOT = Path(__file__).parents[2]
SMALL = (
    "dataset.rows=50000",
    "dataset.partitions=5",
    "table.file_rows=1000",
    "workload.lookup_present=200",
    "workload.lookup_absent=200",
    "schedule.repetitions=2",
)


def request(out, *sets, **changes):
    resolved = scenario.load("mappings", sets=[*SMALL, *sets])
    return Request(scenario=resolved, out=out, **changes)


def values(folder, step):
    """Metric -> its values in the order of the repetitions."""
    found = {}
    for sample in folder.samples():
        if sample.step == step:
            assert (sample.verified, sample.phase) == (True, "total")
            found.setdefault(sample.metric, []).append(sample.value)
    return found


def test_an_index_is_built_asked_and_reported(tmp_path):
    progress = Quiet()
    finished = bench.run(request(tmp_path / "run"), progress)
    assert finished.failed == {}
    built, asked = values(finished.folder, "build"), values(finished.folder, "lookup")
    assert built["keys"] == [50_000]
    assert 20 < built["bytes_per_key"][0] < 50
    assert built["bytes_per_key"][0] == built["index_bytes"][0] / 50_000
    assert built["peak_memory_bytes"][0] > 50 << 20
    assert asked["keys"] == [400, 400]
    assert asked["shards_read"] == [10, 10]
    assert asked["keys_per_s"] == [400 / wall for wall in asked["wall_s"]]
    assert (progress.planned, progress.ended) == ([3], 3)
    assert not (tmp_path / "run" / "work").exists()
    published = publish([tmp_path / "run"])
    assert published.summary["verified"] is True
    text = (tmp_path / "run" / "summary.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| index |"))
    assert row.split("|")[2:-1] == [
        " Build ", " Lookup ", " Keys looked up ", " Index on disk ", " Index per key ",
        " Peak memory ",
    ]  # fmt: skip
    assert "table of 50,000 trips rows in 5 partitions (keys alone, without base files)" in text
    assert "a lookup of 400 keys, measured 2 times" in text
    assert " /s " in text


@pytest.mark.parametrize("harm", ["place", "absent", "lost"])
def test_one_wrong_answer_fails_the_cell(tmp_path, monkeypatch, harm):
    """The index holds another place of one key, or a key that it should not, or lacks one."""
    real = mappings.KeyTable.asked

    def asked(self, turn, present, absent):
        found, places = real(self, turn, present, absent)
        if harm == "place":
            ids = places["file_id"].to_pylist()
            ids[7] = ids[7].replace(ids[7][0], "f" if ids[7][0] != "f" else "e", 1)
            return found, places.set_column(2, "file_id", [ids])
        flags = found["expect_present"].to_pylist()
        flags[flags.index(harm == "absent")] ^= True
        found = found.set_column(1, "expect_present", [flags])
        if harm == "absent":
            gone = found["record_key"][flags.index(False)].as_py()
            places = places.filter(np.array(places["record_key"].to_pylist()) != gone)
        return found, places

    monkeypatch.setattr(mappings.KeyTable, "asked", asked)
    finished = bench.run(request(tmp_path / "run"), Quiet())
    assert list(finished.failed) == ["native/record"]
    assert finished.failed["native/record"].startswith("lookup: ")
    assert publish([tmp_path / "run"]).summary["verified"] is False


def test_a_failed_build_fails_the_cell_and_a_full_disk_ends_the_run(tmp_path, monkeypatch):
    def broken(*_):
        raise CorruptFileError("x", 0, "nothing was taken into use")

    monkeypatch.setattr(Table, "build_mappings", broken)
    finished = bench.run(request(tmp_path / "run"), Quiet())
    (reason,) = finished.failed.values()
    assert reason.startswith("build: failed: CorruptFileError: ")

    def full(*_):
        raise StorageError("cannot write x: No space left on device")

    monkeypatch.setattr(Table, "build_mappings", full)
    with pytest.raises(StorageError):
        bench.run(request(tmp_path / "full"), Quiet())
    monkeypatch.undo()
    assert (tmp_path / "full" / "work").exists()
    finished = bench.run(request(tmp_path / "full", resume=True), Quiet())
    assert finished.failed == {}
    (note,) = (note for note in finished.folder.read_record().notes if "cut off" in note)
    assert "native/record: the build was cut off once and went on" in note


def test_a_resumed_run_repeats_nothing(tmp_path, monkeypatch):
    real, turns = mappings.KeyTable.asked, []

    def dying(self, turn, present, absent):
        turns.append(turn)
        if turns == [0, 1]:
            raise KeyboardInterrupt
        return real(self, turn, present, absent)

    monkeypatch.setattr(mappings.KeyTable, "asked", dying)
    with pytest.raises(KeyboardInterrupt):
        bench.run(request(tmp_path / "run"), Quiet())
    before = RunFolder.open(tmp_path / "run").samples()
    progress = Quiet()
    finished = bench.run(request(tmp_path / "run", resume=True), progress)
    assert turns == [0, 1, 1]
    assert progress.ended == 3
    assert finished.folder.samples()[: len(before)] == before
    assert len(values(finished.folder, "build")["keys"]) == 1
    assert len(values(finished.folder, "lookup")["keys"]) == 2
    assert not any("cut off" in note for note in finished.folder.read_record().notes)
    monkeypatch.undo()
    monkeypatch.setattr(Table, "build_mappings", None)
    assert bench.run(request(tmp_path / "run", resume=True), Quiet()).failed == {}


def test_tables_of_several_sizes(tmp_path):
    sizes = request(tmp_path / "run", "dataset.sizes=[3000, 5000]", "schedule.warmups=1")
    finished = bench.run(sizes, Quiet())
    assert finished.failed == {}
    assert values(finished.folder, "build")["keys"] == [3000, 5000]
    assert len(values(finished.folder, "lookup")["keys"]) == 6
    assert publish([tmp_path / "run"]).report.growths


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path):
    """kill -9 at several moments; the run ends as one that was let alone."""
    command = [sys.executable, "run_bench.py", "run", "mappings", "--out", str(tmp_path / "run")]
    command += [word for each in SMALL for word in ("--set", each)]
    command += ["--set", "dataset.rows=300000"]
    for number in range(3):
        process = subprocess.Popen(
            [*command, *(["--resume"] if number else [])], cwd=ROOT, stderr=subprocess.PIPE
        )
        for line in process.stderr:
            if (b"shards" if number else b"building") in line:
                break
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    done = subprocess.run(
        [*command, "--resume", "--json"], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"] is True


MISTAKES = {
    "engines=['hudi@0.15.0']": "engines: native only",
    "indexes=['bucket']": "indexes: record only",
    "workload.rounds=1": "workload.rounds: 0",
    "workload.delete=true": "workload.delete: false",
    "workload.point_query=true": "workload.point_query: false",
    "workload.model_keys=[1]": "workload.model_keys: none",
    "workload.lookup_present=0": "workload.lookup_present: at least 1",
    "schedule.loads=2": "schedule.loads: 1",
    "table.source=x": "table.source: none",
}


@pytest.mark.parametrize("given", MISTAKES)
def test_what_needs_rows_is_refused(given):
    with pytest.raises(ScenarioError) as caught:
        scenario.load("mappings", sets=[given])
    assert f"{MISTAKES[given]}, with table.mappings" in caught.value.mistakes


def test_a_dataset_that_has_no_mappings_and_a_budget_are_refused(tmp_path):
    with pytest.raises(ScenarioError, match="one partition column of kind partition"):
        scenario.load("mappings", sets=["dataset.settings.partition_path=uuid"])
    with pytest.raises(HarnessError, match="--budget"):
        bench.run(request(tmp_path / "run", budget_s=5.0), Quiet())


def test_until_lookups_of_all_cells_take_turns_and_go_on(tmp_path, monkeypatch):
    sets = ["dataset.sizes=[3000, 5000]", "schedule.warmups=1"]
    widths = iter([0.3, 0.2, 0.09, 0.3, 0.09])
    found = lambda _: Widest(half_width=next(widths), what="Lookup, a to b")  # noqa: E731
    monkeypatch.setattr(request_module, "widest_of", found)
    progress = Quiet()
    finished = bench.run(request(tmp_path / "run", *sets, half_width=0.1), progress)
    samples, record = finished.folder.samples(), finished.folder.read_record()
    asked = [s for s in samples if (s.step, s.metric) == ("lookup", "wall_s") and not s.warmup]
    cells = ["native/record/rows-3000", "native/record/rows-5000"]
    for number in range(8):
        turn = {s.cell for s in asked[2 * number : 2 * number + 2] if s.repetition == number}
        assert turn == set(cells)
    assert (len(asked), record.repetitions, finished.failed) == (16, 8, {})
    assert progress.planned[-1] == progress.ended == 2 * (1 + 1 + 8)
    assert record.notes[-1].startswith("After 8 repetitions every interval is narrower than ±10 %")
    assert not (tmp_path / "run" / "work").exists()
    # A run that has ended goes on with one more, and looks.
    bench.run(request(tmp_path / "run", *sets, half_width=0.1, resume=True), Quiet())
    record = finished.folder.read_record()
    assert (record.repetitions, finished.folder.samples()[: len(samples)]) == (10, samples)
    assert record.notes[-1].startswith("After 10 repetitions")


def test_until_asks_the_statistics_of_reports(tmp_path):
    most = request(tmp_path / "run", "schedule.repetitions=7", half_width=1e-6)
    (note,) = (
        each for each in bench.run(most, Quiet()).folder.read_record().notes if "widest" in each
    )
    assert note.startswith("After 7 repetitions not every interval is narrower than ±0.0 %")
    assert note.endswith(", native/record.")


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def __call__(self):
        return self.now


def test_the_time_left_counts_all_processes(tmp_path):
    clock, said = Clock(), []
    path = tmp_path / "a" / "pace.json"
    progress = BuildProgress(path, clock, said.append)
    progress.begin()
    progress.show(0, 10, "tasks of the key scan")
    clock.now += 10
    # A seventh of the work is the scan.
    progress.show(10, 10, "tasks of the key scan")
    clock.now += 5
    progress = BuildProgress(path, clock, said.append)
    progress.begin()
    clock.now += 1
    progress.show(0, 30, "shards")
    clock.now += 10
    progress.show(10, 30, "shards")
    assert said == [
        "0 of 10 tasks of the key scan",
        "10 of 10 tasks of the key scan, about 60 s left",
        "0 of 30 shards, about 60 s left",
        "10 of 30 shards, about 28 s left",
    ]
    clock.now += 20
    progress.end()
    assert (progress.seconds, progress.starts, progress.done) == (41.0, 2, True)
    assert progress.peak > 0
    again = BuildProgress(path, Clock(), said.append)
    again.begin()
    again.end()
    assert (again.seconds, again.starts, again.peak) == (41.0, 2, progress.peak)
