"""The base files that a condition leaves of a snapshot, for every reader.

Record keys that a condition fixes are asked of the record index, ranges of the column statistics,
values of the secondary indexes. The reader applies the condition to the rows: a file without a
match costs time and is never wrong.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from keymark.table.layout.model import BaseFile
from keymark.table.read.arrow import ReadPlan, hidden_columns
from keymark.table.read.predicate import (
    Comparison,
    Condition,
    Operator,
    fixed_keys,
    without_tests,
)
from keymark.table.read.skipping import ReadStats, skip_files
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.values.find import files_with_values

_FIRST_DAY = dt.date(1970, 1, 1)
_FIRST_MOMENT = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


class SearchedTable(Protocol):
    """What finding files asks of an open table; `Table` is one."""

    storage: Storage
    warned: set[str]

    def prune(self, state: TableState, keys: pa.Array) -> tuple[BaseFile, ...]:
        """The base files of a snapshot that can hold the keys."""


def matching_files(
    table: SearchedTable, plan: ReadPlan, condition: Condition, stats: ReadStats | None = None
) -> tuple[BaseFile, ...]:
    """The base files of a snapshot that can hold a row which passes a condition.

    Args:
        table: the table.
        plan: of a read of the snapshot; its keys, if it has any, are the only ones asked for.
        condition: which rows are asked for.
        stats: receives how many files were left.
    """
    state, files = plan.state, plan.state.snapshot.files
    stats = stats or ReadStats()
    stats.files_total = len(files)
    keys = fixed_keys(condition, state.config, plan.full) if plan.keys is None else plan.keys
    if keys is not None:
        files = table.prune(state, keys)
    stats.files_by_keys = len(files)
    # The statistics are of what a file holds, and these columns read as null in every row.
    condition = without_tests(condition, hidden_columns(state.config))
    files = skip_files(state, files, condition, schema=plan.full, warned=table.warned)
    files = files_with_values(state, files, condition, schema=plan.full, warned=table.warned)
    stats.files_read = len(files)
    return files


def comparison(
    column: str, op: Operator, values: Sequence[object], schema: pa.Schema
) -> Comparison | None:
    """A test of a column against Python values; None where it would not compare them as they are.

    Args:
        column: a name, of a column or of none.
        op: the test.
        values: what the column is compared with; of NULL and VALUE there are none.
        schema: of the table.
    """
    if schema.names.count(column) != 1:
        return None
    if op in (Operator.NULL, Operator.VALUE):
        return Comparison(column, op)
    kind = schema.field(column).type
    if op is Operator.PREFIX and not pa.types.is_string(kind):
        return None
    # A null in a list makes no row pass.
    made = [_stored(value, kind) for value in values if value is not None]
    return None if not made or None in made else Comparison(column, op, tuple(made))


def _stored(value: object, kind: pa.DataType) -> Any:  # noqa: PLR0911  a line per type
    """A Python value as `Comparison` holds it for a column of that type; None if it cannot."""
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if pa.types.is_integer(kind):
        return value if isinstance(value, int) else None
    if pa.types.is_date32(kind):
        return (value - _FIRST_DAY).days if type(value) is dt.date else None
    if pa.types.is_decimal128(kind):
        return Decimal(value) if isinstance(value, int | Decimal) else None
    if pa.types.is_floating(kind) and isinstance(value, float | int | Decimal):
        return _floating(value, kind)
    if kind == pa.timestamp("us", "UTC") and isinstance(value, dt.datetime) and value.tzinfo:
        return (value - _FIRST_MOMENT) // _MICROSECOND
    return None


def _floating(value: float | Decimal, kind: pa.DataType) -> float | None:
    """A number as a float or double; None where it would be rounded, for readers round otherwise.

    Only a decimal against a double is rounded by all of them alike, to the nearest.
    """
    try:
        number = float(value)
    except OverflowError:
        return None
    if kind.bit_width == 32 and math.isfinite(number) and abs(number) < np.finfo(np.float32).max:
        exact = float(np.float32(number)) == value
    else:
        exact = number == value or isinstance(value, Decimal)
    return number if math.isfinite(number) and exact else None
