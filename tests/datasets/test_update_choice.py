"""Which rows a stream updates: exact counts, the shares that were asked for, the same in Spark."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_generated import (
    arrow_batch,
    arrow_deletes,
    assert_same_rows,
    check_stream,
    from_spark,
    small,
)

from keymark.datasets.changes.choice import UpdateChoice, pieces, shared_out
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.specs.spec import load_spec

KINDS = ("uniform", "zipf", "recent", "hot")
SHARES = [(0.8, 0.1), (1.0,), (0.0, 0.5, 0.5), (0.25,)]
choices = st.builds(
    UpdateChoice,
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from([0.3, 1.0, 1.5, 2.93, 20.0]),
    hot_rows=st.sampled_from([0.001, 0.1, 0.9]),
    hot_updates=st.sampled_from([0.1, 0.9, 1.0]),
)


streams = st.fixed_dictionaries(
    {
        "rows": st.integers(60, 200),
        "updates": st.integers(0, 20),
        "inserts": st.integers(0, 15),
        "deletes": st.integers(0, 6),
        "delete_every": st.integers(0, 2),
        "seed": st.integers(0, 2**62),
        "moves": st.integers(0, 3),
        "late": st.integers(0, 15),
        "insert_shares": st.sampled_from([(), *SHARES]),
        "date_partitions": st.integers(3, 9),
        "columns.dt.sizes": st.sampled_from(["flat", "zipf", "recent", "one"]),
        "update_choice": choices.map(UpdateChoice.model_dump)
        | st.sampled_from(SHARES).map(lambda shares: {"kind": "partitions", "shares": shares}),
    }
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


@settings(max_examples=100, deadline=None)
@given(streams, st.integers(0, 35), st.integers(0, 9))
def test_truth_equals_brute_force(stream, duplicates, repeats):
    keys = stream["updates"] + stream["inserts"]
    duplicates = min(duplicates, keys)
    check_stream(small(**stream, duplicates=duplicates, repeats=repeats if keys else 0), 3)


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


@pytest.mark.parametrize("moves", [0, 15])
@pytest.mark.parametrize("kind", [*KINDS, "partitions"])
def test_the_history_of_a_row_is_every_round_that_drew_it(kind, moves):
    choice = {"kind": kind, "shape": 0.8, "hot_rows": 0.2}
    stream = small(rows=300, updates=60, inserts=5, moves=moves, update_choice=choice).stream
    numbers = np.array([0, 17, 18, 19, 20, 21, 299, 300, 312])
    drawn = [
        {*stream.updated(r, 0, 60).tolist(), *stream.moved(r, 0, moves).tolist()}
        for r in range(1, 13)
    ]
    born = [0, 0, 0, 0, 0, 0, 0, 1, 3]
    expected = [
        [first, *[r for r, rows in enumerate(drawn, 1) if number in rows]]
        for number, first in zip(numbers.tolist(), born, strict=True)
    ]
    assert stream.changes(numbers, 12) == expected
    assert stream.versions(numbers, 12).tolist() == [rounds[-1] for rounds in expected]


def parts_of(dataset, round_, start, stop):
    """Counts of a slice of a round's batch by partition."""
    rows = make_rows(dataset.spec, *dataset.batch_slice(round_, start, stop))
    return Counter(rows["dt"].to_pylist())


@pytest.mark.parametrize("sizes", ["flat", "zipf", "recent"])
def test_partitions_get_the_shares_that_they_ask_for(sizes):
    choice = {"kind": "partitions", "shares": [0.6, 0.0, 0.3]}
    dataset = small(
        rows=100_000,
        updates=1000,
        inserts=500,
        delete_every=1,
        insert_shares=[0.5, 0.25],
        update_choice=choice,
        date_partitions=10,
        **{"columns.dt.sizes": sizes},
    )
    for round_ in (1, 2, 40):
        updated = parts_of(dataset, round_, 0, 1000)
        assert updated["2024-01-10"] == 600
        assert updated["2024-01-09"] == 0
        assert updated["2024-01-08"] == 300
        added = parts_of(dataset, round_, 1000, 1500)
        assert added["2024-01-10"] == pytest.approx(250, abs=5)
        assert added["2024-01-09"] == pytest.approx(125, abs=5)
        assert len(added) == 10


