"""Sizes of rows and of partitions are those that were asked for."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from keymark.datasets.changes.stream import Stream
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.rows import chunk_rows, make_rows
from keymark.datasets.generate.spark import inserted
from keymark.datasets.generate.spark import rows as spark_rows
from keymark.datasets.specs.sizes import plain_bytes
from keymark.datasets.specs.spec import load_spec

NARROW = """
name = "narrow"
record_key = ["id"]
ordering = "ts"
[columns]
id = { kind = "sequence" }
ts = { kind = "ordering" }
data = { kind = "payload" }
"""
VALUES = [
    (pa.bool_(), [True, None], 1),
    (pa.int32(), [1, None], 4),
    (pa.float64(), [1.0, 2.0], 16),
    (pa.date32(), [dt.date(2024, 1, 1), None], 4),
    (pa.timestamp("us", "UTC"), [0, 1], 16),
    (pa.decimal128(12, 2), [1, None], 6),
    (pa.string(), ["aé", None], 3),
    (pa.binary(), [b"abc", b""], 3),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": 1, "b": "xy"}, None], 6),
    (pa.list_(pa.int64()), [[1, 2, None], None], 16),
    (pa.map_(pa.string(), pa.int32()), [[("ab", 1), ("c", None)], None], 7),
]


@pytest.mark.parametrize(("kind", "values", "expected"), VALUES, ids=lambda value: str(value)[:20])
def test_plain_bytes_are_those_of_the_values(kind, values, expected):
    assert plain_bytes(pa.array(values, kind)) == expected
    assert plain_bytes(pa.array([], kind)) == 0


def mean_bytes(spec, rows):
    numbers = np.arange(rows) * 7 + 12_345
    table = make_rows(spec, numbers, np.ones_like(numbers))
    return sum(plain_bytes(c.combine_chunks()) for c in table.columns) / rows


@pytest.mark.parametrize("size", [50, 51, 1024, 100_000])
def test_rows_have_the_size_that_was_asked_for(tmp_path, size):
    path = tmp_path / "narrow.toml"
    path.write_text(NARROW)
    assert mean_bytes(load_spec(path, {"record_bytes": size}), 20) == size


@pytest.mark.parametrize("name", ["trips", "events", "customers", "iot", "wide"])
def test_records_of_every_dataset_may_have_a_size(name):
    spec = load_spec(name, {"record_bytes": 3000})
    assert mean_bytes(spec, 2000) == pytest.approx(3000, rel=0.01)


def test_sizes_that_no_payload_can_give_are_refused():
    with pytest.raises(DatasetError, match=r"record_bytes: must be 9\d at least"):
        load_spec("trips", {"record_bytes": 20})
    with pytest.raises(DatasetError, match="record_bytes: needs a column of kind payload"):
        load_spec("trips", {"record_bytes": 200, "columns.payload.kind": "bool"})


def test_large_records_are_made_a_few_at_a_time():
    assert chunk_rows(load_spec("trips", {"record_bytes": 100_000})) < 400
    listed = {"kind": "list", "items": {"kind": "binary", "size": 10_000}, "low": 5, "high": 9}
    assert chunk_rows(load_spec("trips", {"columns.x": listed})) < 700
    assert chunk_rows(load_spec("trips")) > 30_000


def partitions(**options):
    settings = {f"columns.dt.{name}": value for name, value in options.items() if name != "count"}
    spec = load_spec("trips", {**settings, "date_partitions": options.get("count", 20)})
    numbers = np.arange(200_000)
    return Counter(make_rows(spec, numbers, 0 * numbers, ["dt"])["dt"].to_pylist())


@pytest.mark.parametrize("sizes", ["flat", "zipf", "recent"])
@pytest.mark.parametrize(
    ("of", "count", "shape"),
    [
        ("days", 300, r"2024-\d\d-\d\d"),
        ("countries", 150, "[A-Z]{2}"),
        ("hashes", 10_000, "[0-9a-f]{8}"),
    ],
)
def test_partitions_of_every_kind_have_rows(of, count, shape, sizes):
    counts = partitions(of=of, count=count, sizes=sizes)
    assert len(counts) == count
    assert all(pc.match_substring_regex(pa.array(list(counts)), f"^{shape}$").to_pylist())
    largest, smallest = max(counts.values()), min(counts.values())
    if sizes == "flat":
        assert largest - smallest <= 1
    else:
        assert largest > 30 * smallest


def test_many_partitions_of_zipf_sizes_fall_off_as_they_should():
    ranked = sorted(partitions(of="hashes", count=10_000, sizes="zipf").values(), reverse=True)
    for place in (1, 10, 100, 1000):
        assert ranked[0] / ranked[place - 1] == pytest.approx(place, rel=0.1)


def test_there_are_no_more_countries():
    with pytest.raises(DatasetError, match="date_partitions: column 'dt' can have 195 at most"):
        partitions(of="countries", count=300)


def test_a_dataset_may_have_no_partitions():
    assert load_spec("trips", {"partition_path": []}).partition_path == ()


@pytest.mark.spark
@pytest.mark.parametrize("of", ["countries", "hashes"])
def test_spark_deals_rows_out_alike(spark, of):
    spec = load_spec("trips", {"rows": 500, "columns.dt": {"kind": "partition", "of": of}})
    made = spark_rows(spec, inserted(spark, Stream(spec), 0, 2), ["uuid", "dt"]).collect()
    numbers = np.arange(500)
    expected = make_rows(spec, numbers, 0 * numbers, ["uuid", "dt"]).to_pylist()
    assert {row.uuid: row.dt for row in made} == {row["uuid"]: row["dt"] for row in expected}
