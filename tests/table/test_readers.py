"""DuckDB and Polars read a table's snapshot, and of its files those that can hold what is asked."""

from __future__ import annotations

import datetime as dt
import operator
import re
from dataclasses import replace
from decimal import Decimal
from functools import reduce

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from statistics_cases import VALUES, conditions, create_with_statistics, file_rows, table_of
from table_cases import MOVES, create, rows, unpack

import keymark.duckdb
import keymark.polars
from keymark import Table
from keymark.table.errors import InputError
from keymark.table.format.schema import META_COLUMNS
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.read import predicate
from keymark.table.read.matching import matching_files
from keymark.table.read.predicate import ANYTHING, AllOf, AnyOf, Comparison, Operator
from keymark.table.read.sql import sql_condition

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
TAKEN = [
    ("id = 'it''s'", Operator.IN, ("it's",)),
    ("'a' < id", Operator.ABOVE, ("a",)),
    ("(id) IN ('a', ('b'))", Operator.IN, ("a", "b")),
    ("id LIKE 'ab%'", Operator.PREFIX, ("ab",)),
    ("starts_with(id, 'ab')", Operator.PREFIX, ("ab",)),
    ("id IS NULL", Operator.NULL, ()),
    ("NOT id IS NULL", Operator.VALUE, ()),
    ("id IS NOT NULL", Operator.VALUE, ()),
    ("n >= -5", Operator.AT_LEAST, (-5,)),
    ("x <= 1.5", Operator.AT_MOST, (1.5,)),
    ("f = 1.5", Operator.IN, (1.5,)),
    ("ok = false", Operator.IN, (False,)),
    ("day = DATE '1970-01-03'", Operator.IN, (2,)),
    ("day > '1970-01-03'", Operator.ABOVE, (2,)),
    ("price = 1.50", Operator.IN, (Decimal("1.50"),)),
]
LEFT_OUT = [
    *(
        "id = 7",
        "id = NULL",
        "id NOT LIKE 'a%'",
        "id NOT IN ('a')",
        "NOT id = 'a'",
        "id LIKE 'a_%'",
    ),
    *(
        "id LIKE 'a%' ESCAPE '!'",
        "lower(id) = 'a'",
        "t.id = 'a'",
        "ID = 'a'",
        "id = 'a' COLLATE nocase",
    ),
    *("id IN (SELECT 'a')", "id = 'a\\b'", "n = 1.5", "n = '1'", "n + 1 = 2", "n = x", "f = 0.1"),
    *("x = 9007199254740993", "x = 0.1234567890123456", "day = '1970-1-3'", "day = '1970-02-30'"),
    *("at > '2024-01-01'", "ok", "ok IS NOT TRUE", "nothing = 1"),
]


@pytest.mark.parametrize(("where", "op", "values"), TAKEN)
def test_conditions_that_files_are_skipped_by(where, op, values):
    found = sql_condition(where, SCHEMA, "duckdb")
    assert isinstance(found, Comparison)
    assert (found.op, found.values) == (op, values)


@pytest.mark.parametrize("where", LEFT_OUT)
def test_conditions_that_leave_all_files(where):
    assert sql_condition(where, SCHEMA, "duckdb") == ANYTHING


@pytest.mark.parametrize(("word", "kind"), [("OR", AnyOf), ("AND", AllOf)])
def test_a_condition_of_thousands_of_parts(word, kind):
    where = f" {word} ".join(f"n = {number}" for number in range(3000))
    found = sql_condition(where, SCHEMA, "duckdb")
    assert found == kind(tuple(Comparison("n", Operator.IN, (n,)) for n in range(3000)))
    assert predicate.tested_columns(found) == {"n"}


def test_a_condition_is_refused_that_is_none(tmp_path):
    table = create(tmp_path / "t", {})
    table.upsert(rows(range(3)))
    with pytest.raises(InputError, match="where is not a condition in SQL: 'k ='"):
        table.files("k =")


def files_read(monkeypatch):
    """Which files DuckDB or Polars are given, read by read."""
    found = []

    def counted(original):
        def run(*arguments):
            files = original(*arguments)
            found.append(len(files))
            return files

        return run

    for module in (keymark.duckdb, keymark.polars):
        monkeypatch.setattr(module, "matching_files", counted(module.matching_files))
    return found


