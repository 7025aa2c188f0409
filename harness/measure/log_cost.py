"""What measuring costs: the processor time of the thread that writes Spark's event log.

It is the one thing that measuring adds within the time of a step: labels are set before the clock
starts, counters are read from the log when the run is over. The thread works beside the tasks, so
its time is the most that a step can have become longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView

_THREAD = "spark-listener-group-eventLog"
_NANOSECONDS = 1e9


@dataclass(slots=True)
class StepCost:
    """What measuring took in a step.

    Attributes:
        seconds: known when the step has ended; None where nothing tells.
    """

    seconds: float | None = None


class LogClock:
    """The processor time of the thread, by the JVM's own account."""

    def __init__(self, jvm: JVMView) -> None:
        """The clock of one JVM.

        Args:
            jvm: it runs Spark with an event log.
        """
        self._beans = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
        self._thread = -1

    def seconds(self) -> float | None:
        """Since the thread began; None where there is none, or the JVM keeps no account."""
        taken = self._taken()
        if taken < 0:
            # Spark starts another thread where the log was taken away for a while.
            self._thread = self._find()
            taken = self._taken()
        return None if taken < 0 else taken / _NANOSECONDS

    def _taken(self) -> int:
        """Nanoseconds; -1 where the thread does not live."""
        return int(self._beans.getThreadCpuTime(self._thread)) if self._thread > 0 else -1

    def _find(self) -> int:
        threads = self._beans.dumpAllThreads(False, False)  # noqa: FBT003 - Java's order
        found = [each.getThreadId() for each in threads if each.getThreadName() == _THREAD]
        return int(found[0]) if found else -1
