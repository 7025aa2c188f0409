"""A storage whose caller kills a worker of a standalone cluster, once, at a chosen call."""

from __future__ import annotations

import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import RangeReader

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class Strike:
    """When a worker dies.

    Attributes:
        call: `open` or `put`.
        path: pattern of the file's path.
        moment: before the call or after it.
        flag: file that the first one to strike makes.
        driver: process of the driver; tasks are all others.
        victim: leader of the worker's group where the driver strikes; a task strikes its own.
        outlives: whether the task's Python goes on, as one does that nobody told.
    """

    call: str
    path: str
    moment: str
    flag: str
    driver: int
    victim: int
    outlives: bool = False

    def maybe(self, call: str, path: str, moment: str) -> None:
        """Strike, if this is the moment and nobody has."""
        if (call, moment) != (self.call, self.moment) or not re.search(self.path, path):
            return
        in_driver = os.getpid() == self.driver
        if in_driver and not self.victim:
            return
        try:
            with Path(self.flag).open("x", encoding="utf-8") as flag:
                flag.write("driver" if in_driver else "task")
        except FileExistsError:
            return
        os.killpg(self.victim if in_driver else _executor_group(), signal.SIGKILL)
        if not in_driver and not self.outlives:
            os.kill(os.getpid(), signal.SIGKILL)


def _executor_group() -> int:
    """The process group of the executor that this Python works for.

    The worker's daemon has a group of its own; the JVM that started it has its worker's.
    """
    group, process = os.getpgrp(), os.getpid()
    while os.getpgid(process) == group:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    assert process > 1, f"{sys.argv} has no executor"
    return os.getpgid(process)


@dataclass(frozen=True)
class KillingStorage(LocalStorage):
    """The local file system with a strike."""

    strike: Strike | None = None

    def open(self, path: str) -> RangeReader:
        self.strike.maybe("open", path, BEFORE)
        source = LocalStorage.open(self, path)
        self.strike.maybe("open", path, AFTER)
        return source

    def put(self, path: str, data: bytes) -> None:
        self.strike.maybe("put", path, BEFORE)
        LocalStorage.put(self, path, data)
        self.strike.maybe("put", path, AFTER)

    def commit(self, path: str, data: bytes) -> None:
        self.strike.maybe("put", path, BEFORE)
        LocalStorage.commit(self, path, data)
        self.strike.maybe("put", path, AFTER)