def test_a_key_opens_the_file_that_holds_it(tmp_path, monkeypatch):
    read = files_read(monkeypatch)
    table = create(tmp_path / "t", {MOVES: "true"})
    table.upsert(rows(range(30)))
    table.upsert(rows([4], partition="p9", value="moved "))
    assert [file.partition_path for file in table.files("k = 'k4'")] == ["p9"]
    assert len(table.files()) == len(table.files("v = 'a' OR k = 'k4'")) == 4

    con = duckdb.connect()
    found = keymark.duckdb.read(con, tmp_path / "t", "k = 'k4'")
    assert found.project("p, v").fetchall() == [("p9", "moved k4")]
    frame = keymark.polars.scan(table)
    assert frame.filter(pl.col("k") == "k4").select("p", "v").collect().rows() == [
        ("p9", "moved k4")
    ]
    assert frame.filter(pl.col("k").is_in(["k4", "nobody"])).collect().height == 1
    assert read == [1, 1, 1]


def test_a_value_of_a_secondary_index_opens_the_files_that_hold_it(tmp_path, monkeypatch):
    read = files_read(monkeypatch)
    table = create(tmp_path / "t", {MOVES: "true"})
    table.upsert(rows(range(30)))
    table.build_secondary("v")
    table.upsert(rows([4], partition="p9", value="moved "))
    table.delete(["k5"])
    con = duckdb.connect()
    asked = {
        "v = 'moved k4'": (pl.col("v") == "moved k4", ["k4"], 1),
        "v IN ('vk3', 'vk5', 'vk7')": (pl.col("v").is_in(["vk3", "vk5", "vk7"]), ["k3", "k7"], 2),
        "v >= 'vk8' AND v < 'vk9'": (
            (pl.col("v") >= "vk8") & (pl.col("v") < "vk9"),
            ["k8"],
            1,
        ),
        "v = 'vk4'": (pl.col("v") == "vk4", [], 0),
        "v IS NULL": (pl.col("v").is_null(), [], 0),
    }
    for where, (expression, keys, files) in asked.items():
        found = keymark.duckdb.read(con, table, where).project("k").order("k").fetchall()
        assert [key for (key,) in found] == keys, where
        frame = keymark.polars.scan(table).filter(expression).select("k").sort("k").collect()
        assert frame["k"].to_list() == keys, where
        assert read == [files, files], where
        assert len(table.files(where)) == files
        read.clear()


def test_an_older_snapshot_is_read_by_a_secondary_index(tmp_path, monkeypatch):
    read = files_read(monkeypatch)
    table = create(tmp_path / "t", {"keymark.secondary.columns": "v"})
    first = table.upsert(rows(range(9), value="old ")).instant
    table.upsert(rows([2], value="new "))
    con = duckdb.connect()
    found = keymark.duckdb.read(con, table, "v = 'old k2'", as_of=first)
    assert found.count("*").fetchall() == [(1,)]
    frame = keymark.polars.scan(table, as_of=first).filter(pl.col("v") == "old k2").collect()
    assert frame["k"].to_list() == ["k2"]
    assert keymark.duckdb.read(con, table, "v = 'old k2'").count("*").fetchall() == [(0,)]
    assert read == [1, 1, 0]


def test_a_secondary_index_has_days_and_times_of_any_year(tmp_path):
    """Python has none before year 1 and after 9999; one of them is no bar to the others."""
    days = [-719_528, 3_000_000, 20_000]
    times = [day * 86_400_000_000 for day in days]
    table = create(tmp_path / "t", {})
    given = rows(range(3)).append_column("day", pa.array(days, pa.int32()).cast(pa.date32()))
    table.insert(given.append_column("at", pa.array(times).cast(pa.timestamp("us", "UTC"))))
    table.build_secondary("day")
    table.build_secondary("at")
    assert [file.partition_path for file in table.files("day = DATE'2024-10-04'")] == ["p2"]
    assert [file.partition_path for file in table.files("day < DATE'2024-10-04'")] == ["p0"]
    for column, values in (("day", days), ("at", times)):
        for place, value in enumerate(values):
            found = matching_files(table, table.scan(), Comparison(column, Operator.IN, (value,)))
            assert [file.partition_path for file in found] == [f"p{place}"]


