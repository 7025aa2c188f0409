"""How large a Parquet file becomes in memory, found before Arrow decodes it.

A dictionary of one long value and a run of its number describe gigabytes in a few bytes. Footers
tell how many values a column chunk has; the lengths of values stand in the dictionary alone.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.column_chunks import column_chunks
from keymark.table.format.parquet.page_scan import DICTIONARY_PAGE, Page, scan_pages
from keymark.table.format.parquet.pages import decompress
from keymark.table.storage.storage import BytesReader, RangeReader

MOST_BYTES = 256 << 20
"""That any file may have decoded"""
MOST_RATIO = 1000
"""Decoded bytes for each byte of a larger file"""
_TEXT_BYTES = {"BOOLEAN": 9, "INT32": 15, "INT64": 24, "INT96": 34, "FLOAT": 20, "DOUBLE": 28}
"""What one value takes as text, with its offset: any column may be a record key."""
_OFFSET_BYTES = 8
"""What a text takes that is empty or null, with its levels while it is decoded"""
_DICTIONARY_BYTES = 1 << 26


def check_size(
    source: RangeReader,
    metadata: pq.FileMetaData,
    columns: Sequence[str],
    *,
    groups: Sequence[int] | None = None,
) -> None:
    """Refuse a file whose columns may decode to far more than its size explains.

    Args:
        source: the file.
        metadata: its footer.
        columns: the top-level columns that will be read.
        groups: the row groups that will be read; None for all.

    Raises:
        CorruptFileError: they do, or a dictionary is damaged.
    """
    most = max(MOST_BYTES, MOST_RATIO * source.size)
    total = 0
    doubtful: list[str] = []
    # `metadata.schema` would be in a circle with the footer, which only a collection frees.
    schema = pq.ParquetSchema(metadata)
    for place in column_chunks(metadata, columns, groups):
        chunk = place.metadata
        total += chunk.num_values * _TEXT_BYTES.get(chunk.physical_type, _OFFSET_BYTES)
        if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
            total += chunk.num_values * schema.column(place.number % len(schema)).length
        if chunk.physical_type != "BYTE_ARRAY":
            continue
        texts = _of_dictionary(source, chunk, most)
        # Of texts in lists and structs nothing more exact can be found.
        if texts > MOST_BYTES and "." not in chunk.path_in_schema:
            doubtful.append(chunk.path_in_schema)
        else:
            total += texts
    if total > most:
        _refuse(source, total)
    for path in dict.fromkeys(doubtful):
        total += _decoded(source, metadata, path)
        if total > most:
            _refuse(source, total)


def _refuse(source: RangeReader, size: int) -> None:
    raise CorruptFileError(
        source.name, 0, f"{source.size:,} bytes would become {size:,} in memory: a file this small "
        f"may hold at most {MOST_BYTES:,}, a larger one {MOST_RATIO:,} times its size"
    )  # fmt: skip


def _of_dictionary(source: RangeReader, chunk: pq.ColumnChunkMetaData, most: int) -> int:
    """The most that the values of a chunk can take, if all are the longest of its dictionary."""
    if not chunk.num_values:
        return 0
    # Arrow starts at the first of both.
    start, end = chunk.dictionary_page_offset or 0, chunk.data_page_offset
    start = start if 0 < start < end else end
    if end - start > _DICTIONARY_BYTES:
        return most
    found = None
    if start < end:
        with contextlib.suppress(CorruptFileError):
            found = _find_dictionary(source, start, end - start)
    # Arrow takes a dictionary wherever it is among the pages: the footer need not tell of it.
    found = found or _find_dictionary(source, start, chunk.total_compressed_size)
    if found is None:
        return 0
    header, data = found
    if len(data) > _DICTIONARY_BYTES:
        return most
    # A page becomes as long as its header says, or it is refused; one that is not compressed is as
    # long as it is, whatever its header says.
    if chunk.num_values * max(header.uncompressed, len(data)) <= MOST_BYTES:
        return 0
    page = decompress(chunk.compression, data, header.uncompressed, (source.name, start))
    longest, at = 0, 0
    while at + 4 <= len(page):
        (length,) = struct.unpack_from("<I", page, at)
        longest, at = max(longest, length), at + 4 + length
    return int(chunk.num_values) * min(longest, len(page))


def _find_dictionary(source: RangeReader, start: int, size: int) -> tuple[Page, bytes] | None:
    """The dictionary among the pages in a stretch of a file, as it is there; None without one.

    A chunk has no second one, or Arrow refuses it.
    """
    if isinstance(source, BytesReader):
        # A chunk in memory is not copied.
        data = np.frombuffer(memoryview(source.data)[start : start + size], np.uint8)
    else:
        data = np.frombuffer(source.read(start, size), np.uint8)
    ends = np.full(1, len(data))
    for page in scan_pages(data, np.zeros(1, np.int64), ends=ends, name=source.name):
        if page.kind == DICTIONARY_PAGE:
            return page, data[page.page : page.end].tobytes()
    return None


def _decoded(source: RangeReader, metadata: pq.FileMetaData, path: str) -> int:
    """The bytes of a text column's values, found without decoding its dictionaries."""
    data = pa.BufferReader(source.read(0, source.size))
    file = pq.ParquetFile(data, metadata=metadata, read_dictionary=[path], pre_buffer=False)
    total = 0
    for group in range(metadata.num_row_groups):
        for batch in file.iter_batches(1 << 16, [group], [path], use_threads=False):
            column = batch.column(0)
            if not pa.types.is_dictionary(column.type):
                total += column.nbytes
                continue
            lengths = pc.binary_length(column.dictionary)
            total += pc.sum(lengths.take(column.indices)).as_py() or 0
    return total
