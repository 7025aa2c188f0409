"""Conditions that Spark hands to a Python source, as conditions by which files are skipped.

Spark has compared types already: a literal has the type of its column, as a Python value. What is
left out here only means that more files are read: Spark looks at every row again.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from keymark.table.read.predicate import AllOf, Comparison, Condition, Operator

_OPS = {
    "EqualTo": Operator.IN,
    "EqualNullSafe": Operator.IN,
    "LessThan": Operator.BELOW,
    "LessThanOrEqual": Operator.AT_MOST,
    "GreaterThan": Operator.ABOVE,
    "GreaterThanOrEqual": Operator.AT_LEAST,
    "In": Operator.IN,
    "IsNull": Operator.NULL,
    "IsNotNull": Operator.VALUE,
    "StringStartsWith": Operator.PREFIX,
}
_FIRST_DAY = dt.date(1970, 1, 1)
_FIRST_MOMENT = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def pushed_condition(filters: Iterable[Any], schema: pa.Schema) -> Condition:
    """What a row must pass at least.

    Args:
        filters: pyspark.sql.datasource.Filter, of which every one must hold.
        schema: of the table's columns.
    """
    tests = (_test(each, schema) for each in filters)
    return AllOf(tuple(test for test in tests if test is not None))


def _test(each: Any, schema: pa.Schema) -> Comparison | None:
    op = _OPS.get(type(each).__name__)
    if op is None or len(each.attribute) != 1 or schema.names.count(each.attribute[0]) != 1:
        return None
    name = each.attribute[0]
    if op in (Operator.NULL, Operator.VALUE):
        return Comparison(name, op)
    # A null in a list makes no row pass.
    given = each.value if isinstance(each.value, list | tuple) else (each.value,)
    kind = schema.field(name).type
    values = tuple(_value(value, kind) for value in given if value is not None)
    if not values or None in values:
        return None
    return Comparison(name, op, values)


def _value(value: object, kind: pa.DataType) -> Any:  # noqa: PLR0911  a line per type
    """A literal as `Comparison` holds it for a column of that type; None if it cannot."""
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else None
    if pa.types.is_integer(kind):
        return value if isinstance(value, int) else None
    if pa.types.is_date32(kind):
        return (value - _FIRST_DAY).days if type(value) is dt.date else None
    if pa.types.is_decimal128(kind):
        return value if isinstance(value, Decimal) else None
    if pa.types.is_floating(kind):
        return value if isinstance(value, float) and math.isfinite(value) else None
    if kind == pa.timestamp("us", "UTC") and isinstance(value, dt.datetime) and value.tzinfo:
        return (value - _FIRST_MOMENT) // _MICROSECOND
    return None