def test_all_readers_have_the_same_rows_and_columns(tmp_path):
    table = create(tmp_path / "t", {})
    table.upsert(rows(range(20)))
    table.delete(["k3", "k4"])
    wanted = table.scan().to_arrow().sort_by("k")
    con = duckdb.connect()
    assert (
        keymark.duckdb.read(con, table).order("k").to_arrow_table().to_pylist()
        == wanted.to_pylist()
    )
    frame = keymark.polars.scan(table).sort("k").collect()
    assert frame.to_dicts() == wanted.to_pylist()


def test_an_older_snapshot(tmp_path):
    table = create(tmp_path / "t", {})
    first = table.upsert(rows(range(5), value="old ")).instant
    table.upsert(rows(range(5), value="new "))
    con = duckdb.connect()
    where = "k = 'k2' AND v = 'old k2'"
    assert keymark.duckdb.read(con, table, where, as_of=first).count("*").fetchall() == [(1,)]
    assert keymark.duckdb.read(con, table, where).count("*").fetchall() == [(0,)]
    old = keymark.polars.scan(table, as_of=first).filter(pl.col("k") == "k2").collect()
    assert old["v"].to_list() == ["old k2"]


def test_a_lazy_frame_reads_what_is_there_when_it_collects(tmp_path):
    table = create(tmp_path / "t", {})
    table.upsert(rows(range(5)))
    frame = keymark.polars.scan(table)
    table.upsert(rows(range(5, 9)))
    assert frame.collect().height == 9
    assert frame.head(3).collect().height == 3
    assert frame.select(pl.len()).collect().item() == 9
    assert frame.filter(pl.col("ts") > 5).head(3).collect().height == 0


def test_meta_columns_of_virtual_keys_are_null(tmp_path):
    table = create(tmp_path / "t", {"hoodie.populate.meta.fields": "false"})
    table.upsert(rows(range(6)))
    found = keymark.duckdb.read(duckdb.connect(), table, "k = 'k2'")
    assert found.project(", ".join(META_COLUMNS)).fetchall() == [(None,) * 5]
    frame = keymark.polars.scan(table).filter(pl.col("k") == "k2").collect()
    assert frame.select(META_COLUMNS).rows() == [(None,) * 5]


def test_a_stored_key_that_is_ignored_is_null_to_conditions_too(tmp_path):
    """The statistics of the files say that their keys are stored, and that none is null."""
    made = create_with_statistics(tmp_path / "t")
    made.insert(rows(range(9)))
    made.rewrite("ignore")
    table = Table.open(tmp_path / "t")
    is_null = pl.col(KEY_COLUMN).is_null()
    asked = {
        f"{KEY_COLUMN} IS NULL": (is_null, 9, 3),
        f"{KEY_COLUMN} IS NULL OR ts = 7": (is_null | (pl.col("ts") == 7), 9, 3),
        f"{KEY_COLUMN} IS NULL AND ts = 7": (is_null & (pl.col("ts") == 7), 0, 0),
        f"{KEY_COLUMN} IS NOT NULL": (pl.col(KEY_COLUMN).is_not_null(), 0, 3),
        "_hoodie_partition_path IS NULL": (pl.col("_hoodie_partition_path").is_null(), 0, 0),
    }
    con = duckdb.connect()
    for where, (expression, count, files) in asked.items():
        assert len(table.files(where)) == files, where
        assert keymark.duckdb.read(con, table, where).count("*").fetchall() == [(count,)], where
        assert keymark.polars.scan(table).filter(expression).collect().height == count, where


def test_columns_that_came_later_and_types_that_widened(tmp_path):
    """The schema is the table's, files are older: as Hudi leaves them after an evolution."""
    table = create(tmp_path / "t", {})
    table.upsert(pa.table({"k": ["a"], "p": ["x"], "ts": [1], "n": pa.array([7], pa.int32())}))
    plan = table.scan()
    widened = plan.full.set(plan.full.get_field_index("n"), pa.field("n", pa.int64()))
    schema = widened.append(pa.field("c", pa.string()))
    evolved = replace(plan, full=schema)
    found = keymark.duckdb._by_parquet(duckdb.connect(), evolved, schema).project("k, n, c")
    assert found.types == ["VARCHAR", "BIGINT", "VARCHAR"]
    assert found.fetchall() == [("a", 7, None)]
    rows_read = evolved.rows.read(plan.files[0]).select(["k", "n", "c"])
    assert rows_read.to_pylist() == [{"k": "a", "n": 7, "c": None}]

    text = plan.full.set(plan.full.get_field_index("n"), pa.field("n", pa.string()))
    assert keymark.duckdb._by_parquet(duckdb.connect(), plan, text) is None


