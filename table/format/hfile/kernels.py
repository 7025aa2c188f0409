"""The loops over cells and index entries, compiled. See `docs/formats/hfile.md`.

Bytes come as read-only uint8 arrays. Kernels that walk bytes of a file return, as their first
result, the position of the first fault, or -1; they never read behind the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from keymark.table.format.kernels.compiled import inlined, kernel

if TYPE_CHECKING:
    from keymark.table.format.hfile.cells import Cells, Strings

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]

CELL_OVERHEAD = 21
"""Bytes of a cell beside row and value: lengths 4+4+2, the rest of the key 1+8+1, MVCC 1."""

ROW_BYTES_MAX = 32767
NO_FAULT = -1

_KEY_OVERHEAD = 12
_ROW_OFFSET = 10
_PUT = 4
# Few enough cells for their keys to be still in the nearest cache when they are copied.
_AHEAD = 32


@inlined
def _int16(data: _Bytes, at: int) -> Any:
    """An unsigned big-endian 16-bit integer, widened."""
    # Unsigned indices spare the check for negative ones, and the loads become one.
    first = np.uint64(at)
    return np.int64(
        (np.uint64(data[first]) << np.uint64(8)) | np.uint64(data[first + np.uint64(1)])
    )


@inlined
def _word(data: _Bytes, at: int) -> Any:
    """Eight bytes as an unsigned big-endian integer: compares as the bytes do."""
    first = np.uint64(at)
    return (
        (np.uint64(data[first]) << np.uint64(56))
        | (np.uint64(data[first + np.uint64(1)]) << np.uint64(48))
        | (np.uint64(data[first + np.uint64(2)]) << np.uint64(40))
        | (np.uint64(data[first + np.uint64(3)]) << np.uint64(32))
        | (np.uint64(data[first + np.uint64(4)]) << np.uint64(24))
        | (np.uint64(data[first + np.uint64(5)]) << np.uint64(16))
        | (np.uint64(data[first + np.uint64(6)]) << np.uint64(8))
        | np.uint64(data[first + np.uint64(7)])
    )


@inlined
def _int32(data: _Bytes, at: int) -> Any:
    """An unsigned big-endian 32-bit integer, widened."""
    return (_int16(data, at) << 16) | _int16(data, at + 2)


@inlined
def compare(  # noqa: PLR0913 - an array slice per cell would cost more than the loop
    left: _Bytes, left_at: int, left_length: int, right: _Bytes, right_at: int, right_length: int
) -> Any:
    """Unsigned byte order of two pieces: negative, 0 or positive."""
    common = min(left_length, right_length)
    index = 0
    while index + 8 <= common:
        left_word = _word(left, left_at + index)
        right_word = _word(right, right_at + index)
        if left_word != right_word:
            return -1 if left_word < right_word else 1
        index += 8
    while index < common:
        difference = np.int64(left[left_at + index]) - np.int64(right[right_at + index])
        if difference != 0:
            return difference
        index += 1
    return left_length - right_length


@kernel
def check_order(keys: Strings) -> int:
    """Index of the first key that is not above its predecessor; -1 if there is none."""
    data, offsets = keys
    for index in range(1, offsets.size - 1):
        previous = offsets[index - 1]
        start = offsets[index]
        length = offsets[index + 1] - start
        if compare(data, previous, start - previous, data, start, length) >= 0:
            return index
    return NO_FAULT


@kernel
def drop_repeats(keys: Strings, order: _Numbers) -> int:
    """Leave the last of equal keys in their order (changed in place); how many are left."""
    data, offsets = keys
    kept = 0
    for at in range(order.size):
        if at + 1 < order.size:
            row, after = order[at], order[at + 1]
            start, next_start = offsets[row], offsets[after]
            length, next_length = offsets[row + 1] - start, offsets[after + 1] - next_start
            if compare(data, start, length, data, next_start, next_length) == 0:
                continue
        order[kept] = order[at]
        kept += 1
    return kept


@kernel
def check_lengths(offsets: _Numbers) -> int:
    """Index of the first key that is empty or longer than a row may be; -1 if there is none."""
    for index in range(offsets.size - 1):
        length = offsets[index + 1] - offsets[index]
        if length < 1 or length > ROW_BYTES_MAX:
            return index
    return NO_FAULT


@inlined
def _copy(data: _Bytes, start: int, length: int, out: _Bytes, at: int) -> Any:
    """Copy a piece of `data` into `out`; the place behind it."""
    source, target = np.uint64(start), np.uint64(at)
    for byte in range(np.uint64(length)):
        out[target + byte] = data[source + byte]
    return at + length


@inlined
def _put_key(  # noqa: PLR0913 - an array slice per cell would cost more than the loop
    data: _Bytes, row: int, row_length: int, value_length: int, out: _Bytes, at: int
) -> Any:
    """Write what comes before the value of a cell; its end."""
    key_length = row_length + _KEY_OVERHEAD
    for byte in range(4):
        out[at + byte] = (key_length >> (24 - 8 * byte)) & 0xFF
        out[at + 4 + byte] = (value_length >> (24 - 8 * byte)) & 0xFF
    out[at + 8] = row_length >> 8
    out[at + 9] = row_length & 0xFF
    at += _ROW_OFFSET
    at = _copy(data, row, row_length, out, at)
    out[at] = 0
    out[at + 1] = 0x7F
    for byte in range(2, 9):
        out[at + byte] = 0xFF
    out[at + 9] = _PUT
    return at + 10


@kernel
def put_cells(cells: Cells, first: int, out: _Bytes, at: int, full: int) -> Any:
    """Write cells one behind the other, up to the one that makes `full` bytes or does not fit.

    Args:
        cells: keys and values; see `cells.Cells`.
        first: the cell to start with.
        out: the bytes, out.
        at: where in `out` to start.
        full: bytes of `out` at which to stop.

    Returns:
        The number of the next cell, and where in `out` the last one ends.
    """
    (key_data, key_offsets), (value_data, value_offsets) = cells
    for index in range(first, key_offsets.size - 1):
        row = key_offsets[index]
        row_length = key_offsets[index + 1] - row
        value = value_offsets[index]
        value_length = value_offsets[index + 1] - value
        if at >= full or at + row_length + value_length + CELL_OVERHEAD > out.size:
            return index, at
        at = _put_key(key_data, row, row_length, value_length, out, at)
        at = _copy(value_data, value, value_length, out, at)
        out[at] = 0
        at += 1
    return key_offsets.size - 1, at


def room_ahead() -> tuple[_Numbers, npt.NDArray[np.uint64]]:
    """Where `put_ordered` keeps what it reads ahead."""
    return np.empty((3, _AHEAD), np.int64), np.empty((2, _AHEAD), np.uint64)


@kernel
def put_ordered(cells: Any, first: int, out: Any, at: int, full: int) -> Any:
    """Write cells in their order; stops where `put_cells` does.

    Args:
        cells: keys, their order and values; see `strings.Ordered`.
        first: the cell to start with, counted in that order.
        out: uint8 out; two int32 out: of each cell written, the numbers of its value and of its
            kind; from `room_ahead`.
        at: where in `out` to start.
        full: bytes of `out` at which to stop.

    Returns:
        The number of the next cell, where in `out` the last one ends, and whether the next cell's
        key is not above the one before it.
    """
    (key_data, key_offsets), order, codes, (value_data, value_offsets), kinds = cells
    block, marks, (ahead, words) = out
    row = row_length = 0
    word = np.uint64(0)
    if first:
        row = key_offsets[order[first - 1]]
        row_length = key_offsets[order[first - 1] + 1] - row
    for index in range(first, order.size):
        place = (index - first) % _AHEAD
        if place == 0:
            # Keys lie anywhere in memory: both ends of many are asked for at a time.
            for number in range(min(_AHEAD, order.size - index)):
                start, end = (
                    key_offsets[order[index + number]],
                    key_offsets[order[index + number] + 1],
                )
                ahead[0, number], ahead[1, number] = start, end - start
                ahead[2, number] = codes[order[index + number]]
                words[0, number] = _word(key_data, start) if end - start >= 8 else np.uint64(0)
                words[1, number] = key_data[np.uint64(end - 1)]
        before, before_length, before_word = row, row_length, word
        row, row_length, code = ahead[0, place], ahead[1, place], ahead[2, place]
        word = words[0, place]
        value = value_offsets[code]
        value_length = value_offsets[code + 1] - value
        if at >= full or at + row_length + value_length + CELL_OVERHEAD > block.size:
            return index, at, False
        # The first eight bytes decide, if both keys are so long and differ in them.
        above = index == 0 or (before_word and before_word < word)
        if not above and (compare(key_data, before, before_length, key_data, row, row_length) >= 0):
            return index, at, True
        marks[0, index - first], marks[1, index - first] = code, kinds[code]
        at = _put_key(key_data, row, row_length, value_length, block, at)
        at = _copy(value_data, value, value_length, block, at)
        block[at] = 0
        at += 1
    return order.size, at, False


@inlined
def _cell(block: _Bytes, at: int, mvcc: int) -> Any:
    """Row length, value length and end of the cell at `at`; the end is -1 if it is no cell."""
    if at + 8 + _KEY_OVERHEAD > block.size:
        return 0, 0, -1
    key_length = _int32(block, at)
    value_length = _int32(block, at + 4)
    end = at + 8 + key_length + value_length + mvcc
    row_length = _int16(block, at + 8)
    if end > block.size or row_length > ROW_BYTES_MAX or row_length + _KEY_OVERHEAD != key_length:
        return 0, 0, -1
    if block[at + _ROW_OFFSET + row_length] != 0 or block[at + 7 + key_length] != _PUT:
        return 0, 0, -1
    if mvcc and block[end - 1] != 0:
        return 0, 0, -1
    return row_length, value_length, end


@kernel
def split_cells(block: _Bytes, mvcc: int, cells: _Numbers) -> Any:
    """Where row and value of each cell lie; also checks that rows ascend.

    Args:
        block: the payload of a data block.
        mvcc: 1 if each cell ends with an MVCC byte, else 0.
        cells: out, 4 x as many cells as there could be: row start, row length, value start,
            value length.

    Returns:
        Position of the first fault or -1, and the number of cells before it.
    """
    at = 0
    count = 0
    row = 0
    row_length = -1
    while at < block.size:
        length, value_length, end = _cell(block, at, mvcc)
        start = at + _ROW_OFFSET
        if end < 0 or (count and compare(block, row, row_length, block, start, length) >= 0):
            return at, count
        row = start
        row_length = length
        cells[0, count] = row
        cells[1, count] = row_length
        cells[2, count] = end - mvcc - value_length
        cells[3, count] = value_length
        count += 1
        at = end
    return NO_FAULT, count


@kernel
def join_cells(
    block: _Bytes,
    mvcc: int,
    keys: Strings,
    hits: _Numbers,
    whole: bool,  # noqa: FBT001
) -> Any:
    """Merge-join the cells of a block with sorted keys; also checks that rows ascend.

    Args:
        block: the payload of a data block.
        mvcc: 1 if each cell ends with an MVCC byte, else 0.
        keys: the sorted keys.
        hits: out, 3 x number of keys: index of a key found, start and length of its value.
        whole: whether to check the cells behind the last key, too.

    Returns:
        Position of the first fault or -1; the number of keys found; start and length of the last
        row that was looked at.
    """
    data, offsets = keys
    at = 0
    found = 0
    key = 0
    row = 0
    row_length = -1
    while at < block.size:
        length, value_length, end = _cell(block, at, mvcc)
        start = at + _ROW_OFFSET
        if end < 0 or (at and compare(block, row, row_length, block, start, length) >= 0):
            return at, found, row, row_length
        row = start
        row_length = length
        while key < offsets.size - 1:
            wanted = offsets[key]
            order = compare(data, wanted, offsets[key + 1] - wanted, block, row, row_length)
            if order > 0:
                break
            if order == 0:
                hits[0, found] = key
                hits[1, found] = end - mvcc - value_length
                hits[2, found] = value_length
                found += 1
            key += 1
        if key == offsets.size - 1 and not whole:
            break
        at = end
    return NO_FAULT, found, row, row_length


@kernel
def gather(
    data: _Bytes, starts: _Numbers, lengths: _Numbers, out: _Bytes, offsets: npt.NDArray[np.int32]
) -> None:
    """Copy pieces of `data` one behind the other; `offsets` gets 0 and each piece's end."""
    at = 0
    offsets[0] = 0
    for index in range(starts.size):
        at = _copy(data, starts[index], lengths[index], out, at)
        offsets[index + 1] = at


