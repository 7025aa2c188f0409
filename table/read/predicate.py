"""Record keys that a SQL condition fixes, so that a query opens only their files.

Only conjuncts `column = literal` and `column IN (literals)` count, on the key column, on every one
of several key columns, or on `_hoodie_record_key`, and only where the literal has the column's own
type: anything else leaves all files to be read, which is slower and never wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from table.config import TableConfig
from table.errors import InputError
from table.keygen import record_keys
from table.write.file_group import KEY_COLUMN

_COMBINATIONS_MAX = 10_000


def fixed_keys(spark: Any, where: str | None, config: TableConfig, schema: Any) -> Any:
    """The only record keys (pa.Array of string) that can satisfy `where`; None if any can."""
    if where is None:
        return None
    values: dict[str, list[Any]] = {}
    for name, literals in _conjuncts(_parse(spark, where)):
        typed = _typed(name, literals, schema)
        if typed is not None:
            values.setdefault(name, typed)
    if KEY_COLUMN in values:
        return pa.array(values[KEY_COLUMN], pa.string())
    if not all(name in values for name in config.record_key):
        return None
    listed = [values[name] for name in config.record_key]
    if math.prod(len(column) for column in listed) > _COMBINATIONS_MAX:
        return None
    rows = list(zip(*itertools.product(*listed), strict=True))
    columns = {
        name: pa.array(rows[i] if rows else [], schema.field(name).type)
        for i, name in enumerate(config.record_key)
    }
    return record_keys(pa.table(columns), config)


def _parse(spark: Any, where: str) -> Any:
    """Spark's own parse tree of a condition (org.apache.spark.sql.catalyst.expressions)."""
    try:
        return spark._jsparkSession.sessionState().sqlParser().parseExpression(where)  # noqa: SLF001
    except Exception as error:
        raise InputError(f"where is no condition that Spark can parse: {where!r}") from error


def _conjuncts(node: Any) -> Iterator[tuple[str, list[Any]]]:
    """(column name, literal nodes) of each conjunct that fixes a column."""
    kind = node.getClass().getSimpleName()
    if kind == "And":
        yield from _conjuncts(node.left())
        yield from _conjuncts(node.right())
    elif kind == "EqualTo":
        for column, literal in ((node.left(), node.right()), (node.right(), node.left())):
            if _is(column, "UnresolvedAttribute") and _is(literal, "Literal"):
                yield column.name().strip("`"), [literal]
    elif kind == "In" and _is(node.value(), "UnresolvedAttribute"):
        listed = node.list()
        literals = [listed.apply(i) for i in range(listed.size())]
        if all(_is(literal, "Literal") for literal in literals):
            yield node.value().name().strip("`"), literals


def _is(node: Any, kind: str) -> bool:
    return bool(node.getClass().getSimpleName() == kind)


def _typed(name: str, literals: list[Any], schema: Any) -> list[Any] | None:
    """Values of the literals, where they have the type of the column; None otherwise."""
    if name not in schema.names:
        return None
    kind = schema.field(name).type
    wanted = {"string"} if pa.types.is_string(kind) else set()
    if pa.types.is_integer(kind):
        wanted = {"int", "bigint", "smallint", "tinyint"}
    if not all(literal.dataType().simpleString() in wanted for literal in literals):
        return None
    # A null literal equals nothing: it adds no key. Numbers arrive as int, texts as UTF8String.
    values = [literal.value() for literal in literals if literal.value() is not None]
    return [value if isinstance(value, int) else value.toString() for value in values]
