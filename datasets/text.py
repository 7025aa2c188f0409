"""Text columns out of hashes, as Arrow arrays: numba writes the bytes, nothing is made per row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_UPPER_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_UUID_BYTES = 36
_DASHES = (8, 13, 18, 23)
_TOP_BIT = np.uint64(1 << 63)


@njit(cache=True, nogil=True)
def _uuid_bytes(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    out = np.empty(len(high) * 36, np.uint8)
    at = 0
    for row in range(len(high)):
        shift = 60
        for position in range(36):
            if position in _DASHES:
                out[at] = 45
            else:
                word = high[row] if position < 18 else low[row]
                out[at] = _DIGITS[(word >> np.uint64(shift)) & np.uint64(15)]
                shift = 60 if shift == 0 else shift - 4
            at += 1
    return out


@njit(cache=True, nogil=True)
def _hex_bytes(words: np.ndarray, stride: int, digits: int, out: np.ndarray, start: int) -> None:
    for row in range(len(words)):
        at = start + row * stride
        for position in range(digits):
            shift = np.uint64(60 - 4 * position)
            out[at + position] = _UPPER_DIGITS[(words[row] >> shift) & np.uint64(15)]


def uuid_text(high: np.ndarray, low: np.ndarray, *, version: int = 4) -> pa.Array:
    """Return texts shaped like UUIDs of a version (RFC 9562) from 128 bits per row."""
    versioned = (high & ~np.uint64(0xF000)) | np.uint64(version << 12)
    variant = (low & np.uint64((1 << 62) - 1)) | _TOP_BIT
    return fixed_text(_uuid_bytes(versioned, variant), _UUID_BYTES)


def hash_alike(numbers: np.ndarray, bits: int) -> pa.Array:
    """Return ``Aa`` for each bit that is 0 and ``BB`` for each that is 1, highest bit first."""
    places = np.arange(bits - 1, -1, -1)
    ones = ((numbers[:, None] >> places) & 1).astype(np.uint8)
    out = np.empty((len(numbers), bits, 2), np.uint8)
    out[:, :, 0] = ord("A") + ones
    out[:, :, 1] = np.where(ones == 1, ord("B"), ord("a"))
    return fixed_text(out.reshape(-1), 2 * bits)


def hex_text(pieces: list[np.ndarray], size: int) -> pa.Array:
    """Return texts of ``size`` hex digits, 16 from each piece, the last piece cut.

    The top bit of each piece is set: Spark's ``hex`` drops leading zeros, and would need padding.
    """
    rows = len(pieces[0])
    out = np.empty(rows * size, np.uint8)
    for index, piece in enumerate(pieces):
        start = 16 * index
        _hex_bytes(piece | _TOP_BIT, size, min(16, size - start), out, start)
    return fixed_text(out, size)


def fixed_text(data: np.ndarray, width: int) -> pa.Array:
    """Return the bytes as a string array of texts that are all ``width`` bytes long."""
    rows = len(data) // width
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(data))
