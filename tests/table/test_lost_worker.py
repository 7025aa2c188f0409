"""A Spark task whose worker is killed: one line with the step, the memory and what helps."""

from __future__ import annotations

import signal

import pytest

from keymark.table.errors import WorkerLostError
from keymark.table.runtime import lost_worker
from keymark.table.runtime.lost_worker import worker_errors
from keymark.table.runtime.runner import SparkRunner


@pytest.mark.spark
def test_a_killed_worker_is_one_typed_line(spark):
    with pytest.raises(WorkerLostError) as raised:
        SparkRunner(spark, local_bytes=0).run(
            signal.raise_signal, [0, signal.SIGKILL], weights=[1, 1]
        )
    told = str(raised.value)
    assert told.startswith("a task of the step 'raise signal' lost its worker (")
    assert "want of memory" in told
    assert "2 tasks ran side by side" in told
    assert "GiB of memory" in told
    assert "keymark.task.memory.bytes" in told
    assert "Py4J" not in told


def test_what_the_system_killed_is_told(monkeypatch):
    counts = iter([3, 5])
    monkeypatch.setattr(lost_worker, "_killed_for_memory", lambda: next(counts))
    with (
        pytest.raises(WorkerLostError, match="the system killed 2 processes"),
        worker_errors("build shard", 2),
    ):
        raise RuntimeError("org.apache.spark.SparkException: Python worker exited unexpectedly")


def test_other_errors_are_left_alone():
    with pytest.raises(KeyError), worker_errors("build shard", 2):
        raise KeyError("x")
