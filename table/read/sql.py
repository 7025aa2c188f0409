"""A SQL condition as far as files can be skipped by it, parsed without a database.

Only tests of one column against literals count, and only literals that every value of the column
compares with as they are. The rest is left out, and then more files are read.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import sqlglot
from sqlglot import exp

from keymark.table.errors import InputError
from keymark.table.read.matching import comparison
from keymark.table.read.predicate import (
    ANYTHING,
    MIRRORED,
    Comparison,
    Condition,
    Operator,
    all_of,
    any_of,
)

_COMPARED: dict[type[exp.Expr], Operator] = {
    exp.EQ: Operator.IN,
    exp.LT: Operator.BELOW,
    exp.LTE: Operator.AT_MOST,
    exp.GT: Operator.ABOVE,
    exp.GTE: Operator.AT_LEAST,
}
# What else sqlglot notes of a node, such as `negate` of NOT LIKE, changes what it means.
_UNDERSTOOD = {"this", "expression", "expressions", "low", "high"}
_NUMBER = re.compile(r"([0-9]{1,18})(\.[0-9]+)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Digits of a number with a fraction: with more, readers make different doubles of it.
_DIGITS_MAX = 15
_BIGINT_DIGITS, _DECIMAL_DIGITS = 20, 38


def sql_condition(where: str | None, schema: pa.Schema, dialect: str) -> Condition:
    """What a condition says about single columns.

    Args:
        where: the condition; None is none.
        schema: of the table.
        dialect: whose SQL it is, `spark` or `duckdb`.

    Raises:
        InputError: it is no condition in that dialect.
    """
    if where is None:
        return ANYTHING
    try:
        tree = sqlglot.condition(where, dialect=dialect)
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise InputError(f"where is not a condition in SQL: {where!r}") from error
    # What a backslash means depends on settings of the reader.
    return ANYTHING if "\\" in where else _condition(tree, schema)


def _condition(node: exp.Expr, schema: pa.Schema) -> Condition:
    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        join = all_of if isinstance(node, exp.And) else any_of
        # As a list: each OR of a row of them is in the next one.
        return join(*(_condition(part, schema) for part in node.flatten()))
    if {name for name, given in node.args.items() if given} - _UNDERSTOOD:
        return ANYTHING
    if isinstance(node, exp.Between):
        low = _test(node.this, Operator.AT_LEAST, [node.args["low"]], schema)
        high = _test(node.this, Operator.AT_MOST, [node.args["high"]], schema)
        return all_of(low, high)
    return _single(node, schema) or ANYTHING


def _single(node: exp.Expr, schema: pa.Schema) -> Comparison | None:
    if isinstance(node, exp.Binary) and type(node) in _COMPARED:
        op = _COMPARED[type(node)]
        if isinstance(node.left.unnest(), exp.Column):
            return _test(node.left, op, [node.right], schema)
        return _test(node.right, MIRRORED[op], [node.left], schema)
    if isinstance(node, exp.In):
        return _test(node.this, Operator.IN, node.expressions, schema)
    if isinstance(node, exp.Is | exp.Not):
        return _null(node, schema)
    if isinstance(node, exp.StartsWith):
        return _test(node.this, Operator.PREFIX, [node.expression], schema)
    return _like(node, schema) if isinstance(node, exp.Like) else None


def _null(node: exp.Is | exp.Not, schema: pa.Schema) -> Comparison | None:
    """`column IS NULL`, or NOT of that."""
    op = Operator.VALUE if isinstance(node, exp.Not) else Operator.NULL
    test = node.this.unnest() if isinstance(node, exp.Not) else node
    if not isinstance(test, exp.Is) or not isinstance(test.expression, exp.Null):
        return None
    return _test(test.this, op, [], schema)


def _like(node: exp.Like, schema: pa.Schema) -> Comparison | None:
    """`column LIKE 'prefix%'` without any other sign that has a meaning there."""
    pattern = node.expression.unnest()
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        return None
    prefix = pattern.name.removesuffix("%")
    if prefix == pattern.name or {"%", "_"} & set(prefix):
        return None
    return _test(node.this, Operator.PREFIX, [exp.Literal.string(prefix)], schema)


def _test(
    node: exp.Expr, op: Operator, literals: Sequence[exp.Expr], schema: pa.Schema
) -> Comparison | None:
    column = node.unnest()
    if not isinstance(column, exp.Column) or column.table or column.name not in schema.names:
        return None
    kind = schema.field(column.name).type
    values = [_value(literal.unnest(), kind) for literal in literals]
    return None if None in values else comparison(column.name, op, values, schema)


def _value(node: exp.Expr, kind: pa.DataType) -> object:
    """A literal's value as a column of that type is compared with it; None for all others."""
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast) and node.is_type(exp.DType.DATE):
        return _day(node.this) if pa.types.is_date32(kind) else None
    if isinstance(node, exp.Literal) and node.is_string:
        return _day(node) if pa.types.is_date32(kind) else node.name
    negative = isinstance(node, exp.Neg)
    number = node.this.unnest() if negative else node
    if not isinstance(number, exp.Literal) or number.is_string:
        return None
    return _number(f"-{number.name}" if negative else number.name, kind)


def _day(node: exp.Expr) -> dt.date | None:
    try:
        return dt.date.fromisoformat(node.name) if _DAY.fullmatch(node.name) else None
    except ValueError:
        return None


def _number(text: str, kind: pa.DataType) -> int | Decimal | None:
    """A number; None against decimals where Spark rounds, or has no place for, both."""
    match = _NUMBER.fullmatch(text.removeprefix("-"))
    if match is None:
        return None
    whole, fraction = match[1], match[2]
    if fraction is None:
        digits, scale = _BIGINT_DIGITS, 0
    else:
        digits, scale = len(whole), len(fraction) - 1
        if digits + scale > _DIGITS_MAX:
            return None
    number = int(text) if fraction is None else Decimal(text)
    if pa.types.is_decimal128(kind):
        together = max(kind.precision - kind.scale, digits) + max(kind.scale, scale)
        return number if together <= _DECIMAL_DIGITS else None
    return number
