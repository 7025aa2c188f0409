"""Conditions as Spark hands them to a Python source; what they leave out is looked at by Spark."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from keymark.table.errors import UnsupportedTableError
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.read.predicate import AllOf, Comparison, Operator, fixed_keys
from keymark.table.source import register, version
from keymark.table.source.pushed import pushed_condition

SCHEMA = pa.schema(
    [
        (KEY_COLUMN, pa.string()),
        ("id", pa.string()),
        ("n", pa.int32()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("x", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True)
class Filter:
    attribute: tuple
    value: Any = None


def made(kind, *arguments):
    """A filter of PySpark 4's kinds, without PySpark 4."""
    return type(kind, (Filter,), {})(*arguments)


MOMENT = dt.datetime(1970, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1)))
TAKEN = [
    ("EqualTo", "id", "a", Operator.IN, ("a",)),
    ("EqualNullSafe", "id", "", Operator.IN, ("",)),
    ("In", "n", (1, None, 2), Operator.IN, (1, 2)),
    ("LessThan", "n", 5, Operator.BELOW, (5,)),
    ("LessThanOrEqual", "price", Decimal("1.50"), Operator.AT_MOST, (Decimal("1.50"),)),
    ("GreaterThan", "x", 0.5, Operator.ABOVE, (0.5,)),
    ("GreaterThanOrEqual", "day", dt.date(1970, 1, 3), Operator.AT_LEAST, (2,)),
    ("EqualTo", "at", MOMENT, Operator.IN, (23 * 3_600_000_000,)),
    ("EqualTo", "ok", False, Operator.IN, (False,)),
    ("StringStartsWith", "id", "ab", Operator.PREFIX, ("ab",)),
]
LEFT_OUT = [
    ("EqualTo", "id", 7),
    ("EqualTo", "id", None),
    ("In", "id", (None,)),
    ("EqualTo", "x", float("nan")),
    ("EqualTo", "local", dt.datetime(2024, 1, 1)),  # noqa: DTZ001  as Spark has it
    ("EqualTo", "day", MOMENT),
    ("EqualTo", "tags", ["a"]),
    ("EqualTo", "nowhere", "a"),
    ("StringEndsWith", "id", "a"),
    ("Not", "id", "a"),
]


@pytest.mark.parametrize(("kind", "name", "value", "op", "values"), TAKEN)
def test_taken(kind, name, value, op, values):
    found = pushed_condition([made(kind, (name,), value)], SCHEMA)
    assert found == AllOf((Comparison(name, op, values),))


@pytest.mark.parametrize(("kind", "name", "value"), LEFT_OUT)
def test_left_out(kind, name, value):
    assert pushed_condition([made(kind, (name,), value)], SCHEMA) == AllOf(())


def test_nulls_and_parts_of_columns():
    filters = [made("IsNull", ("n",)), made("IsNotNull", ("id",)), made("IsNull", ("tags", "a"))]
    assert pushed_condition(filters, SCHEMA) == AllOf(
        (Comparison("n", Operator.NULL), Comparison("id", Operator.VALUE))
    )


def test_keys_are_fixed_by_what_is_handed_down():
    condition = pushed_condition([made("In", (KEY_COLUMN,), ("a", "b"))], SCHEMA)
    config = SimpleNamespace(record_key=("id",))
    assert fixed_keys(condition, config, SCHEMA).to_pylist() == ["a", "b"]


@pytest.mark.parametrize("text", ["3.5.9", "4.0.4"])
def test_an_older_spark_is_refused_with_the_way_to_go(text):
    with pytest.raises(UnsupportedTableError, match=r"4\.1 or later, not .*read\(where"):
        register(SimpleNamespace(version=text))


@pytest.mark.parametrize(("text", "numbers"), [("4.1.0", (4, 1)), ("4.3.0.dev1", (4, 3))])
def test_versions(text, numbers):
    assert version(text) == numbers
