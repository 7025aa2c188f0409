"""Murmur2 as Hudi's bloom filters hash keys: with Hadoop's sign-extended tail, chained.

The k positions of a key are those of k hashes, each being the seed of the next (MurmurHash and
HashFunction of Hudi).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import InputError
from keymark.table.format.hashes.hashing import string_buffers

_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint32]
_Offsets = npt.NDArray[np.int64]

_MULT = np.uint32(0x5BD1E995)
LANES = 8
"""Keys that are hashed side by side."""


def key_buffers(keys: pa.Array | pa.ChunkedArray) -> tuple[_Offsets, _Bytes]:
    """The offsets and bytes of keys (without nulls).

    Raises:
        InputError: an empty key, which Hudi's hash refuses.
    """
    offsets, text = string_buffers(keys)
    if np.any(offsets[1:] == offsets[:-1]):
        raise InputError("a record key is empty")
    return offsets, text


@numba.njit(cache=True, nogil=True)
def mix_words(key: _Bytes, words: _Words) -> Any:
    """What Murmur2 makes of a key before any seed: the mixed words, and the tail.

    They are the same for all k chained hashes of the key. The last one to three bytes are
    signed, and count from the key's end: the last byte is the lowest.

    Args:
        key: its bytes.
        words: where the mixed words go, one for four bytes.

    Returns:
        The tail.
    """
    length = len(key)
    for w in range(length >> 2):
        i = w << 2
        low = np.uint32(key[i]) | (np.uint32(key[i + 1]) << np.uint32(8))
        high = np.uint32(key[i + 2]) | (np.uint32(key[i + 3]) << np.uint32(8))
        word = np.uint32(np.uint32(low | (high << np.uint32(16))) * _MULT)
        word = np.uint32(word ^ (word >> np.uint32(24)))
        words[w] = np.uint32(word * _MULT)
    tail = np.uint32(0)
    for back in range(length & 3):
        signed = np.uint32(np.int32(np.int8(key[length - 1 - back])))
        tail = np.uint32(tail ^ np.uint32(signed << np.uint32(8 * back)))
    return tail


@numba.njit(cache=True, nogil=True)
def _mix_end(state: np.uint32) -> Any:
    """The last step of Murmur2."""
    state = np.uint32(state ^ (state >> np.uint32(13)))
    state = np.uint32(state * _MULT)
    return np.uint32(state ^ (state >> np.uint32(15)))


@numba.njit(cache=True, nogil=True)
def murmur(length: int, words: _Words, tail: np.uint32, seed: np.uint32) -> Any:
    """Murmur2 of a key that mix_words prepared."""
    state = np.uint32(seed ^ np.uint32(length))
    for w in range(length >> 2):
        state = np.uint32(np.uint32(state * _MULT) ^ words[w])
    if length & 3:
        state = np.uint32(np.uint32(state ^ tail) * _MULT)
    return _mix_end(state)


@numba.njit(cache=True, nogil=True)
def murmur_lanes(length: int, words: _Words, tails: _Words, states: _Words) -> None:
    """Murmur2 of LANES keys of one length, side by side.

    Each step of a hash waits for the one before; those of other keys fill this time.

    Args:
        length: bytes of each key.
        words: a column for each key, as mix_words prepared it.
        tails: one for each key.
        states: seeds, and then the hashes.
    """
    for lane in range(LANES):
        states[lane] ^= np.uint32(length)
    for w in range(length >> 2):
        for lane in range(LANES):
            states[lane] = np.uint32(np.uint32(states[lane] * _MULT) ^ words[w, lane])
    if length & 3:
        for lane in range(LANES):
            states[lane] = np.uint32(np.uint32(states[lane] ^ tails[lane]) * _MULT)
    for lane in range(LANES):
        states[lane] = _mix_end(states[lane])


@numba.njit(cache=True, nogil=True)
def reciprocal(bits: np.uint32) -> Any:
    """Factor and shift by which a division by `bits` becomes a multiplication.

    The factor is 2^shift / bits, rounded up, and shift the least from 31 on with
    2^(shift - 31) >= bits. So quotients of numbers up to 2^31 are exact (Granlund and Montgomery,
    Division by Invariant Integers using Multiplication, theorem 4.2).
    """
    size, shift = np.uint64(bits), np.uint64(31)
    while np.uint64(1) << (shift - np.uint64(31)) < size:
        shift += np.uint64(1)
    return ((np.uint64(1) << shift) + size - np.uint64(1)) // size, shift


@numba.njit(cache=True, nogil=True)
def position(state: np.uint32, bits: np.uint32, divisor: tuple[np.uint64, np.uint64]) -> Any:
    """The value of abs((int) state % bits) in Java's terms.

    Args:
        state: a hash.
        bits: of the filter.
        divisor: reciprocal(bits).
    """
    size = np.uint64(min(state, np.uint32(np.uint32(0) - state)))
    factor, shift = divisor
    return np.uint32(size - ((size * factor) >> shift) * np.uint64(bits))


@numba.njit(cache=True, nogil=True)
def longest(offsets: _Offsets) -> int:
    """Bytes of the longest key."""
    found = 0
    for i in range(len(offsets) - 1):
        found = max(found, offsets[i + 1] - offsets[i])
    return found
