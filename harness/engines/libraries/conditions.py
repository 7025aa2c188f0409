"""A condition in Spark's SQL as tests of single columns, which every library can be asked."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from keymark.harness.errors import CellError

Test = tuple[str, str, list[int | float | str]]
"""A column, `in`, `<`, `<=`, `>` or `>=`, and values."""

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "in",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def column_tests(where: str) -> list[Test]:
    """The tests that a condition joins by AND: a column compared with a literal, BETWEEN or IN.

    Raises:
        CellError: it is another condition.
    """
    try:
        tree = sqlglot.condition(where, dialect="spark")
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise CellError(f"{where!r} is not a condition in SQL") from error
    return (
        [test for part in tree.flatten() for test in _tests(part, where)]
        if isinstance(tree, exp.And)
        else list(_tests(tree, where))
    )


def _tests(part: exp.Expr, where: str) -> Iterator[Test]:
    node = part.unnest()
    if isinstance(node, exp.Between):
        yield _column(node.this, where), ">=", [_value(node.args["low"], where)]
        yield _column(node.this, where), "<=", [_value(node.args["high"], where)]
    elif isinstance(node, exp.In) and node.expressions:
        values = [_value(each, where) for each in node.expressions]
        yield _column(node.this, where), "in", values
    elif isinstance(node, exp.Binary) and type(node) in _OPERATORS:
        value = _value(node.expression, where)
        yield _column(node.this, where), _OPERATORS[type(node)], [value]
    else:
        raise _unknown(where)


def _column(node: exp.Expr, where: str) -> str:
    if not isinstance(node, exp.Column) or node.table:
        raise _unknown(where)
    return node.name


def _value(node: exp.Expr, where: str) -> int | float | str:
    is_negative = isinstance(node, exp.Neg)
    literal = node.this if is_negative else node
    if not isinstance(literal, exp.Literal):
        raise _unknown(where)
    if literal.is_string:
        return str(literal.name)
    text = f"-{literal.name}" if is_negative else str(literal.name)
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _unknown(where: str) -> CellError:
    return CellError(
        f"{where!r}: engines without Spark are asked for columns compared with literals, joined by "
        "AND"
    )
