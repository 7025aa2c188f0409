"""Thrift's compact protocol: structs to values.

    struct    field, field, ..., 0
    field     (number - number before) << 4 | type, or type and the number as varint; then the value
    list      count << 4 | type, or 0xF0 | type and the count as varint; then the values

Footers and page headers of Parquet are such structs. Every overrun, and every struct that is
nested too deeply or has too many values, is a CorruptFileError. `thrift_scan.py` passes over values
without making any.
Source: the compact protocol's specification of Apache Thrift.
"""

from __future__ import annotations

from typing import Any, NoReturn

from keymark.table.errors import CorruptFileError

# Types; the type of a boolean field is its value.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST = range(1, 10)
SET, STRUCT = 10, 12

Fields = dict[int, tuple[int, Any]]
"""A struct: (type, value) by field number; a list's value is (type, values)."""

_LONG_LIST = 15
_SHIFT_MAX = 63
DEPTH_MAX = 16
VALUES_MAX = 1 << 19
"""The most values of a struct that another writer made; ten thousand columns need fewer"""
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
