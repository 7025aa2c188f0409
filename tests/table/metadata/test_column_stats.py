"""Column statistics and bloom filter records against those of Hudi's metadata table."""

import base64
import datetime as dt
import decimal
import hashlib
import io
import json
import math
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from base_files import reader_of

from keymark.table.errors import UnsupportedTableError
from keymark.table.format.hashes.hashing import column_id, file_id_hash, partition_id
from keymark.table.format.parquet.base_file import BaseFileFooter, read_footer
from keymark.table.metadata import bloom, column_stats, records

DATA = Path(__file__).parents[2] / "data" / "base_files"
HUDI = json.loads((DATA / "records.json").read_text())
AVRO = fastavro.parse_schema(json.loads(records.SCHEMA))


def footer(name):
    return read_footer(reader_of((DATA / f"{name}.parquet").read_bytes()))


def read(value, *, payload="ColumnStatsMetadata"):
    whole = fastavro.schemaless_reader(
        io.BytesIO(value), AVRO, return_record_name=True, return_record_name_override=True
    )
    held = whole[payload]
    return held[1] if isinstance(held, tuple) else held


@pytest.mark.parametrize("name", ["bulk_insert", "upsert", "types"])
def test_column_stats_of_hudi(name):
    hudi = HUDI[name]
    metadata = footer(name).metadata
    keys, values = column_stats.column_stats_records(
        hudi["partition_path"], hudi["file_name"], metadata, metadata.schema.to_arrow_schema()
    )
    assert set(keys) == set(hudi["column_stats"])
    for key, value in zip(keys, values, strict=True):
        assert value == base64.b64decode(hudi["column_stats"][key]), read(value)


@pytest.mark.parametrize("name", ["bulk_insert", "upsert", "types"])
def test_bloom_filters_of_hudi(name):
    hudi = HUDI[name]
    instant = hudi["file_name"].rpartition("_")[2].removesuffix(".parquet")
    keys, values = bloom.bloom_records(
        hudi["partition_path"], hudi["file_name"], footer(name), instant
    )
    digests = [hashlib.sha256(value).hexdigest() for value in values]
    assert dict(zip(keys, digests, strict=True)) == hudi["bloom_filters"]


def test_bloom_records():
    bare = BaseFileFooter(
        bloom_text=None, bloom_type="SIMPLE", min_key=None, max_key=None, num_rows=1, metadata=None
    )
    assert bloom.bloom_records("p", "f.parquet", bare, "1") == ([], [])
    keys, values = bloom.bloom_tombstones("", "f.parquet", "20240101000000000")
    assert keys == [partition_id(".") + file_id_hash("f.parquet")]
    assert read(values[0], payload="BloomFilterMetadata") == {
        "type": "", "timestamp": "20240101000000000", "bloomFilter": b"", "isDeleted": True,
    }  # fmt: skip


def stats_of(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False, **options)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    keys, values = column_stats.column_stats_records("", "f.parquet", metadata, table.schema)
    held = [read(value) for value in values]
    for key, one in zip(keys, held, strict=True):
        expected = column_id(one["columnName"]) + partition_id(".") + file_id_hash("f.parquet")
        assert key == expected
        assert one["fileName"] == "f.parquet"
    return {one["columnName"]: one for one in held}


def ends(one):
    return [
        None if end is None else (end[0].rpartition(".")[2], end[1]["value"])
        for end in (one["minValue"], one["maxValue"])
    ]


