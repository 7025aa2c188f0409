"""Reads that leave out files by column statistics: the same rows, of as few files as can be."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statistics_cases import SCHEMA, conditions, create_with_statistics, file_rows, table_of
from table_cases import unpack

from keymark import Table
from keymark.table.errors import TableWarning
from keymark.table.metadata import column_stats
from keymark.table.read.skipping import ReadStats
from keymark.table.read.spark import with_conf
from keymark.table.write import file_group

pytestmark = pytest.mark.spark
NO_PRUNING = "spark.sql.inMemoryColumnarStorage.partitionPruning"
CALENDAR = "spark.sql.parquet.datetimeRebaseModeInRead"


@pytest.fixture(scope="module")
def hudi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hudi")
    for archive in ("statistics", "states", "record_index"):
        unpack(f"hudi-0.15.0-{archive}.tar.gz", folder)
    return folder


@pytest.fixture(autouse=True, scope="module")
def _plain_reading(spark) -> Iterator[None]:
    """Cached rows are all looked at; old days are read as they are."""
    with with_conf(spark, NO_PRUNING, "false"), with_conf(spark, CALENDAR, "CORRECTED"):
        yield


def keys_of(frame: Any) -> list[str]:
    return sorted(row[0] for row in frame.select("_hoodie_record_key").collect())


class Read:
    """A table read in full once, and by conditions."""

    def __init__(self, table: Any, as_of: str | None = None) -> None:
        self.table, self.as_of = table, as_of
        self.full = table.read(as_of=as_of).cache()

    def files(self, where: str) -> int:
        """How many files a read by the condition opens; its rows must be those of Spark."""
        stats = ReadStats()
        found = keys_of(self.table.read(where=where, as_of=self.as_of, stats=stats))
        assert found == keys_of(self.full.where(where)), where
        assert stats.files_total >= stats.files_by_keys >= stats.files_read
        return stats.files_read


def drawn_table(spark, path, files):
    table = create_with_statistics(path)
    for number, columns in enumerate(files):
        table.insert(table_of(number, columns))
    return Table.open(str(path), spark=spark)


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(file_rows(), min_size=6, max_size=12), st.data())
def test_files_left_out_hold_no_row_that_passes(spark, tmp_path_factory, files, data):
    """Invariant I13: random rows, random conditions; Spark says which rows pass."""
    table = drawn_table(spark, tmp_path_factory.mktemp("drawn") / "t", files)
    asked = data.draw(st.lists(conditions, min_size=60, max_size=60))
    tested = [f"({where}) AS c{number}" for number, where in enumerate(asked)]
    # Not cached: Spark would take a read of all files out of its cache.
    rows = table.read().selectExpr("_hoodie_record_key", "_hoodie_file_name", *tested).collect()
    for number, where in enumerate(asked):
        passing = [row for row in rows if row[number + 2]]
        frame = table.read(where=where)
        opened = {path.rpartition("/")[2] for path in frame.inputFiles()}
        assert {row[1] for row in passing} <= opened, where
        # Parsed without Spark, the condition leaves no other file out.
        assert {row[1] for row in passing} <= {file.name for file in table.files(where)}, where
        if number % 10 == 0:
            assert keys_of(frame) == sorted(row[0] for row in passing), where


def test_nulls_beside_nan_are_found(spark, tmp_path):
    """A column that holds NaN has no statistics in the footer, and so no count of its nulls."""
    table = create_with_statistics(tmp_path / "t")
    columns = {"k": ["a", "b"], "p": ["x", "x"], "o": [1, 1], "d": [math.nan, None]}
    table.insert(pa.table(columns))
    found = Table.open(str(tmp_path / "t"), spark=spark).read(where="d IS NULL")
    assert keys_of(found) == ["b"]


@pytest.mark.parametrize("where", ["d > 5", "d >= double('nan')", "d = double('nan')", "d != 1"])
def test_nan_is_found_by_its_rank(spark, tmp_path, where):
    """To Spark NaN is above all numbers; no range in a footer may hide it."""
    table = create_with_statistics(tmp_path / "t")
    columns = {"k": ["a", "b"], "p": ["x", "x"], "o": [1, 1], "d": [1.0, math.nan]}
    table.insert(pa.table(columns))
    table = Table.open(str(tmp_path / "t"), spark=spark)
    assert keys_of(table.read(where=where)) == keys_of(table.read().where(where)) == ["b"]


@pytest.mark.parametrize("where", ["d = 0", "d IN (0.0D, 7.0D)", "d >= 0", "f IN (0.0BD, 7.0D)"])
def test_negative_zero_is_found_as_zero(spark, tmp_path, where):
    """To Spark both zeros are equal; no dictionary may tell them apart."""
    table = create_with_statistics(tmp_path / "t")
    columns = {"k": ["a", "b"], "p": ["x", "x"], "o": [1, 1], "d": [-0.0, -0.0]}
    table.insert(pa.table(columns | {"f": pa.array([-0.0, -0.0], pa.float32())}))
    table = Table.open(str(tmp_path / "t"), spark=spark)
    assert keys_of(table.read(where=where)) == ["a", "b"]


@pytest.fixture(scope="module")
def disjoint(spark, tmp_path_factory):
    """Ten files: file n holds i, d, dec and big from 10 n + 1 to 10 n + 9 and texts `k<n>...`."""
    table = create_with_statistics(tmp_path_factory.mktemp("disjoint") / "t")
    for n in range(10):
        numbers = [10 * n + 1, 10 * n + 5, 10 * n + 9]
        columns = {
            "k": [f"key{n}-{row}" for row in range(3)],
            "p": [f"p{n % 2}"] * 3,
            **{name: pa.array(map(float, numbers)) for name in ("i", "l", "d")},
            "f": pa.array([-n - 0.75, -n - 0.5, -n - 0.25], pa.float32()),
            "s": [f"k{n}a", None if n == 3 else f"k{n}m", f"k{n}z"],
            "t": [f"k{n}a", f"k{n}m", f"k{n}z"],
            "day": pa.array([20_000 + number for number in numbers], pa.int32()).cast(pa.date32()),
            "at": pa.array([(1_700_000_000 + number) * 10**6 for number in numbers]).cast(
                pa.timestamp("us", "UTC")
            ),
            "b": [n < 5] * 3,
            "dec": list(map(Decimal, numbers)),
            "big": [None] * 3 if n == 7 else list(map(Decimal, numbers)),
        }
        table.insert(pa.table(columns).cast(SCHEMA))
    return Read(Table.open(str(table.storage.root), spark=spark))


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("i = 15", 1),
        ("i = 10", 0),
        ("15 = i", 1),
        ("i <=> 15", 1),
        ("i IN (15, 16, 20, 35)", 2),
        ("i IN (10, 20, 30)", 0),
        ("i < 11", 1),
        ("i <= 11", 2),
        ("i > 89", 1),
        ("i >= 89", 2),
        ("89 <= i", 2),
        ("i BETWEEN 15 AND 35", 3),
        ("i > 35 AND i < 15", 0),
        ("i = 15 OR i = 95", 2),
        ("(i < 11 OR i > 98) AND p = 'p0'", 1),
        ("i = 15 OR length(t) = 0", 10),
        ("i = 5000000000", 0),
        ("l = 15 AND l = 95", 0),
        ("d = 15", 1),
        ("d = 15.0BD", 1),
        ("d < 11.5D", 2),
        ("d > 89", 10),
        ("d > 89 AND d < 100", 1),
        ("d BETWEEN 15 AND 35", 3),
        ("d > double('NaN')", 10),
        ("f = -4.5", 1),
        ("f < -8.25D", 2),
        ("t = 'k3m'", 1),
        ("t LIKE 'k3%'", 1),
        ("t LIKE 'k%'", 10),
        ("t LIKE 'k3_%'", 10),
        ("t LIKE 'k3b%'", 1),
        ("t LIKE 'k3zz%'", 0),
        ("t LIKE 'j%'", 0),
        ("t >= 'k9'", 1),
        ("t > 'k9z'", 0),
        ("s = 'k5m'", 2),  # the file with a null says nothing
        ("s IS NULL", 1),
        ("s IS NOT NULL", 10),
        ("big IS NULL", 1),
        ("big <=> NULL", 1),
        ("big = 15", 2),
        ("big = 15.0", 2),
        ("dec = 15", 1),
        ("dec < 10.99", 1),
        ("dec > 98.999BD", 1),
        ("day = DATE'2024-10-18'", 1),
        ("day = '2024-10-18'", 10),
        ("day < DATE'2024-10-06'", 1),
        ("at = TIMESTAMP'2023-11-14 22:13:35'", 1),
        ("at >= TIMESTAMP'2023-11-14 22:14:49'", 2),
        ("b = true", 5),
        ("b < true", 5),
        ("NOT b = true", 10),
        ("p = 'p1'", 5),
        ("_hoodie_partition_path = 'p1' AND i < 40", 2),
        ("_hoodie_commit_time > '9'", 0),
        ("`i` = 15", 1),
        ("I = 15", 10),  # found by Spark, not looked for here
        ("i = '15'", 10),
        ("i = 15.0", 10),
        ("CAST(i AS STRING) = '15'", 10),
        ("i + 0 = 15", 10),
        ("i = l", 10),
        ("k = 'key3-1'", 1),
        ("k = 'key3-1' AND i < 30", 0),
        ("k IN ('key3-1', 'key4-1') AND i < 40", 1),
        ("k = ''", 0),
        ("k = 'absent'", 0),
    ],
)
def test_files_of_disjoint_ranges(disjoint, where, files):
    assert disjoint.files(where) == files


def test_statistics_are_counted_after_keys(disjoint):
    stats = ReadStats()
    disjoint.table.read(keys=["key3-1", "key4-1"], where="i < 40", stats=stats)
    assert stats == ReadStats(files_total=10, files_by_keys=2, files_read=1)


def test_without_statistics_all_files_are_read(spark, tmp_path):
    table = Table.create(str(tmp_path / "t"), record_key="k", partition_path="p", spark=spark)
    table.insert(pa.table({"k": ["a", "b"], "p": ["x", "y"], "v": [1, 2]}))
    assert Read(table).files("v = 1") == 2


def test_older_snapshots_use_the_statistics_of_their_files(spark, tmp_path):
    table = create_with_statistics(tmp_path / "t")
    first = {"k": ["a", "b", "c"], "p": ["x", "y", "z"], "v": [1, 2, 3]}
    instant = table.insert(pa.table(first)).instant
    table.upsert(pa.table({**first, "v": [31, 12, 13]}))
    table.delete(["c"])
    table = Table.open(str(tmp_path / "t"), spark=spark)
    now, before = Read(table), Read(table, as_of=instant)
    assert (now.files("v = 3"), before.files("v = 3")) == (0, 1)
    assert (now.files("v = 31"), before.files("v = 31")) == (1, 0)
    assert (now.files("v > 10"), before.files("v > 10")) == (2, 0)
    assert (now.files("v < 20"), before.files("v IN (1, 2)")) == (1, 2)


@pytest.fixture(scope="module")
def odd(spark, hudi):
    """A table of Hudi's whose statistics are not all true: see tests/data/README.md."""
    return Read(Table.open(str(hudi / "statistics"), spark=spark))


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("d < 0", 99),  # recorded: 0 to 404, after the row group with NaN was merged
        ("d = 9.0", 2),  # recorded: 0 to 0
        ("d > 400", 6),  # NaN is more, too
        ("d BETWEEN 6 AND 10 AND ts < 5", 5),
        ("s = 'b'", 1),  # recorded: nothing but nulls
        ("s > 'n' AND s < 'r'", 100),
        ("s LIKE 'q%'", 100),
        ("s IS NOT NULL AND i = 1", 10),
        ("w > 'p'", 100),  # recorded: hello to n, and 100 nulls
        ("u = '😀y'", 100),  # recorded: m to U+E000 x
        ("v = 'a\ue000'", 100),  # recorded: a U+1F600 y to b
        ("i IS NULL", 101),
        ("i = 0 AND p <> 'groups'", 0),  # recorded of nulls: 0 to 0
        ("day < DATE'1600-01-01'", 1),
        ("at < TIMESTAMP'1600-01-01 00:00:00'", 1),
        ("f = 0", 2),
        ("dec IS NULL", 101),
    ],
)
def test_what_hudi_records_wrongly_excludes_nothing(odd, where, rows):
    where = where.replace("at <", "st <")
    odd.files(where)
    assert odd.full.where(where).count() == rows


