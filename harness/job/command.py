"""One command run to its end, with its processes watched: time, processor time, memory.

A command gets a session of its own (setsid), by which all processes that it starts are known:
Spark starts a JVM, and that starts Python workers in process groups of their own. A Python driver
ends before its JVM, which then completes the event log, so that a step is over when no process of
the session is left. Only the time until the command itself ended is measured.

Processor time is that of the command and of all below it, as the system counts it for children
that were waited for; of processes that outlived the command it is what was seen last. Memory is
the largest sum over the session's processes that was seen; pages that they share count for each.
Systems without `/proc` tell no memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_FIRST_LOOK_S, _LATER_LOOKS_S = 0.02, 0.5
_SLOWER = 1.5
_AFTER_S = 60.0
"""How long processes that outlive their command are waited for: an event log is completed."""
_BEFORE_KILL_S = 5.0
_TAIL = 64 << 10
_NOT_STARTED = 127
"""The exit code of shells for a program that is not there"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The result of a command.

    Attributes:
        code: its exit code; None where its time was over.
        wall_s: seconds until it ended.
        cpu_s: seconds of processor time of all its processes.
        peak_bytes: of memory; 0 where the system does not tell.
        printed: the end of what it printed.
        left: whether processes of it had to be ended.
    """

    code: int | None
    wall_s: float
    cpu_s: float
    peak_bytes: int
    printed: str
    left: bool = False

    @property
    def mistake(self) -> str:
        """Why it failed, in a line; empty where it did not."""
        if self.code == 0:
            return ""
        what = "did not end in time" if self.code is None else f"exit code {self.code}"
        if self.code is not None and self.code < 0:
            what = f"killed by signal {-self.code}"
        return f"{what}: {self.last_line}" if self.last_line else what

    @property
    def last_line(self) -> str:
        """The line that tells most of why it failed: the last that names an error, or the last."""
        lines = [line.strip() for line in self.printed.splitlines() if line.strip()]
        errors = [line for line in lines if "Error" in line or "Exception" in line]
        return next(iter([*errors[-1:], *lines[-1:]]), "")


def run(
    words: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    output: Path,
) -> Ran:
    """Run a command to its end, or until its time is over; then all its processes are ended.

    Args:
        words: program and arguments.
        folder: to run in.
        environment: all of its variables.
        timeout_s: seconds.
        output: file for what it prints.
    """
    before = _children_s()
    with output.open("wb") as sink:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                words,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Ran(code=_NOT_STARTED, wall_s=0.0, cpu_s=0.0, peak_bytes=0, printed=str(error))
        session = _Session(process.pid)
        try:
            ended = _watch(process, session, start + timeout_s)
            if ended:
                session.outlived()
        finally:
            left = session.end()
            process.wait()
    return Ran(
        code=process.returncode if ended else None,
        wall_s=(ended or time.perf_counter()) - start,
        cpu_s=_children_s() - before + session.orphans_s,
        peak_bytes=session.peak_bytes,
        printed=_tail(output),
        left=bool(ended) and left,
    )


def _watch(process: subprocess.Popen[bytes], session: _Session, deadline: float) -> float:
    """When the command ended; 0 where it did not until the deadline."""
    ended: list[float] = []

    def wait() -> None:
        process.wait()
        ended.append(time.perf_counter())

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    session.look()
    pause = _FIRST_LOOK_S
    while waiter.is_alive() and (left := deadline - time.perf_counter()) > 0:
        waiter.join(min(pause, left))
        session.look()
        pause = min(pause * _SLOWER, _LATER_LOOKS_S)
    return ended[0] if ended else 0.0


@dataclass(frozen=True, slots=True)
class _Process:
    """Processor seconds of itself and of children that it has waited for; bytes in memory."""

    cpu_s: float
    memory_bytes: int


@dataclass(slots=True)
class _Session:
    """The processes of a session.

    Attributes:
        number: id of the session, and of the process that began it.
        peak_bytes: the most memory seen.
        orphans_s: processor seconds of processes that outlived the command.
    """

    number: int
    peak_bytes: int = 0
    orphans_s: float = 0.0
    _known: dict[int, _Process] = field(default_factory=dict)

    def look(self) -> bool:
        """Note what its processes take; whether there are any."""
        found = _processes(self.number)
        self._known |= found
        self.peak_bytes = max(self.peak_bytes, sum(each.memory_bytes for each in found.values()))
        return bool(found)

    def outlived(self) -> None:
        """Wait for processes that outlived the command, and note what they took."""
        self._known = {}
        deadline = time.perf_counter() + _AFTER_S
        while self.look() and time.perf_counter() < deadline:
            time.sleep(_FIRST_LOOK_S)
        self.orphans_s = sum(each.cpu_s for each in self._known.values())

    def end(self) -> bool:
        """End all of its processes; whether there were any."""
        if not _PROC.is_dir():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.number, signal.SIGKILL)
            return False
        had_any = bool(_processes(self.number))
        for how in (signal.SIGTERM, signal.SIGKILL):
            for pid in _processes(self.number):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, how)
            deadline = time.perf_counter() + _BEFORE_KILL_S
            while _processes(self.number) and time.perf_counter() < deadline:
                time.sleep(_FIRST_LOOK_S)
        return had_any


def _processes(session: int) -> dict[int, _Process]:
    """The living processes of a session, by their ids."""
    found = {}
    second, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for folder in _PROC.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_bytes()
        except OSError:
            continue  # it has ended
        # Behind the name, which may hold anything: state, parent, group, session; times; pages.
        values = stat.rpartition(b")")[2].split()
        if len(values) > 21 and values[0] != b"Z" and int(values[3]) == session:
            ticks = sum(map(int, values[11:15]))
            found[int(folder.name)] = _Process(ticks / second, int(values[21]) * page)
    return found


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tail(output: Path) -> str:
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _TAIL))
        return file.read().decode(errors="replace")
