"""Conditions that Spark hands to a Python source, as conditions by which files are skipped.

Spark has compared types already: a literal has the type of its column, as a Python value. What is
left out here only means that more files are read: Spark looks at every row again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from keymark.table.read.matching import comparison
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
    given = each.value if isinstance(each.value, list | tuple) else (each.value,)
    return comparison(name, op, given, schema)
