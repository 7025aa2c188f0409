"""The key-value entries of a Parquet footer, without a look at all else in it.

The footer is a Thrift struct in the compact protocol (FileMetaData of parquet.thrift); its entries
are field 5, behind the description of every column chunk. To pass over that takes a fifth of the
time in which Arrow makes objects of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from keymark.table.format.compiled import kernel

_ENTRIES_MAX = 64
_DEPTH_MAX = 16

# Types of the compact protocol; a boolean in a struct is in its field's head.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET = range(1, 11)
_STRUCT = 12
_LONG_LIST = 15
# A level of the stack that is within a struct, not within a list.
_FIELDS = -1
_ENTRIES_FIELD = 5
_STRANGE = -1

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]


def footer_entries(footer: bytes) -> dict[bytes, bytes | None] | None:
    """The entries of a footer; None where it looks strange, and Arrow has to judge it."""
    places = np.empty((_ENTRIES_MAX, 4), np.int64)
    stack = np.empty((_DEPTH_MAX, 2), np.int64)
    count = _entries(np.frombuffer(footer, np.uint8), places, stack)
    if count == _STRANGE:
        return None
    return {
        footer[at : at + size]: None if length < 0 else footer[start : start + length]
        for at, size, start, length in places[:count].tolist()
    }


@kernel
def _varint(data: _Bytes, at: int) -> Any:
    """A varint and the place behind it, _STRANGE where it does not end."""
    value = np.int64(0)
    for turn in range(9):
        if at >= len(data):
            return value, _STRANGE
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << (7 * turn)
        if byte < 0x80:
            return value, at
    return value, _STRANGE


@kernel
def _skip_plain(data: _Bytes, at: int, kind: int) -> int:
    """The place behind a number, a boolean in a list or a text, _STRANGE where there is none."""
    if kind <= _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    size, at = _varint(data, at)
    if kind != _BINARY or at < 0:
        return at
    return at + size if 0 <= size <= len(data) else _STRANGE


@kernel
def _next_field(data: _Bytes, at: int) -> Any:
    """The type of the next field of a struct, 0 at its end, and the place of its value."""
    if at < 0 or at >= len(data):
        return 0, _STRANGE
    head = np.int64(data[at])
    at += 1
    if head != 0 and head & 15 == 0:
        return 0, _STRANGE
    if head >> 4 == 0 and head != 0:
        _, at = _varint(data, at)
    return head & 15, at


@kernel
def _open_list(data: _Bytes, at: int) -> Any:
    """The type of a list's elements, how many there are, and the place of the first."""
    if at < 0 or at >= len(data):
        return 0, 0, _STRANGE
    kind, size = np.int64(data[at] & 15), np.int64(data[at] >> 4)
    at += 1
    if size == _LONG_LIST:
        size, at = _varint(data, at)
    return kind, size, at if 0 <= size <= len(data) else _STRANGE


@kernel
def _next_value(data: _Bytes, at: int, level: _Numbers) -> Any:
    """The type of the next value of an open struct or list, 0 at its end, and its place."""
    if level[0] == _FIELDS:
        kind, at = _next_field(data, at)
        while at >= 0 and _TRUE <= kind <= _FALSE:
            kind, at = _next_field(data, at)
        return kind, at
    if level[1] == 0:
        return np.int64(0), at
    level[1] -= 1
    return level[0], at


@kernel
def _skip(data: _Bytes, at: int, kind: int, stack: _Numbers) -> int:
    """The place behind a value, _STRANGE where there is no such value.

    `stack` holds for each open list the type of its elements and how many are left.
    """
    top = 0
    stack[0, 0], stack[0, 1] = kind, 1
    while top >= 0 and 0 <= at <= len(data):
        kind, at = _next_value(data, at, stack[top])
        if kind == 0:
            top -= 1
        elif kind <= _BINARY:
            at = _skip_plain(data, at, kind)
        elif top + 1 < len(stack) and kind in (_LIST, _SET, _STRUCT):
            top += 1
            stack[top, 0], stack[top, 1] = _FIELDS, 0
            if kind != _STRUCT:
                stack[top, 0], stack[top, 1], at = _open_list(data, at)
        else:
            return _STRANGE
    return at if top < 0 and at <= len(data) else _STRANGE


@kernel
def _entries(data: _Bytes, places: _Numbers, stack: _Numbers) -> int:
    """Where the entries are: start and length of key and of value; how many there are."""
    at: Any = 0
    number: Any = 0
    while at >= 0:
        if at >= len(data):
            return _STRANGE
        head = np.int64(data[at])
        if head == 0:
            return 0
        number += head >> 4
        if head >> 4 == 0:
            value, _ = _varint(data, at + 1)
            number = value >> 1
        kind, at = _next_field(data, at)
        if number == _ENTRIES_FIELD and kind == _LIST:
            return int(_read_entries(data, at, places))
        if kind > _FALSE and at >= 0:
            at = _skip(data, at, kind, stack)
    return _STRANGE


@kernel
def _read_entries(data: _Bytes, at: int, places: _Numbers) -> int:
    """The same of a list of entries."""
    kind, count, at = _open_list(data, at)
    if kind != _STRUCT or at < 0 or count > len(places):
        return _STRANGE
    for row in range(count):
        # Key and value are fields 1 and 2, each a binary; a value may be left out.
        places[row, 3] = -1
        for column in range(0, 4, 2):
            if column and at < len(data) and data[at] == 0:
                break
            if at >= len(data) or data[at] != (1 << 4) | _BINARY:
                return _STRANGE
            size, at = _varint(data, at + 1)
            if at < 0 or not 0 <= size <= len(data) - at:
                return _STRANGE
            places[row, column], places[row, column + 1] = at, size
            at += size
        if at >= len(data) or data[at] != 0:
            return _STRANGE
        at += 1
    return int(count)
