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
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.file_body import FileBody
from keymark.table.format.parquet.footer_groups import CODEC, COMPRESSED, GROUP_ROWS
from keymark.table.format.parquet.index_pages import Dictionary
from keymark.table.format.parquet.inflated import SomePages
from keymark.table.format.parquet.page_scan import DATA_PAGE, DICTIONARY_PAGE, Page, scan_pages
from keymark.table.format.parquet.pages import chunk_pages
from keymark.table.format.parquet.thrift import I64, STRUCT
from keymark.table.format.parquet.thrift_scan import RawFields, integer, raw_struct
from keymark.table.storage.storage import BytesReader

_Numbers = npt.NDArray[np.int64]

_CODECS = {0: "UNCOMPRESSED", 1: "SNAPPY", 2: "GZIP", 6: "ZSTD"}
# Of data pages, in both versions of the format; and the field of a header of a dictionary page.
_DICTIONARY_ENCODINGS = (2, 8)
_DICTIONARY_HEADER = 7
# Fields of ColumnMetaData.
VALUES, UNCOMPRESSED_BYTES, COMPRESSED_BYTES = 5, 6, 7
_DATA_OFFSET, _DICTIONARY_OFFSET = 9, 11


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
    """

    name: str
    names: Sequence[str]
    body: FileBody
    chunks: Sequence[Sequence[Chunk]]
    starts: _Numbers
    firsts: _Numbers

    @classmethod
    def of(
        cls,
        file: BytesReader,
        checksums: Checksums,
        names: Sequence[str],
        *,
        apart: Collection[str],
    ) -> Self | None:
        """The pages of a file; None if its columns end their pages at different rows.

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
        every = range(len(body.groups.chunks))
        chunks = _scanned(body, every)
        leaves = [number for number, name in enumerate(names) if name not in apart]
        rows = [_rows_of([members[number] for number in leaves]) for members in chunks]
        if not _are_all(rows, body):
            return None
        _check(body, checksums, every)
        return cls._by_pages(body, chunks, names, rows)

    @classmethod
    def alike(
        cls,
        body: FileBody,
        checksums: Checksums,
        leaves: Sequence[str],
        *,
        columns: Collection[str],
        groups: Collection[int],
    ) -> list[tuple[list[str], Self]]:
        """Some flat columns of a file in sets that end their pages at the same rows.

        Args:
            body: of the file, whose footer was checked.
            checksums: of its column chunks.
            leaves: paths of the leaves of its schema, dotted.
            columns: the columns wanted.
            groups: the row groups wanted; of others nothing is looked at, and each has one page.

        Returns:
            The columns of each set, and the file by their pages. Columns that are nested, or whose
            pages do not say how many rows they hold, are in no set.

        Raises:
            CorruptFileError: a wanted column is damaged in a wanted row group.
        """
        if not body.groups.movable:
            return []
        wanted = [number for number, leaf in enumerate(leaves) if leaf in columns]
        width = len(leaves)
        numbers = [group * width + leaf for group in sorted(groups) for leaf in wanted]
        _check(body, checksums, numbers)
        chunks = _scanned(body, numbers)
        totals = body.groups.of_groups(GROUP_ROWS).tolist()
        sets: dict[tuple[tuple[int, ...], ...], list[str]] = {}
        for number in wanted:
            rows = tuple(
                tuple(_rows_of([members[number]])) if group in groups else (totals[group],)
                for group, members in enumerate(chunks)
            )
            if "." not in leaves[number] and _are_all(rows, body):
                sets.setdefault(rows, []).append(leaves[number])
        names = [leaf.partition(".")[0] for leaf in leaves]
        return [(found, cls._by_pages(body, chunks, names, rows)) for rows, found in sets.items()]

    @classmethod
    def _by_pages(
        cls,
        body: FileBody,
        chunks: Sequence[Sequence[Chunk]],
        names: Sequence[str],
        rows: Sequence[Sequence[int]],
    ) -> Self:
        """The file by pages of the given rows, in each row group."""
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
        wanted = [column for column, name in enumerate(self.names) if name in columns]
        pages: list[Page] = []
        rows: dict[int, int] = {}
        sizes = np.diff(self.starts).tolist()
        for group, members in self.by_group(numbers).items():
            chunks = self.chunks[group]
            rows[group] = sum(sizes[int(self.firsts[group]) + number] for number in members)
            for column in wanted:
                chunk = chunks[column]
                pages += [] if chunk.dictionary is None else [chunk.dictionary]
                pages += [chunk.pages[number] for number in members]
        chunks_of_file = range(len(self.chunks) * len(self.names))
        table = SomePages(self.body, pages, chunks_of_file, rows).read(columns)
        return table.cast(pa.schema([item.remove_metadata() for item in table.schema]))

    def same_pages(self, numbers: Sequence[int], column: str, schema: pa.Schema) -> list[str]:
        """The other columns that hold the values of a column, as the bytes of their pages tell.

        Args:
            numbers: of the pages, ascending.
            column: name of the column; one with a dictionary has no other.
            schema: of the columns to look at, whose pages end at the same rows. By another type
                the same bytes would be other values.
        """
        field, of = schema.field(column), self.names.index(column)
        groups = self.by_group(numbers)
        found = []
        for other in schema:
            number = self.names.index(other.name)
            alike = number != of and (other.type, other.nullable) == (field.type, field.nullable)
            if alike and all(self._same(group, (of, number), groups[group]) for group in groups):
                found.append(other.name)
        return found

    def _same(self, group: int, columns: tuple[int, int], members: Sequence[int]) -> bool:
        """Whether pages of two column chunks without a dictionary have the same bytes."""
        one, other = (self.chunks[group][column] for column in columns)
        codecs = {self._codec(group, column) for column in columns}
        if one.dictionary is not None or other.dictionary is not None or len(codecs) > 1:
            return False
        data = self.body.data
        places = ((one.pages[number], other.pages[number]) for number in members)
        return all(bytes(data[a.start : a.end]) == bytes(data[b.start : b.end]) for a, b in places)

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
        _DATA_OFFSET: (I64, integer(start + dictionary)),
    }
    if dictionary:
        places[_DICTIONARY_OFFSET] = (I64, integer(start))
    rest = {number: value for number, value in meta.items() if number != _DICTIONARY_OFFSET}
    # The offset of the metadata itself, in files that repeat it behind the chunk.
    return raw_struct({2: (I64, integer(0)), 3: (STRUCT, raw_struct({**rest, **places}))})


