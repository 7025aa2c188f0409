"""The engine `native@bare`: Keymark's own tables without what measuring adds to a step.

A step of `native` carries a label in each of its jobs and leaves its events in Spark's log, from
which the counters are taken. This engine does the same work in the same session without either, so
that the two beside each other, turn by turn, tell what measuring costs (scenario `canary`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from keymark.harness.engines.native import NativeEngine
from keymark.harness.measure.session import SparkRuntime
from keymark.harness.tables.table_folders import Tables


class BareEngine(NativeEngine):
    """Makes and opens `table.Table`s; its steps are neither labelled nor logged."""

    def __init__(self, runtime: SparkRuntime, tables: Tables) -> None:
        super().__init__(runtime, tables)
        self._unlogged = runtime.unlogged

    def step(self, label: str) -> AbstractContextManager[None]:  # noqa: ARG002 - not told to Spark
        """Keep the jobs of the block out of the event log."""
        return self._unlogged()
