"""Text columns out of hashes, as Arrow arrays: numba writes the bytes, nothing is made per row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

# The two digits of each byte.
_HEX = np.frombuffer(bytes(range(256)).hex().encode(), np.uint8)
_UPPER_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_UUID_BYTES = 36
# Where the digits of each byte of a UUID stand; dashes at 8, 13, 18 and 23.
_BYTE_PLACES = np.array([0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34])
_TOP_BIT = np.uint64(1 << 63)
# As many letters as `String.hashCode` multiplies by: texts of them are numbers, and hash as such.
LETTERS = "".join(map(chr, range(94, 125)))
_BASE, _FIRST_LETTER = np.uint64(len(LETTERS)), np.uint64(ord(LETTERS[0]))


@njit(cache=True, nogil=True)
def _uuid_bytes(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    out = np.empty(len(high) * 36, np.uint8)
    for row in range(len(high)):
        start = 36 * row
        for place in range(16):
            word = high[row] if place < 8 else low[row]
            byte = (word >> np.uint64(56 - 8 * (place & 7))) & np.uint64(255)
            at = np.uint64(start + _BYTE_PLACES[place])
            out[at] = _HEX[np.uint64(2) * byte]
            out[at + np.uint64(1)] = _HEX[np.uint64(2) * byte + np.uint64(1)]
        out[start + 8] = out[start + 13] = out[start + 18] = out[start + 23] = 45
    return out


@njit(cache=True, nogil=True)
def _hex_bytes(words: np.ndarray, stride: int, digits: int, out: np.ndarray, start: int) -> None:
    for row in range(len(words)):
        at = start + row * stride
        for position in range(digits):
            shift = np.uint64(60 - 4 * position)
            out[at + position] = _UPPER_DIGITS[(words[row] >> shift) & np.uint64(15)]


@njit(cache=True, nogil=True)
def _letter_bytes(words: np.ndarray, out: np.ndarray) -> None:
    for row in range(len(words)):
        left = words[row]
        for place in range(out.shape[1] - 1, -1, -1):
            out[row, place] = _FIRST_LETTER + left % _BASE
            left //= _BASE


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


def letters_text(words: list[np.ndarray], sizes: tuple[int, ...]) -> pa.Array:
    """Return numbers (uint64) in base 31, one behind the other, each of its size in ``LETTERS``."""
    out = np.empty((len(words[0]), sum(sizes)), np.uint8)
    start = 0
    for numbers, size in zip(words, sizes, strict=True):
        _letter_bytes(numbers, out[:, start : start + size])
        start += size
    return fixed_text(out.reshape(-1), out.shape[1])


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


def word_bytes(words: list[np.ndarray], rows: int, size: int) -> pa.Array:
    """Return ``size`` bytes a row, eight from each word (the highest first), the last word cut.

    Top bits are set as in ``hex_text``.
    """
    joined = np.empty((rows, len(words)), ">u8")
    for index, word in enumerate(words):
        joined[:, index] = word | _TOP_BIT
    data = np.ascontiguousarray(joined.view(np.uint8)[:, :size])
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def fixed_text(data: np.ndarray, width: int) -> pa.Array:
    """Return the bytes as a string array of texts that are all ``width`` bytes long."""
    rows = len(data) // width
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(data))
