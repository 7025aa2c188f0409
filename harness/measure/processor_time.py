"""Processor time of a run's processes, and of Spark's Python workers among them.

Spark 3.5 counts the processor time of its tasks' threads in the JVM only. Its Python workers are
processes on the same machine (`pyspark.daemon` and what it forks), so the system knows what they
took. On a cluster the executors are elsewhere and are not counted.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_DAEMON = b"pyspark.daemon"


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor seconds until now, precise to the system's tick, mostly 10 ms.

    Attributes:
        total: of this process and all below it: JVMs, Python workers, engines' processes.
        workers: of the Python workers below it; those that ended are in their daemon's account.
    """

    total: float
    workers: float

    def since(self, before: Spent) -> Spent:
        """What was spent in between; processes that ended in between are not counted."""
        return Spent(max(self.total - before.total, 0.0), max(self.workers - before.workers, 0.0))


def spent(proc: Path = _PROC) -> Spent | None:
    """What the processes of this run took until now; None where the system does not tell.

    Args:
        proc: where the system lists its processes.
    """
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in proc.glob("[0-9]*"):
        pid = int(folder.name)
        # Behind the name, which may hold anything: state, parent, ..., utime, stime, cutime, cstime
        values = _read(folder / "stat").rpartition(b")")[2].split()
        if len(values) > 14:
            parents[pid] = int(values[1])
            ticks[pid] = sum(map(int, values[11:15]))
    own = os.getpid()
    if own not in ticks:
        return None
    below = [pid for pid in ticks if _is_below(pid, parents)]
    workers = [pid for pid in below if _DAEMON in _read(proc / str(pid) / "cmdline")]
    second = float(os.sysconf("SC_CLK_TCK"))
    return Spent(
        total=sum(ticks[pid] for pid in (own, *below)) / second,
        workers=sum(ticks[pid] for pid in workers) / second,
    )


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""
