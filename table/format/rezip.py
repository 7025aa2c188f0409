"""Gzip for Parquet files that were written uncompressed, three times as fast as Arrow's own.

A Parquet file is a row of pages, each with a header, and a footer that knows where the pages of
each column start:

    PAR1 | page header, page | ... | footer | int32 length of the footer | PAR1

Pages are compressed one by one, so a file can be taken apart, its pages deflated by ISA-L, and put
together again with the sizes and offsets in headers and footer set anew. Headers and footer are
Thrift structs in the compact protocol (parquet.thrift of Apache Parquet); whatever is not known
here is carried over as it is.
"""

from __future__ import annotations

import struct
from typing import Any

from isal import isal_zlib

_MAGIC = b"PAR1"
_GZIP_WBITS = 31
_LEVEL = 1

# Types of the compact protocol.
_TRUE = 1
_FALSE = 2
_BYTE = 3
_I16 = 4
_I32 = 5
_I64 = 6
_DOUBLE = 7
_BINARY = 8
_LIST = 9
_STRUCT = 12
_LONG_LIST = 15

# Field numbers of parquet.thrift.
_FILE_ROW_GROUPS = 4
_GROUP_COLUMNS = 1
_GROUP_BYTES = 2
_GROUP_OFFSET = 5
_GROUP_COMPRESSED = 6
_CHUNK_OFFSET = 2
_CHUNK_META = 3
_META_CODEC = 4
_META_UNCOMPRESSED = 6
_META_COMPRESSED = 7
_META_DATA_OFFSET = 9
_META_DICTIONARY_OFFSET = 11
_PAGE_TYPE = 1
_PAGE_UNCOMPRESSED = 2
_PAGE_COMPRESSED = 3

_CODEC_UNCOMPRESSED = 0
_CODEC_GZIP = 2
_DATA_PAGE = 0
_DICTIONARY_PAGE = 2
# What refers to places in the file that move, or to bytes that change, and is not set anew here:
# page indexes, index pages, Parquet's own bloom filters, checksums.
_CHUNK_FIELDS = frozenset({_CHUNK_OFFSET, _CHUNK_META})
_META_MOVED = frozenset({10, 14, 15})
_PAGE_CHECKSUM = 4

# A struct: (type, value) by field number.
_Fields = dict[int, tuple[int, Any]]


class _UnknownShapeError(Exception):
    """The file has something that would not survive."""


def gzip_pages(data: bytes) -> bytes | None:
    """Compress all pages of an uncompressed Parquet file.

    Args:
        data: a file as Arrow writes it without compression, data pages of version 1.

    Returns:
        The same file with codec GZIP; None if it has parts that this cannot carry over.
    """
    (length,) = struct.unpack("<I", data[-8:-4])
    footer = _Reader(data, len(data) - 8 - length).fields()
    out = bytearray(_MAGIC)
    try:
        for group in footer[_FILE_ROW_GROUPS][1][1]:
            _zip_group(group, data, out)
    except _UnknownShapeError:
        return None
    start = len(out)
    _write_fields(out, footer)
    return b"".join((out, struct.pack("<I", len(out) - start), _MAGIC))


def _zip_group(group: _Fields, data: bytes, out: bytearray) -> None:
    """Append the pages of a row group, and set the group's sizes and places."""
    start = len(out)
    metas = []
    for chunk in group[_GROUP_COLUMNS][1][1]:
        if not chunk.keys() <= _CHUNK_FIELDS:
            raise _UnknownShapeError
        meta = chunk[_CHUNK_META][1]
        chunk_start = len(out)
        _zip_chunk(meta, data, out)
        metas.append(meta)
        if chunk[_CHUNK_OFFSET][1]:
            _put(chunk, _CHUNK_OFFSET, chunk_start)
    _put(group, _GROUP_BYTES, sum(meta[_META_UNCOMPRESSED][1] for meta in metas))
    _put(group, _GROUP_COMPRESSED, sum(meta[_META_COMPRESSED][1] for meta in metas))
    _put(group, _GROUP_OFFSET, start)


def _zip_chunk(meta: _Fields, data: bytes, out: bytearray) -> None:
    """Append the pages of a column chunk, and set the chunk's codec, sizes and places."""
    if meta[_META_CODEC][1] != _CODEC_UNCOMPRESSED or meta.keys() & _META_MOVED:
        raise _UnknownShapeError
    first = _META_DICTIONARY_OFFSET if _META_DICTIONARY_OFFSET in meta else _META_DATA_OFFSET
    at = meta[first][1]
    end = at + meta[_META_COMPRESSED][1]
    start, raw = len(out), 0
    places: dict[int, int] = {}
    while at < end:
        reader = _Reader(data, at)
        header = reader.fields()
        kind, size = header[_PAGE_TYPE][1], header[_PAGE_COMPRESSED][1]
        if kind not in (_DATA_PAGE, _DICTIONARY_PAGE) or _PAGE_CHECKSUM in header:
            raise _UnknownShapeError
        at = reader.at + size
        page = isal_zlib.compress(memoryview(data)[reader.at : at], _LEVEL, _GZIP_WBITS)
        places.setdefault(kind, len(out))
        _put(header, _PAGE_COMPRESSED, len(page))
        before = len(out)
        _write_fields(out, header)
        raw += len(out) - before + size
        out += page
    _put(meta, _META_CODEC, _CODEC_GZIP)
    _put(meta, _META_COMPRESSED, len(out) - start)
    _put(meta, _META_UNCOMPRESSED, raw)
    if _DATA_PAGE in places:
        _put(meta, _META_DATA_OFFSET, places[_DATA_PAGE])
    if _DICTIONARY_PAGE in places:
        _put(meta, _META_DICTIONARY_OFFSET, places[_DICTIONARY_PAGE])


def _put(fields: _Fields, number: int, value: int) -> None:
    """Set a number, where the field is present."""
    if number in fields:
        fields[number] = (fields[number][0], value)


class _Reader:
    """Reads Thrift's compact protocol from a place in trusted bytes."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def _take(self, length: int) -> bytes:
        self.at += length
        return self._data[self.at - length : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def fields(self) -> _Fields:
        """A struct."""
        found: _Fields = {}
        number = 0
        while head := self._data[self.at]:
            self.at += 1
            number = number + (head >> 4) if head >> 4 else self._number()
            found[number] = (head & 15, self._value(head & 15))
        self.at += 1
        return found

    def _value(self, kind: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._number()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.fields()
        if kind == _LIST:
            head = self._take(1)[0]
            count = head >> 4 if head >> 4 != _LONG_LIST else self._varint()
            return head & 15, [self._value(head & 15) for _ in range(count)]
        # A boolean's value is its type.
        return self._take({_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}[kind])


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_fields(out: bytearray, fields: _Fields) -> None:
    last = 0
    for number, (kind, value) in fields.items():
        if 0 < number - last <= 15:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_varint(out, number << 1)
        _write_value(out, kind, value)
        last = number
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (_I16, _I32, _I64):
        _write_varint(out, (value << 1) ^ (value >> 63))
    elif kind == _BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == _STRUCT:
        _write_fields(out, value)
    elif kind == _LIST:
        member, values = value
        out.append(min(len(values), _LONG_LIST) << 4 | member)
        if len(values) >= _LONG_LIST:
            _write_varint(out, len(values))
        for one in values:
            _write_value(out, member, one)
    else:
        out += value