@pytest.mark.parametrize("where", ["day < DATE'1499-12-30'", "st < TIMESTAMP'1499-12-30 00:00:00'"])
def test_old_days_that_spark_converts_exclude_nothing(spark, hudi, where):
    """Recorded as they are stored: 1500-01-01."""
    with with_conf(spark, CALENDAR, "LEGACY"):
        table = Table.open(str(hudi / "statistics"), spark=spark)
        assert keys_of(table.read(where=where)) == ["a1"]


def test_what_hudi_records_rightly_excludes_files(odd):
    found = {
        where: odd.files(where)
        for where in (
            "i = 399",
            "i = 0",
            "dec = 250",
            "u = 'b'",
            "day = DATE'2024-01-02'",
            "ts > 1",
        )
    }
    assert found == {
        "i = 399": 1,
        "i = 0": 1,
        # The record of nothing but nulls is no proof with decimals.
        "dec = 250": 2,
        # Nor with texts; and an end that Java orders in its own way is none.
        "u = 'b'": 2,
        # The file of old days is always read.
        "day = DATE'2024-01-02'": 5,
        "ts > 1": 1,
    }


@pytest.mark.parametrize("name", ["a_4_move", "a_6_before_fail", "a_10_upsert"])
def test_tables_of_hudi(spark, hudi, name):
    read = Read(Table.open(str(hudi / name), spark=spark))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        asked = ("dt = 'p0'", "dt = 'p7'", "uuid = 'key-00001'", "uuid < 'key-00001'", "dt > 'a'")
        found = {where: read.files(where) for where in asked}
    places = read.full.select("dt", "_hoodie_file_name").distinct().collect()
    assert found["dt = 'p0'"] == sum(place.dt == "p0" for place in places)
    assert found["dt = 'p7'"] == 0
    assert 1 <= found["uuid < 'key-00001'"] < len(places)
    assert found["dt > 'a'"] == len(places)


