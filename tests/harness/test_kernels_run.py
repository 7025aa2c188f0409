"""The kernels of two revisions in turns; pytest itself is replaced where it would take long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keymark.harness.engines import revisions
from keymark.harness.errors import HarnessError
from keymark.harness.measure import kernels
from keymark.harness.measure.noise_check import Noise, NoiseCheck
from keymark.harness.store.store import RunFolder

ENGINES = ("native@aaaaaaaaaaaa", "native@worktree")


class Silent:
    def plan(self, trials):
        pass

    def begin(self, what, left_s=None):
        pass

    def end(self):
        pass

    def warn(self, what):
        pass


@pytest.fixture
def turns(tmp_path, monkeypatch):
    """The roots of the processes that were started, in their order."""
    started = []

    def checkout(name):
        return revisions.Checkout(root=tmp_path / name, python=Path(sys.executable))

    def stand_in(command, *, cwd, env, **_):
        started.append(Path(env["PYTHONPATH"]).name)
        told = {option.partition("=")[0]: option.partition("=")[2] for option in command}
        assert (cwd / kernels.SUITE.name).exists()
        # pytest would look for them from its own working folder.
        paths = ("--rootdir", "--benchmark-json", "--junitxml")
        assert all(Path(told[name]).is_absolute() for name in paths)
        found = [
            {"name": "test_write", "group": "hfile", "stats": {"median": 0.25}},
            {"name": "test_add", "group": "bloom", "stats": {"median": 0.5}},
        ]
        failed = '<testcase name="test_add"><failure message="assert 1&#10;more"/></testcase>'
        if len(started) == 5:
            Path(told["--benchmark-json"]).write_text("cut off")
            return subprocess.CompletedProcess(command, 4, stdout="ImportError: x\n", stderr="")
        Path(told["--benchmark-json"]).write_text(json.dumps({"benchmarks": found}))
        text = failed if started[-1].endswith("worktree") else ""
        Path(told["--junitxml"]).write_text(f"<testsuites>{text}</testsuites>")
        return subprocess.CompletedProcess(command, 0, stdout="", stderr="")

    monkeypatch.setattr(revisions, "checkout", checkout)
    monkeypatch.setattr(kernels.subprocess, "run", stand_in)
    monkeypatch.setattr(kernels.environment, "machine", dict)
    return started


def test_sides_take_turns_and_a_run_goes_on(tmp_path, turns, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.create(Path("run"))
    with pytest.raises(HarnessError, match="kernels of native@aaaaaaaaaaaa: ImportError: x"):
        kernels.measure(ENGINES, folder, Silent(), 3)
    assert folder.read_record().status == "running"
    kernels.measure(ENGINES, folder, Silent(), 3)
    base, other = ENGINES
    assert turns == [base, other, other, base, base, base, other]
    assert folder.read_record().status == "complete"
    found = folder.samples()
    assert len(found) == 12
    assert {(s.cell, s.step, s.value, s.verified, s.reason) for s in found} == {
        (f"{base}/hfile", "write", 0.25, True, ""),
        (f"{base}/bloom", "add", 0.5, True, ""),
        (f"{other}/hfile", "write", 0.25, True, ""),
        (f"{other}/bloom", "add", 0.5, False, "assert 1"),
    }
    assert not (folder.path / "suite").exists()


def test_kernels_wait_until_the_machine_is_quiet(tmp_path, turns):
    told = []

    def check(wait_s, *seen):
        left = iter(seen)
        return NoiseCheck(
            wait_s=wait_s,
            noise=lambda threads: Noise(varied=next(left), taken=threads - 1),
            clock=lambda: 0.0,
            sleep=told.append,
        )

    folder = RunFolder.create(tmp_path / "run")
    kernels.measure(ENGINES, folder, Silent(), 1, noise=check(60.0, 0.5, 0.5, 0.01))
    assert len(told) == 2
    assert len(turns) == 2
    never = RunFolder.create(tmp_path / "never")
    with pytest.raises(HarnessError, match="--when-quiet: the machine was not quiet within 0"):
        kernels.measure(ENGINES, never, Silent(), 1, noise=check(0.0, 0.5))
    assert len(turns) == 2
    assert never.samples() == []


def test_a_gate_judges_the_kernels(tmp_path, turns, capsys):
    from keymark import cli as run_bench

    folder = RunFolder.create(tmp_path / "run")
    turns.extend("....." * 2)  # past the one that fails
    kernels.measure(ENGINES, folder, Silent(), 2)
    policy = str(kernels.SUITE.with_name("kernels.toml"))
    words = ["gate", str(folder.path), "--policy", policy, "--base-engine", ENGINES[0]]
    assert run_bench.main([*words, "--candidate-engine", ENGINES[1], "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["warnings"] == []
    (bad,) = [each for each in document["findings"] if each["verdict"] == "regression"]
    assert bad["cell"] == "bloom"


@pytest.mark.parametrize(
    ("sets", "count"),
    [
        ((), kernels.REPETITIONS),
        (("schedule.repetitions=7",), 7),
        (("schedule.repetitions=1", "schedule.warmups=0"), 1),
    ],
)
def test_repetitions_can_be_set(sets, count):
    assert kernels.repetitions(sets) == count


@pytest.mark.parametrize("text", ["dataset.rows=1", "schedule.repetitions=0", "x", ""])
def test_nothing_else_can_be_set(text):
    with pytest.raises(HarnessError, match=r"only schedule\.repetitions"):
        kernels.repetitions([text])
