"""Rows and keys as Python has them: pandas frames, lists of dicts, values of the key column."""

from __future__ import annotations

import datetime as dt
import decimal
import sys

import pandas as pd
import pyarrow as pa
import pytest

from keymark import Table
from keymark.table.errors import InputError

ROWS = [
    {"id": 1, "day": dt.date(2024, 1, 1), "ts": 1, "n": None},
    {"id": 2, "day": dt.date(2024, 1, 2), "ts": 1, "n": 7},
]
SCHEMA = pa.schema(
    {"id": pa.int32(), "day": pa.date32(), "ts": pa.int64(), "n": pa.int32()}.items()
)


def table(path, **how):
    made = Table.create(path, record_key=how.pop("record_key", "id"), ordering="ts", **how)
    made.bulk_insert(pa.Table.from_pylist(ROWS, SCHEMA))
    return made


def rows_of(made):
    found = made.scan(columns=["id", "day", "ts", "n"]).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.parametrize("kind", [list, tuple, pd.DataFrame])
def test_rows_are_a_frame_of_pandas_or_dicts(tmp_path, kind):
    made = table(tmp_path / "t")
    changed = [{**ROWS[0], "ts": 2, "n": 5}, {**ROWS[0], "id": 3}]
    result = made.upsert(kind(changed))
    assert (result.inserted, result.updated) == (1, 1)
    assert rows_of(made) == [changed[0], ROWS[1], changed[1]]
    assert made.insert(kind([{**ROWS[0], "id": 4}])).inserted == 1
    assert made.bulk_insert(kind([{**ROWS[0], "id": 5}])).inserted == 1
    gone = made.delete(kind([{"id": 3}, {"id": 4}, {"id": 5}]))
    assert gone.deleted == 3


def test_dicts_need_not_name_the_same_columns(tmp_path):
    made = Table.create(tmp_path / "t", record_key="id")
    made.upsert([{"id": 1}, {"id": 2, "n": 1.5}])
    found = made.scan(columns=["id", "n"]).to_arrow().to_pylist()
    assert found == [{"id": 1, "n": None}, {"id": 2, "n": 1.5}]


@pytest.mark.parametrize("kind", [list, pd.DataFrame])
def test_flags_that_say_nothing_delete_nothing(tmp_path, kind):
    made = table(tmp_path / "t")
    said = kind([{**row, "_hoodie_is_deleted": None} for row in ROWS])
    assert made.upsert(said).updated == 2
    assert rows_of(made) == ROWS


def test_integers_with_nulls_are_floats_in_pandas(tmp_path):
    made = table(tmp_path / "t")
    frame = pd.DataFrame(ROWS)
    assert frame["n"].dtype.kind == "f"
    made.upsert(frame.assign(ts=3))
    assert [row["n"] for row in rows_of(made)] == [None, 7]
    with pytest.raises(InputError, match=r"column 'n' has no one type: Float value 7\.5"):
        made.upsert(frame.assign(n=[None, 7.5]))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (5, "not int"),
        ("rows", "not str"),
        ([], "not list"),
        ([1, 2], "not list"),
        ([{"id": 1}, 2], "not list"),
        ([{"id": 1}, {"id": "b"}], "column 'id' has no one type"),
        ([{"id": 1, "day": "2024-01-01", "ts": 1, "n": 1}], "column 'day'.*does not fit date32"),
        ([{"id": 2**70, "day": None, "ts": 1, "n": 1}], "column 'id'"),
        ([{"id": "\ud800"}], "column 'id' holds a text that is not valid Unicode"),
    ],
)
def test_what_is_no_rows_is_refused_in_one_line(tmp_path, rows, reason):
    made = table(tmp_path / "t")
    for write in (made.upsert, made.insert, made.bulk_insert):
        with pytest.raises(InputError, match=reason) as refused:
            write(rows)
        assert "\n" not in str(refused.value)
    assert rows_of(made) == ROWS


@pytest.mark.parametrize(
    "keys", [[1, 3], pd.Series([1, 3]), pa.array([1, 3]), pa.array([1, 3], pa.int32()), (1, 3)]
)
def test_keys_are_values_of_the_key_column(tmp_path, keys):
    made = table(tmp_path / "t")
    found = made.lookup(keys)
    assert found["record_key"].to_pylist() == ["1", "3"]
    assert [place is None for place in found["file_id"].to_pylist()] == [False, True]
    assert made.scan(keys, columns=["id"]).to_arrow().to_pylist() == [{"id": 1}]
    assert made.delete(keys).deleted == 1


def test_keys_of_other_types_are_written_as_the_key_generator_writes_them(tmp_path):
    columns = {
        "day": [dt.date(2024, 1, 1)],
        "at": [dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)],
        "price": [decimal.Decimal("1.50")],
        "open": [True],
    }
    for name, values in columns.items():
        made = Table.create(tmp_path / name, record_key=name)
        made.bulk_insert(pa.table(columns))
        found = made.lookup(values)
        assert found["file_id"].null_count == 0, name
        stored = made.scan(columns=["_hoodie_record_key"]).to_arrow()
        assert found["record_key"].to_pylist() == stored["_hoodie_record_key"].to_pylist()


