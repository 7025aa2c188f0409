"""The process of an engine without Spark: watched, ended at its limits, and anew if it died.

Nothing in such a process bounds its memory, so its resident memory is looked at twenty times a
second (once where the system must be asked by a command), and the process is ended when it has more
than it may. The system might end the whole run instead.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict
from urllib.parse import unquote, urlsplit

from keymark.harness.engines.pipe import PATIENCE_S, Child
from keymark.harness.errors import CellError, LimitError
from keymark.harness.measure import environment, session
from keymark.harness.scenario.scenario import Scenario

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEMORY_KEY = "schedule.memory_gb"
_PROC = Path("/proc")
_LOOK_S = 0.05 if _PROC.is_dir() else 1.0
_GIGABYTE = 1_000_000_000
_SHARE = 0.75
"""The share of the machine's memory that a process may hold if the scenario sets no limit."""
_OUT_OF_MEMORY = re.compile(r"^(Arrow)?MemoryError:|memory allocation of \d+ bytes failed")
"""What Python, Arrow and Rust say where they get no memory."""
_ANSWER_S = 1.0
"""The least time that a process gets for an answer."""


class Bounds(TypedDict):
    """What a process may have: cores, and bytes of memory."""

    cores: int
    memory: int


def bounds(scenario: Scenario) -> Bounds:
    """The bounds of a process in a run: as many cores as the run's own session has."""
    asked = int(scenario.schedule.memory_gb * _GIGABYTE)
    memory = asked or int(environment.machine()["memory_bytes"] * _SHARE)
    return Bounds(cores=session.cores(scenario.spark.master), memory=memory)


class WatchedProcess(ABC):
    """What answers the messages of an engine without Spark.

    A process that died, of memory or otherwise, costs the cell that it worked for, and so does one
    that hangs: it is ended. `revive` starts another one for the next.

    Args:
        name: of the engine.
        work: folder for its log.
        cores: that it may use.
        memory: bytes that it may hold.

    Attributes:
        longest_s: seconds that an answer may take where no other patience is set.
    """

    longest_s: float = PATIENCE_S

    def __init__(self, name: str, *, work: Path, cores: int, memory: int) -> None:
        self._name, self._work = name, work
        self._cores, self._memory = cores, memory
        self._starts = 0
        self._death: CellError | None = None
        self._child: Child
        self._watch: MemoryWatch

    @abstractmethod
    def command(self) -> list[str]:
        """What is run."""

    def start_arguments(self) -> dict[str, Any]:
        """What the message `start` says besides the number of cores."""
        return {}

    def start(self) -> dict[str, Any]:
        """Start a process; what it says about its versions.

        Raises:
            CellError: it did not come up.
        """
        self._starts += 1
        self._death = None
        number = f".{self._starts}" if self._starts > 1 else ""
        log = self._work / f"{self._name}{number}.log"
        self._child = Child(self.command(), log=log, name=self._name)
        self.patience(None)
        self._watch = MemoryWatch(self._child.pid, self._memory, self._child.kill)
        answer = self.call("start", cores=self._cores, **self.start_arguments())
        return {"conf": {"cores": str(self._cores), "memory": str(self._memory)}, **answer}

    def revive(self) -> None:
        """Start another process if this one died."""
        if self._child.is_dead:
            self.close()
            self.start()

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The answer to a message.

        Raises:
            LimitError: it had, or wanted, more memory than it may have.
            CellError: its method raised, or it died.
        """
        if self._death is not None:
            raise self._death
        try:
            return self._child.call(name, **arguments)
        except CellError as error:
            failed: CellError = error
            if self._watch.exceeded:
                limit = f"{self._memory / _GIGABYTE:,.1f} GB ({MEMORY_KEY})"
                failed = LimitError(f"{self._name} held more than {limit}")
            elif _OUT_OF_MEMORY.search(str(error)):
                failed = LimitError(f"{self._name} got no more memory: {error}")
            if self._child.is_dead:
                self._death = failed
            raise failed from error

    def patience(self, seconds: float | None) -> None:
        """An answer that takes longer ends the process; None: longer than `longest_s`."""
        self._child.patience_s = self.longest_s if seconds is None else seconds

    def close(self) -> None:
        """End it."""
        self._watch.stop()
        self._child.close()


class Patient(Protocol):
    """What has patience: a `WatchedProcess`, or a stand-in of the tests."""

    def patience(self, seconds: float | None) -> None:
        """An answer that takes longer ends the process; None: the longest that it may take."""


@contextmanager
def limited(process: Patient, seconds: float) -> Iterator[None]:
    """End a process once the block has taken so long: it has no other way to stop."""
    process.patience(max(seconds, _ANSWER_S))
    try:
        yield
    finally:
        process.patience(None)


def files_of(df: DataFrame) -> tuple[str, ...]:
    """The paths of the files of a data frame that was read from Parquet."""
    return tuple(unquote(urlsplit(url).path) for url in sorted(df.inputFiles()))


class MemoryWatch:
    """Ends a process that holds too much memory; looks from a thread of its own.

    Args:
        pid: of the process.
        limit: bytes of resident memory that it may have.
        kill: ends it.
    """

    def __init__(self, pid: int, limit: int, kill: Callable[[], None]) -> None:
        self._pid, self._limit, self._kill = pid, limit, kill
        self._exceeded, self._stopped = threading.Event(), threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    @property
    def exceeded(self) -> bool:
        """Whether it ended the process."""
        return self._exceeded.is_set()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def _look(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            held = resident(self._pid)
            if held is None:
                return  # it has ended
            if held > self._limit:
                self._exceeded.set()
                self._kill()
                return


def resident(pid: int, proc: Path = _PROC) -> int | None:
    """Bytes of memory that a process holds; None if there is no such process.

    Args:
        pid: of the process.
        proc: where the system lists its processes, if it does; else `ps` is asked.
    """
    try:
        if proc.is_dir():
            pages = int((proc / str(pid) / "statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        listed = subprocess.run(  # noqa: S603 - a number is all that varies
            ["ps", "-o", "rss=", "-p", str(pid)],  # noqa: S607 - the system's own
            capture_output=True,
            check=False,
        )
        return int(listed.stdout) * 1024
    except (OSError, ValueError, IndexError):
        return None
