"""Which values pass a comparison, as Spark compares them, and which ranges of values may hold some.

NaN equals itself and is above all numbers, null passes nothing but IS NULL.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark.table.read.predicate import Comparison, Operator

_COMPARED = {
    Operator.BELOW: pc.less,
    Operator.AT_MOST: pc.less_equal,
    Operator.ABOVE: pc.greater,
    Operator.AT_LEAST: pc.greater_equal,
}
# Row groups are chosen by the smallest and the largest of more literals.
_LITERALS_MAX = 100


def supports(kind: pa.DataType) -> bool:
    """Whether a secondary index can be on a column of that type."""
    plain = pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind)
    number = pa.types.is_integer(kind) or pa.types.is_decimal128(kind) or _is_float(kind)
    return plain or number or kind == pa.timestamp("us", "UTC")


def passing(values: pa.ChunkedArray, test: Comparison) -> pa.ChunkedArray | None:
    """For each value (bool): it passes. None where it is not known how Spark would compare."""
    if test.op is Operator.NULL:
        return pc.is_null(values)
    literals = _literals(test, values.type)
    if literals is None:
        return None
    values = _comparable(values)
    if test.op is Operator.PREFIX:
        passed = pc.starts_with(values, literals[0].as_py())
    elif test.op is Operator.IN and _is_float(values.type):
        # Zero has two signs, which only a comparison takes for one.
        passed = functools.reduce(pc.or_, (pc.equal(values, literal) for literal in literals))
    elif test.op is Operator.IN:
        passed = pc.is_in(values, value_set=literals)
    else:
        passed = _COMPARED[test.op](values, literals[0])
        if _is_float(values.type) and test.op in (Operator.ABOVE, Operator.AT_LEAST):
            passed = pc.or_(passed, pc.is_nan(values))
    return pc.fill_null(passed, fill_value=False)


def groups_to_read(metadata: pq.FileMetaData, test: Comparison, kind: pa.DataType) -> list[int]:
    """The row groups of a run that may hold values that pass, by the statistics in its footer."""
    count = metadata.num_row_groups
    chunks = [metadata.row_group(group).column(0).statistics for group in range(count)]
    if test.op is Operator.NULL:
        known = [c is None or not c.has_null_count or c.null_count > 0 for c in chunks]
        return np.flatnonzero(known).tolist()
    literals = _literals(test, kind)
    # Statistics leave NaN out.
    if literals is None or _is_float(kind):
        return list(range(count))
    ranged = [group for group, c in enumerate(chunks) if c is not None and c.has_min_max]
    unknown = np.ones(count, bool)
    unknown[ranged] = False
    low, high = (_ends([chunks[group] for group in ranged], end, kind) for end in ("min", "max"))
    may = unknown.copy()
    may[ranged] = _may_hold(low, high, literals, test.op)
    return np.flatnonzero(may).tolist()


def _ends(statistics: Sequence[pq.Statistics], end: str, kind: pa.DataType) -> pa.Array:
    """The smallest or the largest values of row groups, in the type that values are compared in."""
    if pa.types.is_temporal(kind):
        # As they are stored: Python has no day or time outside of the years 1 to 9999.
        stored = [getattr(each, f"{end}_raw") for each in statistics]
        return pa.array(stored, _stored(kind)).cast(kind)
    return _comparable(pa.array([getattr(each, end) for each in statistics], kind))


def _may_hold(
    low: pa.Array, high: pa.Array, literals: pa.Array, op: Operator
) -> npt.NDArray[np.bool_]:
    """For each range, both ends included: it may hold a value that passes."""
    if op is Operator.IN and len(literals) > _LITERALS_MAX:
        ends = pc.min_max(literals)
        may = pc.and_(pc.less_equal(low, ends["max"]), pc.greater_equal(high, ends["min"]))
    elif op is Operator.IN:
        may = pa.array(np.zeros(len(low), bool))
        for literal in literals:
            held = pc.and_(pc.less_equal(low, literal), pc.greater_equal(high, literal))
            may = pc.or_(may, held)
    elif op is Operator.PREFIX:
        begins = pc.or_(pc.less_equal(low, literals[0]), pc.starts_with(low, literals[0].as_py()))
        may = pc.and_(begins, pc.greater_equal(high, literals[0]))
    else:
        may = _COMPARED[op](low if op in (Operator.BELOW, Operator.AT_MOST) else high, literals[0])
    return np.asarray(may, bool)


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Numbers in their widest type, which all literals have."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.float64()) if _is_float(values.type) else values


def _literals(test: Comparison, kind: pa.DataType) -> pa.Array | None:
    """The literals in the type that values are compared in; None where one does not fit it.

    `Comparison` has days and microseconds as whole numbers.
    """
    if test.op is Operator.VALUE:
        return None
    try:
        if pa.types.is_temporal(kind):
            return pa.array(test.values, _stored(kind)).cast(kind)
        return pa.array(test.values, _comparable(pa.nulls(0, kind)).type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None


def _stored(kind: pa.DataType) -> pa.DataType:
    """The whole numbers that a day or a time is."""
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()
