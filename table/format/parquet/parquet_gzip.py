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

from isal import isal_zlib

from keymark.table.format.parquet.checksums import close_file
from keymark.table.format.parquet.thrift import Fields, ThriftReader, write_struct

_MAGIC = b"PAR1"
_GZIP_WBITS = 31
_LEVEL = 1

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

_NAME = "a file that was just written"


class _UnknownShapeError(Exception):
    """The file has something that would not survive."""


def gzip_pages(data: bytes, path: str | None = None) -> bytes | None:
    """Compress all pages of an uncompressed Parquet file.

    Args:
        data: a file as Arrow writes it without compression, data pages of version 1.
        path: of the file in its table; its footer gets its checksums then.

    Returns:
        The same file with codec GZIP; None if it has parts that this cannot carry over.
    """
    footer, _ = _footer(data)
    out = bytearray(_MAGIC)
    try:
        for group in footer[_FILE_ROW_GROUPS][1][1]:
            _zip_group(group, data, out)
    except _UnknownShapeError:
        return None
    return close_file(out, footer, path)


def with_checksums(data: bytes, path: str) -> bytes:
    """A Parquet file as Arrow writes it, with its checksums in the footer.

    Args:
        data: the file.
        path: of the file in its table.
    """
    footer, start = _footer(data)
    return close_file(bytearray(memoryview(data)[:start]), footer, path)


def _footer(data: bytes) -> tuple[Fields, int]:
    """The footer of a file that was just written, and where it starts."""
    (length,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - length
    return ThriftReader(data, _NAME, start, most=len(data)).struct(), start


def _zip_group(group: Fields, data: bytes, out: bytearray) -> None:
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


def _zip_chunk(meta: Fields, data: bytes, out: bytearray) -> None:
    """Append the pages of a column chunk, and set the chunk's codec, sizes and places."""
    if meta[_META_CODEC][1] != _CODEC_UNCOMPRESSED or meta.keys() & _META_MOVED:
        raise _UnknownShapeError
    first = _META_DICTIONARY_OFFSET if _META_DICTIONARY_OFFSET in meta else _META_DATA_OFFSET
    at = meta[first][1]
    end = at + meta[_META_COMPRESSED][1]
    start, raw = len(out), 0
    places: dict[int, int] = {}
    while at < end:
        reader = ThriftReader(data, _NAME, at)
        header = reader.struct()
        kind, size = header[_PAGE_TYPE][1], header[_PAGE_COMPRESSED][1]
        if kind not in (_DATA_PAGE, _DICTIONARY_PAGE) or _PAGE_CHECKSUM in header:
            raise _UnknownShapeError
        at = reader.at + size
        page = isal_zlib.compress(memoryview(data)[reader.at : at], _LEVEL, _GZIP_WBITS)
        places.setdefault(kind, len(out))
        _put(header, _PAGE_COMPRESSED, len(page))
        before = len(out)
        write_struct(out, header)
        raw += len(out) - before + size
        out += page
    _put(meta, _META_CODEC, _CODEC_GZIP)
    _put(meta, _META_COMPRESSED, len(out) - start)
    _put(meta, _META_UNCOMPRESSED, raw)
    if _DATA_PAGE in places:
        _put(meta, _META_DATA_OFFSET, places[_DATA_PAGE])
    if _DICTIONARY_PAGE in places:
        _put(meta, _META_DICTIONARY_OFFSET, places[_DICTIONARY_PAGE])


def _put(fields: Fields, number: int, value: int) -> None:
    """Set a number, where the field is present."""
    if number in fields:
        fields[number] = (fields[number][0], value)
