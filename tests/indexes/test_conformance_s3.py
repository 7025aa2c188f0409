"""Every index passes the suite of conformance.py on an S3 server, in threads and in Spark tasks."""

from __future__ import annotations

import pytest
from conformance import BY_METADATA, FINDERS, SHAPES_BY_NAME, History
from test_conformance import distributed, play

pytestmark = pytest.mark.filterwarnings("ignore:keys of column id hold a colon")

STEPS, STEPS_IN_TASKS = 2, 1
CASES = [
    ("record", "text", 0),
    ("record", "encoded", 1),
    ("bucket", "composite", 2),
    ("global_simple", "encoded", 3),
    ("simple", "nested", 0),
    ("global_bloom", "text", 1),
    ("bloom", "typed", 2),
    ("bloom_metadata", "encoded", 3),
    ("global_bloom_metadata", "no_partition", 0),
    ("compact", "nested", 0),
]


@pytest.mark.parametrize(("index", "shape", "seed"), CASES)
def test_history(s3, index, shape, seed):
    url = f"{s3.bucket()}/a folder/t"
    history = History.start(url, index, SHAPES_BY_NAME[shape], seed=seed, store=s3.options)
    indexes = (index, *FINDERS) if index == "record" else (BY_METADATA.get(index, index),)
    play(history, indexes, STEPS)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("index", "shape", "seed"), CASES[1:])
def test_history_in_tasks(s3, spark, index, shape, seed):
    """All work is Spark's, whose tasks connect by themselves."""
    history = History.start(s3.bucket(), index, SHAPES_BY_NAME[shape], seed=seed, store=s3.options)
    distributed(history, spark)
    play(history, (BY_METADATA.get(index, index),), STEPS_IN_TASKS)


@pytest.mark.spark
@pytest.mark.slow
def test_frames_are_written_and_read_in_tasks(s3, spark):
    """Without a jar of Hadoop's for S3."""
    shape = SHAPES_BY_NAME["text"]
    history = History.start(f"{s3.bucket()}/t", "record", shape, seed=1, store=s3.options)
    distributed(history, spark)
    history.frames = True
    history.bulk_insert()
    history.upsert()
    rows = history.table.read()
    assert rows.count() == len(history.model.rows)
    key = rows.first()["_hoodie_record_key"]
    assert [row["_hoodie_record_key"] for row in history.table.read(keys=[key]).collect()] == [key]
    assert history.table.read(where="ts < 3").count() == rows.where("ts < 3").count()
