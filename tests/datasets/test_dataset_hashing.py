from __future__ import annotations

import numpy as np
import pytest
import xxhash

from keymark.datasets.generate.hashing import (
    SPARK_SEED,
    derive,
    draw,
    hash_bytes,
    hash_int,
    hash_long,
)

TEXT = np.frombuffer(bytes(range(256)), np.uint8)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 7, 8, 9, 12, 31, 32, 33, 36, 63, 64, 100, 200])
def test_bytes_hash_as_the_reference_library_does(size):
    expected = xxhash.xxh64_intdigest(bytes(TEXT[5 : 5 + size]), seed=99)
    assert hash_bytes(TEXT, 5, 5 + size, np.uint64(99)) == expected


@pytest.mark.parametrize("value", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_a_long_hashes_as_its_eight_bytes(value):
    expected = xxhash.xxh64_intdigest(value.to_bytes(8, "little", signed=True), seed=42)
    [word] = np.array([value], np.int64).view(np.uint64)
    assert hash_long(word, SPARK_SEED) == expected


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1])
def test_an_int_hashes_as_its_four_bytes(value):
    expected = xxhash.xxh64_intdigest(value.to_bytes(4, "little", signed=True), seed=42)
    [word] = np.array([value], np.int64).view(np.uint64)
    assert hash_int(word, SPARK_SEED) == expected


def test_the_example_of_sparks_documentation():
    # SELECT xxhash64('Spark', array(123), 2)
    state = hash_bytes(np.frombuffer(b"Spark", np.uint8), 0, 5, SPARK_SEED)
    for value in (123, 2):
        state = hash_int(np.uint64(value), np.uint64(state))
    assert state == 5602566077635097486


def test_a_draw_folds_its_arguments_from_left_to_right():
    first = hash_long(np.uint64(7), SPARK_SEED)
    second = hash_long(np.uint64(2), np.uint64(first))
    assert draw(7).tolist() == [first]
    assert draw(7, np.array([2])).tolist() == [second]


def test_derived_keys_are_positive_and_differ_by_every_name_and_seed():
    keys = {derive(seed, *names) for seed in (0, 1) for names in (("a",), ("b",), ("a", "b"))}
    assert len(keys) == 6
    assert all(0 <= key < 2**63 for key in keys)
