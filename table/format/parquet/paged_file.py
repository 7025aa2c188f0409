"""A base file by its pages: which rows each holds, and how to read the rows of some of them.

    rows        0 .. 2047     2048 .. 4095    4096 ..
    column k    page 0        page 1          page 2
    column v    page 0        page 1          page 2        behind a dictionary, if it has one

Where columns end their pages at the same rows, a page number stands for a stretch of rows in all of
them. Pages are counted over all row groups of the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.bounds import MOST_BYTES, MOST_RATIO, check_size
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.file_body import MAGIC, ROW_GROUPS, ROWS, FileBody, end_of_file
from keymark.table.format.parquet.footer_groups import CODEC, COMPRESSED, GROUP_ROWS
from keymark.table.format.parquet.index_pages import Dictionary
from keymark.table.format.parquet.page_scan import DATA_PAGE, DICTIONARY_PAGE, Page, scan_pages
from keymark.table.format.parquet.pages import chunk_pages, decompress
from keymark.table.format.parquet.thrift import I32, I64, LIST, STRUCT
from keymark.table.format.parquet.thrift_scan import RawFields, integer, raw_list, raw_struct
from keymark.table.storage.storage import BytesReader

_Numbers = npt.NDArray[np.int64]

UNCOMPRESSED_CODEC, GZIP_CODEC = 0, 2
_CODECS = {UNCOMPRESSED_CODEC: "UNCOMPRESSED", 1: "SNAPPY", GZIP_CODEC: "GZIP", 6: "ZSTD"}
# Of data pages, in both versions of the format; and the field of a header of a dictionary page.
_DICTIONARY_ENCODINGS = (2, 8)
_DICTIONARY_HEADER = 7
# Fields of ColumnMetaData.
TYPE, ENCODINGS, PATH, CODEC_FIELD, VALUES, UNCOMPRESSED_BYTES, COMPRESSED_BYTES = range(1, 8)
DATA_OFFSET, DICTIONARY_OFFSET = 9, 11


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column chunk: its dictionary, if it has one, and its data pages."""

    dictionary: Page | None
    pages: Sequence[Page]


