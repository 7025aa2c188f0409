from __future__ import annotations

import string

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.datasets.columns.kinds import Partition
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.profiles.shapes import (
    fitted,
    gini,
    java_hashes,
    largest_shard,
    look_at,
    rank_correlation,
)
from keymark.datasets.specs.spec import load_spec
from keymark.table.format.hashes.hashing import shards


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_hashes_are_those_of_the_record_index(texts):
    expected = shards(pa.array(texts, pa.string()), 16)
    assert (np.abs(java_hashes(texts)) % 16).tolist() == np.asarray(expected).tolist()


def test_entropy_counts_the_bits_that_are_drawn():
    rng = np.random.default_rng(1)
    digits = rng.integers(0, 16, (4_000, 8))
    texts = ["".join("0123456789abcdef"[digit] for digit in row) + "--" for row in digits]
    assert look_at(texts).entropy_bits == pytest.approx(32, abs=0.1)
    assert look_at(["same"] * 9).entropy_bits == 0
    # numbers without zeros before them are aligned at their ends
    assert look_at([str(number) for number in range(10_000)]).entropy_bits < 14


def test_characters_have_classes():
    found = look_at(["aB1-é中😀", "aB1-é中😀"]).characters
    assert found == {
        name: (pytest.approx(1 / 7), 1)
        for name in ("a-z", "A-Z", "0-9", "other ASCII", "2 bytes", "3 bytes", "4 bytes")
    }
    assert look_at(["abcdef01"]).characters == {"hex": (1.0, 8)}
    assert look_at([string.ascii_lowercase]).characters == {"a-z": (1.0, 26)}


def test_keys_of_one_hash_and_empty_texts():
    assert look_at(["AaAa", "BBBB", "AaBB"]).one_hash
    assert not look_at(["AaAa", "BBBC"]).one_hash
    assert not look_at(["AaAa", "AaAa"]).one_hash
    assert look_at([""]).entropy_bits == 0
    assert largest_shard(["AaAa", "BBBB"]) == 1
    assert largest_shard([str(number) for number in range(10_000)]) < 0.07


def test_rank_correlation():
    assert rank_correlation([1, 2, 3], ["a", "b", "c"]) == pytest.approx(1)
    assert rank_correlation([3, 2, 1], ["a", "b", "c"]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 2, 2], [1, 1, 5, 5]) == pytest.approx(1)
    assert rank_correlation([1, 2], [7, 7]) is None
    assert rank_correlation([], []) is None


def test_gini():
    assert gini(np.array([5, 5, 5])) == pytest.approx(0)
    assert gini(np.array([0, 0, 0, 8])) == pytest.approx(0.75)


@pytest.mark.parametrize("count", [3, 20, 400])
@pytest.mark.parametrize("sizes", ["flat", "zipf", "recent", "one"])
def test_partition_sizes_are_recognised(sizes, count):
    spec = load_spec(
        "trips",
        {"rows": 50_000, "date_partitions": count, "columns.dt.sizes": sizes, "seed": 9},
    )
    numbers, versions = GeneratedDataset(spec).batch_slice(0, 0, spec.rows)
    days = make_rows(spec, numbers, versions, ["dt"])["dt"].to_numpy()
    _, counts = np.unique(days, return_counts=True)
    assert isinstance(spec.columns["dt"], Partition)
    name, distance = fitted(counts)
    assert name == sizes
    assert distance < 0.06
    assert fitted(np.array([1, 1, 1, 1_000, 1_000, 1_000]))[1] > 0.2
