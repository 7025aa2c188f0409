"""A Spark task whose worker died: the error in place of Spark's own.

A process that takes more memory than there is gets killed by the system, and can say nothing. The
driver sees a Py4JJavaError of a hundred lines that names neither the reason nor a remedy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from keymark.table.errors import WorkerLostError

# What Spark 3.5 and 4 say about a worker that is gone, and what a worker, or the JVM, says that
# still could.
_SIGNS = (
    "Python worker exited unexpectedly",
    "Python worker process terminated",
    "ExecutorLostFailure",
    "OutOfMemoryError",
    "MemoryError",
)

_SETTING = "keymark.task.memory.bytes"


@contextlib.contextmanager
def worker_errors(step: str, tasks: int) -> Iterator[None]:
    """Name the step whose worker was lost, the memory there is, and what helps.

    Args:
        step: what the tasks do, in a few words.
        tasks: how many run side by side, at most.

    Raises:
        WorkerLostError: a worker is gone.
    """
    before = _killed_for_memory()
    try:
        yield
    except Exception as error:
        sign = next((sign for sign in _SIGNS if sign in str(error)), None)
        if sign is None:
            raise
        killed = _killed_for_memory() - before
        reason = "most likely for want of memory"
        if killed > 0:
            reason = f"the system killed {killed} processes for want of memory meanwhile"
        raise WorkerLostError(
            f"a task of the step '{step}' lost its worker ({sign}; {reason}): {tasks} tasks ran "
            f"side by side, this machine has {_gib('MemTotal')} GiB of memory, of which "
            f"{_gib('MemAvailable')} are free now; fewer cores (--master local[1], "
            f"spark.executor.cores) or a smaller {_SETTING} take less, "
            "spark.executor.memoryOverhead gives more on a cluster"
        ) from error


def _killed_for_memory() -> int:
    """How many processes the system has killed for want of memory; 0 where it does not say."""
    return _number("/proc/vmstat", "oom_kill")


def _gib(field: str) -> str:
    kib = _number("/proc/meminfo", f"{field}:")
    return f"{kib / (1 << 20):.1f}" if kib else "an unknown number of"


def _number(path: str, name: str) -> int:
    """The number behind a name in a file of the system's; 0 where it is not there."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(path).read_text(encoding="ascii").splitlines():
            words = line.split()
            if words[0] == name:
                return int(words[1])
    return 0
