"""A string column that Parquet stores plainly, read without Arrow.

    data page, version 1:   [int32 n | n bytes of definition levels] int32 length | bytes, ...

Record keys are unique, so that writers give them no dictionary. Such pages are inflated by ISA-L
and taken apart here in half of the time that Arrow needs for a column of keys. Whatever is stored
in another way is left to Arrow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.format.kernels.compiled import kernel
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.column_chunks import ColumnChunk, check_chunk, column_chunks
from keymark.table.format.parquet.page_scan import DATA_PAGE, scan_pages
from keymark.table.format.parquet.pages import decompress
from keymark.table.storage.storage import RangeReader

_PLAIN, _RLE = 0, 3
_ENCODINGS = frozenset({"PLAIN", "RLE", "BIT_PACKED"})
_LENGTH_BYTES = 4


def plain_strings(
    source: RangeReader, metadata: pq.FileMetaData, column: str
) -> list[pa.Array] | None:
    """The values of a top-level string column, if all of them are stored plainly.

    Args:
        source: the file.
        metadata: of its footer.
        column: name of the column.

    Returns:
        Arrays of string; None where only Arrow can read the column, or it holds nulls.

    Raises:
        CorruptFileError: headers and pages are not as they say of each other.
        UnsupportedTableError: compressed by a codec that is not read.
    """
    # Not by metadata.schema: the two would refer to each other, and stay with the bloom filter of
    # the footer until the garbage collector comes around.
    checksums = Checksums.of(metadata.metadata)
    arrays: list[pa.Array] = []
    for place in column_chunks(metadata, [column]):
        chunk = place.metadata
        plain = chunk.path_in_schema == column and chunk.physical_type == "BYTE_ARRAY"
        found = _chunk(source, place, checksums) if plain else None
        if found is None or sum(map(len, found)) != chunk.num_values:
            return None
        arrays += found
    return arrays or None


def _chunk(
    source: RangeReader, place: ColumnChunk, checksums: Checksums | None
) -> list[pa.Array] | None:
    chunk = place.metadata
    plain = not chunk.has_dictionary_page and _ENCODINGS.issuperset(chunk.encodings)
    counted = chunk.statistics
    if counted is None or not counted.has_null_count or counted.null_count:
        return None
    if not plain:
        return None
    data = source.read(place.start, place.size)
    check_chunk(place, data, checksums, source.name)
    arrays = []
    start, end = np.zeros(1, np.int64), np.full(1, len(data))
    for page in scan_pages(np.frombuffer(data, np.uint8), start, ends=end, name=source.name):
        if (page.kind, page.encoding, page.levels) != (DATA_PAGE, _PLAIN, _RLE):
            return None
        where = (source.name, page.page)
        text = decompress(chunk.compression, data[page.page : page.end], page.uncompressed, where)
        array = strings_of_page(text, page.values)
        if array is None:
            return None
        arrays.append(array)
    return arrays


def strings_of_page(page: bytes, count: int) -> pa.Array | None:
    """The strings of a plain page, None if they are not as many as its header says.

    Definition levels look like one string more, before the others; the caller knows that no null
    makes up for it. Strings need not be UTF-8.
    """
    if not 0 <= count * _LENGTH_BYTES <= len(page):
        return None
    offsets = np.empty(count + 1, np.int32)
    text = np.empty(len(page) - count * _LENGTH_BYTES, np.uint8)
    data = np.frombuffer(page, np.uint8)
    levels = _LENGTH_BYTES + int.from_bytes(page[:_LENGTH_BYTES], "little")
    if not _split(data, levels, offsets, text) and not _split(data, 0, offsets, text):
        return None
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


@kernel
def _split(
    page: npt.NDArray[np.uint8],
    start: int,
    offsets: npt.NDArray[np.int32],
    text: npt.NDArray[np.uint8],
) -> bool:
    """Copy the strings behind their lengths; False if they do not fill the page exactly."""
    at, out = start, 0
    offsets[0] = 0
    for row in range(len(offsets) - 1):
        if at + _LENGTH_BYTES > len(page):
            return False
        length: Any = 0
        for byte in range(_LENGTH_BYTES):
            length |= np.int64(page[np.uint64(at + byte)]) << (8 * byte)
        at += _LENGTH_BYTES
        if length > len(page) - at or length > len(text) - out:
            return False
        source, target = np.uint64(at), np.uint64(out)
        for byte in range(np.uint64(length)):
            text[target + byte] = page[source + byte]
        at += length
        out += length
        offsets[row + 1] = out
    return at == len(page)
