"""Which rows a stream updates: exact counts, the shares that were asked for, the same in Spark."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_generated import arrow_batch, assert_same_rows, check_stream, from_spark, small

from datasets.choice import UpdateChoice, pieces, shared_out
from datasets.errors import DatasetError
from datasets.generated import GeneratedDataset
from datasets.spec import load_spec

KINDS = ("uniform", "zipf", "recent", "hot")
choices = st.builds(
    UpdateChoice,
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from([0.3, 1.0, 1.5, 2.93, 20.0]),
    hot_rows=st.sampled_from([0.001, 0.1, 0.9]),
    hot_updates=st.sampled_from([0.1, 0.9, 1.0]),
)


@given(choices, st.integers(1, 10**13), st.data())
def test_pieces_hold_exactly_the_updates(choice, live, data):
    updates = data.draw(st.integers(0, live))
    found = pieces(choice, live, updates)
    assert sum(piece.quota for piece in found) == updates
    at = 0
    for piece in found:
        assert 0 < piece.quota <= piece.size
        assert piece.first >= at
        at = piece.first + piece.size
        assert choice.kind == "uniform" or piece.size.bit_count() == 1
    assert at <= live


@given(st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 50)), min_size=1), st.data())
def test_shares_add_up(parts, data):
    weights, sizes = zip(*parts, strict=True)
    amount = data.draw(st.integers(0, sum(sizes)))
    shares = shared_out(amount, weights, sizes)
    assert sum(shares) == amount
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))


@settings(max_examples=60, deadline=None)
@given(
    choice=choices,
    rows=st.integers(20, 120),
    updates=st.integers(0, 20),
    inserts=st.integers(0, 15),
    deletes=st.integers(0, 6),
    delete_every=st.integers(0, 2),
    seed=st.integers(0, 2**62),
)
def test_truth_equals_brute_force(choice, rows, updates, inserts, deletes, delete_every, seed):
    dataset = small(
        rows=rows,
        updates=min(updates, rows - 3 * deletes),
        inserts=inserts,
        deletes=deletes,
        delete_every=delete_every,
        seed=seed,
        update_choice=choice.model_dump(),
    )
    check_stream(dataset, 3)


def stream_of(kind, **overrides):
    choice = {"kind": kind, **overrides.pop("choice", {})}
    return small(rows=100_000, update_choice=choice, deletes=0, **overrides).stream


def updates_of(stream, rounds):
    return [stream.updated(round_, 0, stream.updates) for round_ in range(1, rounds + 1)]


def test_hot_rows_get_their_share_and_stay_hot():
    stream = stream_of("hot", updates=1000, inserts=0)
    counts = Counter(np.concatenate(updates_of(stream, 20)).tolist())
    hot = {row for row, _ in counts.most_common(1000)}
    share = sum(counts[row] for row in hot) / 20_000
    assert share == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(("shape", "same"), [(0.5, 0.3), (2.93, 0.3)])
def test_the_steeper_the_more_rows_come_again(shape, same):
    stream = stream_of("zipf", choice={"shape": shape}, updates=1000, inserts=0)
    first, second = updates_of(stream, 2)
    again = len(set(first.tolist()) & set(second.tolist())) / 1000
    assert (again > same) == (shape > 1)


def test_recent_rows_are_the_inserted_ones():
    stream = stream_of("recent", choice={"shape": 1.2}, updates=1000, inserts=2000)
    late = updates_of(stream, 10)[-1]
    newest, inserted = late >= 100_000 + 8 * 2000, late >= 100_000
    assert newest.mean() > 0.6
    assert inserted.mean() > newest.mean()
    assert not inserted.all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_history_of_a_row_is_every_round_that_drew_it(kind):
    stream = small(
        rows=300, updates=60, inserts=5, update_choice={"kind": kind, "shape": 0.8, "hot_rows": 0.2}
    ).stream
    numbers = np.array([0, 17, 299, 300, 312])
    drawn = [set(stream.updated(r, 0, 60).tolist()) for r in range(1, 13)]
    born = [0, 0, 0, 1, 3]
    expected = [
        [first, *[r for r, rows in enumerate(drawn, 1) if number in rows]]
        for number, first in zip(numbers.tolist(), born, strict=True)
    ]
    assert stream.changes(numbers, 12) == expected
    assert stream.versions(numbers, 12).tolist() == [rounds[-1] for rounds in expected]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["zipf", "recent", "hot"])
def test_spark_draws_the_same_rows(spark, tmp_path, kind):
    settings_ = {"rows": 997, "updates": 200, "delete_every": 1, "payload_bytes": 8}
    spec = load_spec("trips", {**settings_, "update_choice": {"kind": kind, "shape": 0.9}})
    dataset = GeneratedDataset(spec, partitions=3)
    for round_ in (1, 3):
        batch = from_spark(dataset.batch(spark, round_), tmp_path / "batch")
        assert_same_rows(batch, arrow_batch(dataset, round_))


def test_mistakes_are_told_with_their_key():
    with pytest.raises(
        DatasetError, match=r"update_choice\.kind: input should be 'uniform', 'zipf'"
    ):
        load_spec("trips", {"update_choice.kind": "zip"})
    assert load_spec("trips", {"update_choice.kind": "zipf"}).update_choice.shape == 2.93
