"""Thrift's compact protocol, compiled: structs are passed over, and numbers in them are found.

    struct    kept bytes | number | kept bytes | number | kept bytes

No values are made but of the numbers that the caller names, with their places, so that the struct
can be written again with other numbers in it. What is no Thrift, or is nested too deeply, has the
answer STRANGE; the caller decides what that means.
Source: the compact protocol's specification of Apache Thrift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keymark.table.format.kernels.compiled import kernel
from keymark.table.format.parquet.thrift import (
    BINARY,
    BYTE,
    DEPTH_MAX,
    DOUBLE,
    FALSE,
    I16,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
)

STRANGE = -1
"""The place behind what is no value, or none that is known here"""
SKIP, LOOK, OTHER = -1, -2, -3
"""What to do with a field: pass over it; stop, so that the caller looks into it; pass over it and
count it as one that is not expected"""
RawFields = Mapping[int, tuple[int, bytes]]
"""A struct taken apart one level deep: type and bytes of each field, by its number"""
INTEGER_BYTES = 10
"""The most that a number takes"""
LONG_LIST = 15
"""In the head of a list in place of its length: the length follows as a varint"""

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]

# Greater than the number of any field in Parquet's structs.
_FIELDS_MAX = 32
# A level of the stack that is within a struct, not within a list.
_FIELDS = -1


def new_stack() -> _Numbers:
    """Room for `skip_value`."""
    return np.empty((DEPTH_MAX, 2), np.int64)


def rules(slots: dict[int, int], *, last: int) -> _Numbers:
    """What to do with each field of a struct, by its number.

    Args:
        slots: for the numbers that are wanted their slot, for others a rule.
        last: the greatest number of a field that is passed over.
    """
    table = np.full(last + 1, SKIP, np.int64)
    table[0] = OTHER
    for number, slot in slots.items():
        table[number] = slot
    return table


@kernel
def scan_varint(data: _Bytes, at: int) -> Any:
    """A varint and the place behind it, STRANGE where it does not end."""
    value = np.int64(0)
    for turn in range(9):
        if at >= len(data):
            return value, STRANGE
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << (7 * turn)
        if byte < 0x80:
            return value, at
    return value, STRANGE


@kernel
def _skip_plain(data: _Bytes, at: int, kind: int) -> int:
    """The place behind a number, a boolean in a list or a text, STRANGE where there is none."""
    if kind <= BYTE:
        return at + 1
    if kind == DOUBLE:
        return at + 8
    size, at = scan_varint(data, at)
    if kind != BINARY or at < 0:
        return at
    return at + size if 0 <= size <= len(data) else STRANGE


@kernel
def scan_field(data: _Bytes, at: int, number: Any) -> Any:
    """The type of the next field of a struct, its number, and the place of its value.

    `number` is that of the field before, 0 at the start. The type is 0 at the end of the struct.
    """
    if at < 0 or at >= len(data):
        return np.int64(0), number, STRANGE
    head = np.int64(data[at])
    at += 1
    if head == 0:
        return np.int64(0), number, at
    number += head >> 4
    if head >> 4 == 0:
        value, at = scan_varint(data, at)
        number = value >> 1
    if head & 15 == 0 or number <= 0 or at < 0:
        return np.int64(0), number, STRANGE
    return head & 15, number, at


@kernel
def scan_list(data: _Bytes, at: int) -> Any:
    """The type of a list's elements, how many there are, and the place of the first."""
    if at < 0 or at >= len(data):
        return np.int64(0), np.int64(0), STRANGE
    kind, size = np.int64(data[at] & 15), np.int64(data[at] >> 4)
    at += 1
    if size == LONG_LIST:
        size, at = scan_varint(data, at)
    return kind, size, at if 0 <= size <= len(data) else STRANGE


@kernel
def _scan_value(data: _Bytes, at: int, level: _Numbers) -> Any:
    """The type of the next value of an open struct or list, 0 at its end, and its place."""
    if level[0] == _FIELDS:
        kind, _, at = scan_field(data, at, 1)
        while at >= 0 and TRUE <= kind <= FALSE:
            kind, _, at = scan_field(data, at, 1)
        return kind, at
    if level[1] == 0:
        return np.int64(0), at
    level[1] -= 1
    return level[0], at


@kernel
def skip_value(data: _Bytes, at: int, kind: int, stack: _Numbers) -> int:
    """The place behind a value, STRANGE where there is no such value.

    `stack` holds for each open list the type of its elements and how many are left.
    """
    top = 0
    stack[0, 0], stack[0, 1] = kind, 1
    while top >= 0 and 0 <= at <= len(data):
        kind, at = _scan_value(data, at, stack[top])
        if kind == 0:
            top -= 1
        elif kind <= BINARY:
            at = _skip_plain(data, at, kind)
        elif top + 1 < len(stack) and kind in (LIST, SET, STRUCT):
            top += 1
            stack[top, 0], stack[top, 1] = _FIELDS, 0
            if kind != STRUCT:
                stack[top, 0], stack[top, 1], at = scan_list(data, at)
        else:
            return STRANGE
    return at if top < 0 and at <= len(data) else STRANGE


