"""`spark.read.format("keymark")`: keys go to the record index, and only their files are opened."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyspark
import pytest

from keymark import Table
from keymark.table.errors import TableWarning
from keymark.table.source import register, version

NEEDS = "the Python data source needs PySpark 4.1 or later"
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(version(pyspark.__version__) < (4, 1), reason=NEEDS),
]

ROWS = 4000
SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("dt", pa.string()),
        ("ts", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(12, 2)),
        ("tags", pa.list_(pa.int64())),
    ]
)


def rows(low, high, ts=1):
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    return pa.Table.from_pylist(
        [
            {
                "uuid": f"u{n}",
                "dt": f"2024-01-{n % 4 + 1:02d}",
                "ts": ts,
                "at": at + dt.timedelta(seconds=n),
                "price": n,
                "tags": [n, None],
            }
            for n in range(low, high)
        ],
        SCHEMA,
    )


@pytest.fixture(scope="module")
def path(spark, tmp_path_factory):
    register(spark)
    root = str(tmp_path_factory.mktemp("source") / "t")
    table = Table.create(root, record_key="uuid", partition_path="dt", ordering="ts")
    table.bulk_insert(rows(0, ROWS))
    assert len(table.scan().files) == 4
    return root


def planned(path, where):
    """The files that a read with a condition plans, as Spark hands the condition down."""
    from pyspark.sql.datasource import EqualTo, In

    from keymark.table.source.reader import TableSource

    source = TableSource({"path": path})
    reader = source.reader(source.schema())
    kinds = {"=": EqualTo, "in": In}
    list(reader.pushFilters([kinds[op]((name,), value) for name, op, value in where]))
    return [file for part in reader.partitions() for file in part.files]


def test_the_same_rows_as_a_read_of_the_table(spark, path):
    found = spark.read.format("keymark").load(path)
    expected = Table.open(path, spark=spark).read()
    assert found.columns == expected.columns
    assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ((("uuid", "=", "u7"),), 1),
        ((("uuid", "in", ("u1", "u5", "nobody")),), 1),
        ((("uuid", "in", ("u1", "u2")), ("ts", "=", 1)), 2),
        ((("_hoodie_record_key", "=", "u3"),), 1),
        ((("uuid", "=", "nobody"),), 0),
        ((("ts", "=", 1),), 4),
    ],
)
def test_keys_choose_the_files(path, where, files):
    assert len(planned(path, where)) == files


def test_no_other_file_is_opened(spark, path, tmp_path):
    """A query by key answers where every file but that key's is gone; a full one cannot."""
    import shutil

    copy = tmp_path / "t"
    shutil.copytree(path, copy)
    (kept,) = planned(str(copy), [("uuid", "=", "u7")])
    for file in Table.open(str(copy)).scan().files:
        if file != kept:
            (copy / file.path).unlink()

    def frame():
        return spark.read.format("keymark").load(str(copy))

    (row,) = frame().where("uuid = 'u7' AND ts > 0").select("price", "tags", "at").collect()
    assert (int(row.price), row.tags) == (7, [7, None])
    assert frame().where("uuid IN ('u7', 'u11')").count() == 2
    assert frame().where("uuid = 'nobody'").count() == 0
    with pytest.raises(Exception, match="the table needs this file; it is missing"):
        frame().count()


def test_registering_says_what_to_heed(spark):
    with pytest.warns(TableWarning, match=r"call load\(\) anew for each query"):
        register(spark)


@pytest.mark.xfail(reason="Spark keeps the plan of one condition for the next read of a frame")
def test_one_frame_asked_twice(spark, path):
    frame = spark.read.format("keymark").load(path)
    rows = frame.count()
    assert frame.where("uuid = 'u7'").count() == 1
    assert frame.count() == rows


def test_as_of_an_instant(spark, tmp_path):
    register(spark)
    root = str(tmp_path / "t")
    table = Table.create(root, record_key="uuid", partition_path="dt", ordering="ts")
    first = table.upsert(rows(0, 8)).instant
    table.upsert(rows(4, 10, ts=2))
    reader = spark.read.format("keymark")
    assert reader.load(root).where("uuid = 'u5'").select("ts").collect()[0].ts == 2
    earlier = spark.read.format("keymark").option("as_of", first).load(root)
    assert earlier.count() == 8
    assert earlier.where("uuid = 'u5'").select("ts").collect()[0].ts == 1


def test_an_option_that_is_not_known_is_refused(spark, path):
    with pytest.raises(Exception, match="keymark has no option 'asof'"):
        spark.read.format("keymark").option("asof", "1").load(path)
