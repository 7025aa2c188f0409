"""Pages compressed anew: the same file for every reader, only smaller."""

import gzip
import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keymark.table.format.parquet.file_body import FileBody
from keymark.table.format.parquet.parquet_gzip import gzip_pages


def sample(rows=5000):
    rng = random.Random(7)
    return pa.table(
        {
            "key": [f"{rng.getrandbits(64):016x}" for _ in range(rows)],
            "city": [f"city {rng.randrange(9)}" for _ in range(rows)],
            "n": pa.array([rng.randrange(100) if i % 7 else None for i in range(rows)]),
            "flag": [bool(i % 3) for i in range(rows)],
            "x": [rng.random() for _ in range(rows)],
            "tags": [["a", None][: i % 3] if i % 5 else None for i in range(rows)],
            "deep": [{"m": [(str(i % 4), {"y": i})]} for i in range(rows)],
        },
        schema=pa.schema(
            [
                pa.field("key", pa.string(), nullable=False),
                ("city", pa.string()),
                ("n", pa.int32()),
                ("flag", pa.bool_()),
                ("x", pa.float64()),
                ("tags", pa.list_(pa.string())),
                (
                    "deep",
                    pa.struct([("m", pa.map_(pa.string(), pa.struct([("y", pa.int64())])))]),
                ),
            ]
        ),
    )


def written(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **({"compression": "none", "store_schema": False} | options))
    return sink.getvalue()


def zipped_of(plain, entries=None):
    return gzip_pages(FileBody.of(plain, "f")).closed(entries or {}, None)


def leaves(metadata):
    return [
        metadata.row_group(g).column(c)
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_group_size": 1999},
        {"data_page_size": 1000, "row_group_size": 3000},
        {"use_dictionary": False, "write_statistics": False},
        {"sorting_columns": [pq.SortingColumn(0)]},
        {"column_encoding": {"x": "BYTE_STREAM_SPLIT"}, "use_dictionary": ["city"]},
    ],
)
def test_same_table_smaller_file(options):
    table = sample()
    plain = written(table, **options)
    zipped = zipped_of(plain)
    assert len(zipped) < len(plain)
    read = pq.ParquetFile(io.BytesIO(zipped))
    assert read.read().equals(table)
    for column in ("city", "deep"):
        assert read.read([column]).equals(table.select([column]))
    old, new = pq.read_metadata(io.BytesIO(plain)), read.metadata
    assert new.schema.equals(old.schema)
    assert (new.num_row_groups, new.num_rows) == (old.num_row_groups, old.num_rows)
    for before, after in zip(leaves(old), leaves(new), strict=True):
        assert after.compression == "GZIP"
        assert (after.statistics is None) == (before.statistics is None)
        if before.statistics is not None:
            assert after.statistics.equals(before.statistics)
        assert after.encodings == before.encodings
        assert after.total_compressed_size < after.total_uncompressed_size + 200
    for group in range(new.num_row_groups):
        held = new.row_group(group)
        sizes = [held.column(c).total_uncompressed_size for c in range(held.num_columns)]
        assert held.total_byte_size == sum(sizes)


def test_key_value_metadata():
    entries = {b"k": b"v" * 5000, "ü".encode(): "☃".encode()}
    zipped = zipped_of(written(sample(10)), entries)
    assert pq.read_metadata(io.BytesIO(zipped)).metadata == entries


def test_pages_are_gzip_members():
    table = pa.table({"x": pa.array(range(1000), pa.int64())})
    zipped = zipped_of(written(table, use_dictionary=False))
    chunk = pq.read_metadata(io.BytesIO(zipped)).row_group(0).column(0)
    start, end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
    first = zipped.index(b"\x1f\x8b", start)
    values = gzip.decompress(zipped[first:end])
    assert chunk.total_uncompressed_size == first - start + len(values)
    assert values[-8000:] == table.column("x").chunk(0).buffers()[1].to_pybytes()[:8000]


def test_empty_table():
    table = sample(5)[:0]
    assert pq.read_table(io.BytesIO(zipped_of(written(table)))).equals(table)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "snappy"},
        {"data_page_version": "2.0"},
        {"write_page_index": True},
        {"write_page_checksum": True},
    ],
)
def test_other_shapes_are_left_alone(options):
    assert gzip_pages(FileBody.of(written(sample(100), **options), "f")) is None


@pytest.mark.spark
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_spark_reads_the_same(spark, tmp_path, vectorized):
    table = sample()
    (tmp_path / "f.parquet").write_bytes(zipped_of(written(table, row_group_size=1999)))
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        rows = spark.read.parquet(str(tmp_path / "f.parquet")).orderBy("key").collect()
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    found = [row.asDict(recursive=True) for row in rows]
    for row, expected in zip(found, table.sort_by("key").to_pylist(), strict=True):
        assert {name: row[name] for name in ("key", "x", "n", "tags")} == {
            name: expected[name] for name in ("key", "x", "n", "tags")
        }
        assert row["deep"]["m"] == dict(expected["deep"]["m"])