@pytest.mark.parametrize(
    ("archive", "name"),
    [
        *(("statistics", "statistics"), ("states", "a_10_upsert"), ("variants", "b_enc")),
        *(("keys", "virtual_complex"), ("keys", "timestamp")),
    ],
)
def test_tables_of_hudi(tmp_path, archive, name):
    table = Table.open(unpack(f"hudi-0.15.0-{archive}.tar.gz", tmp_path) / name)
    plan = table.scan()
    schema, wanted = plan.full, sorted(map(repr, plan.to_arrow().to_pylist()))
    con = duckdb.connect()
    con.execute("SET TimeZone = 'Asia/Kolkata'").fetchall()
    found = keymark.duckdb.read(con, table)
    assert sorted(map(repr, found.to_arrow_table().cast(schema).to_pylist())) == wanted
    frame = keymark.polars.scan(table).collect()
    assert sorted(map(repr, frame.to_arrow().cast(schema).to_pylist())) == wanted


@pytest.mark.parametrize("partition", ["a*b", "what?", "[x]", "it's", "dt=2024-01-01"])
def test_partitions_named_as_patterns_are_read_as_they_are(tmp_path, partition):
    table = create(tmp_path / "t", {})
    table.upsert(rows(range(3), partition=partition))
    table.upsert(rows(range(3, 5), partition="axb"))
    where = "p = '" + partition.replace("'", "''") + "'"
    found = keymark.duckdb.read(duckdb.connect(), table, where)
    assert found.count("*").fetchall() == [(3,)]


def test_tables_of_an_object_store(tmp_path):
    table = create(f"memory://{tmp_path.name}/t", {})
    table.upsert(rows(range(9)))
    found = keymark.duckdb.read(duckdb.connect(), table, "k = 'k4'")
    assert found.project("v").fetchall() == [("vk4",)]
    assert keymark.polars.scan(table).collect().height == 9


def test_a_collation_of_the_connection_leaves_all_files(tmp_path):
    """Its `=` finds texts that the record index does not."""
    table = create(tmp_path / "t", {})
    table.upsert(rows(range(9)))
    con = duckdb.connect()
    con.execute("SET default_collation = 'nocase'").fetchall()
    assert keymark.duckdb.read(con, table, "k = 'K4'").count("*").fetchall() == [(1,)]


def test_what_is_wrong_in_a_condition_is_said_by_duckdb(tmp_path):
    table = create(tmp_path / "t", {})
    table.upsert(rows(range(3)))
    with pytest.raises(duckdb.Error, match="nobody"):
        keymark.duckdb.read(duckdb.connect(), table, "nobody = 1")
    with pytest.raises(duckdb.Error, match="syntax error"):
        keymark.duckdb.read(duckdb.connect(), table, "k = = 1")


def test_a_table_without_rows_has_nothing_to_read(tmp_path):
    create(tmp_path / "t", {})
    for read in (lambda t: keymark.duckdb.read(duckdb.connect(), t), keymark.polars.scan):
        with pytest.raises(InputError, match="no rows and no schema yet"):
            read(tmp_path / "t")


def in_duckdb(where):
    """A drawn condition of Spark's as DuckDB spells it."""
    where = re.sub(r"(?<=[0-9])(L|D|BD|F)\b", "", where)
    return where.replace("\\'", "''").replace("<=>", "IS NOT DISTINCT FROM")


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(file_rows(), min_size=6, max_size=12), st.data())
def test_files_left_out_hold_no_row_that_duckdb_finds(tmp_path_factory, files, data):
    table = create_with_statistics(tmp_path_factory.mktemp("drawn") / "t")
    for number, columns in enumerate(files):
        table.insert(table_of(number, columns))
    con = duckdb.connect()
    full = keymark.duckdb.read(con, table)
    skipping = 0
    for where in map(in_duckdb, data.draw(st.lists(conditions, min_size=60, max_size=60))):
        try:
            wanted = full.filter(where).project("k").order("k").fetchall()
        except duckdb.Error:
            continue
        found = keymark.duckdb.read(con, table, where).project("k").order("k").fetchall()
        assert found == wanted, where
        condition = sql_condition_or_anything(where, table)
        skipping += condition != ANYTHING
    assume(skipping)


