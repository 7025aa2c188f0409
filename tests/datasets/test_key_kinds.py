"""Every kind of record key: unique, the same in Arrow and in Spark, shaped as it says."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.datasets.changes.stream import Stream
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.generate.spark import inserted
from keymark.datasets.generate.spark import rows as spark_rows
from keymark.datasets.specs.spec import load_spec
from keymark.table.format.hashes.hashing import java_hashes

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
KINDS = {
    "uuid": {},
    "uuid7": {"per_ms": 3},
    "sequence": {"start": 7},
    "numbered": {"prefix": "it's a \\ key-", "width": 12},
    "hashed": {"digits": 64},
    "letters": {"length": 40},
    "one_shard": {},
    "hot_shard": {"share": 0.6, "inserted_share": 0.2},
}
BEYOND = 1 << 60


def spec_of(kind, **options):
    return load_spec("trips", {"rows": 400, "columns.uuid": {"kind": kind, **options}})


def keys_of(spec, numbers):
    numbers = np.array(numbers, np.int64)
    return make_rows(spec, numbers, np.zeros_like(numbers), ["uuid"])["uuid"].to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_keys_differ_and_do_not_change_with_the_version(kind):
    spec = spec_of(kind, **KINDS[kind])
    numbers = np.concatenate([np.arange(3000), BEYOND + np.arange(300)])
    first = make_rows(spec, numbers, np.zeros_like(numbers), ["uuid"])["uuid"]
    later = make_rows(spec, numbers, np.full_like(numbers, 9), ["uuid"])["uuid"]
    assert first.equals(later)
    assert len(set(first.to_pylist())) == len(numbers)


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_spark_makes_the_same_keys(spark, kind):
    spec = spec_of(kind, **KINDS[kind])
    made = spark_rows(spec, inserted(spark, Stream(spec), 0, 3), ["uuid", "dt"])
    assert sorted(row.uuid for row in made.collect()) == sorted(keys_of(spec, range(400)))
    assert dict(made.dtypes)["uuid"] == dict(spec.flat_columns())["uuid"].spark_type


@pytest.mark.parametrize("kind", ["uuid7", "numbered", "one_shard"])
def test_keys_that_grow_with_the_row(kind):
    options = {"prefix": "k", "width": 9} if kind == "numbered" else {}
    ordered = keys_of(spec_of(kind, **options), range(0, 10**8, 999_983))
    assert ordered == sorted(ordered)


def test_shapes():
    assert all(UUID7.fullmatch(key) for key in keys_of(spec_of("uuid7"), range(300)))
    milliseconds = {key[:13] for key in keys_of(spec_of("uuid7", per_ms=10), range(300))}
    assert len(milliseconds) == 30
    assert keys_of(spec_of("sequence", start=5), [0, 3]) == [5, 8]
    assert keys_of(spec_of("numbered"), [0, 12]) == ["0", "12"]
    assert keys_of(spec_of("numbered", width=2), [7, 123]) == ["07", "123"]
    assert all(re.fullmatch("[0-9a-f]{48}", k) for k in keys_of(spec_of("hashed", digits=48), [3]))
    (letters,) = keys_of(spec_of("letters", length=5, alphabet="😀é"), [17])
    assert re.fullmatch("[😀é]{5}17", letters)


@given(st.lists(st.integers(0, 2**61 - 1), min_size=2, max_size=50, unique=True))
def test_keys_of_one_shard_hash_alike(numbers):
    hashes = java_hashes(pa.array(keys_of(spec_of("one_shard"), numbers)))
    assert len(set(hashes.tolist())) == 1


@pytest.mark.parametrize(("share", "inserted_share"), [(0.9, 0.0), (0.0, 1.0), (1.0, 0.5)])
def test_a_share_of_keys_has_one_hash_code(share, inserted_share):
    kind = {"kind": "hot_shard", "share": share, "inserted_share": inserted_share}
    spec = load_spec("trips", {"rows": 5000, "columns.uuid": kind})
    for first, expected in ((0, share), (5000, inserted_share), (BEYOND, inserted_share)):
        keys = keys_of(spec, range(first, first + 5000))
        assert {len(key) for key in keys} == {33}
        hashes = java_hashes(pa.array(keys))
        assert (hashes == 0).mean() == pytest.approx(expected, abs=0.02)
        others = hashes[hashes != 0]
        assert len(set(others.tolist())) >= 0.99 * len(others)
        owners = Counter((np.abs(others.astype(np.int64)) % 4).tolist())
        assert all(count / len(others) == pytest.approx(0.25, abs=0.1) for count in owners.values())


@pytest.mark.parametrize("sizes", ["flat", "zipf", "recent", "one"])
def test_sizes_of_partitions(sizes):
    spec = load_spec("trips", {"rows": 60_000, "columns.dt.sizes": sizes})
    numbers = np.arange(60_000)
    days = make_rows(spec, numbers, 0 * numbers, ["dt"])["dt"].to_pylist()
    counts = Counter(days)
    shares = [counts[day] / 60_000 for day in sorted(counts)]
    assert len(shares) == 20
    if sizes == "flat":
        assert max(shares) < 1.2 * min(shares)
    elif sizes == "zipf":
        ranked = sorted(shares, reverse=True)
        total = sum(1 / n for n in range(1, 21))
        for place in (0, 1, 4, 9):
            assert ranked[place] == pytest.approx(1 / (place + 1) / total, rel=0.1)
    elif sizes == "one":
        assert shares[-1] == pytest.approx(0.9, abs=0.01)
        assert max(shares[:-1]) < 1.2 * min(shares[:-1])
    else:
        assert shares[-1] / shares[-11] == pytest.approx(1.5, rel=0.12)


@pytest.mark.spark
@pytest.mark.parametrize("sizes", ["zipf", "recent", "one"])
def test_spark_fills_the_same_partitions(spark, sizes):
    spec = load_spec("trips", {"rows": 300, "columns.dt.sizes": sizes})
    made = spark_rows(spec, inserted(spark, Stream(spec), 0, 2), ["uuid", "dt"]).collect()
    numbers = np.arange(300)
    expected = make_rows(spec, numbers, 0 * numbers, ["uuid", "dt"]).to_pylist()
    assert {row.uuid: row.dt for row in made} == {row["uuid"]: row["dt"] for row in expected}


def test_a_key_needs_a_kind_that_is_unique():
    with pytest.raises(DatasetError, match="of kind uuid, uuid7, sequence, numbered, hashed"):
        load_spec("trips", {"record_key": "city"})
    with pytest.raises(DatasetError, match="line breaks"):
        spec_of("letters", alphabet="a\nb")


def test_composite_keys_may_have_one_unique_column():
    spec = load_spec(
        "trips",
        {
            "record_key": ["area", "uuid"],
            "columns.area": {"kind": "choice", "values": ["n", "s"], "fixed": True},
            "columns.uuid.kind": "sequence",
        },
    )
    assert spec.record_key == ("area", "uuid")


@pytest.mark.parametrize("count", [2, 20, 400, 1_000, 20_000])
def test_one_partition_has_nine_tenths_however_many_there_are(count):
    lots, _ = load_spec(
        "trips", {"date_partitions": count, "columns.dt.sizes": "one"}
    ).partition_lots
    assert (lots == count - 1).mean() == pytest.approx(0.9, abs=1e-3)
    assert len(set(lots.tolist())) == count
