"""Hashes against vectors from Java."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.format.hashes import hashing

SHARDS = {
    "key-00000": (0, 2, 2, 4, 914),
    "key-00001": (1, 3, 3, 5, 915),
    "000b0bf6-3e23-0cfc-f5f2-95846b90e5f1": (0, 0, 3, 0, 860),
    "new-ü": (1, 3, 5, 7, 207),
    "a😀b": (0, 2, 0, 4, 694),
    "polygenelubricants": (0, 0, 2, 8, 648),
}


def reference_hash(text):
    units = np.frombuffer(text.encode("utf-16-le"), "<u2").tolist()
    state = 0
    for unit in units:
        state = (31 * state + unit) & 0xFFFFFFFF
    return state - (1 << 32) if state >> 31 else state


def reference_list_hash(values):
    state = 1
    for value in values:
        state = (31 * state + (0 if value is None else reference_hash(value))) & 0xFFFFFFFF
    return state & 0x7FFFFFFF


def test_shards_of_known_keys():
    keys = pa.array(list(SHARDS))
    for i, count in enumerate((2, 4, 7, 10, 1000)):
        assert hashing.shards(keys, count).tolist() == [row[i] for row in SHARDS.values()]


def test_smallest_int():
    assert hashing.java_hashes(pa.array(["polygenelubricants"])).tolist() == [-(2**31)]


@settings(deadline=None)
@given(st.lists(st.text()))
def test_hash_equals_java_definition(texts):
    for kind in (pa.string(), pa.large_string()):
        hashes = hashing.java_hashes(pa.array(texts, kind))
        assert hashes.dtype == np.int32
        assert hashes.tolist() == [reference_hash(text) for text in texts]


def test_slices_chunks_and_dictionaries():
    texts = [f"ключ-{i}-😀" for i in range(50)]
    expected = [reference_hash(text) for text in texts]
    keys = pa.array(texts)
    assert hashing.java_hashes(keys.slice(7, 11)).tolist() == expected[7:18]
    assert hashing.java_hashes(pa.chunked_array([keys[:9], keys[9:]])).tolist() == expected
    assert hashing.java_hashes(keys.dictionary_encode()).tolist() == expected
    assert hashing.java_hashes(pa.array([], pa.string())).tolist() == []


@pytest.mark.parametrize("keys", [pa.array(["a", None]), pa.array([1, 2])])
def test_no_nulls_no_other_types(keys):
    with pytest.raises(ValueError):
        hashing.java_hashes(keys)


def bucket_of(key, count, hash_fields=(), key_fields=("k1", "k2")):
    found = hashing.buckets(pa.array([key]), count, key_fields=key_fields, hash_fields=hash_fields)
    return found.tolist()[0]


def test_buckets_of_known_keys():
    assert bucket_of("uuid-1", 16) == 14
    assert bucket_of("1", 16) == 0
    assert bucket_of("k1:1,k2:x", 16) == 8
    assert bucket_of("k1:1,k2:x", 16, hash_fields=["k1"]) == 0
    # A colon in a simple key: no part is wanted, the list is empty.
    assert bucket_of("a:b", 16, key_fields=["uuid"]) == 1


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("k1:__null__,k2:x", [None, "x"]),
        ("k1:__empty__,k2:x", ["", "x"]),
        ("k1:a:b,k2:", ["a:b", ""]),
        ("k1:d:e,f,k2:2", ["d:e", "f", "2"]),
        ("k1:é😀,k3:no,k2:2", ["é😀", "2"]),
        ("k1:1,,k2:2", ["1", "", "2"]),
        ("k1:1,__null__,k2:2", ["1", "__null__", "2"]),
        (",k2:2,,", ["", "2"]),
    ],
)
def test_composite_keys_are_split_like_java(key, values):
    for count in (7, 256, 2**31 - 1):
        assert bucket_of(key, count) == reference_list_hash(values) % count


def test_many_buckets():
    rng = random.Random(3)
    keys = [f"uuid-{rng.random()}" for _ in range(300)]
    expected = [reference_list_hash([key]) % 16 for key in keys]
    found = hashing.buckets(pa.array(keys), 16, key_fields=["uuid"], hash_fields=[])
    assert found.tolist() == expected


def test_identifiers():
    assert hashing.column_id("ts") == "oyTjviKHuhI="
    assert hashing.partition_id(".") == "FXThHwelITM="
    assert hashing.partition_id("2024/01/03") == "rBCIEDJ97Co="
    assert hashing.partition_id("") == "DW/eaNVbRdo="
    assert hashing.partition_id("ü日本") == "zFEJJyRtfZY="
    assert hashing.file_id_hash("ts") == "TWguxO7SfFOEl1i8E7bheQ=="
