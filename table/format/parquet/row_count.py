"""The row count of a Parquet file, from the first bytes of its footer.

The footer is a Thrift struct in the compact protocol whose first fields are version, schema and
number of rows (FileMetaData of parquet.thrift). What follows, with Hudi's bloom filter of some
hundred kilobytes, is neither read nor parsed.
"""

from __future__ import annotations

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.format.parquet.footer_place import find_footer
from keymark.table.format.parquet.thrift import I32, I64, ThriftReader
from keymark.table.storage.storage import RangeReader

# Holds version, schema and row count of a file with a few hundred columns.
_HEAD_BYTES = 1 << 14

_NUM_ROWS = 3


def row_count(source: RangeReader) -> int:
    """Rows of a Parquet file.

    Raises:
        CorruptFileError: no Parquet file, or a damaged footer.
    """
    offset, length = find_footer(source)
    head = source.read(offset, min(length, _HEAD_BYTES))
    try:
        rows = _rows(ThriftReader(head, source.name, origin=offset))
    except CorruptFileError:
        if length <= _HEAD_BYTES:
            raise
        # A schema longer than what was read: Arrow reads the whole footer.
        return read_footer(source).num_rows
    if rows < 0:
        raise CorruptFileError(source.name, offset, f"a file of {rows} rows")
    return rows


def _rows(reader: ThriftReader) -> int:
    kind, number = reader.field(0)
    while kind and number < _NUM_ROWS:
        reader.value(kind)
        kind, number = reader.field(number)
    if number != _NUM_ROWS or kind not in (I32, I64):
        reader.fail("a footer without row count")
    return reader.integer()
