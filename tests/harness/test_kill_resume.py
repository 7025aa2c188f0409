"""A run that is killed at any point is resumed without a missing or a doubled sample."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from harness_fakes import FakeEngine, Quiet
from killed_runs import SETS, NoSpark, measured_sizes, write_inputs

from keymark.harness.errors import CellError, RunFolderError
from keymark.harness.run import bench
from keymark.harness.run.request import Request, _opened
from keymark.harness.scenario import scenario
from keymark.harness.store.store import RunFolder

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_twenty_kills_at_random_points_lose_and_double_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "tests/harness/killed_runs.py", str(tmp_path), "20", "7"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["kills"], told["missing"], told["doubled"], told["strange"]) == (20, 0, 0, 0)
    assert told["samples"] > 1000
    # Some came early, some late, and runs came to their ends in between.
    assert min(told["points"]) < 0.2
    assert max(told["points"]) > 0.6
    assert told["runs"] > 1


def request(out):
    return Request(scenario=scenario.load("ci"), out=out, resume=True)


@pytest.mark.parametrize("left", [[], ["events"], ["events", "samples.jsonl", ".run.json.tmp"]])
def test_a_run_killed_before_it_began_is_begun_anew(tmp_path, left):
    for name in left:
        (tmp_path / name).mkdir() if name == "events" else (tmp_path / name).touch()
    if left[2:]:
        (tmp_path / left[2]).write_text('{"schema_ver')
    folder, record = _opened(request(tmp_path))
    assert folder.samples() == []
    assert record.run_id


@pytest.mark.parametrize("name", ["notes.txt", "samples.jsonl"])
def test_what_is_no_run_is_not_taken_for_one(tmp_path, name):
    (tmp_path / name).write_text("mine\n")
    with pytest.raises(RunFolderError, match=r"no run\.json"):
        _opened(request(tmp_path))
    with pytest.raises(RunFolderError, match="not empty"):
        RunFolder.create(tmp_path)


def test_a_run_from_a_repository_has_no_empty_folders(tmp_path):
    folder, record = _opened(Request(scenario=scenario.load("ci"), out=tmp_path / "run"))
    folder.write_record(record)
    folder.events.rmdir()
    again, _ = _opened(request(tmp_path / "run"))
    assert again.events.is_dir()


def test_a_table_that_could_not_be_loaded_again_fails_no_later_run(tmp_path, monkeypatch):
    """Its load was measured before: where the disk is full now, its cells are tried again."""
    monkeypatch.setattr(bench, "EnginePool", NoSpark)
    monkeypatch.setattr(bench, "write_inputs", write_inputs)
    monkeypatch.setattr(bench, "measured_sizes", measured_sizes)
    monkeypatch.setattr(bench, "check", lambda _: "begin")
    out = tmp_path / "run"

    def failed(repetitions):
        resolved = scenario.load("quickstart", sets=[*SETS, f"schedule.repetitions={repetitions}"])
        bench.run(Request(scenario=resolved, out=out, resume=out.exists()), Quiet())
        return RunFolder.open(out).read_record().failed

    def full(*_args, **_options):
        raise CellError("no space left on device")

    assert failed(1) == {}
    with monkeypatch.context() as disk:
        disk.setattr(FakeEngine, "create", full)
        assert failed(2)
    assert failed(2) == {}
    samples = RunFolder.open(out).samples()
    assert all(sample.verified for sample in samples)
    loads = Counter((s.cell, s.phase, s.metric) for s in samples if s.step == "bulk_insert")
    assert set(loads.values()) == {1}
