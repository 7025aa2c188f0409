"""The pages of a Parquet file, one by one, as bytes: what no reader of columns ever shows.

    column chunk: page header, page, page header, page, ...

A dictionary may hold values that no row refers to, so a search for bytes that a file holds has
to look into its pages. Headers are Thrift structs in the compact protocol (PageHeader in
parquet.thrift of Apache Parquet); the footer is read by Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from keymark.table.errors import CorruptFileError, UnsupportedTableError
from keymark.table.format.parquet.thrift import ThriftReader

_GZIP_WBITS = 31
_GZIP_ERROR: Any = isal_zlib.error
# Bytes of the largest page, where writers aim at one megabyte, and values of the largest header.
PAGE_BYTES_MAX = 1 << 28
_HEADER_VALUES_MAX = 1 << 10

# Field numbers of PageHeader and DataPageHeaderV2.
UNCOMPRESSED, _COMPRESSED, _VERSION_2 = 2, 3, 8
_DEFINITION_BYTES, _REPETITION_BYTES, _IS_COMPRESSED = 5, 6, 7
_CODECS = {"SNAPPY": "snappy", "ZSTD": "zstd", "BROTLI": "brotli", "LZ4": "lz4_raw"}


def pages(data: bytes, metadata: pq.FileMetaData, name: str) -> Iterator[bytes]:
    """The uncompressed bytes of every page.

    Args:
        data: the whole file.
        metadata: of its footer.
        name: the file, for errors.

    Raises:
        CorruptFileError: headers and pages contradict each other.
        UnsupportedTableError: compressed by a codec that is not read.
    """
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            start = chunk_start(chunk)
            end = start + chunk.total_compressed_size
            if not 0 <= start <= end <= len(data):
                raise CorruptFileError(name, 0, f"a column chunk from {start} to {end}")
            for _, page in chunk_pages(data, range(start, end), chunk.compression, name):
                yield page


def chunk_start(chunk: pq.ColumnChunkMetaData) -> int:
    """Offset of the first page of a column chunk.

    For a chunk without values Arrow says that data pages start at 0.
    """
    starts = [chunk.data_page_offset]
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        starts.append(chunk.dictionary_page_offset)
    return int(min(filter(None, starts), default=0))


def chunk_pages(
    data: bytes, place: range, codec: str, name: str
) -> Iterator[tuple[dict[int, Any], bytes]]:
    """The pages of a column chunk: header by field number, and uncompressed bytes.

    Args:
        data: the file, or a part of it.
        place: where the chunk is in it.
        codec: by its name in the footer.
        name: the file, for errors.

    Raises:
        CorruptFileError: headers and pages contradict each other.
        UnsupportedTableError: compressed by a codec that is not read.
    """
    for header, start, end in page_headers(data, place, name):
        size, full = end - start, header[UNCOMPRESSED]
        second = header.get(_VERSION_2)
        if not isinstance(second, dict):
            yield header, decompress(codec, data[start:end], full, (name, start))
            continue
        # Levels come first and are not compressed in the second version of data pages.
        level_bytes = [second.get(field, 0) for field in (_DEFINITION_BYTES, _REPETITION_BYTES)]
        levels = sum(level_bytes) if all(isinstance(each, int) for each in level_bytes) else -1
        if not 0 <= levels <= min(size, full):
            raise CorruptFileError(
                name, start, f"levels of {level_bytes} bytes in a page of {size}"
            )
        plain = second.get(_IS_COMPRESSED, True) is False
        values = data[start + levels : end]
        used = "UNCOMPRESSED" if plain else codec
        found = decompress(used, values, full - levels, (name, start))
        yield header, data[start : start + levels] + found


def page_headers(data: bytes, place: range, name: str) -> Iterator[tuple[dict[int, Any], int, int]]:
    """The page headers of a column chunk, and where in the data each page starts and ends.

    Args:
        data: the file, or a part of it.
        place: where the chunk is in it.
        name: the file, for errors.

    Raises:
        CorruptFileError: headers and pages contradict each other.
    """
    at = place.start
    while at < place.stop:
        reader = ThriftReader(data, name, at, most=_HEADER_VALUES_MAX)
        header = reader.plain()
        size, full = header.get(_COMPRESSED), header.get(UNCOMPRESSED)
        start = reader.at
        if not isinstance(size, int) or not 0 <= size <= place.stop - start:
            reader.fail(f"a page of {size} bytes in a chunk that ends at {place.stop}")
        if not isinstance(full, int) or not 0 <= full <= PAGE_BYTES_MAX:
            reader.fail(f"a page of {full} uncompressed bytes")
        at = start + size
        yield header, start, at


def decompress(codec: str, page: bytes, size: int, place: tuple[str, int]) -> bytes:
    """The bytes of a compressed page.

    Args:
        codec: by its name in the footer.
        page: as it is in the file.
        size: of the result, as its header says.
        place: the file and where the page is, for errors.

    Raises:
        CorruptFileError: it does not inflate to that size.
        UnsupportedTableError: compressed by a codec that is not read.
    """
    if codec == "UNCOMPRESSED" or not size:
        return page
    if codec == "GZIP":
        return inflate(page, size, place)
    if codec not in _CODECS:
        raise UnsupportedTableError(f"{place[0]}: Parquet codec {codec} is not read")
    try:
        found: bytes = pa.Codec(_CODECS[codec]).decompress(page, size, asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(*place, f"a page that does not inflate: {error}") from error
    _check_length(found, size, place)
    return found


def inflate(page: bytes | memoryview, size: int, place: tuple[str, int]) -> bytes:
    """The bytes of a page that is a gzip member; what follows it is not looked at.

    Args:
        page: as it is in the file.
        size: of the result, as its header says.
        place: the file and where the page is, for errors.

    Raises:
        CorruptFileError: it does not inflate to that size.
    """
    if not size:
        return b""
    try:
        stream = isal_zlib.decompressobj(_GZIP_WBITS)
        # One byte more than there should be, so that the stream comes to its checksum.
        found = bytes(stream.decompress(page, size + 1))
    except _GZIP_ERROR as error:
        raise CorruptFileError(*place, f"a page that does not inflate: {error}") from error
    if not stream.eof:
        raise CorruptFileError(*place, "a page whose gzip stream does not end")
    _check_length(found, size, place)
    return found


def _check_length(page: bytes, size: int, place: tuple[str, int]) -> None:
    if len(page) != size:
        raise CorruptFileError(*place, f"a page of {len(page)} bytes, its header says {size}")
