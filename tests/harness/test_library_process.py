"""Limits of the processes of engines without Spark, with a stand-in that takes memory."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from keymark.harness.engines.libraries import process as library_process
from keymark.harness.engines.libraries.names import LibraryName
from keymark.harness.engines.watched_process import resident
from keymark.harness.errors import CellError, LimitError

MEGABYTE = 1_000_000
NO_MEMORY = r"^deltalake@1\.6\.6 got no more memory: MemoryError: cannot all"


@pytest.fixture
def process(tmp_path, monkeypatch):
    monkeypatch.setattr(library_process, "python", lambda _: Path(sys.executable))
    fake = Path(__file__).with_name("library_child_fake.py")
    monkeypatch.setattr(library_process, "_CHILD", fake)
    made = library_process.LibraryProcess(
        LibraryName("deltalake", "1.6.6"), work=tmp_path, cores=2, memory=200 * MEGABYTE
    )
    said = made.start()
    assert said["conf"] == {"cores": "2", "memory": "200000000"}
    assert said["versions"] == {"deltalake": "1", "cores": "2"}
    yield made
    made.close()


def test_a_process_that_takes_too_much_memory_is_ended_and_the_next_cell_gets_another(process):
    told = r"^deltalake@1\.6\.6 held more than 0\.2 GB \(schedule\.memory_gb\)$"
    with pytest.raises(LimitError, match=told):
        process.call("grow", size=500 * MEGABYTE)
    with pytest.raises(LimitError, match=told):  # until the next cell
        process.call("echo", value=1)
    process.revive()
    assert process.call("echo", value=1) == 1


def test_a_process_that_gets_no_memory_is_at_its_limit_too(process):
    with pytest.raises(LimitError, match=NO_MEMORY):
        process.call("lack")
    assert process.call("echo", value=1) == 1
    with pytest.raises(LimitError, match="memory allocation of 123 bytes failed"):
        process.call("abort")


def test_a_process_that_takes_too_long_is_ended(process):
    process.patience(0.2)
    with pytest.raises(CellError, match="gave no answer") as raised:
        process.call("sleep")
    assert not isinstance(raised.value, LimitError)
    process.patience(None)
    process.revive()
    assert process.call("echo", value=1) == 1


def test_an_interrupt_ends_the_process_at_once(process):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        process.call("sleep")
    with pytest.raises(CellError, match="died"):
        process.call("echo", value=1)


def test_what_a_process_holds_is_told_where_there_is_one():
    held = resident(os.getpid())
    assert held is not None
    assert held > MEGABYTE
    assert resident(2**22 + 1) is None
    asked = resident(os.getpid(), proc=Path("/nowhere"))  # by `ps`, if it is there
    assert asked is None or asked > MEGABYTE