@kernel
def split_root_index(payload: _Bytes, entries: _Numbers) -> Any:
    """Parse the entries of a root index block, as many as `entries` has room for.

    Args:
        payload: of the block.
        entries: out, 4 x number of entries: block offset, block size, key start, key length.

    Returns:
        The position behind the last entry, or -1 if the payload ends within one.
    """
    at = 0
    for index in range(entries.shape[1]):
        if at + 13 > payload.size:
            return -1
        entries[0, index] = (_int32(payload, at) << 32) | _int32(payload, at + 4)
        entries[1, index] = _int32(payload, at + 8)
        length: Any = np.int64(payload[at + 12])
        at += 13
        if length > 127:
            # Hadoop's VInt: first byte -112 - n, then n bytes. No key is as long as 4 GiB.
            width = 144 - length
            if width < 1 or width > 4 or at + width > payload.size:
                return -1
            length = 0
            for _ in range(width):
                length = (length << 8) | np.int64(payload[at])
                at += 1
        entries[2, index] = at
        entries[3, index] = length
        at += length
        if at > payload.size:
            return -1
    return at


@kernel
def split_leaf_index(payload: _Bytes, entries: _Numbers) -> Any:
    """As `split_root_index`, for leaf and intermediate blocks.

    They hold a count, relative offsets of the entries and of their end, entries.
    """
    count = entries.shape[1]
    base = 4 + 4 * (count + 1)
    if base > payload.size:
        return -1
    at = base
    for index in range(count):
        start = base + _int32(payload, 4 + 4 * index)
        end = base + _int32(payload, 8 + 4 * index)
        if start != at or end < at + 12 or end > payload.size:
            return -1
        entries[0, index] = (_int32(payload, at) << 32) | _int32(payload, at + 4)
        entries[1, index] = _int32(payload, at + 8)
        entries[2, index] = at + 12
        entries[3, index] = end - at - 12
        at = end
    return at


