"""SIGKILL at any moment of an upsert: before or after, never between, and nothing stays behind.

A child process writes without end and tells through a pipe of every storage call that it is about
to make; it is killed after so many calls, somewhere in the one that follows.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
from multiprocessing import forkserver

import pytest
from endless_writer import CALL, DONE, OPTIONS, batch, state_after, write_on
from table_cases import (
    by_hudi_rs,
    by_listing,
    create,
    data_rows,
    files_listed,
    files_stored,
    left_over,
)

from keymark import Table

KILLS = 10


@pytest.fixture(scope="module")
def children():
    """A server that forks processes which have everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["endless_writer"])
    with pytest.MonkeyPatch.context() as patch:
        # The server imports before it is told where to find things.
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context


def _killed_after(context, root: str, first: int, calls: int) -> int:
    """Let a child write until its call number `calls`; returns how many writes it finished."""
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb", buffering=0) as news, os.fdopen(theirs, "wb", buffering=0) as pipe:
        child = context.Process(target=write_on, args=(root, first, _Pipe(pipe)), daemon=True)
        child.start()
        pipe.close()
        told = b""
        while told.count(CALL) < calls:
            some = news.read(1)
            assert some, "the child ended by itself"
            told += some
        os.killpg(child.pid, signal.SIGKILL)
        told += news.readall()
        child.join()
    assert child.exitcode == -signal.SIGKILL
    return told.count(DONE)


class _Pipe:
    """A pipe's end that travels to a child."""

    def __init__(self, file):
        self._file = file

    def __getstate__(self):
        from multiprocessing.reduction import DupFd

        return DupFd(self._file.fileno())

    def __setstate__(self, duplicate):
        self._number = duplicate.detach()

    def fileno(self) -> int:
        return self._number


def test_killed_at_any_moment(children, tmp_path):
    root = str(tmp_path / "t")
    create(tmp_path / "t", OPTIONS).upsert(batch(0))
    written = 1
    chosen = random.Random(8)
    for _ in range(KILLS):
        done = written + _killed_after(children, root, written, chosen.randrange(1, 60))
        found = data_rows(Table.open(root))
        assert found in (state_after(done), state_after(done + 1))
        written = done if found == state_after(done) else done + 1
        assert {key for key, _, _ in by_hudi_rs(root)} == set(found)
        assert Table.open(root).check().ok

        Table.open(root, options=OPTIONS).upsert(batch(written))
        written += 1
        table = Table.open(root)
        assert left_over(root) == []
        assert data_rows(table) == state_after(written)
        assert {key: row for key, (_, row) in by_listing(root).items()} == state_after(written)
        assert files_listed(table) == files_stored(root)
        assert table.check().ok
