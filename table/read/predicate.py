"""A SQL condition, as far as files can be skipped by it.

Spark's own parse tree becomes tests of one column against literals, joined by AND and OR. Only
literals count whose type Spark compares with the column's without changing a value: everything else
is left out, and then all files are read, which is slower and never wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keymark.table.errors import InputError
from keymark.table.keygen import makes_keys, record_keys
from keymark.table.properties.config import KEY_COLUMN, TableConfig

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

_COMBINATIONS_MAX = 10_000
_WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_PRECISION_MAX = 38
# Whole numbers up to these are the same as float and as double.
_FLOAT_EXACT, _DOUBLE_EXACT = 1 << 24, 1 << 53
_TIMESTAMP = pa.timestamp("us", "UTC")


class Operator(Enum):
    """What a test asks of a column's value."""

    IN = "in"
    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="
    PREFIX = "like"
    NULL = "is null"
    VALUE = "is not null"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against literals: any number for IN, none for NULL and VALUE, else one.

    Literals are str, int (also days and microseconds since the epoch), float, bool or Decimal.
    """

    column: str
    op: Operator
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class AllOf:
    """Rows pass that pass every part; conditions that cannot be evaluated are not parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Rows pass that pass one of the parts."""

    parts: tuple[Condition, ...]


Condition = Comparison | AllOf | AnyOf
ANYTHING = AllOf(())
MIRRORED = {
    Operator.IN: Operator.IN,
    Operator.BELOW: Operator.ABOVE,
    Operator.AT_MOST: Operator.AT_LEAST,
    Operator.ABOVE: Operator.BELOW,
    Operator.AT_LEAST: Operator.AT_MOST,
}
"""What a comparison is with its sides exchanged."""
_COMPARED = {
    "EqualTo": Operator.IN,
    "EqualNullSafe": Operator.IN,
    "LessThan": Operator.BELOW,
    "LessThanOrEqual": Operator.AT_MOST,
    "GreaterThan": Operator.ABOVE,
    "GreaterThanOrEqual": Operator.AT_LEAST,
}


def all_of(*parts: Condition | None) -> Condition:
    """What must hold together; None and ANYTHING say nothing about it."""
    return AllOf(tuple(_joined((part for part in parts if part is not None), AllOf)))


def any_of(*parts: Condition) -> Condition:
    """One of which must hold: ANYTHING where one of them is."""
    return ANYTHING if ANYTHING in parts else AnyOf(tuple(_joined(parts, AnyOf)))


def _joined(parts: Iterable[Condition], kind: type[AllOf | AnyOf]) -> Iterator[Condition]:
    """The parts side by side, however deep they were nested: there may be thousands of them."""
    for part in parts:
        yield from part.parts if isinstance(part, kind) else (part,)


def parse_condition(spark: SparkSession, where: str | None, schema: pa.Schema) -> Condition:
    """What a condition says about single columns of a table with that schema.

    Raises:
        InputError: Spark cannot parse it.
    """
    if where is None:
        return ANYTHING
    try:
        parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
        tree = parser.parseExpression(where)
    except Exception as error:
        raise InputError(f"where is not a condition that Spark can parse: {where!r}") from error
    return _condition(tree, schema)


def fixed_keys(condition: Condition, config: TableConfig, schema: pa.Schema) -> pa.Array | None:
    """The only record keys that can satisfy a condition; None if any can.

    They are fixed by tests on the key column, on every one of several key columns, or on
    `_hoodie_record_key`.
    """
    values: dict[str, tuple[Any, ...]] = {}
    tests = (part for part in conjuncts(condition) if isinstance(part, Comparison))
    for test in tests:
        if test.op is Operator.IN and test.column in schema.names:
            kind = schema.field(test.column).type
            if pa.types.is_string(kind) or pa.types.is_integer(kind):
                values.setdefault(test.column, _fitting(test.values, kind))
    if KEY_COLUMN in values:
        return pa.array(values[KEY_COLUMN], pa.string())
    if not makes_keys(config) or not all(name in values for name in config.record_key):
        return None
    listed = [values[name] for name in config.record_key]
    if math.prod(len(column) for column in listed) > _COMBINATIONS_MAX:
        return None
    rows = list(zip(*itertools.product(*listed), strict=True))
    columns = {
        name: pa.array(rows[i] if rows else [], schema.field(name).type)
        for i, name in enumerate(config.record_key)
    }
    try:
        return record_keys(pa.table(columns), config)
    except InputError:
        # No key at all, such as an empty text: the record index cannot be asked.
        return None


def conjuncts(condition: Condition) -> Iterator[Comparison | AnyOf]:
    """The parts that must all hold."""
    if isinstance(condition, AllOf):
        for part in condition.parts:
            yield from conjuncts(part)
    else:
        yield condition


def tested_columns(condition: Condition) -> set[str]:
    """The columns that a condition tests."""
    if isinstance(condition, Comparison):
        return {condition.column}
    return {name for part in condition.parts for name in tested_columns(part)}


def without_tests(condition: Condition, columns: Collection[str]) -> Condition:
    """A condition without what it asks of some columns: every row that passes it passes this."""
    if isinstance(condition, Comparison):
        return ANYTHING if condition.column in columns else condition
    parts = [without_tests(part, columns) for part in condition.parts]
    return all_of(*parts) if isinstance(condition, AllOf) else any_of(*parts)


def _fitting(values: tuple[Any, ...], kind: pa.DataType) -> tuple[Any, ...]:
    """Without the numbers that no row of the column can hold."""
    if not pa.types.is_integer(kind):
        return values
    bound = 1 << (kind.bit_width - 1)
    return tuple(value for value in values if -bound <= value < bound)


def _condition(node: JavaObject, schema: pa.Schema) -> Condition:
    """The condition of a node (org.apache.spark.sql.catalyst.expressions)."""
    kind = _kind(node)
    if kind in ("And", "Or"):
        join = all_of if kind == "And" else any_of
        return join(_condition(node.left(), schema), _condition(node.right(), schema))
    if kind == "UnresolvedFunction":
        return _between(node, schema)
    return _test(node, kind, schema) or ANYTHING


def _between(node: JavaObject, schema: pa.Schema) -> Condition:
    """`column BETWEEN low AND high`, which Spark 4 keeps as a function until it resolves names."""
    names, given = node.nameParts(), node.arguments()
    if names.size() > 1 or str(names.apply(0)).lower() != "between" or given.size() != 3:
        return ANYTHING
    column = _column(given.apply(0), schema)
    if column is None:
        return ANYTHING
    low = _typed(column, Operator.AT_LEAST, [given.apply(1)], schema)
    high = _typed(column, Operator.AT_MOST, [given.apply(2)], schema)
    return all_of(low, high)


def _test(node: JavaObject, kind: str, schema: pa.Schema) -> Comparison | None:
    if kind in _COMPARED:
        return _comparison(node, kind, schema)
    if kind == "Like":
        return _prefix(node, schema)
    if kind in ("IsNull", "IsNotNull"):
        column = _column(node.child(), schema)
        op = Operator.NULL if kind == "IsNull" else Operator.VALUE
        return None if column is None else Comparison(column, op)
    column = _column(node.value(), schema) if kind == "In" else None
    if column is None:
        return None
    listed = node.list()
    return _typed(column, Operator.IN, [listed.apply(i) for i in range(listed.size())], schema)


def _comparison(node: JavaObject, kind: str, schema: pa.Schema) -> Comparison | None:
    named = _COMPARED[kind]
    for op, column, literal in (
        (named, node.left(), node.right()),
        (MIRRORED[named], node.right(), node.left()),
    ):
        name = _column(column, schema)
        if name is not None and _kind(literal) == "Literal":
            if kind == "EqualNullSafe" and literal.value() is None:
                return Comparison(name, Operator.NULL)
            return _typed(name, op, [literal], schema)
    return None


def _prefix(node: JavaObject, schema: pa.Schema) -> Comparison | None:
    """`column LIKE 'prefix%'` without any other sign that has a meaning there."""
    column = _column(node.left(), schema)
    if column is None or _kind(node.right()) != "Literal":
        return None
    test = _typed(column, Operator.PREFIX, [node.right()], schema)
    if test is None or not pa.types.is_string(schema.field(column).type):
        return None
    (pattern,) = test.values
    prefix = pattern[:-1]
    special = {"%", "_", str(node.escapeChar())}
    if not pattern.endswith("%") or special & set(prefix) or str(node.escapeChar()) == "%":
        return None
    return Comparison(column, Operator.PREFIX, (prefix,))


def _kind(node: JavaObject) -> str:
    return str(node.getClass().getSimpleName())


def _column(node: JavaObject, schema: pa.Schema) -> str | None:
    """The table's column that a node is; none for a part of a column."""
    if _kind(node) != "UnresolvedAttribute":
        return None
    parts = node.nameParts()
    name = str(parts.apply(0))
    # Spark finds columns in any case; of those spelled otherwise nothing is known here.
    return name if parts.size() == 1 and schema.names.count(name) == 1 else None


