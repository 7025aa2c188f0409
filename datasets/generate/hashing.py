"""XXH64 on columns, equal bit by bit to Spark's ``xxhash64`` expression.

Spark folds the arguments of ``xxhash64(a, b, ...)`` from left to right: the hash of one argument is
the seed of the next, the first seed is 42, and a null argument leaves the hash as it is
(``org.apache.spark.sql.catalyst.expressions.XXH64``). The kernels here do one such step for a whole
column, so that any chain can be built from them. All arrays of hashes are uint64.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import xxhash
from numba import njit

Word: TypeAlias = Any  # uint64 inside numba, which numpy's own types cannot tell a checker
SPARK_SEED = np.uint64(42)

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_LOW32 = np.uint64(0xFFFFFFFF)
_BITS = np.uint64(64)


def derive(seed: int, *names: object) -> int:
    """Return a key of 63 bits for a named stream of draws.

    The names are hashed as text, so that a column keeps its values when others are added. The
    sign bit stays clear because the key is also written as a literal into Spark SQL.
    """
    text = "/".join(str(name) for name in names)
    return xxhash.xxh64_intdigest(text.encode(), seed=seed & (2**64 - 1)) >> 1


@njit(cache=True, nogil=True)
def _rotl(value: Word, bits: int) -> Word:
    return (value << np.uint64(bits)) | (value >> (_BITS - np.uint64(bits)))


@njit(cache=True, nogil=True)
def _fmix(value: Word) -> Word:
    value ^= value >> np.uint64(33)
    value *= _P2
    value ^= value >> np.uint64(29)
    value *= _P3
    return value ^ (value >> np.uint64(32))


@njit(cache=True, nogil=True)
def _step8(state: Word, word: Word) -> Word:
    return _rotl(state ^ (_rotl(word * _P2, 31) * _P1), 27) * _P1 + _P4


@njit(cache=True, nogil=True)
def hash_long(value: Word, seed: Word) -> Word:
    """Hash one 64-bit value (``XXH64.hashLong``)."""
    return _fmix(_step8(seed + _P5 + np.uint64(8), np.uint64(value)))


@njit(cache=True, nogil=True)
def hash_int(value: Word, seed: Word) -> Word:
    """Hash the low 32 bits of a value (``XXH64.hashInt``)."""
    state = (seed + _P5 + np.uint64(4)) ^ ((np.uint64(value) & _LOW32) * _P1)
    return _fmix(_rotl(state, 23) * _P2 + _P3)


@njit(cache=True, nogil=True)
def _word(data: np.ndarray, at: int, size: int) -> Word:
    value = np.uint64(0)
    for index in range(size):
        value |= np.uint64(data[at + index]) << np.uint64(8 * index)
    return value


@njit(cache=True, nogil=True)
def _round(state: Word, word: Word) -> Word:
    return _rotl(state + word * _P2, 31) * _P1


@njit(cache=True, nogil=True)
def hash_bytes(data: np.ndarray, start: int, stop: int, seed: Word) -> Word:
    """Hash the bytes ``data[start:stop]`` (``XXH64.hashUnsafeBytes``, the standard XXH64)."""
    at = start
    if stop - start >= 32:
        v1, v2, v3, v4 = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= stop:
            v1 = _round(v1, _word(data, at, 8))
            v2 = _round(v2, _word(data, at + 8, 8))
            v3 = _round(v3, _word(data, at + 16, 8))
            v4 = _round(v4, _word(data, at + 24, 8))
            at += 32
        state = _rotl(v1, 1) + _rotl(v2, 7) + _rotl(v3, 12) + _rotl(v4, 18)
        for lane in (v1, v2, v3, v4):
            state = (state ^ (_rotl(lane * _P2, 31) * _P1)) * _P1 + _P4
    else:
        state = seed + _P5
    state += np.uint64(stop - start)
    while at + 8 <= stop:
        state = _step8(state, _word(data, at, 8))
        at += 8
    if at + 4 <= stop:
        state = _rotl(state ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < stop:
        state = _rotl(state ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    return _fmix(state)


@njit(cache=True, nogil=True)
def mix(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Hash each 64-bit value with its own seed; a single seed serves all values.

    Args:
        values: int64 or uint64, n values or one for all seeds.
        seeds: uint64, n seeds or one for all values.
    """
    size = max(len(values), len(seeds)) if min(len(values), len(seeds)) else 0
    out = np.empty(size, np.uint64)
    value_step = 0 if len(values) == 1 else 1
    seed_step = 0 if len(seeds) == 1 else 1
    for row in range(size):
        out[row] = hash_long(np.uint64(values[row * value_step]), seeds[row * seed_step])
    return out


@njit(cache=True, nogil=True)
def mix_ints(values: np.ndarray, state: np.ndarray) -> None:
    """Replace each running hash by the hash of a 32-bit value (given as int64), in place."""
    for row in range(len(state)):
        state[row] = hash_int(np.uint64(values[row]), state[row])


@njit(cache=True, nogil=True)
def fold_longs(values: np.ndarray, valid: np.ndarray, state: np.ndarray) -> None:
    """Fold ``isnull(v), v`` of a 64-bit column into the running hashes, in place."""
    for row in range(len(state)):
        if valid[row]:
            seed = hash_int(np.uint64(0), state[row])
            state[row] = hash_long(np.uint64(values[row]), seed)
        else:
            state[row] = hash_int(np.uint64(1), state[row])


@njit(cache=True, nogil=True)
def fold_ints(values: np.ndarray, valid: np.ndarray, state: np.ndarray) -> None:
    """Fold ``isnull(v), v`` of an int32 column (dates, booleans) into the running hashes."""
    for row in range(len(state)):
        if valid[row]:
            seed = hash_int(np.uint64(0), state[row])
            state[row] = hash_int(np.uint64(values[row]), seed)
        else:
            state[row] = hash_int(np.uint64(1), state[row])


@njit(cache=True, nogil=True)
def fold_bytes(data: np.ndarray, offsets: np.ndarray, valid: np.ndarray, state: np.ndarray) -> None:
    """Fold ``isnull(v), v`` of a text or binary column into the running hashes, in place.

    Args:
        data: uint8, the bytes of all values.
        offsets: int64, n + 1 positions in ``data``.
        valid: bool, n.
        state: uint64, n running hashes.
    """
    for row in range(len(state)):
        if valid[row]:
            seed = hash_int(np.uint64(0), state[row])
            state[row] = hash_bytes(data, offsets[row], offsets[row + 1], seed)
        else:
            state[row] = hash_int(np.uint64(1), state[row])


def draw(key: int, *columns: np.ndarray) -> np.ndarray:
    """Return ``xxhash64(key, column, ...)`` as Spark computes it over long columns, as uint64."""
    state = mix(np.array([key], np.int64), np.array([SPARK_SEED]))
    for column in columns:
        state = mix(column, state)
    return np.asarray(state)