@dataclass(frozen=True, slots=True)
class PagedFile:
    """A base file in which all columns but some end their pages at the same rows.

    Attributes:
        name: the file, for errors.
        names: for each leaf of its schema the column that it belongs to.
        body: its bytes and its row groups.
        chunks: of each row group and column.
        starts: the first row of each page, and the number of rows. (pages + 1,).
        firsts: the first page of each row group, and the number of pages. (groups + 1,).
        metas: the ColumnMetaData of chunks, by row group and column, as far as they were looked at;
            the sets of `alike` share them.
    """

    name: str
    names: Sequence[str]
    body: FileBody
    chunks: Sequence[Sequence[Chunk]]
    starts: _Numbers
    firsts: _Numbers
    metas: dict[tuple[int, int], RawFields] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        file: BytesReader,
        checksums: Checksums,
        names: Sequence[str],
        *,
        apart: Collection[str],
    ) -> Self | None:
        """That of a file; None where its columns end their pages at different rows.

        Args:
            file: the file, whose footer was checked.
            checksums: of its column chunks.
            names: for each leaf of its schema the column that it belongs to.
            apart: the columns whose pages may end anywhere, among them all that are nested.

        Raises:
            CorruptFileError: it is damaged.
        """
        body = FileBody.of(file.data, file.name)
        if not body.groups.movable:
            return None
        chunks = _scanned(body, file)
        leaves = [number for number, name in enumerate(names) if name not in apart]
        rows = [_rows_of([members[number] for number in leaves]) for members in chunks]
        if not _are_all(rows, body):
            return None
        _check(body, checksums)
        return cls._by_pages(body, chunks, names, rows)

    @classmethod
    def alike(
        cls, file: BytesReader, checksums: Checksums, leaves: Sequence[str]
    ) -> list[tuple[list[str], Self]]:
        """The flat columns of a file in sets that end their pages at the same rows.

        Args:
            file: the file, whose footer was checked.
            checksums: of its column chunks.
            leaves: paths of the leaves of its schema, dotted.

        Returns:
            The columns of each set, and the file by their pages. Columns that are nested, or whose
            pages do not say how many rows they hold, are in no set.

        Raises:
            CorruptFileError: it is damaged.
        """
        body = FileBody.of(file.data, file.name)
        if not body.groups.movable:
            return []
        chunks = _scanned(body, file)
        _check(body, checksums)
        sets: dict[tuple[tuple[int, ...], ...], list[str]] = {}
        for number, leaf in enumerate(leaves):
            rows = tuple(tuple(_rows_of([members[number]])) for members in chunks)
            if "." not in leaf and _are_all(rows, body):
                sets.setdefault(rows, []).append(leaf)
        names = [leaf.partition(".")[0] for leaf in leaves]
        metas: dict[tuple[int, int], RawFields] = {}
        return [
            (columns, replace(cls._by_pages(body, chunks, names, rows), metas=metas))
            for rows, columns in sets.items()
        ]

    @classmethod
    def _by_pages(
        cls,
        body: FileBody,
        chunks: Sequence[Sequence[Chunk]],
        names: Sequence[str],
        rows: Sequence[Sequence[int]],
    ) -> Self:
        """The file by pages of so many rows, in each row group."""
        return cls(
            name=body.name,
            names=names,
            body=body,
            chunks=chunks,
            starts=np.cumsum([0, *itertools.chain.from_iterable(rows)]),
            firsts=np.cumsum([0, *map(len, rows)]),
        )

    def by_group(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """Pages as numbers within their row group, by row group."""
        found: dict[int, list[int]] = {}
        owners = np.searchsorted(self.firsts, numbers, side="right") - 1
        for number, group in zip(numbers, owners.tolist(), strict=True):
            found.setdefault(group, []).append(number - int(self.firsts[group]))
        return found

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """The rows of some pages.

        Args:
            numbers: of the pages, ascending.
            columns: names of the columns to read, whose pages end at the same rows.

        Raises:
            CorruptFileError: the pages are damaged.
        """
        data = self._part(numbers, set(columns))
        source = BytesReader(name=self.name, data=data)
        try:
            file = pq.ParquetFile(
                pa.BufferReader(data), coerce_int96_timestamp_unit="us", pre_buffer=False
            )
            check_size(source, file.metadata, columns)
            table = file.read(columns=list(columns), use_threads=False).select(columns)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise CorruptFileError(self.name, 0, f"damaged Parquet: {error}") from error
        return table.cast(pa.schema([item.remove_metadata() for item in table.schema]))

    def dictionary(self, group: int, column: int, kind: pa.DataType) -> Dictionary | None:
        """The dictionary of a chunk; None where no page has indices into one.

        Args:
            group: number of the row group.
            column: likewise.
            kind: of the column; a type with a known dictionary.

        Raises:
            CorruptFileError: it is damaged.
        """
        chunk = self.chunks[group][column]
        encodings = [page.encoding for page in chunk.pages if has_indices(page)]
        if chunk.dictionary is None or not encodings:
            return None
        data = bytes(self.body.data[chunk.dictionary.start : chunk.dictionary.end])
        codec = _CODECS[self._codec(group, column)]
        header, page = next(chunk_pages(data, range(len(data)), codec, self.name))
        head = header.get(_DICTIONARY_HEADER)
        if isinstance(head, dict) and all(isinstance(head.get(n), int) for n in (1, 2)):
            found = Dictionary.of(page, head[1], kind, (head[2], encodings[0]))
            if found is not None:
                return found
        detail = f"a damaged dictionary of {self.names[column]}"
        raise CorruptFileError(self.name, chunk.dictionary.start, detail)

    def _codec(self, group: int, column: int) -> int:
        number = group * len(self.names) + column
        return int(self.body.groups.of_chunks(CODEC)[number])

    def _part(self, numbers: Sequence[int], columns: set[str]) -> bytes:
        """A Parquet file of some pages of some columns; its other columns have none."""
        pieces: list[bytes | memoryview] = [MAGIC]
        at, total, groups = len(MAGIC), 0, []
        sizes = np.diff(self.starts).tolist()
        for group, members in self.by_group(numbers).items():
            rows = sum(sizes[int(self.firsts[group]) + number] for number in members)
            total += rows
            structs = []
            for column, name in enumerate(self.names):
                codec = UNCOMPRESSED_CODEC
                parts: list[bytes | memoryview] = []
                if name in columns:
                    codec, parts = self._pages(group, column, members)
                if (group, column) not in self.metas:
                    self.metas[group, column] = self.body.meta(group, column)
                meta = self.metas[group, column]
                kept = {number: meta[number] for number in (TYPE, ENCODINGS, PATH)}
                size = sum(map(len, parts))
                kept |= {
                    CODEC_FIELD: (I32, integer(codec)),
                    VALUES: (I64, integer(rows)),
                    UNCOMPRESSED_BYTES: (I64, integer(size)),
                }
                has_dictionary = parts and self.chunks[group][column].dictionary
                first = len(parts[0]) if has_dictionary else 0
                structs.append(chunk_struct(kept, start=at, dictionary=first, size=size))
                pieces += parts
                at += size
            told = {1: (LIST, raw_list(structs)), 2: (I64, integer(at)), 3: (I64, integer(rows))}
            groups.append(raw_struct(told))
        fields = {
            **self.body.fields,
            ROWS: (I64, integer(total)),
            ROW_GROUPS: (LIST, raw_list(groups)),
        }
        return b"".join([*pieces, end_of_file(fields, {}, path=None, checksums=None)])

    def _pages(
        self, group: int, column: int, members: Sequence[int]
    ) -> tuple[int, list[bytes | memoryview]]:
        """The codec of some pages of a chunk, and the pages, the dictionary first.

        Those in gzip are inflated: ISA-L takes half of the time that Arrow takes.
        """
        chunk, data = self.chunks[group][column], self.body.data
        pages = [chunk.pages[number] for number in members]
        if chunk.dictionary is not None:
            pages = [chunk.dictionary, *pages]
        codec = self._codec(group, column)
        if codec != GZIP_CODEC:
            return codec, [data[page.start : page.end] for page in pages]
        size = sum(page.uncompressed for page in pages)
        if size > max(MOST_BYTES, MOST_RATIO * len(data)):
            detail = f"pages of {self.names[column]} would become {size:,} bytes in memory"
            raise CorruptFileError(self.name, pages[0].start, detail)
        inflated: list[bytes | memoryview] = []
        for page in pages:
            zipped, place = bytes(data[page.page : page.end]), (self.name, page.page)
            raw = decompress("GZIP", zipped, page.uncompressed, place)
            head, rest = data[page.start : page.size_start], data[page.size_end : page.page]
            inflated.append(b"".join([head, integer(len(raw)), rest, raw]))
        return UNCOMPRESSED_CODEC, inflated


def has_indices(page: Page) -> bool:
    """Whether a data page has indices into a dictionary."""
    return page.encoding in _DICTIONARY_ENCODINGS


def chunk_struct(meta: RawFields, *, start: int, dictionary: int, size: int) -> bytes:
    """A ColumnChunk of pages that start at a place.

    Args:
        meta: fields of its ColumnMetaData but for the places.
        start: offset of the first page.
        dictionary: bytes of the dictionary page, which comes first; 0 for none.
        size: bytes of all pages.
    """
    places = {
        COMPRESSED_BYTES: (I64, integer(size)),
        DATA_OFFSET: (I64, integer(start + dictionary)),
    }
    if dictionary:
        places[DICTIONARY_OFFSET] = (I64, integer(start))
    rest = {number: value for number, value in meta.items() if number != DICTIONARY_OFFSET}
    # The offset of the metadata itself, in files that repeat it behind the chunk.
    return raw_struct({2: (I64, integer(0)), 3: (STRUCT, raw_struct({**rest, **places}))})


def _scanned(body: FileBody, file: BytesReader) -> list[list[Chunk]]:
    """The column chunks of a file, by row group and column."""
    groups = body.groups
    ends = groups.starts + groups.of_chunks(COMPRESSED)
    data = np.frombuffer(file.data, np.uint8)
    return _chunks(scan_pages(data, groups.starts, ends=ends, name=file.name), groups.shape)


def _check(body: FileBody, checksums: Checksums) -> None:
    """Compare every column chunk with its checksum."""
    starts, sizes = body.groups.starts.tolist(), body.groups.of_chunks(COMPRESSED).tolist()
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        checksums.check(number, body.data[start : start + size], body.name, start)


def _are_all(rows: Sequence[Sequence[int]], body: FileBody) -> bool:
    """Whether pages of so many rows hold all rows of each row group, and none is empty."""
    totals = body.groups.of_groups(GROUP_ROWS).tolist()
    return [sum(each) for each in rows] == totals and all(totals)


def _chunks(pages: Sequence[Page], shape: tuple[int, int]) -> list[list[Chunk]]:
    """Pages by row group and column."""
    count, columns = shape
    found: list[list[Page]] = [[] for _ in range(count * columns)]
    for page in pages:
        found[page.chunk].append(page)
    chunks = [
        Chunk(each[0], each[1:]) if each and each[0].kind == DICTIONARY_PAGE else Chunk(None, each)
        for each in found
    ]
    return [chunks[start : start + columns] for start in range(0, len(chunks), columns or 1)]


def _rows_of(chunks: Sequence[Chunk]) -> list[int]:
    """The rows of each page of a row group; none where its columns do not agree."""
    found = {
        tuple(page.values if page.kind == DATA_PAGE else -1 for page in chunk.pages)
        for chunk in chunks
    }
    rows = list(found.pop()) if len(found) == 1 else []
    return rows if all(count > 0 for count in rows) else []
