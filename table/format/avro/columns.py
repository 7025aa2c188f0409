"""Flat Avro records of one shape, a field at a time: where each value is, without an object a row.

shape                      [union of (NULL, TEXT)], [LONG], [union of (NULL, DOUBLE)], ...
each field of each record  branch, and either the number or (place, length) of the bytes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.format.avro.records import read_long
from keymark.table.format.hashes.hashing import string_buffers

# What a branch holds. NULL is no bytes, as is a record whose fields follow; REFUSED ends the
# reading: such a record is of another shape.
NULL, LONG, BOOLEAN, BYTES, FIXED4, FIXED8, REFUSED = range(7)

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def _read_value(data: _Bytes, at: int, end: int, kind: int) -> Any:
    """Number, or place and length of the bytes; the place after them, -1 if there is no value."""
    if kind == NULL:
        return 0, 0, at
    if kind in (LONG, BYTES):
        value, at = read_long(data, at, end)
        if kind == LONG or at < 0:
            return value, 0, at
        fits = 0 <= value <= end - at
        return at, value, at + value if fits else -1
    if kind == BOOLEAN:
        fits = at < end and data[at] < 2
        return np.int64(data[at]) if fits else 0, 0, at + 1 if fits else -1
    width = 4 if kind == FIXED4 else 8
    fits = kind != REFUSED and end - at >= width
    return at, width, at + width if fits else -1


@numba.njit(cache=True, nogil=True)
def _read_records(
    offsets: _Numbers, data: _Bytes, counts: _Bytes, kinds: _Bytes, out: npt.NDArray[np.int64]
) -> Any:
    good = np.zeros(len(out), np.bool_)
    for i in range(len(out)):
        at, end = offsets[i], offsets[i + 1]
        for field in range(len(counts)):
            branch = np.int64(0)
            if counts[field] > 1:
                branch, at = read_long(data, at, end)
                if at < 0 or not 0 <= branch < counts[field]:
                    at = -1
                    break
            first, second, at = _read_value(data, at, end, kinds[field, branch])
            if at < 0:
                break
            out[i, field, 0], out[i, field, 1], out[i, field, 2] = branch, first, second
        good[i] = at >= 0
    return good


def read_records(
    values: pa.Array, shape: Sequence[Sequence[int]]
) -> tuple[npt.NDArray[np.bool_], _Numbers]:
    """Read the first fields of many records.

    Args:
        values: one record each, without nulls.
        shape: per field the kinds of its branches; one branch is a field that is no union.

    Returns:
        For each record whether it has that shape (what follows is not looked at); and an array of
        shape (records, fields, 3): branch, then a number, or place and length in the bytes of
        `string_buffers(values)`. Numbers of a record without that shape mean nothing.
    """
    offsets, data = string_buffers(values)
    counts = np.array([len(branches) for branches in shape], np.uint8)
    kinds = np.full((len(shape), int(counts.max())), REFUSED, np.uint8)
    for field, branches in enumerate(shape):
        kinds[field, : len(branches)] = branches
    out = np.zeros((len(values), len(shape), 3), np.int64)
    return _read_records(offsets, data, counts, kinds, out), out
