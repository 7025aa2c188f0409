"""Every kind of value: the same in Arrow and in Spark, within its bounds, null where it may be."""

from __future__ import annotations

import decimal
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from value_kinds import KINDS, LONG

from keymark.datasets.changes.stream import Stream
from keymark.datasets.columns.pools import POOL_NAMES, pool
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import digest_arrow
from keymark.datasets.generate.rows import make_rows
from keymark.datasets.generate.spark import digest_dataframe, inserted
from keymark.datasets.generate.spark import rows as spark_rows
from keymark.datasets.specs.spec import load_spec

ROWS = 400


def spec_of(columns, **settings_):
    given_ = {f"columns.{name}": options for name, options in columns.items()}
    return load_spec("trips", {"rows": ROWS, "payload_bytes": 37, **given_, **settings_})


def values_of(options, numbers=range(ROWS), version=0):
    numbers = np.array(numbers, np.int64)
    spec = spec_of({"x": options})
    return make_rows(spec, numbers, np.full_like(numbers, version), ["x"])["x"]


@pytest.mark.slow
@pytest.mark.spark
def test_spark_makes_the_same_values_of_every_type(spark, tmp_path):
    spec = spec_of(KINDS)
    names = list(KINDS)
    made = spark_rows(spec, inserted(spark, Stream(spec), 0, 3), ["uuid", *names])
    kinds = dict(spec.flat_columns())
    assert {name: dict(made.dtypes)[name] for name in names} == {
        name: kinds[name].spark_type for name in names
    }
    expected = make_rows(spec, np.arange(ROWS), np.zeros(ROWS, np.int64), ["uuid", *names])
    made.write.parquet(str(tmp_path / "made"))
    stored = pq.read_table(tmp_path / "made", coerce_int96_timestamp_unit="us").sort_by("uuid")
    ordered = expected.sort_by("uuid")
    for name in names:
        values = ordered[name].cast(stored[name].type) if name == "at" else ordered[name]
        assert stored[name].to_pylist() == values.to_pylist(), name
    assert digest_dataframe(made) == digest_arrow(expected)


def test_every_type_that_a_table_can_hold_is_made():
    spec = spec_of(KINDS)
    schema = make_rows(spec, np.arange(3), np.zeros(3, np.int64)).schema
    kinds = {str(field.type).partition("<")[0].partition("[")[0] for field in schema}
    assert {pa.types.is_decimal(field.type) for field in schema} == {True, False}
    assert kinds >= {"bool", "int32", "int64", "float", "double", "string", "binary", "date32"}
    assert kinds >= {"timestamp", "struct", "list", "map"}


@pytest.mark.parametrize("name", KINDS)
def test_values_are_functions_of_row_and_version(name):
    whole = values_of(KINDS[name])
    parts = pa.chunked_array(
        [chunk for at in range(0, ROWS, 57) for chunk in _part(name, at).chunks], whole.type
    )
    assert parts.to_pylist() == whole.to_pylist()
    assert len(values_of(KINDS[name], [])) == 0
    changed = values_of(KINDS[name], version=1)
    constant = name in ("empty", "constant")
    assert changed.equals(whole) == (KINDS[name].get("fixed", False) or constant)


def _part(name, at):
    return values_of(KINDS[name], range(at, min(ROWS, at + 57)))


@settings(max_examples=60)
@given(st.data(), st.sampled_from(["int", "long", "float", "double", "decimal"]))
def test_numbers_stay_within_their_bounds(data, kind):
    low = data.draw(st.integers(-(2**31), 2**31 - 1))
    high = data.draw(st.integers(low, 2**31 - 1))
    found = values_of({"kind": kind, "low": low, "high": high}, range(50)).to_pylist()
    slack = 128 if kind == "float" else 0
    assert all(low - slack <= value <= high + slack for value in found)
    assert len(set(found)) > 1 or high - low < 50


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_nulls_are_the_share_that_was_asked_for(share):
    values = values_of({"kind": "bool", "null_share": share}, range(20_000))
    assert values.null_count / 20_000 == pytest.approx(share, rel=0.15)


