"""Every index passes the suite of conformance.py; on Spark with fewer histories."""

from __future__ import annotations

import pytest
from conformance import BY_METADATA, FINDERS, HASHED, SHAPES, SHAPES_BY_NAME, History

from keymark import Table
from keymark.table.properties.options import LOCAL_BYTES

# Some texts of the histories have a colon, which the bucket index warns of.
pytestmark = pytest.mark.filterwarnings("ignore:keys of column id hold a colon")

# Those that need something of the table are also asked where it has that.
OWN = ("record", "bucket", "partitioned_record", "compact")
INDEXES = (*OWN, HASHED, *FINDERS, *BY_METADATA)
LONGEST = (*OWN, "global_bloom")
STEPS, STEPS_ON_SPARK = 6, 4
# A seed's remainder by 4 decides about moves and event time.
CASES = [
    (shape, seed) for n, shape in enumerate(SHAPES) for seed in (range(4) if not n else (n, 5 - n))
]
FEWER = [(shape, n) for n, shape in enumerate(SHAPES)]


def finders(index):
    """The indexes that can serve a table with this one."""
    if index == HASHED:
        return ("record", "compact", *FINDERS)
    return (index, *FINDERS) if index in OWN else FINDERS


def play(history, indexes, steps):
    history.check_lookups(indexes)
    history.bulk_insert()
    history.check_lookups(indexes)
    for _ in range(steps):
        name = history.step()
        history.check_lookups(indexes)
        assert not (name == "none" and not history.model.rows)


@pytest.mark.parametrize(
    ("index", "shape", "seed"),
    [
        pytest.param(index, shape, seed, id=f"{index}-{shape.name}-{seed}")
        for index in INDEXES
        for shape, seed in (CASES if index in LONGEST else FEWER)
    ],
)
def test_history(tmp_path, index, shape, seed):
    history = History.start(tmp_path / "t", index, shape, seed=seed)
    play(history, finders(index), STEPS)
    assert history.by_hudi_rs() == history.model.contents()
    assert index != HASHED or history.table.check().ok


def distributed(history, spark):
    """All that an index does of the table is a Spark job from here on, however small."""
    given = {**history.table._given, LOCAL_BYTES: "0"}
    history.table = Table(history.table.storage, given, spark=spark)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("index", "shape", "seed"),
    [("global_simple", "text", 0), ("global_simple", "encoded", 1), ("simple", "composite", 2)],
)
def test_history_of_joins(tmp_path, spark, index, shape, seed):
    history = History.start(tmp_path / "t", index, SHAPES_BY_NAME[shape], seed=seed)
    distributed(history, spark)
    play(history, (index,), STEPS_ON_SPARK)


@pytest.mark.spark
@pytest.mark.parametrize(("index", "shape"), [("record", "typed"), ("bucket", "composite")])
def test_history_of_spark_frames(tmp_path, spark, index, shape):
    history = History.start(tmp_path / "t", index, SHAPES_BY_NAME[shape], seed=1, spark=spark)
    history.frames = True
    play(history, finders(index), STEPS_ON_SPARK)


@pytest.mark.spark
@pytest.mark.parametrize("index", [*OWN, *FINDERS, "bloom_metadata"])
def test_executors_find_what_threads_find(tmp_path, spark, index):
    history = History.start(tmp_path / "t", index, SHAPES_BY_NAME["text"], seed=1)
    history.bulk_insert()
    history.upsert()
    distributed(history, spark)
    history.check_lookups((BY_METADATA.get(index, index),))
