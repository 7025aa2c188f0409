from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import RowsDigest, Truth, digest_arrow

_DEC = decimal.Decimal
_UTC = dt.UTC
COLUMNS = {
    "flag": (pa.bool_(), [True, None, False]),
    "tiny": (pa.int8(), [-128, None, 127]),
    "int": (pa.int32(), [-1, None, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), None, 5]),
    "float": (pa.float32(), [0.5, None, float("nan")]),
    "double": (pa.float64(), [-0.0, None, 1e300]),
    "text": (pa.string(), ["", None, "déjà vu 𝄞 " * 7]),
    "bytes": (pa.binary(), [b"\x00", None, b"\xff" * 40]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), None, dt.date(2024, 2, 29)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(1969, 1, 1, 1, 1, 1, 1, _UTC),
            None,
            dt.datetime(2030, 1, 1, 0, 0, 0, 999999, _UTC),
        ],
    ),
    "cents": (pa.decimal128(10, 2), [_DEC("-1.25"), None, _DEC("99999999.99")]),
    "big": (
        pa.decimal128(38, 10),
        [_DEC("-1.0000000001"), None, _DEC("1234567890123456789012345678.0123456789")],
    ),
    "list": (pa.list_(pa.int32()), [[], None, [1, None, 3]]),
    "lists": (pa.list_(pa.list_(pa.string())), [[["a"], []], None, [None, ["b", "c"]]]),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [{"x": 1, "y": None}, None, {"x": None, "y": "b"}],
    ),
    "structs": (
        pa.list_(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64()))])),
        [[{"a": 1, "b": [0.5, None]}, None], None, [{"a": None, "b": None}]],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[("b", 1), ("a", None)], None, []]),
}


def every_type() -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})


def test_the_empty_table_has_the_zero_digest():
    assert digest_arrow(every_type()[:0]) == Truth(0, "0" * 32)


def test_rows_and_columns_may_come_in_any_order_and_in_pieces():
    table = every_type()
    whole = digest_arrow(table)
    shuffled = table.take([2, 0, 1]).select(table.column_names[::-1])
    assert digest_arrow(shuffled) == whole
    assert digest_arrow(pa.concat_tables([table[1:], table[:1]])) == whole
    parts = [RowsDigest.of(table[index : index + 1]) for index in range(3)]
    assert (parts[0] + parts[1] + parts[2]).truth == whole
    assert (RowsDigest.of(table) - parts[1]).truth == digest_arrow(table.take([0, 2]))


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("row", [0, 1, 2])
def test_every_cell_counts(name, row):
    table = every_type()
    index = table.column_names.index(name)
    values = table[name].to_pylist()
    values[row] = values[(row + 1) % 3]
    changed = table.set_column(index, name, pa.array(values, table[name].type))
    assert digest_arrow(changed) != digest_arrow(table)


def test_a_value_in_another_column_or_row_is_another_table():
    one = pa.table({"a": ["x", "y"], "b": ["p", "q"]})
    for other in (
        {"a": ["p", "y"], "b": ["x", "q"]},
        {"a": ["x", "y"], "b": ["q", "p"]},
        {"a": ["x", "x"], "b": ["p", "p"]},
        {"a": ["x", None], "b": ["p", "q"]},
        {"a": ["xp", "y"], "b": ["", "q"]},
    ):
        assert digest_arrow(pa.table(other)) != digest_arrow(one)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_null_counts_where_it_stands(name):
    kind, values = COLUMNS[name]
    null, value = pa.array([None], kind), pa.array(values[2:], kind)
    one = pa.table({"a": null, "b": value})
    other = pa.table({"a": value, "b": null})
    assert digest_arrow(one) != digest_arrow(other)


def test_two_equal_rows_do_not_cancel():
    row = pa.table({"a": ["x"]})
    assert digest_arrow(pa.concat_tables([row, row])).digest not in (
        digest_arrow(row).digest,
        "0" * 32,
    )


def test_lists_do_not_run_into_each_other():
    kind = pa.list_(pa.int64())
    tables = [
        pa.table({"a": pa.array([one], kind), "b": pa.array([two], kind)})
        for one, two in (([1], [2, 3]), ([1, 2], [3]), ([1, 2, 3], []), ([1, None], [2, 3]))
    ]
    assert len({digest_arrow(table).digest for table in tables}) == len(tables)


def test_maps_are_equal_in_any_order_and_zeros_with_any_sign():
    kind = pa.map_(pa.string(), pa.int64())
    one, two = ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    assert digest_arrow(pa.table({"m": pa.array([one], kind)})) == digest_arrow(
        pa.table({"m": pa.array([two], kind)})
    )
    assert digest_arrow(pa.table({"x": [0.0]})) == digest_arrow(pa.table({"x": [-0.0]}))


def test_wider_and_encoded_forms_of_the_same_values_are_equal():
    table = pa.table({"a": pa.array([1, None], pa.int16()), "s": ["x", None]})
    wide = pa.table(
        {
            "a": pa.array([1, None], pa.int64()),
            "s": pa.array(["x", None], pa.large_string()).dictionary_encode(),
        }
    )
    assert digest_arrow(table) == digest_arrow(wide)


def test_what_has_no_digest_is_refused_by_name():
    with pytest.raises(DatasetError, match=r"'span'.*duration"):
        digest_arrow(pa.table({"span": pa.array([1], pa.duration("s"))}))
    with pytest.raises(DatasetError, match="'b'"):
        digest_arrow(pa.table({"a": [1]}), ["a", "b"])


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=40))))
def test_sums_of_single_rows_are_the_digest_of_all(rows):
    table = pa.table(
        {
            "a": pa.array([row[0] for row in rows], pa.int64()),
            "b": pa.array([row[1] for row in rows], pa.string()),
        }
    )
    total = sum(
        (RowsDigest.of(table[index : index + 1]) for index in range(len(rows))), RowsDigest()
    )
    assert total == RowsDigest.of(table)


@pytest.mark.spark
def test_spark_computes_the_same_digest_of_every_type(spark, tmp_path):
    import pyarrow.parquet as pq

    from keymark.datasets.generate.spark import digest_dataframe

    table = every_type()
    pq.write_table(table, tmp_path / "every.parquet")
    df = spark.read.parquet(str(tmp_path / "every.parquet"))
    for name in table.column_names:
        assert digest_dataframe(df, [name]) == digest_arrow(table, [name]), name
    assert digest_dataframe(df) == digest_arrow(table)
    assert digest_dataframe(df.limit(0)) == Truth(0, "0" * 32)


@pytest.mark.spark
def test_spark_refuses_what_has_no_digest(spark):
    from keymark.datasets.generate.spark import digest_dataframe

    with pytest.raises(DatasetError, match="'span'"):
        digest_dataframe(spark.sql("select interval '1' day as span"))


@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_beyond_64_bits_wrap_in_spark_as_well(spark, ansi):
    from keymark.datasets.generate.spark import digest_dataframe

    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        found = digest_dataframe(spark.range(1000))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert found == digest_arrow(pa.table({"id": np.arange(1000)}))
