"""Thrift structs and footers in plain Python, which the compiled code is compared with."""

from __future__ import annotations

from typing import Any

from keymark.table.format.parquet.thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Fields,
    ThriftReader,
)

_LONG_LIST = 15
ROW_GROUPS, COLUMNS, META = 4, 1, 3


def footer_of(data: bytes) -> Fields:
    """The footer of a Parquet file, with all that is in it."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return ThriftReader(data, "model", start).struct()


def with_footer(data: bytes, footer: Fields) -> bytes:
    """A Parquet file with another footer."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    out = bytearray()
    write_struct(out, footer)
    return data[:start] + bytes(out) + len(out).to_bytes(4, "little") + b"PAR1"


def groups_of(footer: Fields) -> list[Fields]:
    """The row groups of a footer."""
    return footer[ROW_GROUPS][1][1]


def chunks_of(group: Fields) -> list[Fields]:
    """The column chunks of a row group."""
    return group[COLUMNS][1][1]


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