@kernel
def scan_struct(data: _Bytes, at: int, number: int, wanted: _Numbers, found: Any) -> Any:
    """Pass over fields of a struct, and note the numbers that are wanted.

    Args:
        data: the bytes.
        at: place of a field.
        number: of the field before; 0 at the start of the struct.
        wanted: what to do with each field (`rules`).
        found: slots, of which each gets the row of its number in the next two; places, start and
            stop of each; values; counts, how many numbers there are and how many fields that are
            not expected; the stack of `skip_value`.

    Returns:
        Number, type and place of a field to look into; its number is 0 at the end of the struct,
        and the place is STRANGE where this is none.
    """
    while True:
        kind, number, at = scan_field(data, at, number)
        if kind == 0:
            return np.int64(0), kind, at
        rule = wanted[number] if number < len(wanted) else OTHER
        if rule == LOOK:
            return number, kind, at
        if rule >= 0:
            at = _note(data, at, kind, rule, found)
        else:
            if rule == OTHER:
                found[3][1] += 1
            if kind > FALSE:
                at = skip_value(data, at, kind, found[4])


@kernel
def _note(data: _Bytes, at: int, kind: int, slot: int, found: Any) -> Any:
    """Note a number; the place behind it, STRANGE where it is none or is there twice."""
    slots, places, values, counts, _ = found
    row = counts[0]
    value, end = scan_varint(data, at)
    if kind < I16 or kind > I64 or end < 0 or slots[slot] >= 0 or row >= len(values):
        return STRANGE
    slots[slot] = row
    places[row, 0], places[row, 1] = at, end
    values[row] = (value >> 1) ^ -(value & 1)
    counts[0] = row + 1
    return end


@kernel
def copy_bytes(data: _Bytes, stretch: tuple[int, int], out: _Bytes, at: int) -> int:
    """Copy bytes from start to stop; the place behind them."""
    for place in range(stretch[0], stretch[1]):
        out[at] = data[place]
        at += 1
    return at


@kernel
def write_integer(out: _Bytes, at: int, value: int) -> int:
    """Write a number as a zigzag varint; the place behind it."""
    left = np.uint64((value << 1) ^ (value >> 63))
    while left > np.uint64(0x7F):
        out[at] = np.uint8(left & np.uint64(0x7F)) | np.uint8(0x80)
        left >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(left)
    return at + 1


@kernel
def _scan_fields(data: _Bytes, places: _Numbers, stack: _Numbers) -> Any:
    """Note type, start and end of each field of a struct; the place behind it, or STRANGE."""
    kind, number, at = scan_field(data, 0, 0)
    while kind:
        if number >= len(places) or places[number, 0]:
            return STRANGE
        places[number, 0], places[number, 1] = kind, at
        if kind > FALSE:
            at = skip_value(data, at, kind, stack)
        places[number, 2] = at
        kind, number, at = scan_field(data, at, number)
    return at


def raw_fields(data: _Bytes) -> dict[int, tuple[int, bytes]] | None:
    """The fields of a struct; None where the data are no struct, or not of Parquet's."""
    places = np.zeros((_FIELDS_MAX, 3), np.int64)
    if _scan_fields(data, places, new_stack()) != len(data):
        return None
    return {
        number: (kind, data[at:end].tobytes())
        for number, (kind, at, end) in enumerate(places.tolist())
        if kind
    }


def raw_struct(fields: RawFields) -> bytes:
    """The struct of some fields; the gaps between their numbers are at most fifteen."""
    out, last = bytearray(), 0
    for number, (kind, value) in sorted(fields.items()):
        out.append((number - last) << 4 | kind)
        out += value
        last = number
    out.append(0)
    return bytes(out)


def raw_list(structs: Sequence[bytes]) -> bytes:
    """A list of structs."""
    return list_head(len(structs), STRUCT) + b"".join(structs)


def list_head(count: int, kind: int) -> bytes:
    """The header of a list, by its number of values."""
    if count < LONG_LIST:
        return bytes([count << 4 | kind])
    return bytes([LONG_LIST << 4 | kind]) + varint(count)


def varint(value: int) -> bytes:
    """A size as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(value: int) -> bytes:
    """A number of 16 to 64 bits."""
    return varint((value << 1) ^ (value >> 63))


def integer_of(raw: bytes) -> int:
    """The number that a zigzag varint is."""
    value = 0
    for place, byte in enumerate(raw):
        value |= (byte & 0x7F) << (7 * place)
    return (value >> 1) ^ -(value & 1)


def binary_of(raw: bytes) -> bytes:
    """The bytes of a binary, which stand behind their length."""
    start = 0
    while raw[start] > 0x7F:
        start += 1
    return raw[start + 1 :]
