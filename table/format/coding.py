"""Integers and lengths as Hudi's binary formats write them, both ways, bounds checked.

Three families meet in HFiles and log files: big-endian fixed widths (Java's DataOutput), protobuf
varints (HFile trailer and file info) and Hadoop's variable length integers (`WritableUtils.
writeVLong`, the key lengths of HFile index entries). Each is decoded by `ByteCursor`, which knows
the file it stands in, so that damage is reported with its place.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from keymark.table.errors import CorruptFileError

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_VARINT_SHIFT_MAX = 63
_HADOOP_ONE_BYTE_MIN = -112
_HADOOP_ONE_BYTE_MAX = 127


def encode_int32(value: int) -> bytes:
    """Four bytes, big-endian, signed."""
    return _INT32.pack(value)


def encode_int64(value: int) -> bytes:
    """Eight bytes, big-endian, signed."""
    return _INT64.pack(value)


def encode_varint(value: int) -> bytes:
    """A protobuf varint: seven bits a byte, lowest first; negative numbers as unsigned 64 bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_hadoop_vint(value: int) -> bytes:
    """A length as Hadoop's `WritableUtils.writeVInt` writes it: one byte up to 127, else -112-n.

    Args:
        value: not negative; lengths never are.
    """
    if value <= _HADOOP_ONE_BYTE_MAX:
        return bytes([value])
    width = (value.bit_length() + 7) // 8
    return bytes([(_HADOOP_ONE_BYTE_MIN - width) & 0xFF]) + value.to_bytes(width, "big")


class ByteCursor:
    """Reads forward over bytes; every overrun is a CorruptFileError that names the place.

    Args:
        data: the bytes.
        name: the file they come from.
        origin: offset of `data` in that file.
    """

    __slots__ = ("_data", "_name", "_origin", "position")

    def __init__(self, data: bytes, name: str, origin: int = 0) -> None:
        self._data = data
        self._name = name
        self._origin = origin
        self.position = 0

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self.position

    def fail(self, detail: str) -> NoReturn:
        """Raise CorruptFileError at the current place."""
        raise CorruptFileError(self._name, self._origin + self.position, detail)

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        if not 0 <= length <= self.remaining:
            self.fail(f"{length} bytes expected, {self.remaining} are left")
        start = self.position
        self.position += length
        return self._data[start : self.position]

    def int32(self) -> int:
        """A big-endian signed 32-bit integer."""
        return int(_INT32.unpack(self.take(4))[0])

    def int64(self) -> int:
        """A big-endian signed 64-bit integer."""
        return int(_INT64.unpack(self.take(8))[0])

    def varint(self) -> int:
        """A protobuf varint of at most 64 bits, unsigned."""
        value = shift = 0
        while (byte := self.take(1)[0]) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > _VARINT_SHIFT_MAX:
                self.fail("a varint of more than ten bytes")
        return (value | byte << shift) & 0xFFFF_FFFF_FFFF_FFFF

    def protobuf(self) -> list[tuple[int, int | bytes]]:
        """All fields up to the end as (number, value): varints as int, delimited ones as bytes."""
        fields: list[tuple[int, int | bytes]] = []
        while self.remaining:
            tag = self.varint()
            match tag & 7:
                case 0:
                    fields.append((tag >> 3, self.varint()))
                case 2:
                    fields.append((tag >> 3, self.take(self.varint())))
                case wire_type:
                    self.fail(f"protobuf wire type {wire_type}, expected 0 or 2")
        return fields