def _scanned(body: FileBody, numbers: Sequence[int]) -> list[list[Chunk]]:
    """The column chunks of a file, by row group and column; those not asked for without pages."""
    groups = body.groups
    chosen = np.array(numbers, np.int64)
    starts, sizes = groups.starts[chosen], groups.of_chunks(COMPRESSED)[chosen]
    data = np.frombuffer(body.data, np.uint8)
    found: list[list[Page]] = [[] for _ in range(len(groups.chunks))]
    for page in scan_pages(data, starts, ends=starts + sizes, name=body.name):
        found[numbers[page.chunk]].append(page._replace(chunk=numbers[page.chunk]))
    chunks = [
        Chunk(each[0], each[1:]) if each and each[0].kind == DICTIONARY_PAGE else Chunk(None, each)
        for each in found
    ]
    columns = groups.shape[1]
    return [chunks[start : start + columns] for start in range(0, len(chunks), columns or 1)]


def _check(body: FileBody, checksums: Checksums, numbers: Sequence[int]) -> None:
    """Compare column chunks with their checksums."""
    starts, sizes = body.groups.starts.tolist(), body.groups.of_chunks(COMPRESSED).tolist()
    for number in numbers:
        start = starts[number]
        checksums.check(number, body.data[start : start + sizes[number]], body.name, start)


def _are_all(rows: Sequence[Sequence[int]], body: FileBody) -> bool:
    """Whether pages of the given rows hold all rows of each row group, and none is empty."""
    totals = body.groups.of_groups(GROUP_ROWS).tolist()
    return [sum(each) for each in rows] == totals and all(totals)


def _rows_of(chunks: Sequence[Chunk]) -> list[int]:
    """The rows of each page of a row group; none where its columns do not agree."""
    found = {
        tuple(page.values if page.kind == DATA_PAGE else -1 for page in chunk.pages)
        for chunk in chunks
    }
    rows = list(found.pop()) if len(found) == 1 else []
    return rows if all(count > 0 for count in rows) else []