def sql_condition_or_anything(where, table):
    try:
        return sql_condition(where, table.scan().full, "duckdb")
    except InputError:
        return ANYTHING


@st.composite
def expressions(draw):
    """A test of one column in Polars."""
    name = draw(st.sampled_from(sorted(VALUES)))
    column, value = pl.col(name), draw(st.sampled_from(VALUES[name]))
    kind = draw(st.sampled_from(["compare"] * 4 + ["in", "between", "null", "starts", "not"]))
    if kind == "in":
        return column.is_in([value, VALUES[name][0], None])
    if kind == "between":
        closed = draw(st.sampled_from(["both", "left", "right", "none"]))
        other = draw(st.sampled_from(VALUES[name]))
        return column.is_between(pl.lit(value), pl.lit(other), closed)
    if kind == "null":
        return draw(st.sampled_from([column.is_null(), column.is_not_null()]))
    if kind == "starts" and name in ("s", "t"):
        return column.str.starts_with(value[:2])
    compare = draw(
        st.sampled_from([operator.eq, operator.lt, operator.le, operator.gt, operator.ge])
    )
    test = compare(column, value) if draw(st.booleans()) else compare(pl.lit(value), column)
    return ~test if kind == "not" else test


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(file_rows(), min_size=6, max_size=12), st.data())
def test_files_left_out_hold_no_row_that_polars_finds(tmp_path_factory, files, data):
    table = create_with_statistics(tmp_path_factory.mktemp("drawn") / "t")
    for number, columns in enumerate(files):
        table.insert(table_of(number, columns))
    full = pl.from_arrow(table.scan().to_arrow())
    joined = st.lists(expressions(), min_size=1, max_size=3)
    for parts in data.draw(st.lists(joined, min_size=40, max_size=40)):
        together = data.draw(st.sampled_from([operator.and_, operator.or_]))
        asked = reduce(together, parts)
        wanted = sorted(full.filter(asked)["k"])
        found = keymark.polars.scan(table).filter(asked).select("k").collect()
        assert sorted(found["k"]) == wanted, asked


def test_expressions_that_files_are_skipped_by():
    day, least = dt.date(1970, 1, 3), Decimal("1.50")
    expected = [
        (pl.col("id") == "a", Comparison("id", Operator.IN, ("a",))),
        (pl.lit(5) < pl.col("n"), Comparison("n", Operator.ABOVE, (5,))),
        (pl.col("n").is_in([1, 2]), Comparison("n", Operator.IN, (1, 2))),
        (pl.col("id").str.starts_with("ab"), Comparison("id", Operator.PREFIX, ("ab",))),
        (pl.col("id").is_null(), Comparison("id", Operator.NULL)),
        (pl.col("day") <= day, Comparison("day", Operator.AT_MOST, (2,))),
        (pl.col("price") >= least, Comparison("price", Operator.AT_LEAST, (least,))),
        (
            pl.col("n").is_between(1, 2, closed="left"),
            AllOf(
                (
                    Comparison("n", Operator.AT_LEAST, (1,)),
                    Comparison("n", Operator.BELOW, (2,)),
                )
            ),
        ),
    ]
    for expression, condition in expected:
        assert keymark.polars.expression_condition(expression, SCHEMA) == condition


@pytest.mark.parametrize(
    "expression",
    [
        ~(pl.col("id") == "a"),
        pl.col("id").is_in(["a", None], nulls_equal=True),
        pl.col("id").eq_missing("a"),
        pl.col("id").str.to_lowercase() == "a",
        pl.col("n") == pl.col("x"),
        pl.col("n").cast(pl.String) == "1",
        pl.col("n") == 1.5,
        pl.col("f") == 0.1,
        pl.col("n").is_in(pl.col("x").implode()),
        pl.col("ok"),
        pl.lit(value=True),
    ],
)
def test_expressions_that_leave_all_files(expression):
    assert keymark.polars.expression_condition(expression, SCHEMA) == ANYTHING
