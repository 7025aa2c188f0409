"""The row count of a Parquet file, from the first bytes of its footer.

The footer is a Thrift struct in the compact protocol whose first fields are version, schema and
number of rows (FileMetaData of parquet.thrift). What follows, with Hudi's bloom filter of some
hundred kilobytes, is neither read nor parsed.
"""

from __future__ import annotations

from keymark.table.errors import CorruptFileError
from keymark.table.format.coding import ByteCursor
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.format.parquet.footer_place import find_footer
from keymark.table.storage.storage import RangeReader

# Holds version, schema and row count of a file with a few hundred columns.
_HEAD_BYTES = 1 << 14

_NUM_ROWS = 3
# Types of the compact protocol; a boolean's value is its type.
_BOOLEANS = (1, 2)
_BYTE = 3
_NUMBERS = (4, 5, 6)
_DOUBLE = 7
_BINARY = 8
_LISTS = (9, 10)
_STRUCT = 12
_LONG_LIST = 15
_DEPTH_MAX = 16


def row_count(source: RangeReader) -> int:
    """Rows of a Parquet file.

    Raises:
        CorruptFileError: no Parquet file, or a damaged footer.
    """
    offset, length = find_footer(source)
    head = source.read(offset, min(length, _HEAD_BYTES))
    try:
        rows = _rows(ByteCursor(head, source.name))
    except CorruptFileError:
        if length <= _HEAD_BYTES:
            raise
        # A schema longer than what was read: Arrow reads the whole footer.
        return read_footer(source).num_rows
    if rows < 0:
        raise CorruptFileError(source.name, offset, f"a file of {rows} rows")
    return rows


def _rows(cursor: ByteCursor) -> int:
    number = 0
    while True:
        head = cursor.take(1)[0]
        number = _next(cursor, head, number)
        if not head or number > _NUM_ROWS:
            cursor.fail("a footer without row count")
        if number == _NUM_ROWS and head & 15 in _NUMBERS:
            value = cursor.varint()
            return (value >> 1) ^ -(value & 1)
        _skip(cursor, head & 15, 0)


def _next(cursor: ByteCursor, head: int, number: int) -> int:
    """The number of the field that `head` starts."""
    if head >> 4 or not head:
        return number + (head >> 4)
    value = cursor.varint()
    return (value >> 1) ^ -(value & 1)


def _skip(cursor: ByteCursor, kind: int, depth: int) -> None:
    """Pass over a value."""
    if kind in _BOOLEANS:
        return
    if kind in _NUMBERS:
        cursor.varint()
    elif kind == _BYTE:
        cursor.take(1)
    elif kind == _DOUBLE:
        cursor.take(8)
    elif kind == _BINARY:
        cursor.take(cursor.varint())
    elif depth > _DEPTH_MAX:
        cursor.fail("structs nested too deeply")
    elif kind == _STRUCT:
        while head := cursor.take(1)[0]:
            _next(cursor, head, 0)
            _skip(cursor, head & 15, depth + 1)
    elif kind in _LISTS:
        _skip_list(cursor, depth)
    else:
        cursor.fail(f"a field of type {kind}")


def _skip_list(cursor: ByteCursor, depth: int) -> None:
    head = cursor.take(1)[0]
    count = cursor.varint() if head >> 4 == _LONG_LIST else head >> 4
    if count > cursor.remaining:
        cursor.fail(f"a list of {count} values in {cursor.remaining} bytes")
    for _ in range(count):
        if head & 15 in _BOOLEANS:
            cursor.take(1)
        else:
            _skip(cursor, head & 15, depth + 1)