@kernel
def narrow_to_rows(payload: _Bytes, entries: _Numbers) -> int:
    """Turn index keys into rows: skip the row length, drop what follows the row.

    Hudi 1.x's own writer leaves out what follows (family length, timestamp, type).

    Returns:
        Index of the first entry that is malformed or not above its predecessor; -1 if none.
    """
    for index in range(entries.shape[1]):
        if entries[3, index] < 2:
            return index
        row_length = _int16(payload, entries[2, index])
        rest = entries[3, index] - 2 - row_length
        if row_length > ROW_BYTES_MAX or (rest != 0 and rest != _KEY_OVERHEAD - 2):
            return index
        entries[2, index] += 2
        entries[3, index] = row_length
        if index:
            previous = entries[2, index - 1]
            previous_length = entries[3, index - 1]
            row = entries[2, index]
            if compare(payload, previous, previous_length, payload, row, row_length) >= 0:
                return index
    return NO_FAULT


@kernel
def spread_keys(keys: Strings, payload: _Bytes, entries: _Numbers, bounds: _Numbers) -> None:
    """Floor search of sorted keys in an index: which keys belong to which entry.

    An index row need not be a key (HBase stores a short separator), so an entry owns the keys from
    its row up to the next entry's row.

    Args:
        keys: the sorted keys.
        payload: where the rows of the entries lie.
        entries: as `narrow_to_rows` left them.
        bounds: out, one longer than there are entries: entry `i` owns keys `bounds[i]` to
            `bounds[i + 1]`, exclusive. Keys before `bounds[0]` belong to none.
    """
    data, offsets = keys
    count = entries.shape[1]
    low = 0
    bounds[count] = offsets.size - 1
    for entry in range(count):
        row = entries[2, entry]
        row_length = entries[3, entry]
        high = offsets.size - 1
        while low < high:
            middle = (low + high) // 2
            start = offsets[middle]
            if compare(data, start, offsets[middle + 1] - start, payload, row, row_length) < 0:
                low = middle + 1
            else:
                high = middle
        bounds[entry] = low
