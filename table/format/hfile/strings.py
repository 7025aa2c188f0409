"""Columns of byte strings between Arrow and the kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from table.errors import InputError
from table.format.hfile import kernels

_OFFSET_MAX = (1 << 31) - 1
_OFFSET_TYPES: dict[Any, Any] = {
    pa.string(): np.dtype(np.int32),
    pa.binary(): np.dtype(np.int32),
    pa.large_string(): np.dtype(np.int64),
    pa.large_binary(): np.dtype(np.int64),
}


class Strings(NamedTuple):
    """String `i` is `data[offsets[i]:offsets[i + 1]]`; both arrays are read-only.

    Attributes:
        data: uint8.
        offsets: int64, one longer than there are strings.
    """

    data: Any
    offsets: Any

    def part(self, first: int, last: int) -> Strings:
        """Strings `first` to `last`, exclusive."""
        return Strings(self.data, self.offsets[first : last + 1])

    def size(self, first: int, last: int) -> int:
        """Bytes of strings `first` to `last`, exclusive."""
        return int(self.offsets[last] - self.offsets[first])

    def item(self, index: int) -> bytes:
        """One string."""
        return bytes(self.data[self.offsets[index] : self.offsets[index + 1]].tobytes())


class Cells(NamedTuple):
    """Keys with their values.

    Attributes:
        keys: one per cell.
        values: one per cell, or the distinct ones.
        codes: int64, which value each cell has; empty if there is one value per cell.
    """

    keys: Strings
    values: Strings
    codes: Any

    def value_bytes(self, first: int, last: int) -> int:
        """Bytes of the values of cells `first` to `last`, exclusive."""
        if not len(self.codes):
            return self.values.size(first, last)
        return int(np.diff(self.values.offsets)[self.codes[first:last]].sum())


def from_arrow(array: pa.Array, what: str) -> Strings:
    """View an Arrow array of strings or binaries; only offsets are copied.

    Args:
        array: pa.string(), pa.binary() or their large variants.
        what: what the strings are, for errors.

    Raises:
        InputError: there is a null.
    """
    if array.type not in _OFFSET_TYPES:
        raise TypeError(f"{what}s must be strings or binaries, not {array.type}")
    if array.null_count:
        raise InputError(f"{array.null_count} of {len(array)} {what}s are null")
    _, offset_buffer, data_buffer = array.buffers()
    if offset_buffer is None or not len(array):
        offsets = np.zeros(1, np.int64)
    else:
        stored = np.frombuffer(offset_buffer, _OFFSET_TYPES[array.type])
        offsets = stored[array.offset : array.offset + len(array) + 1].astype(np.int64)
    stored_data: Any = data_buffer or b""
    data = np.frombuffer(stored_data, np.uint8)
    # The kernels are compiled for one kind of array, the read-only one.
    data.flags.writeable = False
    offsets.flags.writeable = False
    return Strings(data, offsets)


def to_arrow(data: Any, starts: Any, lengths: Any) -> pa.Array:
    """Copy pieces of a uint8 array into a pa.binary() array.

    Args:
        data: uint8.
        starts: int64, where each piece starts.
        lengths: int64, of each piece.
    """
    out = np.empty(int(lengths.sum()), np.uint8)
    offsets = np.empty(len(starts) + 1, np.int32)
    kernels.gather(data, starts, lengths, out, offsets)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


def concat(arrays: list[Any]) -> pa.Array:
    """Join pa.binary() arrays.

    Raises:
        InputError: the result would have more bytes than 32-bit offsets can tell.
    """
    size = sum(array.nbytes for array in arrays)
    if size > _OFFSET_MAX:
        raise InputError(f"{size} bytes do not fit into a column; ask for fewer keys at once")
    return pa.concat_arrays(arrays)
