"""Batches that stay out of the writer's process pass the suite of conformance.py, too.

Every batch is such a batch here: `keymark.batch.collect.bytes` is 0.
"""

from __future__ import annotations

import pytest
from conformance import BY_METADATA, SHAPES, SHAPES_BY_NAME, History
from test_conformance import distributed, play

from keymark.indexes.installed import specs
from keymark.table.properties.options import BATCH_COLLECT
from keymark.table.write.large import prepare, slices

pytestmark = pytest.mark.filterwarnings("ignore:keys of column id hold a colon")

ALWAYS = {BATCH_COLLECT: "0"}
# An index that needs a server is asked by its own tests.
INDEXES = tuple(name for name, spec in specs().items() if not spec.requirements.servers)
STEPS = 6


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(
    ("shape", "seed"), [(SHAPES[0], 0), (SHAPES[1], 2)], ids=("text", "composite")
)
def test_history(tmp_path, index, shape, seed):
    history = History.start(tmp_path / "t", index, shape, seed=seed, store=ALWAYS)
    play(history, (index,), STEPS)
    assert history.by_hudi_rs() == history.model.contents()
    assert history.table.check().ok


@pytest.mark.parametrize("shape", SHAPES[2:], ids=lambda shape: shape.name)
def test_history_of_other_shapes(tmp_path, shape):
    history = History.start(tmp_path / "t", "record", shape, seed=4, store=ALWAYS)
    play(history, ("record",), STEPS)
    assert history.table.check().ok


@pytest.mark.parametrize("index", ["record", "global_simple", "bucket", *BY_METADATA])
def test_history_of_parts_in_slices(tmp_path, index, monkeypatch):
    """Memory holds a few hundred bytes of rows: each part is taken in several slices."""
    monkeypatch.setattr(slices, "SLICE_COPIES", 1 << 20)
    monkeypatch.setattr(slices, "ROW_COPIES", 1 << 20)
    monkeypatch.setattr(prepare, "_SAMPLE_BYTES", 100)
    history = History.start(tmp_path / "t", index, SHAPES[0], seed=0, store=ALWAYS)
    play(history, (BY_METADATA.get(index, index),), STEPS)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("index", "shape"), [("record", "typed"), ("bucket", "composite"), ("simple", "text")]
)
def test_history_of_spark_frames(tmp_path, spark, index, shape):
    """All of it in Spark's tasks."""
    history = History.start(
        tmp_path / "t", index, SHAPES_BY_NAME[shape], seed=1, spark=spark, store=ALWAYS
    )
    distributed(history, spark)
    history.frames = True
    play(history, (index,), 4)
