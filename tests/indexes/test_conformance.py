"""Every index passes the suite of conformance.py; those on Spark with fewer histories."""

from __future__ import annotations

import pytest
from conformance import SHAPES, SHAPES_BY_NAME, History

from table import table as table_module
from table.write.runner import SparkRunner

LOCAL = ("record", "global_bloom", "bucket")
STEPS, STEPS_ON_SPARK = 6, 4
# A seed's remainder by 4 decides about moves and event time.
CASES = [
    (shape, seed) for n, shape in enumerate(SHAPES) for seed in (range(4) if not n else (n, 5 - n))
]


def finders(index, spark):
    """The indexes that can serve a table with this one."""
    if index == "bucket":
        return ("bucket", "global_bloom") if spark is None else ("bucket", "global_simple")
    found = {"record": ("record", "global_bloom")}.get(index, ("global_bloom",))
    return found if spark is None else (*found, "global_simple")


def play(history, indexes, steps):
    history.check_lookups(indexes)
    history.bulk_insert()
    history.check_lookups(indexes)
    for _ in range(steps):
        name = history.step()
        history.check_lookups(indexes)
        assert not (name == "none" and not history.model.rows)


@pytest.mark.parametrize(("shape", "seed"), CASES, ids=lambda value: getattr(value, "name", None))
@pytest.mark.parametrize("index", LOCAL)
def test_history(tmp_path, index, shape, seed):
    history = History.start(tmp_path / "t", index, shape, seed=seed)
    play(history, finders(index, None), STEPS)
    assert history.by_hudi_rs() == history.model.contents()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("shape", "seed"), [("text", 0), ("composite", 2), ("encoded", 1), ("nested", 3)]
)
def test_history_of_global_simple(tmp_path, spark, shape, seed):
    shape = SHAPES_BY_NAME[shape]
    history = History.start(tmp_path / "t", "global_simple", shape, seed=seed, spark=spark)
    play(history, finders("global_simple", spark), STEPS_ON_SPARK)


@pytest.mark.spark
@pytest.mark.parametrize(("index", "shape"), [("record", "typed"), ("bucket", "composite")])
def test_history_of_spark_frames(tmp_path, spark, index, shape):
    history = History.start(tmp_path / "t", index, SHAPES_BY_NAME[shape], seed=1, spark=spark)
    history.frames = True
    play(history, finders(index, None), STEPS_ON_SPARK)


@pytest.mark.spark
@pytest.mark.parametrize("index", LOCAL)
def test_executors_find_what_threads_find(tmp_path, spark, index, monkeypatch):
    history = History.start(tmp_path / "t", index, SHAPES_BY_NAME["text"], seed=1)
    history.bulk_insert()
    monkeypatch.setattr(table_module, "LocalRunner", lambda: SparkRunner(spark, local_bytes=0))
    history.check_lookups((index,))