def test_a_key_of_one_named_field_is_named(tmp_path):
    named = {"hoodie.datasource.write.keygenerator.class": COMPLEX}
    made = table(tmp_path / "t", options=named | {"keymark.recordkey.encoding": "named"})
    assert made.lookup([1])["record_key"].to_pylist() == ["id:1"]
    assert made.lookup([1])["file_id"].null_count == 0


COMPLEX = "org.apache.hudi.keygen.ComplexKeyGenerator"


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (["1", None], "a record key is null"),
        ([1, None], "a record key is null"),
        ([1.5], "does not fit int32"),
        ([1, "b"], "column 'keys' has no one type"),
        (["\udcff"], "column 'keys' holds a text that is not valid Unicode"),
        (5, "keys must be a list"),
        ([dt.date(2024, 1, 1)], "does not fit int32"),
    ],
)
def test_what_is_no_key_is_refused(tmp_path, keys, reason):
    made = table(tmp_path / "t")
    for ask in (made.lookup, made.delete, made.scan):
        with pytest.raises(InputError, match=reason):
            ask(keys)


def test_values_are_no_keys_of_several_columns(tmp_path):
    made = table(tmp_path / "t", record_key="id,day")
    with pytest.raises(InputError, match="an encoded record key must be text"):
        made.lookup([1])
    found = made.lookup([{"id": 1, "day": dt.date(2024, 1, 1)}])
    assert found["record_key"].to_pylist() == ["id:1,day:2024-01-01"]


def test_rows_that_name_keys_have_the_types_of_the_columns(tmp_path):
    """A time is no date: its key is another text, by which no row would be found."""
    made = table(tmp_path / "t", record_key="id,day")
    times = pd.DataFrame({"id": [1], "day": pd.to_datetime(["2024-01-01"])})
    for ask in (made.lookup, made.delete, made.scan, made.purge):
        with pytest.raises(InputError, match="column 'day' of the keys is timestamp"):
            ask(times)
    assert rows_of(made) == ROWS
    assert made.delete(times.assign(day=times["day"].dt.date)).deleted == 1


def test_integers_with_nulls_of_pandas_name_keys_and_partitions(tmp_path):
    made = table(tmp_path / "t", record_key="id,n", partition_path="n", index="simple")
    frame = pd.DataFrame(ROWS)[["id", "n"]].assign(ts=[0.5, 1.5])
    assert frame["n"].dtype.kind == "f"
    assert made.lookup(frame)["record_key"].to_pylist() == ["id:1,n:__null__", "id:2,n:7"]
    assert made.scan(frame).to_arrow().num_rows == 2
    assert made.delete(frame).deleted == 2


@pytest.mark.parametrize("digits", ["1.5", "1.500"])
def test_a_decimal_names_its_row_however_many_digits_it_has(tmp_path, digits):
    made = Table.create(tmp_path / "t", record_key="n")
    stored = [decimal.Decimal("1.50"), decimal.Decimal("2.00")]
    made.bulk_insert(pa.table({"n": pa.array(stored, pa.decimal128(10, 2))}))
    named = [decimal.Decimal(digits)]
    for keys in ([{"n": named[0]}], pa.table({"n": pa.array(named, pa.decimal128(38, 18))})):
        assert made.lookup(keys)["record_key"].to_pylist() == ["1.50"]
        assert made.scan(keys).to_arrow()["n"].to_pylist() == stored[:1]
    report = made.purge([{"n": named[0]}])
    assert (report.proven, report.deleted) == (True, 1)
    assert made.scan().to_arrow()["n"].to_pylist() == stored[1:]


def test_a_scan_is_a_table_of_arrow_pandas_or_polars(tmp_path, monkeypatch):
    made = table(tmp_path / "t")
    scan = made.scan(columns=["id", "n"])
    assert repr(scan) == "<ReadPlan of table t: 1 of 1 files>"
    assert scan.to_arrow().schema == pa.schema({"id": pa.int32(), "n": pa.int32()}.items())
    assert list(scan.to_pandas()["id"]) == [1, 2]
    assert made.scan(["none"]).to_arrow().num_rows == 0
    assert Table.create(tmp_path / "new", record_key="id").scan().to_arrow().num_rows == 0
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match="to_polars needs polars: pip install polars"):
        scan.to_polars()


@pytest.mark.spark
def test_a_condition_on_no_column_names_the_nearest(tmp_path, spark):
    made = Table.open(table(tmp_path / "t").storage.root, spark=spark)
    with pytest.raises(InputError) as refused:
        made.read(where="dya = '2024-01-01'")
    assert str(refused.value) == (
        "where \"dya = '2024-01-01'\": the table has no column 'dya'; did you mean 'day'?"
    )
    with pytest.raises(InputError, match=r"^where 'id': [^\n]*$"):
        made.read(where="id")
    assert made.read(where="id = 1").count() == 1