def test_sizes_and_keys_of_nested_values():
    lists = values_of({"kind": "list", "items": LONG, "low": 1, "high": 3}, range(3000))
    counts = np.bincount([len(value) for value in lists.to_pylist()])
    assert counts[0] == 0
    assert counts[1:].tolist() == pytest.approx([1000] * 3, rel=0.1)
    options = {"kind": "map", "keys": list("abcde"), "values": LONG, "low": 2, "high": 2}
    keys = {tuple(key for key, _ in value) for value in values_of(options).to_pylist()}
    assert keys == {tuple("ab"), tuple("bc"), tuple("cd"), tuple("de"), tuple("ea")}


def test_elements_of_a_list_are_drawn_apart():
    pairs = values_of(KINDS["pair"]).to_pylist()
    assert all(one != other for one, other in pairs)
    halves = {(one, other) for one, other in values_of(_pair_of("bool")).to_pylist()}
    assert len(halves) == 4


def _pair_of(kind):
    return {"kind": "list", "items": {"kind": kind}, "low": 2, "high": 2}


def test_templates_say_what_they_promise():
    orders = values_of({**KINDS["order"], "numbers": 1000}).drop_null().to_pylist()
    cities = set(pool("city", 1000, 42))
    for order in orders:
        (city,) = re.fullmatch(r"Order \d{1,3} for (.+), 'é🙂'", order).groups()
        assert city in cities
    assert values_of(KINDS["constant"])[0].as_py() == "{x}"
    assert len(set(values_of(KINDS["name"]).to_pylist())) > 300


def test_decimals_have_their_digits():
    (fine, *_) = values_of(KINDS["fine"]).to_pylist()
    assert fine.as_tuple().exponent == -18
    digits = {decimal.Decimal(number) for number in range(-9, 10)}
    assert set(values_of(KINDS["whole"]).to_pylist()) == digits


@pytest.mark.parametrize("name", POOL_NAMES)
def test_every_pool_has_texts_of_one_line_that_the_seed_decides(name):
    texts = pool(name, 30, 5)
    assert texts == pool.__wrapped__(name, 30, 5) != pool(name, 30, 6)
    assert all(text and "\n" not in text for text in texts)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"kind": "int", "low": 0, "high": 2**31}, "columns.x: low and high must be from -2147"),
        ({"kind": "decimal", "low": 0, "high": 100, "precision": 4}, "from -99 to 99"),
        ({"kind": "template", "text": "{towns}"}, "columns.x.text: there is no {towns}"),
        ({"kind": "template", "text": "{city!r}"}, "columns.x.text: there is no"),
        ({"kind": "list", "items": {"kind": "lnog"}}, "items: unknown kind 'lnog'.*'long'"),
        (
            {"kind": "struct", "fields": {"date": {"kind": "bool", "fxed": True}}},
            r"columns.x.fields.date.fxed: unknown key \(did you mean 'fixed'",
        ),
        ({"kind": "struct", "fields": {"a": {"kind": "bool"}, "A": {"kind": "bool"}}}, "ignores"),
        ({"kind": "map", "keys": ["a", "a"], "values": {"kind": "bool"}, "high": 1}, "different"),
        ({"kind": "map", "keys": ["a"], "values": {"kind": "bool"}}, "4 at least"),
        ({"kind": "list", "items": {"kind": "bool"}, "low": 5}, "above high"),
        ({"kind": "binary", "size": 0}, "columns.x.size"),
        ({"kind": "uuid", "null_share": 0.1}, "null_share: unknown key"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(options, part):
    with pytest.raises(DatasetError, match=part):
        spec_of({"x": options})


def test_keys_and_partitions_are_never_null():
    options = {"kind": "choice", "values": ["a"], "fixed": True, "null_share": 0.1}
    with pytest.raises(DatasetError, match="x: a key or partition column must not be null"):
        spec_of({"x": options}, partition_path=["x"])
