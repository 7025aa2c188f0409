"""One row a key: against a dictionary, and piece by piece as tasks do it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.write.batch import Batch, combine

ROWS = st.lists(
    st.tuples(st.text("ab", max_size=1), st.sampled_from("pq"), st.none() | st.integers(0, 3)),
    max_size=20,
)


def batch_of(rows):
    """A batch whose column `n` numbers its rows."""
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    return Batch(
        keys=pa.array(columns[0], pa.string()),
        partitions=pa.array(columns[1], pa.string()),
        deletes=np.zeros(len(rows), bool),
        rows=pa.table({"ts": pa.array(columns[2], pa.int64()), "n": np.arange(len(rows))}),
    )


def kept(batch, *, is_global, ordering="ts"):
    """The numbers of the rows that count."""
    made = combine(batch, SimpleNamespace(ordering=ordering), is_global=is_global)
    assert len(made) == made.rows.num_rows == len(made.partitions) == len(made.deletes)
    return made.rows["n"].to_pylist()


@given(ROWS, st.booleans(), st.sampled_from([None, "ts"]))
def test_the_greatest_row_of_a_key_counts_and_of_equal_ones_the_last(rows, is_global, ordering):
    best = {}
    for number, (key, path, ts) in enumerate(rows):
        identity = key if is_global else (key, path)
        rank = 0 if ordering is None else -1 if ts is None else ts
        if identity not in best or rank >= best[identity][0]:
            best[identity] = rank, number
    expected = sorted(number for _, number in best.values())
    assert kept(batch_of(rows), is_global=is_global, ordering=ordering) == expected


@given(ROWS, st.integers(0, 20), st.booleans())
def test_pieces_may_be_combined_before(rows, cut, is_global):
    batch = batch_of(rows)
    every = np.arange(len(rows))
    left = [kept(batch.take(part), is_global=is_global) for part in (every[:cut], every[cut:])]
    joined = batch.take(np.array(left[0] + left[1], np.int64))
    assert kept(joined, is_global=is_global) == kept(batch, is_global=is_global)


@pytest.mark.parametrize("values", [["b", "a", None], [2.5, float("nan"), None], [True, False]])
def test_ordering_values_of_other_types(values):
    rows = [("k", "p", None)] * len(values)
    batch = batch_of(rows)
    ordered = Batch(
        keys=batch.keys,
        partitions=batch.partitions,
        deletes=batch.deletes,
        rows=batch.rows.set_column(0, "ts", pa.array(values)),
    )
    assert kept(ordered, is_global=True) == [0]