def test_a_row_that_moves_goes_on_to_the_next_partition_every_tenth_round():
    dataset = small(rows=1000, moves=20, updates=50, deletes=10, delete_every=1, date_partitions=7)
    stream = dataset.stream
    first = stream.moved(4, 0, 20)
    assert len(set(first.tolist())) == 20
    assert stream.moved(14, 0, 20).tolist() == stream.moved(24, 0, 20).tolist() == first.tolist()
    others = np.concatenate([stream.moved(r, 0, 20) for r in range(5, 14)])
    assert len(np.unique(np.concatenate([first, others]))) == 200

    def places(round_):
        versions = stream.versions(first, round_)
        days = make_rows(dataset.spec, first, versions, ["dt"])["dt"].to_pylist()
        return np.array([int(day[-2:]) - 1 for day in days])

    assert places(3).tolist() == places(0).tolist()
    assert places(4).tolist() == places(13).tolist() == ((places(0) + 1) % 7).tolist()
    assert places(14).tolist() == ((places(0) + 2) % 7).tolist()
    assert not set(stream.updated(4, 0, 50).tolist()) & set(first.tolist())


def test_keys_that_moved_are_sampled():
    dataset = small(rows=1000, moves=20, updates=50, deletes=10)
    found = dataset.sample_keys(13, present=100, absent=30, deleted=True, moved=60)
    numbers = np.concatenate([dataset.stream.moved(r, 0, 20) for r in (13, 12, 11)])
    moved = make_rows(dataset.spec, numbers, np.zeros_like(numbers), ["uuid"])
    assert found["uuid"][:60].to_pylist() == moved["uuid"].to_pylist()
    assert len(set(found["uuid"].to_pylist())) == len(found) == 130
    assert found["expect_present"].to_pylist() == [True] * 100 + [False] * 30
    none = dataset.sample_keys(0, present=100, absent=0, deleted=False, moved=60)
    assert len(none) == 100


@pytest.mark.spark
@pytest.mark.parametrize(
    "settings_",
    [
        {"update_choice": {"kind": "zipf", "shape": 0.9}, "moves": 7},
        {"update_choice": {"kind": "recent", "shape": 0.9}, "late": 40},
        {"update_choice": {"kind": "hot"}, "duplicates": 250, "inserts": 90},
        {"update_choice": {"kind": "partitions"}, "columns.dt.sizes": "zipf"},
        {"update_choice": {"kind": "partitions"}, "date_partitions": 7, "moves": 9},
        {"insert_shares": (1.0,), "moves": 11, "late": 20, "duplicates": 30},
        {"updates": 0, "inserts": 5, "repeats": 90},
    ],
    ids=["zipf", "recent", "hot", "sizes", "partitions", "uniform", "one key"],
)
def test_spark_draws_the_same_rows(spark, tmp_path, settings_):
    common = {"rows": 997, "updates": 200, "delete_every": 1, "payload_bytes": 8}
    dataset = GeneratedDataset(load_spec("trips", {**common, **settings_}), partitions=3)
    for round_ in (1, 12):
        batch = from_spark(dataset.batch(spark, round_), tmp_path / "batch")
        assert_same_rows(batch, arrow_batch(dataset, round_))
        gone = from_spark(dataset.deletes(spark, round_), tmp_path / "gone")
        assert_same_rows(gone, arrow_deletes(dataset, round_))


@pytest.mark.parametrize(
    ("settings_", "mistake"),
    [
        ({"update_choice.shares": [0.7, 0.4]}, "shares add up to 1.1, more than 1"),
        ({"insert_shares": [0.5] * 2, "partition_path": []}, "insert_shares: needs a column of"),
        ({"moves": 1, "partition_path": []}, "moves: needs a column of kind partition"),
        ({"update_choice.kind": "partitions", "date_partitions": 1}, "2 shares for 1 partitions"),
        ({"moves": 60}, "moves: 60 per round take 1,200 rows at least"),
        ({"moves": 1, "record_key": ["dt", "uuid"]}, "moves: column 'dt' is of the record key"),
        ({"duplicates": 41}, "duplicates: more than a batch has updates and inserts"),
        ({"repeats": 9, "updates": 0, "inserts": 0}, "repeats: a batch without updates"),
        ({"late": 1.5}, "late: 1.5 is neither a whole number nor a share"),
    ],
)
def test_streams_that_cannot_be_are_refused(settings_, mistake):
    with pytest.raises(DatasetError, match=re.escape(mistake)):
        small(**{"rows": 1000, "updates": 30, "inserts": 10, **settings_})


def test_mistakes_are_told_with_their_key():
    with pytest.raises(
        DatasetError, match=r"update_choice\.kind: input should be 'uniform', 'zipf'"
    ):
        load_spec("trips", {"update_choice.kind": "zip"})
    assert load_spec("trips", {"update_choice.kind": "zipf"}).update_choice.shape == 2.93