def test_every_type():
    stamp = dt.datetime(2024, 1, 2, 3, 4, 5, 678901, dt.UTC)
    small = decimal.Decimal("-1.50")
    table = pa.table(
        {
            "boolean": [False, True, None],
            "int": pa.array([3, -4, None], pa.int32()),
            "long": [2**40, None, 7],
            "float": pa.array([1.5, 2.5, None], pa.float32()),
            "double": [0.0, -1.25, None],
            "text": ["b", "ü", None],
            "bytes": [b"\xff", b"a", None],
            "day": [dt.date(1969, 12, 31), None, dt.date(2024, 1, 2)],
            "stamp": pa.array([stamp, None, stamp], pa.timestamp("us", "UTC")),
            "decimal": pa.array([small, None, decimal.Decimal("2.25")], pa.decimal128(10, 2)),
            "nothing": pa.array([None] * 3, pa.string()),
            "list": [[1], [], None],
            "struct": [{"x": 1}, None, {"x": 2}],
        }
    )
    stats = stats_of(table, row_group_size=2)
    assert list(stats) == table.schema.names[:-2]
    micros = 1704164645678901
    found = {name: ends(one) for name, one in stats.items()}
    assert found == {
        "boolean": [("BooleanWrapper", False), ("BooleanWrapper", True)],
        "int": [("IntWrapper", -4), ("IntWrapper", 3)],
        "long": [("LongWrapper", 7), ("LongWrapper", 2**40)],
        "float": [("FloatWrapper", 1.5), ("FloatWrapper", 2.5)],
        "double": [("DoubleWrapper", -1.25), ("DoubleWrapper", 0.0)],
        "text": [("StringWrapper", "b"), ("StringWrapper", "ü")],
        "bytes": [("BytesWrapper", b"a"), ("BytesWrapper", b"\xff")],
        "day": [("DateWrapper", -1), ("DateWrapper", 19724)],
        "stamp": [("LongWrapper", micros), ("LongWrapper", micros)],
        "decimal": [
            ("DecimalWrapper", small),
            ("DecimalWrapper", decimal.Decimal("2.25")),
        ],
        "nothing": [None, None],
    }
    for name, one in stats.items():
        nulls = 3 if name == "nothing" else 1
        assert (one["valueCount"], one["nullCount"], one["isDeleted"]) == (3, nulls, False)
        assert one["totalUncompressedSize"] > 0


def test_decimal_bytes_are_those_of_java():
    # 127 = 7f, 128 = 0080, -128 = 80, -129 = ff7f, 0 = 00
    values = [127, 128, -128, -129, 0]
    wrapped = [column_stats._wrap(9, value)[1:] for value in values]
    assert wrapped == [b"\2\x7f", b"\4\0\x80", b"\2\x80", b"\4\xff\x7f", b"\2\0"]


def test_missing_ranges_are_wide():
    table = pa.table({"text": ["a" * 5000, "b"], "nan": [math.nan, math.nan]})
    stats = stats_of(table, row_group_size=1)
    (_, low), (_, high) = ends(stats["text"])
    assert low == ""
    assert high > "\U0010ffff" * 1000
    (_, low), (_, high) = ends(stats["nan"])
    assert low == -math.inf
    assert math.isnan(high)


@pytest.mark.parametrize("values", [[math.nan, None, 1.0], [math.nan], [None, math.nan]])
def test_nulls_that_nothing_counts_may_be_there_or_not(values):
    """Arrow's files have no statistics of a column with NaN, and so no count of its nulls."""
    table = pa.table({"x": pa.array(values, pa.float64())})
    (one,) = stats_of(table, write_statistics=False).values()
    assert 0 < one["nullCount"] < one["valueCount"]
    exact = stats_of(pa.table({"x": [1.0, None, 2.0]}))["x"]
    assert (exact["nullCount"], exact["valueCount"]) == (1, 3)


def test_zeros_of_both_signs():
    (_, low), (_, high) = ends(stats_of(pa.table({"x": [0.0, -0.0]}))["x"])
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)


@pytest.mark.parametrize(
    "kind", [pa.decimal128(38, 18), pa.decimal128(38, 0), pa.decimal128(38, 10)]
)
def test_decimals_that_do_not_fit(kind):
    value = decimal.Decimal(10) ** (kind.precision - kind.scale - 1)
    with pytest.raises(UnsupportedTableError, match="'d'"):
        stats_of(pa.table({"d": pa.array([value], kind)}))


def test_columns_are_chosen():
    metadata = footer("types").metadata
    schema = pa.schema([(name, pa.int64()) for name in ("ts", "c_st", "absent")])
    keys, _ = column_stats.column_stats_records("p", "f", metadata, schema)
    assert [key[:12] for key in keys] == [column_id("ts")]


def test_tombstones():
    keys, values = column_stats.column_stats_tombstones("p2", "f.parquet", ["a", "ts"])
    metadata_keys = [
        column_id(name) + partition_id("p2") + file_id_hash("f.parquet") for name in ("a", "ts")
    ]
    assert keys == metadata_keys
    assert read(values[1]) == {
        "fileName": "f.parquet", "columnName": "ts", "minValue": None, "maxValue": None,
        "valueCount": -1, "nullCount": -1, "totalSize": -1, "totalUncompressedSize": -1,
        "isDeleted": True,
    }  # fmt: skip
