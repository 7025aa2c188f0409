"""Field numbers of the structs in a Parquet file, and where a column chunk starts.

Source: parquet.thrift of Apache Parquet.
"""

from __future__ import annotations

from keymark.table.format.parquet.thrift import Fields

FILE_SCHEMA, FILE_ROWS, FILE_ROW_GROUPS, FILE_ENTRIES = 2, 3, 4, 5
GROUP_COLUMNS, GROUP_BYTES, GROUP_ROWS, GROUP_OFFSET, GROUP_COMPRESSED, GROUP_ORDINAL = (
    *(1, 2, 3),
    *(5, 6, 7),
)
CHUNK_OFFSET, CHUNK_META = 2, 3
META_PATH, META_CODEC, META_UNCOMPRESSED, META_COMPRESSED = 3, 4, 6, 7
META_DATA_OFFSET, META_DICTIONARY_OFFSET = 9, 11

CHUNK_FIELDS = frozenset({CHUNK_OFFSET, CHUNK_META})
"""All others of a column chunk refer to page indexes or encryption"""
META_PLACES = frozenset({10, 14, 15})
"""Fields of ColumnMetaData that refer to index pages and to Parquet's own bloom filters"""


def chunk_start(meta: Fields) -> int:
    """Offset of the first page of a column chunk."""
    start: int = meta[META_DATA_OFFSET][1]
    if META_DICTIONARY_OFFSET in meta:
        start = min(start, meta[META_DICTIONARY_OFFSET][1])
    return start
