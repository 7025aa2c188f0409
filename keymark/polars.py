"""Tables in Polars: only files that can hold a matching row are opened (extra `polars`).

    import polars as pl
    import keymark.polars

    trips = keymark.polars.scan("/data/trips")
    trips.filter(pl.col("uuid") == "0b7c…").select("city", "fare").collect()

The frame is lazy. Polars hands its filter down when it collects: record keys in it choose files by
the record index, ranges of columns by the column statistics. Files are read one after the other.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from keymark.table.read.arrow import ReadPlan
from keymark.table.read.matching import comparison, matching_files
from keymark.table.read.predicate import (
    ANYTHING,
    MIRRORED,
    Comparison,
    Condition,
    Operator,
    all_of,
    any_of,
)
from keymark.table.table import Table

_COMPARED = {
    "Eq": Operator.IN,
    "Lt": Operator.BELOW,
    "LtEq": Operator.AT_MOST,
    "Gt": Operator.ABOVE,
    "GtEq": Operator.AT_LEAST,
}
_JOINED = {"And": all_of, "LogicalAnd": all_of, "Or": any_of, "LogicalOr": any_of}
# What `is_between` includes: the operator of its lower and of its upper bound.
_BETWEEN = {
    "Both": (Operator.AT_LEAST, Operator.AT_MOST),
    "Left": (Operator.AT_LEAST, Operator.BELOW),
    "Right": (Operator.ABOVE, Operator.AT_MOST),
    "None": (Operator.ABOVE, Operator.BELOW),
}


def scan(table: Table | str | os.PathLike[str], *, as_of: str | None = None) -> pl.LazyFrame:
    """The rows of a table's snapshot, as a lazy frame; each collect reads the latest one.

    Args:
        table: the table, or its path.
        as_of: the instant of an older snapshot.

    Raises:
        InputError: the table has no schema yet.
    """
    table = table if isinstance(table, Table) else Table.open(table)
    schema = table.scan(as_of=as_of).known_schema()

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001  Polars gives it; a batch is a file
    ) -> Iterator[pl.DataFrame]:
        return _read(table.scan(as_of=as_of), table, with_columns, predicate, n_rows)

    return register_io_source(read, schema=pl.Schema(pl.from_arrow(schema.empty_table()).schema))


def _read(
    plan: ReadPlan,
    table: Table,
    columns: Sequence[str] | None,
    predicate: pl.Expr | None,
    rows: int | None,
) -> Iterator[pl.DataFrame]:
    """The rows that pass, with the columns asked for, file by file; at most so many."""
    if predicate is not None:
        condition = expression_condition(predicate, plan.full)
        plan = replace(plan, files=matching_files(table, plan, condition))
    for stored in plan.tables():
        frame = pl.from_arrow(stored)
        assert isinstance(frame, pl.DataFrame)
        if predicate is not None:
            frame = frame.filter(predicate)
        if rows is not None:
            frame = frame.head(rows)
            rows -= frame.height
        yield frame if columns is None else frame.select(columns)
        if rows == 0:
            return


def expression_condition(expression: pl.Expr, schema: pa.Schema) -> Condition:
    """What an expression says about single columns.

    Polars shows an expression as JSON only, in a form that it may change: what is not known here
    leaves all files.
    """
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
        return _condition(tree, schema)
    except (KeyError, TypeError, ValueError, RecursionError, pl.exceptions.PolarsError):
        return ANYTHING


def _condition(node: dict[str, Any], schema: pa.Schema) -> Condition:
    ((kind, given),) = node.items()
    if kind == "BinaryExpr" and given["op"] in _JOINED:
        join = _JOINED[given["op"]]
        return join(_condition(given["left"], schema), _condition(given["right"], schema))
    if kind == "BinaryExpr" and given["op"] in _COMPARED:
        op = _COMPARED[given["op"]]
        if "Column" in given["left"]:
            return _test(given["left"], op, given["right"], schema) or ANYTHING
        return _test(given["right"], MIRRORED[op], given["left"], schema) or ANYTHING
    if kind == "Function":
        return _function(given["function"], given["input"], schema)
    return ANYTHING


def _function(
    function: dict[str, Any], inputs: Sequence[dict[str, Any]], schema: pa.Schema
) -> Condition:
    ((family, name),) = function.items()
    if (family, name) == ("StringExpr", "StartsWith"):
        return _test(inputs[0], Operator.PREFIX, inputs[1], schema) or ANYTHING
    if family != "Boolean":
        return ANYTHING
    if name in ("IsNull", "IsNotNull"):
        op = Operator.NULL if name == "IsNull" else Operator.VALUE
        return comparison(inputs[0]["Column"], op, [], schema) or ANYTHING
    if name == {"IsIn": {"nulls_equal": False}}:
        return _test(inputs[0], Operator.IN, inputs[1], schema) or ANYTHING
    low, high = _BETWEEN[name["IsBetween"]["closed"]]
    return all_of(
        _test(inputs[0], low, inputs[1], schema), _test(inputs[0], high, inputs[2], schema)
    )


def _test(
    column: dict[str, Any], op: Operator, literal: dict[str, Any], schema: pa.Schema
) -> Comparison | None:
    """A column against a literal: Polars itself reads the literal's value, or list of values."""
    if set(column) != {"Column"} or set(literal) != {"Literal"}:
        return None
    stored = pl.Expr.deserialize(io.StringIO(json.dumps(literal)), format="json")
    value = pl.select(stored).to_series()
    values = value.explode() if isinstance(value.dtype, pl.List) else value
    return comparison(column["Column"], op, values.to_list(), schema)
