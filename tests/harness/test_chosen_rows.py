"""Rows that a run chooses by itself: which they are, and the truth that follows from them."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import RowsDigest
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec
from keymark.harness.run import chosen_rows

ROWS, DELETED = 3_000, 50


def dataset(**changes):
    said = {
        "rows": ROWS,
        "date_partitions": 10,
        "updates": 200,
        "inserts": 200,
        "deletes": DELETED,
        "update_choice.kind": "partitions",
        "update_choice.shares": [0.5, 0.5],
        "insert_shares": [0.5, 0.5],
    }
    return GeneratedDataset(load_spec("trips", {**said, **changes}))


def digest_of(made, numbers):
    versions = made.stream.versions(numbers, 1)
    return RowsDigest.of(make_rows(made.spec, numbers, versions), made.columns)


def test_the_latest_rows_are_updates_of_the_newest_partitions():
    made = dataset()
    latest = chosen_rows.latest(made, 1)
    assert len(set(latest.numbers.tolist())) == DELETED
    assert (latest.numbers < ROWS).all()
    days = make_rows(made.spec, latest.numbers, latest.before)["dt"].to_pylist()
    every = make_rows(made.spec, np.arange(ROWS), np.zeros(ROWS, np.int64))["dt"].to_pylist()
    assert set(days) <= set(sorted(set(every))[-2:])
    rest = np.setdiff1d(np.arange(ROWS + 200), latest.numbers)
    assert made.digest(1, deleted=False) + latest.change == digest_of(made, rest)


@pytest.mark.parametrize("is_latest", [True, False])
def test_spread_rows_are_everywhere_and_their_truth_is_that_of_the_rows(is_latest, tmp_path):
    made = dataset()
    without = chosen_rows.latest(made, 1) if is_latest else None
    chosen = chosen_rows.spread(made, 1, deleted=not is_latest, without=without)
    assert 400 - DELETED <= len(set(chosen.numbers.tolist())) == len(chosen.numbers) <= 400
    gone = without.numbers if is_latest else made.stream.deleted(0, DELETED)
    assert not np.isin(chosen.numbers, gone).any()
    chosen.write(tmp_path / "spread")
    rows = pq.read_table(tmp_path / "spread")
    assert rows.num_rows == len(chosen.numbers)
    assert pc.count_distinct(rows["dt"]).as_py() == 10
    assert set(rows["version"].to_pylist()) == {2}
    live = np.setdiff1d(np.arange(ROWS + 200), gone)
    before = digest_of(made, live)
    after = digest_of(made, np.setdiff1d(live, chosen.numbers)) + RowsDigest.of(rows, made.columns)
    assert before + chosen.change == after


def test_more_deletes_than_updates_are_refused():
    with pytest.raises(
        DatasetError, match="round 1 updates 20 rows, of which 50 are to be deleted"
    ):
        chosen_rows.latest(dataset(updates=20), 1)
