"""Asking a bloom filter in its text form, without decoding more of it than the bits looked at.

    body byte b   is in the characters 4 * (b // 3) + b % 3 and the next, six bits each

A filter of Hudi's default size is a text of 431 KB. To decode it takes longer than to test some
thousand keys, most of which are absent and are out after two bits.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass
from typing import Any, Self

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError, UnsupportedTableError
from keymark.table.format.bloom.filter import (
    DYNAMIC,
    DYNAMIC_HEADER,
    SIMPLE,
    SIMPLE_HEADER,
    parse_header,
)
from keymark.table.format.hashes.murmur import (
    key_buffers,
    longest,
    mix_words,
    murmur,
    position,
    reciprocal,
)

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NO_DIGIT = 0xFF
_VALUES = np.full(256, _NO_DIGIT, np.uint8)
_VALUES[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64, dtype=np.uint8)
_ABSENT, _PRESENT, _DAMAGED = 0, 1, 2

_Bytes = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BloomText:
    """A filter of either type as its text.

    Attributes:
        name: the file, for errors.
        text: the Base64.
        shape: bits and hashes of a row.
        starts: the place in the body where the bits of each row begin.
    """

    name: str
    text: bytes
    shape: tuple[int, int]
    starts: _Offsets

    @classmethod
    def parse(cls, text: bytes, type_code: str, name: str) -> Self:
        """Check headers and length.

        Args:
            text: Base64 as found in a footer or metadata record.
            type_code: SIMPLE or DYNAMIC_V0.
            name: the file, for errors.

        Raises:
            CorruptFileError: damaged headers, or another length than they say.
            UnsupportedTableError: another type code, or filters hashed by Jenkins.
        """
        if type_code not in (SIMPLE, DYNAMIC):
            raise UnsupportedTableError(
                f"{name} holds a bloom filter of the unsupported type {type_code!r}"
            )
        if len(text) % 4 or not text:
            raise CorruptFileError(name, 0, f"bloom filter of {len(text)} characters of Base64")
        size = len(text) // 4 * 3 - text[-2:].count(b"=")
        first = _header(text, 0, DYNAMIC_HEADER.size, name)
        rows, count = 0, 1
        fields = parse_header(SIMPLE_HEADER, first, 0, name)
        if type_code == DYNAMIC:
            fields = parse_header(DYNAMIC_HEADER, first, 0, name)
            rows, count = DYNAMIC_HEADER.size, fields[6]
        shape = (fields[3], fields[1])
        step = SIMPLE_HEADER.size + (shape[0] + 7) // 8
        if count < 1 or size - rows != count * step:
            raise CorruptFileError(
                name, 0, f"bloom filter of {count} rows, {step} bytes each, in {size} bytes"
            )
        starts = rows + step * np.arange(count, dtype=np.int64)
        for start in starts.tolist():
            row = _header(text, start, SIMPLE_HEADER.size, name)
            fields = parse_header(SIMPLE_HEADER, row, 0, name)
            if (fields[3], fields[1]) != shape:
                raise CorruptFileError(name, start, "bloom filter with rows of different shape")
        return cls(name, text, shape, starts + SIMPLE_HEADER.size)

    def contains(self, keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Whether each key may be in the filter; False is certain.

        Args:
            keys: strings without nulls.

        Raises:
            InputError: an empty key.
            CorruptFileError: a character looked at is not Base64.
        """
        text = np.frombuffer(self.text, np.uint8)
        found = _find_keys(text, self.starts, self.shape, key_buffers(keys))
        if (found == _DAMAGED).any():
            raise CorruptFileError(self.name, 0, "bloom filter is not Base64")
        present: npt.NDArray[np.bool_] = found == _PRESENT
        return present


def _header(text: bytes, start: int, size: int, name: str) -> bytes:
    """The bytes of the body from a place on; fewer at its end."""
    first = start // 3
    last = (start + size + 2) // 3
    try:
        part = binascii.a2b_base64(text[4 * first : 4 * last], strict_mode=True)
    except binascii.Error as error:
        raise CorruptFileError(name, start, f"bloom filter is not Base64: {error}") from error
    return part[start - 3 * first :][:size]


@numba.njit(cache=True, nogil=True, inline="always")
def _bit(text: _Bytes, at: np.uint64, bit: np.uint32) -> Any:
    """A bit of a byte of the body: 0, 1, or _DAMAGED where the text is not Base64."""
    group = at // np.uint64(3)
    turn = at - group * np.uint64(3)
    place = group * np.uint64(4) + turn
    high, low = _VALUES[text[place]], _VALUES[text[place + np.uint64(1)]]
    if max(high, low) == _NO_DIGIT:
        return _DAMAGED
    pair = (np.uint32(high) << np.uint32(6)) | np.uint32(low)
    return (pair >> (np.uint32(4) - np.uint32(2) * np.uint32(turn) + bit)) & np.uint32(1)


@numba.njit(cache=True, nogil=True)
def _find_keys(
    text: _Bytes, starts: _Offsets, shape: tuple[int, int], keys: tuple[_Offsets, _Bytes]
) -> Any:
    """Whether any row holds all bits of a key, for each key."""
    bits, hashes = np.uint32(shape[0]), shape[1]
    divisor = reciprocal(bits)
    offsets, letters = keys
    words = np.empty((longest(offsets) >> 2) + 1, np.uint32)
    bits_of_key = np.empty(hashes, np.uint32)
    found = np.empty(len(offsets) - 1, np.uint8)
    for i in range(len(found)):
        key = letters[offsets[i] : offsets[i + 1]]
        tail = mix_words(key, words)
        known, state = 0, np.uint32(0)
        found[i] = _ABSENT
        for start in starts:
            number, held = 0, 1
            while number < hashes and held == 1:
                if number == known:
                    state = murmur(len(key), words, tail, state)
                    bits_of_key[known] = position(state, bits, divisor)
                    known += 1
                at = bits_of_key[number]
                byte = np.uint64(start) + np.uint64(at >> np.uint32(3))
                held = _bit(text, byte, at & np.uint32(7))
                number += 1
            if held != _ABSENT:
                found[i] = held
                break
    return found
