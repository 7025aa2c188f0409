"""Which leaf columns of a base file get a dictionary, and which a range in the footer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Rows looked at when a column's encoding is chosen.
_SAMPLE = 512


def dictionary_columns(
    table: pa.Table, leaves: Mapping[str, pa.Array | pa.ChunkedArray]
) -> list[str] | bool:
    """Paths of those of its leaf columns that a dictionary makes smaller.

    A dictionary of unique values costs space instead, and Arrow's writer, unlike Java's, keeps
    one until it is a megabyte large. Columns with a negative zero get none: Parquet's filter on
    dictionaries (DictionaryFilter) takes it for another number than zero, so that by such a
    dictionary Spark would skip rows that it looks for.
    """
    step = max(1, table.num_rows // _SAMPLE)
    # Rows from all over the file: neighbours in a sorted column look more alike than they are.
    rows = pa.array(range(0, table.num_rows, step))
    sample = leaves_of(table.take(rows)) if step > 1 else leaves
    chosen = [
        path
        for path, values in sample.items()
        if _repeats(values, step) and not _holds_negative_zero(leaves[path])
    ]
    # An empty list would mean all columns.
    return chosen or False


def ordered_columns(leaves: Mapping[str, pa.Array | pa.ChunkedArray]) -> list[str] | bool:
    """Paths of the leaf columns that get a range in the footer: all that hold no NaN.

    Arrow leaves NaN out of the range. To Spark NaN is above all numbers, so that by such a range
    it would skip rows that it looks for.
    """
    ordered = [path for path, values in leaves.items() if not _holds_nan(values)]
    # An empty list would mean all columns.
    return True if len(ordered) == len(leaves) else ordered or False


def _holds_nan(values: pa.Array | pa.ChunkedArray) -> bool:
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _holds_negative_zero(values: pa.Array | pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(values.type):
        return False
    numbers = np.asarray(values)
    return bool(np.any((numbers == 0) & np.signbit(numbers)))


def leaves_of(table: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
    """The values of a table's leaf columns, by path."""
    return {
        path: values
        for item, column in zip(table.schema, table.columns, strict=True)
        for path, values in _leaves(item.name, column)
    }


def _leaves(
    path: str, array: pa.Array | pa.ChunkedArray
) -> Iterator[tuple[str, pa.Array | pa.ChunkedArray]]:
    """The leaf columns that Parquet makes of an array, with their values."""
    kind = array.type
    if pa.types.is_nested(kind) and isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_struct(kind):
        for i, member in enumerate(kind):
            yield from _leaves(f"{path}.{member.name}", array.field(i))
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", array.keys)
        yield from _leaves(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", array.flatten())
    else:
        yield path, array


def _repeats(values: pa.Array | pa.ChunkedArray, step: int) -> bool:
    """Whether dictionary and indices take at most half of the plain values.

    Args:
        values: a sample of the column, one in `step` of its values.
        step: 1 if these are all values.
    """
    count = len(values) - values.null_count
    if count == 0 or pa.types.is_boolean(values.type):
        return False
    counts = pc.value_counts(values.drop_null()).field("counts").to_numpy(zero_copy_only=False)
    distinct = len(counts)
    if step > 1:
        # Good and Turing: the share of values seen once is the chance that the next is new.
        seen_once = int((counts == 1).sum())
        distinct = count * step if seen_once == count else distinct * count // (count - seen_once)
    total = count * step
    width = max(1.0, values.nbytes / count)
    indices = total * min(distinct, total).bit_length() / 8
    return bool(distinct * width + indices < total * width / 2)
