"""Thrift's compact protocol: structs to values and back.

    struct    field, field, ..., 0
    field     (number - number before) << 4 | type, or type and the number as varint; then the value
    list      count << 4 | type, or 0xF0 | type and the count as varint; then the values

Footers and page headers of Parquet are such structs. Every overrun, and every struct that is
nested too deeply or has too many values, is a CorruptFileError. The functions at the end are
compiled and pass over values without making any: they answer STRANGE where Arrow has to judge.
Source: the compact protocol's specification of Apache Thrift.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from keymark.table.errors import CorruptFileError
from keymark.table.format.kernels.compiled import kernel

# Types; the type of a boolean field is its value.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST = range(1, 10)
_SET, STRUCT = 10, 12

Fields = dict[int, tuple[int, Any]]
"""A struct: (type, value) by field number; a list's value is (type, values)."""

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]

_LONG_LIST = 15
_SHIFT_MAX = 63
DEPTH_MAX = 16
VALUES_MAX = 1 << 19
"""Values of a struct that somebody else wrote; a row group of ten thousand columns has so many"""
STRANGE = -1
"""The place behind what is no value, or none that is known here."""
# A level of the stack that is within a struct, not within a list.
_FIELDS = -1
_FIXED = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}


class ThriftReader:
    """Reads values one after the other.

    Args:
        data: the bytes.
        name: the file they come from, for errors.
        at: where the first value starts.
        origin: offset of the bytes in the file, for errors.
        most: values of one struct.
    """

    __slots__ = ("_data", "_left", "_most", "_name", "_origin", "at")

    def __init__(
        self, data: bytes, name: str, at: int = 0, *, origin: int = 0, most: int = VALUES_MAX
    ) -> None:
        self._data = data
        self._name = name
        self._origin = origin
        self._left = self._most = most
        self.at = at

    def fail(self, detail: str) -> NoReturn:
        """Raise CorruptFileError at the current place."""
        raise CorruptFileError(self._name, self._origin + self.at, detail)

    def struct(self) -> Fields:
        """A struct with all that is in it."""
        self._left = self._most
        return self._struct(0)

    def plain(self) -> dict[int, Any]:
        """A struct without its types: booleans as such, and no lists."""
        return self._plain(self.struct())

    def field(self, number: int) -> tuple[int, int]:
        """The head of the next field of a struct: type, 0 at the end, and field number.

        Args:
            number: of the field before; 0 at the start.
        """
        self._left = self._most
        head = self._byte()
        if not head:
            return 0, number
        return head & 15, number + (head >> 4) if head >> 4 else self.integer()

    def value(self, kind: int) -> Any:
        """The value of a field of that type."""
        return self._value(kind, 0)

    def count(self, kind: int) -> int:
        """The head of a list whose values are of a type: how many there are."""
        found, count = self._list()
        if found != kind and count:
            self.fail(f"a list of type {found}, expected {kind}")
        return count

    def integer(self) -> int:
        """A number of 16 to 64 bits."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _byte(self) -> int:
        if self.at >= len(self._data):
            self.fail("the end of a Thrift struct is missing")
        self.at += 1
        return self._data[self.at - 1]

    def _take(self, length: int) -> bytes:
        if length > len(self._data) - self.at:
            self.fail(f"{length} bytes expected, {len(self._data) - self.at} are left")
        self.at += length
        return self._data[self.at - length : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > _SHIFT_MAX:
                self.fail("a varint of more than ten bytes")
        return (value | byte << shift) & 0xFFFF_FFFF_FFFF_FFFF

    def _struct(self, depth: int) -> Fields:
        found: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            found[number] = (head & 15, self._value(head & 15, depth))
        return found

    def _plain(self, fields: Fields) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for number, (kind, value) in fields.items():
            if kind == LIST:
                self.fail("a list in a struct that has none")
            if kind in (TRUE, FALSE):
                found[number] = kind == TRUE
            else:
                found[number] = self._plain(value) if kind == STRUCT else value
        return found

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        if count == _LONG_LIST:
            count = self._varint()
        if count > len(self._data) - self.at:
            self.fail(f"a list of {count} values in {len(self._data) - self.at} bytes")
        return head & 15, count

    def _value(self, kind: int, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > DEPTH_MAX:
            self.fail("a Thrift struct of too many values, or nested too deeply")
        if I16 <= kind <= I64:
            return self.integer()
        if kind == BINARY:
            return self._take(self._varint())
        if kind == STRUCT:
            return self._struct(depth + 1)
        if kind == LIST:
            member, count = self._list()
            if member in (TRUE, FALSE):
                # In a list, booleans are bytes.
                return member, [self._take(1) for _ in range(count)]
            return member, [self._value(member, depth + 1) for _ in range(count)]
        if kind not in _FIXED:
            self.fail(f"no Thrift value has type {kind}")
        return self._take(_FIXED[kind])


def write_struct(out: bytearray, fields: Fields) -> None:
    """Append a struct."""
    last = 0
    for number, (kind, value) in fields.items():
        if 0 < number - last <= _LONG_LIST:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_varint(out, number << 1)
        _write_value(out, kind, value)
        last = number
    out.append(0)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _write_varint(out, (value << 1) ^ (value >> 63))
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        write_struct(out, value)
    elif kind == LIST:
        member, values = value
        out.append(min(len(values), _LONG_LIST) << 4 | member)
        if len(values) >= _LONG_LIST:
            _write_varint(out, len(values))
        for one in values:
            _write_value(out, member, one)
    else:
        out += value


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
def scan_field(data: _Bytes, at: int) -> Any:
    """The type of the next field of a struct, 0 at its end, and the place of its value."""
    if at < 0 or at >= len(data):
        return 0, STRANGE
    head = np.int64(data[at])
    at += 1
    if head != 0 and head & 15 == 0:
        return 0, STRANGE
    if head >> 4 == 0 and head != 0:
        _, at = scan_varint(data, at)
    return head & 15, at


@kernel
def scan_list(data: _Bytes, at: int) -> Any:
    """The type of a list's elements, how many there are, and the place of the first."""
    if at < 0 or at >= len(data):
        return 0, 0, STRANGE
    kind, size = np.int64(data[at] & 15), np.int64(data[at] >> 4)
    at += 1
    if size == _LONG_LIST:
        size, at = scan_varint(data, at)
    return kind, size, at if 0 <= size <= len(data) else STRANGE


@kernel
def _scan_value(data: _Bytes, at: int, level: _Numbers) -> Any:
    """The type of the next value of an open struct or list, 0 at its end, and its place."""
    if level[0] == _FIELDS:
        kind, at = scan_field(data, at)
        while at >= 0 and TRUE <= kind <= FALSE:
            kind, at = scan_field(data, at)
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
        elif top + 1 < len(stack) and kind in (LIST, _SET, STRUCT):
            top += 1
            stack[top, 0], stack[top, 1] = _FIELDS, 0
            if kind != STRUCT:
                stack[top, 0], stack[top, 1], at = scan_list(data, at)
        else:
            return STRANGE
    return at if top < 0 and at <= len(data) else STRANGE
