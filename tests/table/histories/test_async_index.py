"""The record index built while a writer commits: nobody fails, nobody is forgotten (I18).

The writer works in a thread of this process. The builder is let through, killed at storage calls,
killed as a process, and given up. `run_async_index.py` takes figures of a large table.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing import forkserver
from pathlib import Path

import pytest
from faults import DEAD, FaultStorage, Killed
from history_checks import partitions_of
from load_writer import OPTIONS, LoadWriter, create, index_on, stored
from table_cases import by_hudi_rs, files_listed, files_stored

from keymark import Table
from keymark.table.errors import InputError
from keymark.table.storage.local_storage import LocalStorage

ROWS = 50_000
FEW_ROWS = 8_000


@pytest.fixture
def root(tmp_path):
    create(str(tmp_path / "t"), FEW_ROWS)
    return str(tmp_path / "t")


def table_of(root, storage=None):
    return Table(storage or LocalStorage.at(root), OPTIONS)


def assert_exact(root, writer):
    table = table_of(root)
    checked = table.check()
    assert checked.ok, checked
    assert checked.keys == len(writer.versions)
    assert stored(table) == writer.expected()
    assert files_listed(table) == files_stored(root)
    assert partitions_of(root) == ({"files", "record_index"}, set())
    assert not list((Path(root) / ".hoodie/.keymark").glob("build/*"))


def test_built_under_load(tmp_path):
    root = str(tmp_path / "t")
    create(root, ROWS)
    with LoadWriter(root, ROWS) as writer:
        writer.wait(3)
        before = len(writer.seconds)
        table_of(root).schedule_index()
        writer.wait(2)
        table_of(root).run_index()
        during = len(writer.seconds) - before
        writer.wait(2)
    assert during >= 2, "nothing was committed during the build"
    assert_exact(root, writer)
    assert {key for key, _, _ in by_hudi_rs(root)} == writer.expected().keys()


@pytest.mark.parametrize("part", [0.3, 0.6, 0.85])
def test_killed_at_a_storage_call_and_resumed(root, part, tmp_path):
    calls = _calls_of_a_build(tmp_path / "other")
    with LoadWriter(root, FEW_ROWS) as writer:
        table_of(root).schedule_index()
        writer.wait(1)
        dying = FaultStorage(LocalStorage.at(root), DEAD, max(1, int(part * calls)))
        with pytest.raises(Killed):
            table_of(root, dying).run_index()
        assert partitions_of(root)[1] == {"record_index"}
        writer.wait(2)
        table_of(root).run_index()
        writer.wait(1)
    assert_exact(root, writer)


def _calls_of_a_build(folder: Path) -> int:
    """Storage calls of a build that nothing disturbs."""
    storage = FaultStorage(create(str(folder), FEW_ROWS).storage)
    table_of(str(folder)).schedule_index()
    table_of(str(folder), storage).run_index()
    return storage.calls


@pytest.mark.slow
def test_killed_as_a_process_and_resumed(root):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["load_writer"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    with LoadWriter(root, FEW_ROWS) as writer:
        table_of(root).schedule_index()
        for lines in (1, 2, 3):
            writer.wait(1)
            assert not _index_killed_after(context, root, lines)
        table_of(root).run_index()
    assert_exact(root, writer)


def _index_killed_after(context, root: str, lines: int) -> bool:
    """Let a process build until it has told so often how far it came; whether it was through."""
    from test_kill import _Pipe

    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb", buffering=0) as news, os.fdopen(theirs, "wb", buffering=0) as pipe:
        child = context.Process(target=index_on, args=(root, _Pipe(pipe)), daemon=True)
        child.start()
        pipe.close()
        told = b""
        while told.count(b"\n") < lines:
            some = news.read(1)
            assert some, "the child ended by itself"
            told += some
        os.killpg(child.pid, signal.SIGKILL)
        told += news.readall()
        child.join()
    return b"end" in told


@pytest.mark.parametrize("unit", ["tasks", "shards", "files"])
def test_given_up_while_it_runs(root, unit):
    """The build ends with one line, the writer notices nothing, and nothing is left."""
    reached, go_on = threading.Event(), threading.Event()

    def wait_there(_done: int, _total: int, named: str) -> None:
        if unit in named and not reached.is_set():
            reached.set()
            go_on.wait(120)

    ended: list[BaseException] = []

    def build() -> None:
        try:
            table_of(root).run_index("record_index", wait_there)
        except BaseException as error:  # noqa: BLE001  looked at below
            ended.append(error)
        reached.set()

    with LoadWriter(root, FEW_ROWS) as writer:
        table_of(root).schedule_index()
        builder = threading.Thread(target=build, daemon=True)
        builder.start()
        assert reached.wait(300), f"no progress by {unit}"
        assert not ended, ended
        table_of(root).abort_index()
        writer.wait(1)
        go_on.set()
        builder.join(120)
        writer.wait(1)
    assert [type(error) for error in ended] == [InputError], ended
    assert partitions_of(root) == ({"files"}, set())
    assert stored(table_of(root)) == writer.expected()
    assert not (Path(root) / ".hoodie/metadata/record_index").exists()
    assert not list((Path(root) / ".hoodie/.keymark").glob("*/record_index"))
    assert not list((Path(root) / ".hoodie").glob("*.indexing*"))
    assert table_of(root).build_index()
    assert_exact(root, writer)
