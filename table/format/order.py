"""The order of keys by their UTF-8 bytes, which is the order of an HFile.

Keys are compared by the first eight bytes behind what all of them start with, as one number; the
few that share these are settled by their texts, and keys that share them in masses go to Arrow's
sort.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from table.format.hashing import string_buffers

_WORD = 8
# Above this share of keys in ties, comparing whole texts from the start is cheaper.
_TIES_MAX = 0.02


def key_order(keys: Any) -> npt.NDArray[np.int64]:
    """Row numbers of keys (pa.Array of string or binary, no nulls) in the order of their bytes."""
    offsets, text = string_buffers(keys)
    words = _first_words(offsets, text, _common_start(offsets, text))
    order = np.argsort(words)
    words = words[order]
    ties = np.flatnonzero(words[1:] == words[:-1])
    if len(ties) > _TIES_MAX * len(words):
        sorted_rows: npt.NDArray[np.int64] = pc.array_sort_indices(keys).to_numpy().astype(np.int64)
        return sorted_rows
    for start, end in _runs(ties):
        rows = order[start:end]
        texts = [text[offsets[row] : offsets[row + 1]].tobytes() for row in rows]
        order[start:end] = [row for _, row in sorted(zip(texts, rows.tolist(), strict=True))]
    return order


def _runs(ties: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Stretches (start, end) of rows that tie, from the first row of each tying pair."""
    if not len(ties):
        return []
    cuts = np.flatnonzero(np.diff(ties) > 1) + 1
    return [(int(run[0]), int(run[-1]) + 2) for run in np.split(ties, cuts)]


@numba.njit(cache=True, nogil=True)
def _common_start(offsets: npt.NDArray[np.int64], text: npt.NDArray[np.uint8]) -> int:
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


@numba.njit(cache=True, nogil=True)
def _first_words(
    offsets: npt.NDArray[np.int64], text: npt.NDArray[np.uint8], skipped: int
) -> npt.NDArray[np.uint64]:
    """Eight bytes of each key behind the skipped ones, big-endian; shorter keys end in zeros."""
    count = len(offsets) - 1
    words = np.zeros(count, np.uint64)
    for row in range(count):
        start = offsets[row] + skipped
        length = min(_WORD, offsets[row + 1] - start)
        word = np.uint64(0)
        for at in range(_WORD):
            byte = np.uint64(text[start + at]) if at < length else np.uint64(0)
            word = (word << np.uint64(8)) | byte
        words[row] = word
    return words
