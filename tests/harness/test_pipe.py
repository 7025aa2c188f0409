from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from keymark.harness.engines import hudi_process
from keymark.harness.engines.pipe import Child
from keymark.harness.errors import CellError
from keymark.harness.scenario.workload_section import SparkSection

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).with_name("fake_child.py")
LONG_S = 60

PARENT = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from keymark.harness.engines.pipe import Child
child = Child([sys.executable, {str(FAKE)!r}], log=Path(sys.argv[1]), name="fake")
print(child.call("pid"), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def child(tmp_path):
    made = Child([sys.executable, str(FAKE)], log=tmp_path / "deep" / "log", name="fake")
    yield made
    made.close()


def test_one_process_answers_all_messages_and_keeps_its_state(child, tmp_path):
    value = {"keys": ["a", "é"], "none": None, "number": 7}
    assert child.call("echo", value=value) == value
    assert child.call("echo", value=b"x" * 1_000_000) == b"x" * 1_000_000
    assert child.call("count") == 2
    child.close()
    assert "closed" in (tmp_path / "deep" / "log").read_text()


def test_an_error_of_the_child_is_one_line_and_the_child_goes_on(child, tmp_path):
    with pytest.raises(CellError, match=r"^first line$"):
        child.call("fail")
    assert child.call("echo", value=1) == 1
    assert "second line" in (tmp_path / "deep" / "log").read_text()


def test_an_interrupt_ends_what_the_child_does_and_leaves_it_in_step(child):
    interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        child.call("sleep")
    assert child.call("echo", value=1) == 1


def test_a_second_interrupt_waits_for_nothing(child):
    stop = (os.getpid(), signal.SIGINT)
    timers = [threading.Timer(seconds, os.kill, stop) for seconds in (0.5, 1.0)]
    for timer in timers:
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        child.call("sleep_on")
    with pytest.raises(CellError, match="fake died"):
        child.call("echo", value=1)


def test_a_dead_child_is_named_with_its_last_words(child):
    with pytest.raises(CellError, match=r"^fake died: out of memory$"):
        child.call("die")
    with pytest.raises(CellError, match="fake died"):
        child.call("echo", value=1)


def test_a_child_that_hangs_is_ended(child):
    child.patience_s = 0.2
    with pytest.raises(CellError, match=r"^fake gave no answer for 0 s$"):
        child.call("sleep")
    assert child.is_dead


def test_a_child_that_hangs_is_named_with_its_last_words(child):
    child.call("say", words="GC overhead")
    child.patience_s = 0.2
    with pytest.raises(CellError, match=r"^fake gave no answer for 0 s: GC overhead$"):
        child.call("sleep")


@pytest.fixture
def hudi(tmp_path, monkeypatch):
    monkeypatch.setattr(hudi_process, "_COMMAND", (str(FAKE),))
    section = SparkSection(conf={"spark.driver.memory": "3g"})
    made = hudi_process.HudiProcess(
        "hudi@1.2.0", section=section, events=tmp_path / "events", work=tmp_path
    )
    made.start()
    yield made
    made.close()


def test_a_process_that_ran_out_of_memory_costs_one_cell(hudi):
    hudi.call("hold_rows", files=("a", "b"))
    told = r"^hudi@1.2.0 died: java.lang.OutOfMemoryError: Java heap space; it had spark.driver.mem"
    with pytest.raises(CellError, match=told + "ory=3g$"):
        hudi.call("run_out")
    with pytest.raises(CellError, match=told):  # until the next cell
        hudi.call("known")
    hudi.revive()
    assert hudi.call("known") == [("a", "b")]
    hudi.revive()
    assert hudi.call("known") == [("a", "b")]


def test_a_process_may_be_silent_for_an_hour(hudi):
    assert hudi._child.patience_s == 3600
    hudi.patience(1.0)
    hudi.patience(None)
    assert hudi._child.patience_s == 3600


@pytest.mark.parametrize("message", ["digest", "check_index", "hold_keys"])
def test_a_process_that_hangs_outside_of_the_clock_costs_one_cell(hudi, message):
    hudi.longest_s = 0.2
    hudi.patience(None)
    with pytest.raises(CellError, match=r"^hudi@1\.2\.0 gave no answer for 0 s$"):
        hudi.call(message)
    with pytest.raises(CellError, match="gave no answer"):  # until the next cell
        hudi.call("known")
    hudi.longest_s = LONG_S
    hudi.revive()
    assert hudi.call("known") == []


def test_a_process_that_does_not_come_up_is_ended(hudi):
    with pytest.raises(CellError, match="died"):
        hudi.call("die")
    hudi.longest_s = 0.0
    with pytest.raises(CellError, match=r"^hudi@1\.2\.0 gave no answer for 0 s$"):
        hudi.revive()
    hudi.longest_s = LONG_S
    hudi.revive()
    assert hudi.call("known") == []


def test_the_child_dies_with_its_parent(tmp_path):
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        handle = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
        ended, _, _ = select.select([handle], [], [], LONG_S)
        os.close(handle)
        assert ended, "the child outlived its parent"
