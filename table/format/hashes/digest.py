"""A digest of index entries that no order changes: how many, and the 128-bit sum of their hashes.

An entry is a record key and a location. Two sets of entries have the same digest only if they are
the same, but for a chance of 2^-128; sums of parts add up to the sum of the whole, so that tasks
can work anywhere and in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from keymark.table.format.kernels.compiled import inlined, kernel

_WORD = 8
# Odd factors without structure, as in xxHash and MurmurHash3.
_FIRST = np.uint64(0x9E3779B185EBCA87)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Digest:
    """How many entries, and the sum of their hashes in two halves of 64 bits that wrap."""

    count: int = 0
    low: int = 0
    high: int = 0

    def plus(self, other: Digest) -> Digest:
        """The digest of both sets of entries together."""
        return Digest(
            self.count + other.count,
            (self.low + other.low) & _MASK,
            (self.high + other.high) & _MASK,
        )

    @property
    def hex(self) -> str:
        """The sum as 32 hex digits."""
        return f"{self.high:016x}{self.low:016x}"


def total(digests: Sequence[Digest]) -> Digest:
    """The digest of all entries."""
    result = Digest()
    for digest in digests:
        result = result.plus(digest)
    return result


def location_words(
    partition_paths: Sequence[str], file_ids: Sequence[str]
) -> npt.NDArray[np.uint64]:
    """What a location adds to the hash of an entry.

    Args:
        partition_paths: empty for a table without partitions.
        file_ids: as many file groups.

    Returns:
        Two words per location.
    """
    words = np.empty((len(file_ids), 2), np.uint64)
    for row, (path, file_id) in enumerate(zip(partition_paths, file_ids, strict=True)):
        both = xxhash.xxh3_128_intdigest(f"{len(path.encode())}:{path}{file_id}".encode())
        words[row] = both & _MASK, both >> 64
    return words


def digest_entries(
    text: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    *,
    codes: npt.NDArray[np.int32 | np.int64],
    words: npt.NDArray[np.uint64],
) -> Digest:
    """The digest of entries.

    Args:
        text: where the keys lie.
        starts: where each key starts.
        lengths: bytes of each.
        codes: integers, the location of each key as a row of `words`.
        words: from `location_words`.
    """
    low, high = _sum(text, starts, lengths, codes, words)
    return Digest(len(codes), int(low), int(high))


Pieces = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Where strings lie: bytes, where in them each starts, and its length."""


def digest_pairs(keys: Pieces, values: Pieces) -> Digest:
    """The digest of keys with values of any bytes in place of locations.

    Args:
        keys: each with its value.
        values: as many.
    """
    low, high = _sum_pairs(keys, values)
    return Digest(len(keys[1]), int(low), int(high))


def entry_hashes(
    text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], words: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """One hash of 64 bits for each key.

    Args:
        text: the keys.
        offsets: where each key starts, and the end of the last one.
        words: a row of what `location_words` gives.

    Returns:
        A hash per key.
    """
    hashes = np.empty(len(offsets) - 1, np.uint64)
    _hash_each(text, offsets, words, hashes)
    return hashes


@kernel
def _hash_each(
    text: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    words: npt.NDArray[np.uint64],
    hashes: npt.NDArray[np.uint64],
) -> None:
    for i in range(len(hashes)):
        length = offsets[i + 1] - offsets[i]
        hashes[i], _ = entry_hash(text, offsets[i], length, words[0], words[1])


@kernel
def _sum(
    text: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int32 | np.int64],
    words: npt.NDArray[np.uint64],
) -> Any:
    low, high = np.uint64(0), np.uint64(0)
    for i in range(len(codes)):
        first, second = entry_hash(
            text, starts[i], lengths[i], words[codes[i], 0], words[codes[i], 1]
        )
        low += first
        high += second
    return low, high


@kernel
def _sum_pairs(keys: Pieces, values: Pieces) -> Any:
    (text, starts, lengths), (value_text, value_starts, value_lengths) = keys, values
    low, high, nothing = np.uint64(0), np.uint64(0), np.uint64(0)
    for i in range(len(starts)):
        first, second = entry_hash(value_text, value_starts[i], value_lengths[i], nothing, nothing)
        first, second = entry_hash(text, starts[i], lengths[i], first, second)
        low += first
        high += second
    return low, high


@inlined
def load_word(text: npt.NDArray[np.uint8], at: Any) -> Any:
    """Eight bytes as a little-endian number."""
    first = np.uint64(at)
    return (
        np.uint64(text[first])
        | (np.uint64(text[first + np.uint64(1)]) << np.uint64(8))
        | (np.uint64(text[first + np.uint64(2)]) << np.uint64(16))
        | (np.uint64(text[first + np.uint64(3)]) << np.uint64(24))
        | (np.uint64(text[first + np.uint64(4)]) << np.uint64(32))
        | (np.uint64(text[first + np.uint64(5)]) << np.uint64(40))
        | (np.uint64(text[first + np.uint64(6)]) << np.uint64(48))
        | (np.uint64(text[first + np.uint64(7)]) << np.uint64(56))
    )


@inlined
def _mix(state: Any) -> Any:
    """MurmurHash3's finalizer: every bit of the input changes half of the output."""
    state = (state ^ (state >> np.uint64(33))) * _MIX_1
    state = (state ^ (state >> np.uint64(33))) * _MIX_2
    return state ^ (state >> np.uint64(33))


@inlined
def entry_hash(text: npt.NDArray[np.uint8], start: Any, length: Any, low: Any, high: Any) -> Any:
    """The two halves of an entry's hash; `low` and `high` are the words of its location."""
    size = np.uint64(length)
    first = low ^ (size * _FIRST)
    second = high ^ (size * _SECOND)
    at = start
    end = start + length
    while at + _WORD <= end:
        word = load_word(text, at)
        first = (first ^ word) * _FIRST
        first ^= first >> np.uint64(32)
        second = (second + word) * _SECOND
        second ^= second >> np.uint64(29)
        at += _WORD
    word = np.uint64(0)
    while at < end:
        word = (word << np.uint64(8)) | np.uint64(text[at])
        at += 1
    first = (first ^ word) * _FIRST
    second = (second + word) * _SECOND
    return _mix(first), _mix(second)
