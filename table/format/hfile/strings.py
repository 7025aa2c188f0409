"""Columns of byte strings between Arrow and the kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import InputError
from keymark.table.format.hfile import kernels
from keymark.table.format.hfile.cells import Strings

# Values with this many bytes in common are worth a comparison.
_KIND_BYTES = 30
_OFFSET_MAX = (1 << 31) - 1
_OFFSET_TYPES: dict[pa.DataType, Any] = {
    pa.string(): np.dtype(np.int32),
    pa.binary(): np.dtype(np.int32),
    pa.large_string(): np.dtype(np.int64),
    pa.large_binary(): np.dtype(np.int64),
}


class Ordered(NamedTuple):
    """Keys as they lie, the order in which they ascend, and values of which there are few.

    Attributes:
        keys: in any order.
        order: which key each cell has.
        codes: int32 per key, which value it has.
        values: the distinct ones.
        kinds: of each value, the same where values start alike.
    """

    keys: Strings
    order: npt.NDArray[np.int64]
    codes: Any
    values: Strings
    kinds: npt.NDArray[np.int32]

    @classmethod
    def with_values(cls, values: pa.Array) -> Ordered:
        """No cells yet; those that `with_keys` makes have these values.

        Args:
            values: pa.binary(), without nulls.
        """
        starts = pc.binary_slice(values, 0, _KIND_BYTES).dictionary_encode().indices
        nothing = Strings(np.empty(0, np.uint8), np.zeros(1, np.int64))
        none = np.empty(0, np.int64)
        kinds = _read_only(starts.to_numpy(), np.int32)
        return cls(nothing, none, none, from_arrow(values, "value"), kinds)

    def with_keys(
        self, keys: pa.Array, order: npt.NDArray[np.int64], codes: npt.NDArray[np.int32 | np.int64]
    ) -> Ordered:
        """Other cells with the same distinct values, from Arrow and numpy.

        Args:
            keys: pa.string() or pa.binary() or their large variants, without nulls.
            order: integers, as `order.key_order` gives them; keys that it leaves out are no cells.
            codes: integers per key, rows of the values.
        """
        if len(keys) != len(codes) or len(keys) < len(order):
            raise ValueError(f"{len(keys)} keys with {len(codes)} codes, {len(order)} places")
        codes = _read_only(codes, np.int32)
        values = len(self.kinds)
        if len(codes) and (codes.min() < 0 or codes.max() >= values):
            raise ValueError(f"a code outside of {values} distinct values")
        order = _read_only(order, np.int64)
        return self._replace(keys=from_arrow(keys, "key"), order=order, codes=codes)

    def only(self, rows: npt.NDArray[np.int64]) -> Ordered:
        """The cells whose keys are these rows, in that order."""
        return self._replace(order=_read_only(rows, np.int64))

    def key(self, number: int) -> bytes:
        """The key of a cell."""
        return self.keys.item(int(self.order[number]))

    def size(self, number: int) -> int:
        """Bytes of key and value of a cell."""
        row = int(self.order[number])
        code = int(self.codes[row])
        return self.keys.size(row, row + 1) + self.values.size(code, code + 1)


def _read_only(numbers: npt.ArrayLike, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """A view of numbers as the kernels are compiled for them."""
    numbers = np.asarray(numbers).astype(kind, copy=False).view()
    numbers.flags.writeable = False
    return numbers


def from_arrow(array: pa.Array, what: str) -> Strings:
    """View an Arrow array of strings or binaries; only offsets of 32 bits are copied.

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
        offsets = stored[array.offset : array.offset + len(array) + 1]
        offsets = offsets.astype(np.int64, copy=False).view()
    stored_data: Any = data_buffer or b""
    data = np.frombuffer(stored_data, np.uint8)
    # The kernels are compiled for one kind of array, the read-only one.
    data.flags.writeable = False
    offsets.flags.writeable = False
    return Strings(data, offsets)


def to_arrow(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> pa.Array:
    """Copy pieces of a uint8 array into a pa.binary() array.

    Args:
        data: the bytes.
        starts: where each piece starts.
        lengths: of each piece.
    """
    out = np.empty(int(lengths.sum()), np.uint8)
    offsets = np.empty(len(starts) + 1, np.int32)
    kernels.gather(data, starts, lengths, out, offsets)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


def concat(arrays: list[pa.Array]) -> pa.Array:
    """Join pa.binary() arrays.

    Raises:
        InputError: the result would have more bytes than 32-bit offsets can tell.
    """
    size = sum(array.nbytes for array in arrays)
    if size > _OFFSET_MAX:
        raise InputError(f"{size} bytes do not fit into a column; ask for fewer keys at once")
    return pa.concat_arrays(arrays)
