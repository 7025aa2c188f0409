"""Numbers for the distinct ones among many byte strings that repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from keymark.table.format.hashes.digest import load_word
from keymark.table.format.kernels.compiled import inlined, kernel

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xC2B2AE3D27D4EB4F)
_SLOTS_MIN = 1 << 12
# Strings whose last bytes were seen before are looked at first, without a hash of the whole.
_NEAR_BITS = 14


class Interner:
    """The distinct byte strings seen so far, numbered in the order in which they came.

    Attributes:
        values: all of them.
    """

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._slots = np.full(_SLOTS_MIN, -1, np.int32)
        self._near = np.full(1 << _NEAR_BITS, -1, np.int32)
        # Per distinct string its hash, start and length in `_text`.
        self._hashes = np.empty(_SLOTS_MIN // 2, np.uint64)
        self._places = np.empty((_SLOTS_MIN // 2, 2), np.int64)
        self._text = np.empty(0, np.uint8)
        self._used = 0

    def number(
        self,
        data: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int32]:
        """The number of each string.

        Args:
            data: read-only, where the strings lie.
            starts: where each starts.
            lengths: bytes of each.
        """
        codes = np.empty(len(starts), np.int32)
        done = 0
        while True:
            known = len(self.values)
            done, count, used = _number(
                (data, starts, lengths),
                (self._slots, self._hashes, self._places, self._text, self._near),
                (done, known, self._used),
                codes,
            )
            for start, length in self._places[known:count].tolist():
                self.values.append(self._text[start : start + length].tobytes())
            self._used = used
            if done == len(starts):
                return codes
            self._grow(int(lengths[done]))

    def _grow(self, length: int) -> None:
        """Room for another string."""
        if 2 * len(self.values) + 2 > len(self._slots):
            self._slots = np.full(4 * len(self._slots), -1, np.int32)
            self._hashes = np.concatenate((self._hashes, *[np.empty_like(self._hashes)] * 3))
            self._places = np.concatenate((self._places, *[np.empty_like(self._places)] * 3))
            _rehash(self._slots, self._hashes[: len(self.values)])
        if self._used + length > len(self._text):
            text = np.empty(2 * len(self._text) + length + _SLOTS_MIN, np.uint8)
            text[: self._used] = self._text[: self._used]
            self._text = text


@inlined
def _hash(data: npt.NDArray[np.uint8], start: int, length: int) -> Any:
    first, second = np.uint64(length), np.uint64(0)
    at = start
    end = start + length
    while at + 16 <= end:
        first = (first ^ load_word(data, at)) * _FACTOR
        second = (second ^ load_word(data, at + 8)) * _OTHER
        first ^= first >> np.uint64(32)
        second ^= second >> np.uint64(29)
        at += 16
    if at + 8 <= end:
        first = (first ^ load_word(data, at)) * _FACTOR
        at += 8
    if length >= 8:
        second = (second ^ load_word(data, end - 8)) * _OTHER
    else:
        while at < end:
            second = (second ^ np.uint64(data[np.uint64(at)])) * _OTHER
            at += 1
    both = (first ^ (second >> np.uint64(31))) * _FACTOR + second
    return both ^ (both >> np.uint64(32))


@inlined
def _ending(data: npt.NDArray[np.uint8], start: int, length: int) -> Any:
    """A number of `_NEAR_BITS` for the last sixteen bytes; 0 for shorter strings."""
    if length < 16:
        return np.int64(0)
    last = load_word(data, start + length - 8) * _FACTOR
    last ^= load_word(data, start + length - 16) * _OTHER
    return np.int64((last * _FACTOR) >> np.uint64(64 - _NEAR_BITS))


@inlined
def _same(data: npt.NDArray[np.uint8], start: int, text: npt.NDArray[np.uint8], place: Any) -> bool:
    other, length = place
    at = 0
    while at + 8 <= length:
        if load_word(data, start + at) != load_word(text, other + at):
            return False
        at += 8
    if length >= 8:
        return bool(load_word(data, start + length - 8) == load_word(text, other + length - 8))
    while at < length:
        if data[np.uint64(start + at)] != text[np.uint64(other + at)]:
            return False
        at += 1
    return True


@kernel
def _rehash(slots: npt.NDArray[np.int32], hashes: npt.NDArray[np.uint64]) -> None:
    mask = np.uint64(len(slots) - 1)
    for entry in range(len(hashes)):
        slot = hashes[entry] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = entry


@kernel
def _number(strings: Any, table: Any, state: Any, codes: npt.NDArray[np.int32]) -> Any:
    """Number strings from the place in `state` on, until one finds no room.

    Returns:
        Strings numbered, distinct strings, bytes of them.
    """
    data, starts, lengths = strings
    slots, hashes, places, text, near = table
    done, count, used = state
    mask = np.uint64(len(slots) - 1)
    for i in range(done, len(starts)):
        start, length = starts[i], lengths[i]
        place = _ending(data, start, length)
        entry = near[place]
        alike = entry >= 0 and places[entry, 1] == length
        if alike and _same(data, start, text, (places[entry, 0], length)):
            codes[i] = entry
            continue
        state_hash = _hash(data, start, length)
        slot = state_hash & mask
        entry = slots[slot]
        while entry >= 0:
            known = hashes[entry] == state_hash and places[entry, 1] == length
            if known and _same(data, start, text, (places[entry, 0], length)):
                break
            slot = (slot + np.uint64(1)) & mask
            entry = slots[slot]
        if entry < 0:
            if 2 * count + 2 > len(slots) or used + length > len(text):
                return i, count, used
            entry = count
            hashes[entry] = state_hash
            places[entry, 0], places[entry, 1] = used, length
            for byte in range(length):
                text[used + byte] = data[start + byte]
            slots[slot] = entry
            count += 1
            used += length
        near[place] = codes[i] = entry
    return len(starts), count, used
