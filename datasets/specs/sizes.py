"""How many bytes a row has: the plain bytes of its values, without any encoding.

boolean 1, int, float and date 4, long, double and timestamp 8
decimal       what holds all values of its precision
text, binary  its bytes
struct, list  the sum of what they hold; map: of keys and values
null          0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.datasets.columns.kind import BaseKind, Shape, Values

_SAMPLE, _SAMPLE_BYTES = 1000, 16 << 20
_PROBE = 8
# The payload's share of a row is a line: two points of it show which.
_POINTS = (64, 1088)


def plain_bytes(column: pa.Array) -> int:
    """Return the plain bytes of all values of an Arrow array.

    Args:
        column: of any type that `keymark.datasets.columns.kinds` makes.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(plain_bytes(child) for child in column.flatten())
    if pa.types.is_map(kind):
        entries = column.cast(pa.list_(pa.struct([("k", kind.key_type), ("v", kind.item_type)])))
        return plain_bytes(entries)
    if pa.types.is_list(kind):
        return plain_bytes(column.flatten())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return int(pc.sum(pc.binary_length(column)).as_py() or 0)
    return int(len(column) - column.null_count) * _width(kind)


def _width(kind: pa.DataType) -> int:
    if pa.types.is_boolean(kind):
        return 1
    if pa.types.is_decimal(kind):
        return int(10**kind.precision).bit_length() // 8 + 1
    return int(kind.bit_width) // 8


def row_bytes(columns: Sequence[tuple[str, BaseKind]], shape: Shape) -> float:
    """Return the mean plain bytes of a row, over the first thousand rows or a few large ones."""
    rough = _mean_bytes(columns, shape, _PROBE)
    count = int(_SAMPLE_BYTES / max(rough, 1))
    return _mean_bytes(columns, shape, min(_SAMPLE, max(_PROBE, count)))


def _mean_bytes(columns: Sequence[tuple[str, BaseKind]], shape: Shape, count: int) -> float:
    numbers = np.arange(count)
    rows = Values(shape=shape, name="", numbers=numbers, versions=np.zeros_like(numbers))
    values = (kind.arrow(replace(rows, name=name)) for name, kind in columns)
    return sum(plain_bytes(column) for column in values) / count


def payload_for(record_bytes: int, columns: Sequence[tuple[str, BaseKind]], shape: Shape) -> int:
    """Return the size of payloads with which rows have a given mean size in bytes.

    Raises:
        ValueError: no column has a payload, or the others take too much.
    """
    first, second = (row_bytes(columns, replace(shape, payload_bytes=at)) for at in _POINTS)
    slope = (second - first) / (_POINTS[1] - _POINTS[0])
    if slope == 0:
        raise ValueError("record_bytes: needs a column of kind payload, which is sized by it")
    size = round((record_bytes - first) / slope) + _POINTS[0]
    if size < 1:
        least = round(first - slope * (_POINTS[0] - 1))
        raise ValueError(f"record_bytes: must be {least} at least, which the other columns take")
    return size
