"""One command and its processes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from keymark.harness.job.command import run

# A child of its own that outlives it, as the JVM of a Python driver does.
OUTLIVED = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5); print('late')"])
print("early", flush=True)
"""
LEFT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(child.pid))
if len(sys.argv) > 2:
    import time; time.sleep(600)
"""


def ran(tmp_path, text, *words, timeout_s=30.0):
    return run(
        [sys.executable, "-c", text, *map(str, words)],
        folder=tmp_path,
        environment=dict(os.environ),
        timeout_s=timeout_s,
        output=tmp_path / "output.txt",
    )


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_time_processor_and_memory_are_measured(tmp_path):
    found = ran(
        tmp_path, "import time; x = bytearray(60 << 20); sum(range(3000000)); time.sleep(.2)"
    )
    assert found.code == 0
    assert found.mistake == ""
    assert found.wall_s > 0.2
    assert 0 < found.cpu_s < found.wall_s * (os.cpu_count() or 1) + 0.5
    if Path("/proc").is_dir():
        assert found.peak_bytes > 60 << 20


def test_processes_that_outlive_the_command_are_waited_for_off_the_clock(tmp_path):
    start = time.perf_counter()
    found = ran(tmp_path, OUTLIVED)
    taken = time.perf_counter() - start
    assert (found.printed.split(), found.left) == (["early", "late"], False)
    assert found.wall_s < taken - 0.2


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    found = ran(tmp_path, LEFT, tmp_path / "pid", "hang", timeout_s=2.0)
    assert found.code is None
    assert found.mistake.startswith("did not end in time")
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_what_is_left_behind_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("keymark.harness.job.command._AFTER_S", 0.2)
    found = ran(tmp_path, LEFT, tmp_path / "pid")
    assert (found.code, found.left) == (0, True)
    assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("print('x'); raise ValueError('no column')", "exit code 1: ValueError: no column"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("print('Error: a'); print('deleting'); raise SystemExit(2)", "exit code 2: Error: a"),
    ],
)  # fmt: skip
def test_why_it_failed_is_one_line(tmp_path, text, said):
    assert ran(tmp_path, text).mistake == said


def test_a_program_that_is_not_there(tmp_path):
    found = run(
        ["no-such-program"],
        folder=tmp_path,
        environment={},
        timeout_s=9,
        output=tmp_path / "o",
    )
    assert "no-such-program" in found.mistake
    assert found.code == 127
