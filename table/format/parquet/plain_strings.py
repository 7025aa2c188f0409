"""A string column that Parquet stores plainly, read without Arrow.

    data page, version 1:   [int32 n | n bytes of definition levels] int32 length | bytes, ...

Record keys are unique, so that writers give them no dictionary. Such pages are inflated by ISA-L
and taken apart here in half of the time that Arrow needs for a column of keys. Whatever is stored
in another way is left to Arrow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError
from keymark.table.format.kernels.compiled import kernel
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.column_chunks import ColumnChunk, check_chunk, column_chunks
from keymark.table.format.parquet.page_scan import DATA_PAGE, scan_pages
from keymark.table.format.parquet.pages import decompress
from keymark.table.storage.storage import Mappable, RangeReader

_PLAIN, _RLE = 0, 3
_KNOWN = (DATA_PAGE, _PLAIN, _RLE)
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
        CorruptFileError: headers and pages contradict each other.
        UnsupportedTableError: compressed by a codec that is not read.
    """
    # Not by metadata.schema: the two would refer to each other, and stay with the bloom filter of
    # the footer until the garbage collector comes around.
    checksums = Checksums.of(metadata.metadata)
    arrays: list[pa.Array] = []
    for place in column_chunks(metadata, [column]):
        found = None
        if _is_plain(place.metadata, column):
            found = _chunk(source, place, checksums)
        if found is None or sum(map(len, found)) != place.metadata.num_values:
            return None
        arrays += found
    return arrays or None


def plain_pages(
    source: RangeReader,
    metadata: pq.FileMetaData,
    column: str,
    wanted: Callable[[int, int], bool],
) -> list[tuple[int, pa.Array]] | None:
    """The values of some pages of a top-level string column; others are not inflated.

    On a local disk they are not even read, if each page has the checksum that gzip gives it.

    Args:
        source: the file.
        metadata: of its footer.
        column: name of the column.
        wanted: whether a page is, by its first row and the row behind its last.

    Returns:
        For each page its first row, and its values. None where only Arrow can read the column, it
        holds nulls, or most pages are wanted.

    Raises:
        CorruptFileError: headers and pages contradict each other.
        UnsupportedTableError: compressed by a codec that is not read.
    """
    checksums = Checksums.of(metadata.metadata)
    found: list[tuple[int, pa.Array]] = []
    row = 0
    for place in column_chunks(metadata, [column]):
        if not _is_plain(place.metadata, column):
            return None
        with _bytes_of(source, place, checksums) as data:
            pages = _wanted_pages(source.name, place, data, row, wanted)
        if pages is None:
            return None
        found += pages
        row += place.metadata.num_values
    return found


@contextlib.contextmanager
def _bytes_of(
    source: RangeReader, place: ColumnChunk, checksums: Checksums | None
) -> Iterator[npt.NDArray[np.uint8]]:
    """The bytes of a chunk: read and checked, or mapped where its pages have checksums."""
    if place.metadata.compression != "GZIP" or not isinstance(source, Mappable):
        data = source.read(place.start, place.size)
        check_chunk(place, data, checksums, source.name)
        yield np.frombuffer(data, np.uint8)
        return
    if place.start + place.size > source.size:
        raise CorruptFileError(source.name, source.size, "a column chunk is cut off")
    mapped = source.map()
    try:
        yield np.frombuffer(mapped, np.uint8, place.size, place.start)
    finally:
        # An error still holds what was read: then the system takes the file back with it.
        with contextlib.suppress(BufferError):
            mapped.close()


def _wanted_pages(
    name: str,
    place: ColumnChunk,
    data: npt.NDArray[np.uint8],
    row: int,
    wanted: Callable[[int, int], bool],
) -> list[tuple[int, pa.Array]] | None:
    """The wanted strings of a chunk that begins with a row; None if it is better read whole."""
    start, end = np.zeros(1, np.int64), np.full(1, len(data))
    pages = scan_pages(data, start, ends=end, name=name)
    if any((page.kind, page.encoding, page.levels) != _KNOWN for page in pages):
        return None
    starts = np.cumsum([row, *(page.values for page in pages)]).tolist()
    if starts[-1] != row + place.metadata.num_values:
        return None
    chosen = [n for n in range(len(pages)) if wanted(starts[n], starts[n + 1])]
    if 2 * len(chosen) > len(pages):
        return None
    found = []
    for number in chosen:
        page = pages[number]
        zipped, where = data[page.page : page.end].tobytes(), (name, place.start + page.page)
        text = decompress(place.metadata.compression, zipped, page.uncompressed, where)
        values = strings_of_page(text, page.values)
        if values is None:
            return None
        found.append((starts[number], values))
    return found


def _is_plain(chunk: pq.ColumnChunkMetaData, column: str) -> bool:
    """Whether a chunk has plain texts of a top-level column, and no null."""
    counted = chunk.statistics
    without_nulls = counted is not None and counted.has_null_count and not counted.null_count
    texts = chunk.path_in_schema == column and chunk.physical_type == "BYTE_ARRAY"
    plain = not chunk.has_dictionary_page and _ENCODINGS.issuperset(chunk.encodings)
    return bool(without_nulls and texts and plain)


def _chunk(
    source: RangeReader, place: ColumnChunk, checksums: Checksums | None
) -> list[pa.Array] | None:
    data = source.read(place.start, place.size)
    check_chunk(place, data, checksums, source.name)
    arrays = []
    start, end = np.zeros(1, np.int64), np.full(1, len(data))
    for page in scan_pages(np.frombuffer(data, np.uint8), start, ends=end, name=source.name):
        if (page.kind, page.encoding, page.levels) != _KNOWN:
            return None
        where = (source.name, page.page)
        text = decompress(
            place.metadata.compression, data[page.page : page.end], page.uncompressed, where
        )
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
