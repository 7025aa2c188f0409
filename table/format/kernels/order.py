"""The order of keys by their UTF-8 bytes, which is the order of an HFile.

Keys are sorted by their first letters behind what all of them start with, packed into one number
with the row behind them. A letter takes as many bits as the letters that occur need, so that more
of them fit. The few keys that share all of these are settled by their texts, and keys that share
them in masses go to Arrow's sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.format.kernels.compiled import kernel, maker

_WORD_BITS = 64
# No more letters than these are looked at.
_LETTERS_MAX = 16
# Above this share of keys in ties, comparing whole texts from the start is cheaper.
_TIES_MAX = 0.02


def key_order(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Row numbers of keys (no nulls) in the order of their bytes."""
    offsets, text = string_buffers(keys)
    row_bits = len(keys).bit_length()
    words = _words(offsets, text, row_bits)
    words.sort()
    ties = _ties(words, row_bits)
    words &= np.uint64((1 << row_bits) - 1)
    order = words.view(np.int64)
    if len(ties) > _TIES_MAX * len(keys):
        sorted_rows: npt.NDArray[np.int64] = pc.array_sort_indices(keys).to_numpy().astype(np.int64)
        return sorted_rows
    for start, end in _runs(ties):
        rows = order[start:end]
        texts = [text[offsets[row] : offsets[row + 1]].tobytes() for row in rows]
        order[start:end] = [row for _, row in sorted(zip(texts, rows.tolist(), strict=True))]
    return order


def _words(
    offsets: npt.NDArray[np.int64], text: npt.NDArray[np.uint8], row_bits: int
) -> npt.NDArray[np.uint64]:
    """The first letters of each key, by their ranks, and its row in the lowest bits."""
    start = common_start(offsets, text)
    occurring = _letters(offsets, text, start)
    # Rank 0 is the end of a key.
    ranks = np.cumsum(occurring).astype(np.uint64)
    bits = max(1, int(ranks[-1]).bit_length())
    count = min(_LETTERS_MAX, (_WORD_BITS - row_bits) // bits)
    packed: npt.NDArray[np.uint64] = _packed((offsets, text), start, ranks, (count, bits, row_bits))
    return packed


def _runs(ties: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Stretches (start, end) of rows that tie, from the first row of each tying pair."""
    if not len(ties):
        return []
    cuts = np.flatnonzero(np.diff(ties) > 1) + 1
    return [(int(run[0]), int(run[-1]) + 2) for run in np.split(ties, cuts)]


@maker
def _ties(words: npt.NDArray[np.uint64], row_bits: int) -> npt.NDArray[np.int64]:
    """Places whose word is, but for the row, that of the next place."""
    found = 0
    for at in range(len(words) - 1):
        found += (words[at] ^ words[at + 1]) >> np.uint64(row_bits) == 0
    places = np.empty(found, np.int64)
    found = 0
    for at in range(len(words) - 1):
        if (words[at] ^ words[at + 1]) >> np.uint64(row_bits) == 0:
            places[found] = at
            found += 1
    return places


@kernel
def common_start(offsets: npt.NDArray[np.int64], text: npt.NDArray[np.uint8]) -> int:
    """How many bytes all keys start with."""
    if len(offsets) < 2:
        return 0
    first = offsets[0]
    common = offsets[1] - first
    for row in range(1, len(offsets) - 1):
        start = offsets[row]
        common = min(common, offsets[row + 1] - start)
        at = 0
        while at < common and text[start + at] == text[first + at]:
            at += 1
        common = at
        if common == 0:
            break
    return int(common)


@maker
def _letters(
    offsets: npt.NDArray[np.int64], text: npt.NDArray[np.uint8], skipped: int
) -> npt.NDArray[np.bool_]:
    """Which bytes occur in the letters that may be looked at."""
    occurring = np.zeros(256, np.bool_)
    for row in range(len(offsets) - 1):
        start = offsets[row] + skipped
        for at in range(start, min(start + _LETTERS_MAX, offsets[row + 1])):
            occurring[text[np.uint64(at)]] = True
    return occurring


@maker
def _packed(strings: Any, skipped: int, ranks: Any, widths: Any) -> npt.NDArray[np.uint64]:
    """Ranks of `count` letters of each key, `bits` each, and its row in `row_bits`."""
    offsets, text = strings
    count, bits, row_bits = np.uint64(widths[0]), np.uint64(widths[1]), np.uint64(widths[2])
    words = np.empty(len(offsets) - 1, np.uint64)
    for row in range(len(words)):
        start = np.uint64(offsets[row] + skipped)
        length = min(count, np.uint64(offsets[row + 1]) - start)
        word = np.uint64(0)
        for at in range(start, start + length):
            word = (word << bits) | ranks[text[at]]
        word <<= bits * (count - length)
        words[row] = (word << row_bits) | np.uint64(row)
    return words
