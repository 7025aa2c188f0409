"""Keys of a column, dealt out to the shards of an index in two passes.

The first pass finds each key's shard and how many keys and bytes every shard gets, the second
copies each key behind the ones of its shard. Sums for a digest are taken on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.format.hashes.digest import entry_hash, load_word
from keymark.table.format.hashes.hashing import _hash_range, string_buffers
from keymark.table.format.kernels.compiled import inlined, kernel

_ASCII = np.uint64(0x8080808080808080)
_WORD = 8
_BYTES, _PAIRS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
# Java's factor 31 to the powers 1, 2, 4 and 8; the last in wrapping 32-bit arithmetic.
_POWER_1, _POWER_2 = np.uint64(31), np.uint64(31**2)
_POWER_4, _POWER_8 = np.uint32(31**4), np.uint32(31**8 % (1 << 32))


class Sums(NamedTuple):
    """Per shard: keys, bytes of keys, and the two halves of the digest. int64 and uint64 arrays."""

    rows: Any
    bytes: Any
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class PartitionedKeys:
    """Keys in the order of their shards.

    Attributes:
        row_bounds: one more than there are shards: keys of shard s are rows `row_bounds[s]` to
            `row_bounds[s + 1]`, exclusive.
        byte_bounds: the same for their bytes.
        lengths: bytes of each key.
        codes: location of each key.
        text: all keys one behind the other.
        sums: per shard.
    """

    row_bounds: npt.NDArray[np.int64]
    byte_bounds: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint16]
    codes: npt.NDArray[np.int32]
    text: npt.NDArray[np.uint8]
    sums: Sums


def partition_keys(
    pieces: Sequence[tuple[pa.Array, int]],
    words: npt.NDArray[np.uint64],
    count: int,
    *,
    first: int = 0,
) -> PartitionedKeys:
    """Deal keys out to shards; within a shard they keep their order.

    Args:
        pieces: keys (strings of 1 to 32,767 bytes, without nulls), and the location
            that all keys of the piece have.
        words: what a location adds to the digest, from `digest.location_words`.
        count: shards.
        first: added to the locations on their way out.
    """
    sums = no_sums(count)
    found = []
    for keys, code in pieces:
        offsets, text = string_buffers(keys)
        owner = np.empty(len(keys), np.int32)
        _assign((offsets, text), (np.array([code], np.int32), words), sums, owner)
        found.append((offsets, text, owner, code))
    row_bounds = np.concatenate(([0], np.cumsum(sums.rows)))
    byte_bounds = np.concatenate(([0], np.cumsum(sums.bytes)))
    lengths = np.empty(int(row_bounds[-1]), np.uint16)
    codes = np.empty(int(row_bounds[-1]), np.int32)
    out = np.empty(int(byte_bounds[-1]), np.uint8)
    places = np.stack((row_bounds[:-1], byte_bounds[:-1]))
    for offsets, text, owner, code in found:
        _scatter(offsets, text, owner, places, (lengths, codes, out, np.int32(first + code)))
    return PartitionedKeys(row_bounds, byte_bounds, lengths, codes, out, sums)


def no_sums(count: int) -> Sums:
    """The sums of all shards before there are keys."""
    return Sums(*(np.zeros(count, kind) for kind in (np.int64, np.int64, np.uint64, np.uint64)))


def assign(
    keys: pa.Array, codes: npt.NDArray[np.int32], words: npt.NDArray[np.uint64], sums: Sums
) -> npt.NDArray[np.int32]:
    """The shard of each key; `sums` are added to.

    Args:
        keys: strings as in `partition_keys`.
        codes: the location of each.
        words: as in `partition_keys`.
        sums: of the shards.
    """
    owner = np.empty(len(keys), np.int32)
    _assign(string_buffers(keys), (codes, words), sums, owner)
    return owner


def partition_numbers(owner: npt.NDArray[np.int32], sums: Sums) -> npt.NDArray[np.uint32]:
    """Numbers 0, 1, ... of keys in the order of their shards, ascending in each.

    Args:
        owner: the shard of each key.
        sums: of exactly these keys.
    """
    places = np.concatenate(([0], np.cumsum(sums.rows)[:-1]))
    out = np.empty(len(owner), np.uint32)
    _scatter_numbers(owner, places, out)
    return out


@inlined
def _java_hash(text: npt.NDArray[np.uint8], start: Any, end: Any) -> Any:
    """String.hashCode of a UTF-8 range, eight ASCII characters at a time."""
    state = np.uint32(0)
    at = start
    while at + _WORD <= end:
        word = load_word(text, at)
        if word & _ASCII:
            return _hash_range(text, start, end)
        # Two characters in each 16 bits, four in each 32 bits, then all eight.
        two = (word & _BYTES) * _POWER_1 + ((word >> np.uint64(8)) & _BYTES)
        four = (two & _PAIRS) * _POWER_2 + ((two >> np.uint64(16)) & _PAIRS)
        eight = np.uint32(four) * _POWER_4 + np.uint32(four >> np.uint64(32))
        state = np.uint32(state * _POWER_8) + np.uint32(eight)
        at += _WORD
    while at < end:
        unit = np.uint32(text[np.uint64(at)])
        if unit >= 0x80:
            return _hash_range(text, start, end)
        state = np.uint32(np.uint32(state * np.uint32(31)) + unit)
        at += 1
    return np.uint32(state)


@kernel
def _assign(keys: Any, locations: Any, sums: Sums, owner: npt.NDArray[np.int32]) -> None:
    """The shard of each key, abs(abs(hash) % n) in Java; adds to the sums.

    A single location serves all keys.
    """
    offsets, text = keys
    codes, words = locations
    step = 0 if len(codes) == 1 else 1
    # Unsigned division of 32 bits takes half the time of the signed one of 64.
    count = np.uint32(len(sums.rows))
    for i in range(len(owner)):
        start, end = offsets[i], offsets[i + 1]
        code = np.int64(np.int32(_java_hash(text, start, end)))
        shard = np.uint32(np.uint32(abs(code)) % count)
        owner[i] = shard
        at = codes[step * i]
        low, high = entry_hash(text, start, end - start, words[at, 0], words[at, 1])
        sums.rows[shard] += 1
        sums.bytes[shard] += end - start
        sums.low[shard] += low
        sums.high[shard] += high


@kernel
def _scatter(
    offsets: npt.NDArray[np.int64],
    text: npt.NDArray[np.uint8],
    owner: npt.NDArray[np.int32],
    places: npt.NDArray[np.int64],
    out: Any,
) -> None:
    """Copy each key to its shard's next place; `places` moves on."""
    lengths, codes, data, code = out
    for i in range(len(owner)):
        shard = owner[i]
        row, at = places[0, shard], places[1, shard]
        source, target = np.uint64(offsets[i]), np.uint64(at)
        length = offsets[i + 1] - offsets[i]
        for byte in range(np.uint64(length)):
            data[target + byte] = text[source + byte]
        lengths[row] = length
        codes[row] = code
        places[0, shard] = row + 1
        places[1, shard] = at + length


@kernel
def _scatter_numbers(
    owner: npt.NDArray[np.int32], places: npt.NDArray[np.int64], out: npt.NDArray[np.uint32]
) -> None:
    """Put each key's number to its shard's next place; `places` moves on."""
    for i in range(len(owner)):
        shard = owner[i]
        out[places[shard]] = i
        places[shard] += 1