def test_files_that_hudi_left_out_are_read_with_one_warning(spark, hudi):
    """Hudi 0.15 looked for the first files of this one under absolute paths (initialisation)."""
    table = Table.open(str(hudi / "a2_2_indexed"), spark=spark)
    root = table.storage.root
    read = Read(table)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for where in ("dt = 'p0'", "dt = 'p1' AND uuid > 'key-00030'"):
            read.files(where)
    (warning,) = [one for one in caught if one.category is TableWarning]
    text = str(warning.message)
    assert "files have no column statistics" in text
    assert f"`keymark table index drop {root} column_stats`" in text
    assert f"`keymark table index build {root} column_stats`" in text
    assert warning.filename == __file__


def test_damaged_statistics_are_told_and_not_used(spark, tmp_path):
    table = create_with_statistics(tmp_path / "t")
    table.insert(pa.table({"k": ["a", "b"], "p": ["x", "y"], "v": [1, 2]}))
    for path in (tmp_path / "t/.hoodie/metadata/column_stats").glob(".col-stats-*.log.2_*"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(bytes(data))
    with pytest.warns(TableWarning, match="column_stats cannot be used, all files are read"):
        assert Read(Table.open(str(tmp_path / "t"), spark=spark)).files("v = 1") == 2


def drop_records(monkeypatch, name):
    """The next writes leave out the records of a column, as if the schema had it not yet."""

    def records(path, file_name, metadata, schema):
        pairs = zip(
            *column_stats.column_stats_records(path, file_name, metadata, schema), strict=True
        )
        kept = [pair for pair in pairs if not pair[0].startswith(column_stats.column_id(name))]
        return [key for key, _ in kept], [value for _, value in kept]

    monkeypatch.setattr(file_group, "column_stats_records", records)


def test_files_older_than_a_column_are_read_without_warning(spark, tmp_path, monkeypatch):
    table = create_with_statistics(tmp_path / "t")
    with monkeypatch.context() as patch:
        drop_records(patch, "v")
        table.insert(pa.table({"k": ["a"], "p": ["x"], "v": [1]}))
    table.insert(pa.table({"k": ["b", "c"], "p": ["y", "z"], "v": [2, 3]}))
    read = Read(Table.open(str(tmp_path / "t"), spark=spark))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        assert read.files("v = 2") == 2
        assert read.files("v IS NULL") == 1
        assert read.files("p = 'z' AND v = 2") == 0


def test_statistics_of_other_columns_only(spark, tmp_path, monkeypatch):
    table = create_with_statistics(tmp_path / "t")
    monkeypatch.setattr(
        file_group,
        "column_stats_records",
        lambda path, name, metadata, _: column_stats.column_stats_records(
            path, name, metadata, pa.schema([("p", pa.string())])
        ),
    )
    table.insert(pa.table({"k": ["a", "b"], "p": ["x", "y"], "v": [1, 2]}))
    read = Read(Table.open(str(tmp_path / "t"), spark=spark))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        assert read.files("v = 2") == 2
        assert read.files("p = 'x' AND v = 1") == 1


def test_an_empty_partition_is_told(spark, tmp_path, monkeypatch):
    table = create_with_statistics(tmp_path / "t")
    monkeypatch.setattr(file_group, "column_stats_records", lambda *_: ([], []))
    table.insert(pa.table({"k": ["a", "b"], "p": ["x", "y"], "v": [1, 2]}))
    with pytest.warns(TableWarning, match="2 of 2 files have no column statistics"):
        assert Read(Table.open(str(tmp_path / "t"), spark=spark)).files("v = 2") == 2


def test_an_incomplete_record_index_is_not_asked(spark, tmp_path):
    """Hudi 0.15 leaves rows out of it that it adds to existing buckets: fixture `e`."""
    unpack("hudi-0.15.0-variants.tar.gz", tmp_path)
    table = Table.open(str(tmp_path / "e"), spark=spark)
    read = Read(table)
    key = table.config.record_key[0]
    found = table.lookup([row[0] for row in read.full.select("_hoodie_record_key").collect()])
    missing = found.filter(pc.is_null(found["file_id"]))["record_key"].to_pylist()
    for name in missing[:2]:
        read.files(f"{key} = '{name}'")
    assert len(missing) == 20
