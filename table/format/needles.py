"""Many byte strings searched for at once in long stretches of bytes.

A window of eight bytes runs over the data. Each needle is told by one window of its own, the one
that fewest other needles share, since keys often begin or end alike. A bitmap over the hashes of
these windows tells for nearly all places that no needle lies there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numba
import numpy as np
import numpy.typing as npt

from table.format.hashing import string_buffers

LENGTH_MIN = 8
"""Bytes of the shortest needle: shorter ones occur by chance."""

_WINDOWS_MAX = 64
_BITS_PER_NEEDLE = 64
_BITS_MIN = 1 << 16
_HASH_FACTOR = 0x9E3779B97F4A7C15
_INSIDE, _WHOLE = 1, 2

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]


@numba.njit(cache=True, nogil=True)
def _last_windows(offsets: _Numbers, text: _Bytes, bounds: _Numbers) -> _Words:
    """The windows at the end of each needle, the last one first."""
    words = np.empty(bounds[-1], np.uint64)
    for row in range(len(offsets) - 1):
        for number in range(bounds[row + 1] - bounds[row]):
            start = offsets[row + 1] - 8 - number
            word = np.uint64(0)
            for at in range(start, start + 8):
                word = (word << np.uint64(8)) | np.uint64(text[at])
            words[bounds[row] + number] = word
    return words


def _rarest(offsets: _Numbers, text: _Bytes) -> tuple[_Words, _Numbers]:
    """For each needle the window that tells it, and where in the needle that starts."""
    lengths = np.diff(offsets)
    counts = np.minimum(lengths - 7, _WINDOWS_MAX)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    words = _last_windows(offsets, text, bounds)
    _, which, shared = np.unique(words, return_inverse=True, return_counts=True)
    owner = np.repeat(np.arange(len(lengths)), counts)
    order = np.lexsort((np.arange(len(words)), shared[which], owner))
    chosen = order[bounds[:-1]]
    return words[chosen], lengths - 8 - (chosen - bounds[:-1])


@numba.njit(cache=True, nogil=True)
def _fill(words: _Words, shift: np.uint64, bitmap: _Bytes) -> None:
    for word in words:
        bit = np.uint64(word * np.uint64(_HASH_FACTOR)) >> shift
        bitmap[bit >> np.uint64(3)] |= np.uint8(1) << np.uint8(bit & np.uint64(7))


@numba.njit(cache=True, nogil=True)
def _equal(data: _Bytes, start: int, needle: _Bytes) -> bool:
    if start < 0 or len(needle) > len(data) - start:
        return False
    return bool(np.all(data[start : start + len(needle)] == needle))


@numba.njit(cache=True, nogil=True)
def _relation(start: int, end: int, bounds: _Numbers) -> int:
    """Whether a stretch is a value, a part of one, or neither (0)."""
    value = np.searchsorted(bounds, start, side="right") - 1
    if value < 0 or value + 1 >= len(bounds) or end > bounds[value + 1]:
        return 0
    return _WHOLE if start == bounds[value] and end == bounds[value + 1] else _INSIDE


@numba.njit(cache=True, nogil=True)
def _search(
    needles: tuple[_Words, _Numbers, _Numbers, _Bytes, _Bytes, np.uint64],
    data: _Bytes,
    bounds: _Numbers,
    found: _Bytes,
) -> None:
    words, skips, offsets, text, bitmap, shift = needles
    window = np.uint64(0)
    for end in range(len(data)):
        window = (window << np.uint64(8)) | np.uint64(data[end])
        bit = np.uint64(window * np.uint64(_HASH_FACTOR)) >> shift
        if not (bitmap[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7))) & 1 or end < 7:
            continue
        row = np.searchsorted(words, window)
        while row < len(words) and words[row] == window:
            needle = text[offsets[row] : offsets[row + 1]]
            start = end - 7 - skips[row]
            if _equal(data, start, needle):
                found[row] |= np.uint8(_relation(start, start + len(needle), bounds))
            row += 1


@dataclass(frozen=True, slots=True)
class Needles:
    """Byte strings to search for, each of LENGTH_MIN bytes at least.

    Attributes:
        owners: int64, what each of them stands for.
        longest: bytes of the longest one.
    """

    owners: Any
    longest: int
    _parts: Any

    @classmethod
    def of(cls, texts: Any, owners: Any) -> Self:
        """Prepare a search.

        Args:
            texts: pa.Array of string or binary, without nulls.
            owners: int64 numpy array, as many; several texts may stand for one thing.
        """
        lengths = np.diff(string_buffers(texts)[0])
        if len(lengths) and lengths.min() < LENGTH_MIN:
            raise ValueError(f"a needle of less than {LENGTH_MIN} bytes")
        words, skips = _rarest(*string_buffers(texts))
        order = np.argsort(words, kind="stable")
        bits = _BITS_MIN
        while bits < _BITS_PER_NEEDLE * len(order):
            bits *= 2
        shift = np.uint64(65 - bits.bit_length())
        bitmap = np.zeros(bits // 8, np.uint8)
        _fill(words, shift, bitmap)
        offsets, text = string_buffers(texts.take(order))
        parts = (words[order], skips[order], offsets, text, bitmap, shift)
        return cls(owners[order], int(lengths.max(initial=0)), parts)

    def search(self, data: Any, bounds: Any = None) -> tuple[frozenset[int], frozenset[int]]:
        """Find needles.

        Args:
            data: bytes, or a uint8 array.
            bounds: int64 offsets that cut the data into values; what crosses one is no find. None
                for one value.

        Returns:
            Owners of needles that are a whole value, and of those that are a part of one.
        """
        if not len(self.owners):
            return frozenset(), frozenset()
        stretch = np.frombuffer(data, np.uint8)
        # The kernel is compiled for arrays that are read-only; what was pickled no longer is.
        for array in (stretch, *self._parts[:-1]):
            array.flags.writeable = False
        cuts = np.array([0, len(stretch)] if bounds is None else bounds, np.int64)
        found = np.zeros(len(self.owners), np.uint8)
        _search(self._parts, stretch, cuts, found)
        whole, inside = (found & flag != 0 for flag in (_WHOLE, _INSIDE))
        return frozenset(self.owners[whole].tolist()), frozenset(self.owners[inside].tolist())