def _typed(
    column: str, op: Operator, literals: Sequence[JavaObject], schema: pa.Schema
) -> Comparison | None:
    """The test, where every literal has a type that compares as it is."""
    kind = schema.field(column).type
    values = []
    for literal in literals:
        value = _literal(literal, kind) if _kind(literal) == "Literal" else None
        if value is None:
            return None
        values.append(value)
    return Comparison(column, op, tuple(values))


def _literal(node: JavaObject, kind: pa.DataType) -> Any:  # noqa: PLR0911  a line per type
    """A literal's value as the column's type compares it; None where it is of another type."""
    literal, value = str(node.dataType().simpleString()), node.value()
    if value is None:
        return None
    if pa.types.is_string(kind):
        return str(value.toString()) if literal == "string" else None
    if pa.types.is_integer(kind):
        return value if literal in _WHOLE else None
    if pa.types.is_boolean(kind):
        return value if literal == "boolean" else None
    if pa.types.is_date32(kind):
        return value if literal == "date" else None
    if kind == _TIMESTAMP:
        return value if literal == "timestamp" else None
    if pa.types.is_decimal128(kind):
        return _exact(literal, value, kind)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _double(literal, value, _FLOAT_EXACT if kind.bit_width == 32 else _DOUBLE_EXACT)
    return None


def _exact(literal: str, value: Any, kind: pa.DataType) -> Decimal | None:
    """A number against decimals: Spark widens both, and turns into null what has no place then."""
    if literal in _WHOLE:
        precision, scale, number = _WHOLE[literal], 0, Decimal(value)
    elif literal.startswith("decimal("):
        precision, scale = (int(part) for part in literal[8:-1].split(","))
        number = Decimal(value.toString())
    else:
        return None
    digits = max(kind.precision - kind.scale, precision - scale) + max(kind.scale, scale)
    return number if digits <= _PRECISION_MAX else None


def _double(literal: str, value: Any, exact: int) -> float | None:
    """A number against floats or doubles; Spark compares both as doubles."""
    if literal == "double":
        return float(value)
    if literal.startswith("decimal("):
        return float(Decimal(value.toString()))
    return float(value) if literal in _WHOLE and abs(value) <= exact else None
