"""Column chunks of a base file, checked before anyone decodes them.

Files of Keymark's have a checksum for each chunk. In others, page headers are compared with the
footer: their sizes bound what a decoder allocates, and their counts show damage. What is in a
page of theirs is known to be right if it is compressed by gzip, which has a checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.pages import chunk_start, page_headers
from keymark.table.storage.storage import RangeReader

# Field numbers of PageHeader, and of the headers in it.
_TYPE, _UNCOMPRESSED = 1, 2
_VALUES, _LEVELS = 1, (3, 4)
_RLE, _BIT_PACKED = 3, 4
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_2 = 0, 2, 3
_HEADERS = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_2: 8}


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column chunk: its number in the footer, what the footer says about it, and its place."""

    number: int
    metadata: pq.ColumnChunkMetaData
    start: int
    size: int


def column_chunks(
    metadata: pq.FileMetaData,
    columns: Sequence[str] | None,
    groups: Sequence[int] | None = None,
) -> Iterator[ColumnChunk]:
    """The chunks of a file.

    Args:
        metadata: of its footer, which was checked.
        columns: names of top-level columns; None for all.
        groups: numbers of row groups; None for all.
    """
    wanted: list[int] = []
    for group in range(metadata.num_row_groups) if groups is None else groups:
        row_group = metadata.row_group(group)
        # All row groups have the same columns.
        wanted = wanted or _places_of(row_group, columns)
        for column in wanted:
            chunk = row_group.column(column)
            number = group * metadata.num_columns + column
            yield ColumnChunk(number, chunk, chunk_start(chunk), chunk.total_compressed_size)


def _places_of(group: pq.RowGroupMetaData, columns: Sequence[str] | None) -> list[int]:
    """The numbers of the leaf columns below some top-level columns; None for all."""
    if columns is None:
        return list(range(group.num_columns))
    below = tuple(f"{name}." for name in columns)
    paths = [group.column(number).path_in_schema for number in range(group.num_columns)]
    return [number for number, path in enumerate(paths) if f"{path}.".startswith(below)]


def check_chunk(
    chunk: ColumnChunk, data: bytes | memoryview, checksums: Checksums | None, name: str
) -> None:
    """Check a chunk.

    Args:
        chunk: the chunk.
        data: its bytes.
        checksums: of the file, where it has some.
        name: the file, for errors.

    Raises:
        CorruptFileError: the chunk is damaged.
    """
    if len(data) != chunk.size:
        detail = f"{chunk.size} bytes expected, {len(data)} could be read"
        raise CorruptFileError(name, chunk.start, detail)
    if checksums is not None:
        checksums.check(chunk.number, data, name, chunk.start)
        return
    left, values = chunk.metadata.total_uncompressed_size, 0
    for header, start, _ in page_headers(bytes(data), range(chunk.size), name):
        kind = header.get(_TYPE)
        inner = header.get(_HEADERS.get(kind, -1)) if isinstance(kind, int) else None
        if not isinstance(inner, dict):
            raise CorruptFileError(name, chunk.start + start, f"a page of type {kind}")
        left -= header[_UNCOMPRESSED]
        count = inner.get(_VALUES)
        if not isinstance(count, int) or count < 0 or left < 0:
            detail = "a page of more values or bytes than its column chunk"
            raise CorruptFileError(name, chunk.start + start, detail)
        if kind == _DATA_PAGE and any(inner.get(n) not in (_RLE, _BIT_PACKED) for n in _LEVELS):
            raise CorruptFileError(name, chunk.start + start, "levels of an unknown encoding")
        values += 0 if kind == _DICTIONARY_PAGE else count
    if values != chunk.metadata.num_values:
        detail = f"{values} values in the pages, the footer says {chunk.metadata.num_values}"
        raise CorruptFileError(name, chunk.start, detail)


@dataclass(slots=True)
class CheckedFile:
    """A file object for Arrow: checked chunks from memory, all else by ranged reads."""

    source: RangeReader
    chunks: dict[int, bytes] = field(default_factory=dict)
    closed: bool = False
    _at: int = 0

    def read(self, length: int = -1) -> bytes:
        """The next bytes."""
        if length < 0:
            length = self.source.size - self._at
        known = self.chunks.get(self._at, b"")
        data = known[:length] if len(known) >= length else self.source.read(self._at, length)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        self._at = offset + (0, self._at, self.source.size)[whence]
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """No."""
        return False

    def flush(self) -> None:
        """Nothing is ever written."""

    def close(self) -> None:
        """Nothing is open."""
        self.closed = True


@dataclass(frozen=True, slots=True)
class HeldChunks:
    """Ranged reads of a file, of whose chunks some are in memory: they are not read again."""

    source: RangeReader
    chunks: Mapping[int, bytes]

    @property
    def name(self) -> str:
        """The file's path, for errors."""
        return self.source.name

    @property
    def size(self) -> int:
        """Length of the file in bytes."""
        return self.source.size

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes of the range, cut at the end."""
        held = self.chunks.get(offset, b"")
        return held[:length] if len(held) >= length else self.source.read(offset, length)
