"""The conformance suite of the indexes on a cluster of two workers: every lookup is Spark's.

Run by `test_cluster.py` in a process of its own. A share of the cases has every index and every
shape of table; `--cluster full` runs them all, with longer histories.
"""

from __future__ import annotations

import pytest
from conformance import BY_METADATA, HASHED, SHAPES, SHAPES_BY_NAME, History
from test_conformance import INDEXES, distributed, play
from test_conformance_virtual import CASES as VIRTUAL
from test_conformance_virtual import MadeKeys, virtual

pytestmark = pytest.mark.filterwarnings("ignore:keys of column id hold a colon")

STEPS = {"share": 1, "full": 2}


def _name(place, *words):
    """Every third case is in the share."""
    return "-".join([*words, "share"] if place % 3 == 0 else words)


CASES = [
    pytest.param(index, shape.name, n, id=_name(i + n, index, shape.name))
    for i, index in enumerate(INDEXES)
    for n, shape in enumerate(SHAPES)
]


def asked(index):
    """The table's own index; an index by metadata is the one that it stands for."""
    return ("record", "compact") if index == HASHED else (BY_METADATA.get(index, index),)


@pytest.fixture
def steps(request):
    return STEPS[request.config.getoption("--cluster")]


@pytest.mark.parametrize(("index", "shape", "seed"), CASES)
def test_history(tmp_path, spark, steps, index, shape, seed):
    history = History.start(tmp_path / "t", index, SHAPES_BY_NAME[shape], seed=seed)
    distributed(history, spark)
    play(history, asked(index), steps)
    assert history.by_hudi_rs() == history.model.contents()


@pytest.mark.parametrize(
    ("index", "shape", "seed"),
    [pytest.param(*case, id=_name(i, case[0], case[1].name)) for i, case in enumerate(VIRTUAL)],
)
def test_history_without_stored_keys(tmp_path, spark, steps, index, shape, seed):
    history = MadeKeys.start(tmp_path / "t", index, virtual(shape), seed=seed)
    distributed(history, spark)
    play(history, asked(index), steps)


@pytest.mark.parametrize(
    ("index", "shape"), [("record", "typed"), ("bucket", "composite")], ids=["share", "bucket"]
)
def test_history_of_spark_frames(tmp_path, spark, steps, index, shape):
    history = History.start(tmp_path / "t", index, SHAPES_BY_NAME[shape], seed=1)
    distributed(history, spark)
    history.frames = True
    play(history, asked(index), steps)
