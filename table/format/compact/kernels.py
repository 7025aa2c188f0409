"""The loops of compact index files: dealing hashes out, filling pages, reading and finding entries.

The layout is drawn in docs/formats/compact.md. Words are numbers of 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from keymark.table.format.hashes.digest import load_word
from keymark.table.format.kernels.compiled import kernel

PAGE = 4096
ENTRY = 7
PAGE_ENTRIES = 584
_WORDS = 511
ENTRY_BITS = 56

_Words = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_Groups = npt.NDArray[np.int32]

_PRIME = np.uint64(0x9E3779B185EBCA87)
_LOW_56 = np.uint64((1 << ENTRY_BITS) - 1)
_SHIFT = np.uint64(8)
_ROTATED, _BACK = np.uint64(29), np.uint64(35)


@kernel
def count_first_bytes(words: _Words, counts: _Numbers) -> None:
    """Count words by their first byte."""
    for i in range(len(words)):
        counts[words[i] >> np.uint64(56)] += 1


@kernel
def deal_out(hashes: _Words, numbers: _Groups, bits: int, places: _Numbers, out: _Words) -> None:
    """Put hashes, the ends of which make room for numbers, at the next place of their part.

    Args:
        hashes: of keys.
        numbers: of each hash, its file group and its stretch of rows in one number.
        bits: of such a number.
        places: by first byte; moved on.
        out: receives the second to eighth byte of each hash, its end replaced by that number.
    """
    low = np.uint64(bits)
    for i in range(len(hashes)):
        part = hashes[i] >> np.uint64(56)
        word = (hashes[i] << _SHIFT) >> low << low
        out[places[part]] = word | np.uint64(numbers[i])
        places[part] += 1


@kernel
def fill_pages(words: _Words, first: int, pages: _Bytes) -> None:
    """Write words as entries.

    Args:
        words: sorted.
        first: the place of the first one among the entries of `pages`.
        pages: whole pages.
    """
    for i in range(len(words)):
        entry = first + i
        at = entry // PAGE_ENTRIES * PAGE + entry % PAGE_ENTRIES * ENTRY
        word = words[i]
        for byte in range(ENTRY):
            pages[at + byte] = np.uint8(word & np.uint64(255))
            word >>= _SHIFT


@kernel
def checksum(data: _Bytes, start: int, words: int) -> Any:
    """The checksum of some words."""
    state = np.uint64(0)
    for i in range(words):
        state ^= load_word(data, start + 8 * i)
        state = ((state << _ROTATED) | (state >> _BACK)) * _PRIME
    return state


@kernel
def seal_pages(pages: _Bytes) -> None:
    """Write the checksum of each page."""
    for page in range(len(pages) // PAGE):
        state = checksum(pages, page * PAGE, _WORDS)
        for byte in range(8):
            pages[page * PAGE + 8 * _WORDS + byte] = np.uint8(state & np.uint64(255))
            state >>= _SHIFT


@kernel
def first_damaged(pages: _Bytes, used: _Bytes, proven: _Bytes) -> int:
    """The first page that was used and is not as it was written; -1 where there is none.

    Args:
        pages: all pages.
        used: by page, 1 where an entry was looked at.
        proven: by page, 1 where it was compared before; set for those compared now.
    """
    for page in range(len(used)):
        if used[page] and not proven[page]:
            start = page * PAGE
            if checksum(pages, start, _WORDS) != load_word(pages, start + 8 * _WORDS):
                return page
            proven[page] = 1
    return -1


@kernel
def _entry(pages: _Bytes, number: Any, used: _Bytes) -> Any:
    page = number // PAGE_ENTRIES
    used[page] = 1
    return load_word(pages, page * PAGE + number % PAGE_ENTRIES * ENTRY) & _LOW_56


@kernel
def _first_at_least(pages: _Bytes, low: Any, high: Any, wanted: Any, used: _Bytes) -> Any:
    """The place of the first entry from `low` to `high` that is not less than a number.

    Its place is guessed, then enclosed by growing steps, then halved.
    """
    share = np.float64(wanted) / np.float64(1 << ENTRY_BITS)
    at = min(low + np.int64(share * (high - low)), high - 1)
    step = 16
    if _entry(pages, at, used) < wanted:
        while at < high and _entry(pages, at, used) < wanted:
            low = at + 1
            at += step
            step *= 2
        high = min(at, high)
    else:
        while at >= low and _entry(pages, at, used) >= wanted:
            high = at
            at -= step
            step *= 2
        low = max(at + 1, low)
    while low < high:
        middle = (low + high) // 2
        if _entry(pages, middle, used) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def read_entries(pages: _Bytes, first: int, words: _Words) -> None:
    """Read entries as words, whose first byte is 0.

    Args:
        pages: whole pages.
        first: the place of the first one among the entries of `pages`.
        words: receives them.
    """
    for i in range(len(words)):
        entry = first + i
        at = entry // PAGE_ENTRIES * PAGE + entry % PAGE_ENTRIES * ENTRY
        words[i] = load_word(pages, at) & _LOW_56


@kernel
def find(hashes: _Words, bits: int, file: Any, rows: _Numbers, groups: _Groups) -> Any:
    """The candidates of some hashes.

    Args:
        hashes: of keys, best in order.
        bits: of the number of a file group and a stretch.
        file: the directory (of each block the place of its first entry among those of the pages,
            and the end), pages, and by page a mark that is set where one of its entries is looked
            at.
        rows: receives of each candidate the place of its hash, as far as there is room.
        groups: likewise receives these numbers.

    Returns:
        How many candidates there are, and how many of the hashes they are of: all, unless there
        was no room.
    """
    directory, pages, used = file
    low = np.uint64(bits)
    count = 0
    for i in range(len(hashes)):
        block = hashes[i] >> np.uint64(48)
        first, end = directory[block], directory[block + np.uint64(1)]
        if first == end:
            continue
        before = count
        wanted = (hashes[i] << np.uint64(16)) >> _SHIFT >> low << low
        at = _first_at_least(pages, first, end, wanted, used)
        while at < end:
            entry = _entry(pages, at, used)
            if entry >> low != wanted >> low:
                break
            if count == len(rows):
                return before, i
            rows[count], groups[count] = i, entry & ((np.uint64(1) << low) - np.uint64(1))
            count += 1
            at += 1
    return count, len(hashes)
