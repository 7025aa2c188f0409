"""The bucket of a key: Hudi's, and what the releases do differently."""

from __future__ import annotations

import pyarrow as pa
import pytest

from keymark.table.format.hashes.hashing import buckets

PLAIN = ["", "a", "key-1", "ключ", "😀,é", "x,y", "k" * 300]
COMPOSITE = ["k:a,n:1", "k:__null__,n:2", "k:__empty__,n:3", "k:ключ 😀,n:4"]
COMMAS = ["k:d,e,n:20", "k:,,n:1"]
COLONS = ["k:v", "a:b,c:d", "ключ:键/😀", "12:30:00"]


def ours(keys, fields, hashed):
    return buckets(pa.array(keys), 1000, key_fields=fields, hash_fields=hashed).tolist()


@pytest.mark.spark
def test_buckets_are_those_of_hudi(hudi):
    assert ours(PLAIN, ["k"], []) == hudi.buckets(PLAIN, ["k"], 1000)
    for hashed in (["k", "n"], ["k"], ["n"]):
        assert ours(COMPOSITE, ["k", "n"], hashed) == hudi.buckets(COMPOSITE, hashed, 1000)


@pytest.mark.spark
def test_simple_keys_with_colons_are_in_the_buckets_of_0_15(hudi):
    """Hudi 0.15 takes such a key for a composite one; 1.x hashes it whole, in the same tables."""
    theirs = hudi.buckets(COLONS, ["k"], 1000)
    if hudi.version.startswith("0."):
        assert ours(COLONS, ["k"], []) == theirs
    else:
        whole = [key.replace(":", ";") for key in COLONS]
        assert ours(COLONS, ["k"], []) != theirs
        assert len(set(theirs)) == len(set(ours(whole, ["k"], [])))


@pytest.mark.spark
def test_composite_keys_with_commas_are_in_the_buckets_of_0_15(hudi):
    """Hudi 1.x takes another part of such a key, in the same tables."""
    theirs = hudi.buckets(COMMAS, ["k", "n"], 1000)
    assert (ours(COMMAS, ["k", "n"], []) == theirs) == hudi.version.startswith("0.")
