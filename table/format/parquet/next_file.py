"""A base file whose pages are partly those of the file before, copied as they lie.

    file before    page 0    page 1    page 2
    updated rows             page 1'
    new rows                                     page 3'
    next file      page 0    page 1'   page 2    page 3'

A page is a stretch of rows in all columns. A column chunk is put together of pages of the file
before and of new ones. Where a page has indices into a dictionary, so has the one that takes its
place, and values that the dictionary lacks are added to it: Spark reads no indices behind plain
pages of the same chunk. Columns in which no row differs are copied whole. `_hoodie_file_name` is
written anew, because its rows are now those of another file, and so are nested columns.
docs/formats/base_file.md draws what comes from where.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from keymark.table.format.parquet.base_file import BaseFileOptions, compressed, encode, encode_pages
from keymark.table.format.parquet.chunk_statistics import Described, statistics_after
from keymark.table.format.parquet.file_body import (
    MAGIC,
    ROW_GROUPS,
    ROWS,
    SCHEMA,
    FileBody,
    end_of_file,
)
from keymark.table.format.parquet.footer_groups import (
    CODEC,
    COMPRESSED,
    DATA_PAGE,
    GROUP_UNCOMPRESSED,
    UNCOMPRESSED,
)
from keymark.table.format.parquet.index_pages import Dictionary, dictionary_header, index_header
from keymark.table.format.parquet.page_scan import Page
from keymark.table.format.parquet.paged_file import (
    ENCODINGS,
    UNCOMPRESSED_BYTES,
    VALUES,
    PagedFile,
    chunk_struct,
    has_indices,
)
from keymark.table.format.parquet.thrift import I16, I32, I64, LIST, STRUCT, ThriftReader
from keymark.table.format.parquet.thrift_scan import (
    RawFields,
    integer,
    integer_of,
    list_head,
    raw_fields,
    raw_list,
    raw_struct,
)

# Fields of ColumnMetaData: its statistics; pages by encoding and values by level, which may be
# left out.
_STATISTICS = 12
_COUNTS = (13, 16)


class PageKind(IntEnum):
    """What the rows of a page are beside those of the page before in the same place."""

    COPIED = 0
    """The same."""
    UPDATED = 1
    """Those of the same keys, some of them updated."""
    NEW = 2
    """Others."""


@dataclass(frozen=True, slots=True)
class NextPage:
    """A page of the new file: how many rows it has, and which page before it stands for.

    Pages of rows that were inserted behind all others stand for the last one.
    """

    rows: int
    place: int
    kind: PageKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFile:
    """What the new file is made of.

    Attributes:
        before: the file before.
        pages: of the new file, in their order.
        read: numbers of the pages of the file before that are not copied, ascending.
        stored: their rows; columns in which no row differs may be missing.
        new: the rows of all pages that are NEW, in their order, without the columns of `anew`.
        updated: the rows of all pages that are UPDATED; only the columns that differ.
        anew: all rows of the new file; only the columns whose pages end anywhere.
        schema: of all columns.
        entries: of the new footer (`hudi_entries`).
        path: of the new file in its table.
    """

    before: PagedFile
    pages: Sequence[NextPage]
    read: Sequence[int]
    stored: pa.Table
    new: pa.Table
    updated: pa.Table
    anew: pa.Table
    schema: pa.Schema
    entries: Mapping[bytes, bytes]
    path: str


def write_next_file(file: NextFile, options: BaseFileOptions) -> bytes | None:
    """Write a base file of copied and new pages.

    Returns:
        The file; None if the file before has another schema or codec, or no room for more rows.
    """
    parts = _Parts.of(file, options)
    if not parts.fit():
        return None
    pieces: list[bytes | memoryview] = [MAGIC]
    at, checksums, groups = len(MAGIC), [], []
    for ordinal in range(len(parts.groups)):
        first, raw, structs = at, 0, []
        for column in parts.columns(ordinal):
            size = sum(map(len, column.pages))
            meta = {**column.meta, UNCOMPRESSED_BYTES: (I64, integer(column.uncompressed))}
            structs.append(chunk_struct(meta, start=at, dictionary=column.dictionary, size=size))
            checksums.append(_checksum(column.pages))
            pieces += column.pages
            at, raw = at + size, raw + column.uncompressed
        told = {
            1: (LIST, raw_list(structs)),
            2: (I64, integer(raw)),
            3: (I64, integer(parts.rows(ordinal))),
            5: (I64, integer(first)),
            6: (I64, integer(at - first)),
            7: (I16, integer(ordinal)),
        }
        groups.append(raw_struct(told))
    fields = {
        **parts.empty.fields,
        ROWS: (I64, integer(sum(page.rows for page in file.pages))),
        ROW_GROUPS: (LIST, raw_list(groups)),
    }
    end = end_of_file(fields, file.entries, path=file.path, checksums=checksums)
    return b"".join([*pieces, end])


@dataclass(frozen=True, slots=True)
class _Placed:
    """A page of the new file, with its number, and its first row, among pages of its kind."""

    page: NextPage
    turn: int
    start: int


@dataclass(frozen=True, slots=True)
class _Column:
    """A column chunk of the new file.

    Attributes:
        pages: with their headers, the dictionary first.
        dictionary: bytes of that; 0 without one.
        uncompressed: bytes of all pages with their headers, not compressed.
        meta: fields of its ColumnMetaData.
    """

    pages: Sequence[memoryview]
    dictionary: int
    uncompressed: int
    meta: RawFields


class _Source:
    """A file whose column chunks are taken as they lie."""

    def __init__(self, body: FileBody) -> None:
        self.body = body
        groups = body.groups
        self._columns = groups.shape[1]
        self._starts, self._sizes = groups.starts.tolist(), groups.of_chunks(COMPRESSED).tolist()
        self._raw, self._data = (groups.of_chunks(n).tolist() for n in (UNCOMPRESSED, DATA_PAGE))

    def chunk(self, group: int, column: int) -> _Column:
        """A column chunk."""
        number = group * self._columns + column
        start, size = self._starts[number], self._sizes[number]
        return _Column(
            pages=[self.body.data[start : start + size]],
            dictionary=max(0, self._data[number] - start),
            uncompressed=self._raw[number],
            meta=self.body.meta(group, column),
        )


@dataclass(frozen=True, slots=True)
class _Parts:
    """The files that the new one is put together of.

    Attributes:
        file: what it is made of.
        groups: of each row group its number in the file before, and its pages.
        before: the file before.
        empty: without rows, for its schema and its creator.
        written: by kind of page a row group for each that is written.
        anew: a row group for each of `groups`.
        options: codec.
    """

    file: NextFile
    groups: Sequence[tuple[int, Sequence[_Placed]]]
    before: _Source
    empty: FileBody
    written: Mapping[PageKind, _Source]
    anew: _Source
    options: BaseFileOptions

    @classmethod
    def of(cls, file: NextFile, options: BaseFileOptions) -> Self:
        """Encode what is not copied."""
        sizes: dict[PageKind, list[int]] = {kind: [] for kind in PageKind}
        groups: dict[int, list[_Placed]] = {}
        owners = np.searchsorted(file.before.firsts, [page.place for page in file.pages], "right")
        for page, behind in zip(file.pages, owners.tolist(), strict=True):
            known = sizes[page.kind]
            groups.setdefault(behind - 1, []).append(_Placed(page, len(known), sum(known)))
            known.append(page.rows)
        rows = [sum(placed.page.rows for placed in pages) for pages in groups.values()]
        tables = {PageKind.NEW: file.new, PageKind.UPDATED: file.updated}
        return cls(
            file=file,
            groups=list(groups.items()),
            before=_Source(file.before.body),
            empty=encode(file.schema.empty_table(), [], options),
            written={
                kind: _Source(encode_pages(table, sizes[kind], options))
                for kind, table in tables.items()
                if sizes[kind] and table.num_columns
            },
            anew=_Source(encode(file.anew, rows, options)),
            options=options,
        )

    def fit(self) -> bool:
        """Whether pages of all files may stand beside each other, and there is room for them."""
        before, anew = self.before.body, self.anew.body
        codecs = {*before.groups.of_chunks(CODEC).tolist(), *anew.groups.of_chunks(CODEC).tolist()}
        grows = sum(page.rows for page in self.file.pages) > self.file.before.starts[-1]
        size = int(before.groups.of_groups(GROUP_UNCOMPRESSED)[-1])
        return (
            before.fields[SCHEMA] == self.empty.fields[SCHEMA]
            and len(codecs) == 1
            and (not grows or size < self.options.block_size)
        )

    def rows(self, ordinal: int) -> int:
        """How many rows a row group has."""
        return sum(placed.page.rows for placed in self.groups[ordinal][1])

    def columns(self, ordinal: int) -> Iterator[_Column]:
        """The column chunks of a row group."""
        group, pages = self.groups[ordinal]
        anew = itertools.count()
        for column, name in enumerate(self.file.before.names):
            if name in self.file.anew.column_names:
                yield self.anew.chunk(ordinal, next(anew))
                continue
            keeps = {PageKind.COPIED}
            if name not in self.file.updated.column_names:
                keeps.add(PageKind.UPDATED)
            kept = {placed.page.place for placed in pages if placed.page.kind in keeps}
            if len(kept) == len(pages) == len(self.file.before.chunks[group][column].pages):
                yield self.before.chunk(group, column)
            else:
                yield self._mixed(ordinal, column, kept)

    def _mixed(self, ordinal: int, column: int, kept: set[int]) -> _Column:
        """A column chunk of pages of the file before, those `kept`, and of others."""
        group, pages = self.groups[ordinal]
        before, data = self.file.before, self.before.body.data
        name, first = before.names[column], int(before.firsts[group])
        chunk = before.chunks[group][column]
        meta = self.before.body.meta(group, column)
        kind = self.file.schema.field(name).type
        dictionary = before.dictionary(group, column, kind)
        parts, raw, written = [], 0, []
        for placed in pages:
            if placed.page.place in kept and placed.page.kind is not PageKind.NEW:
                there = chunk.pages[placed.page.place - first]
                parts.append(data[there.start : there.end])
                raw += there.page - there.start + there.uncompressed
                continue
            indexed = dictionary if has_indices(chunk.pages[placed.page.place - first]) else None
            fresh = self._fresh(placed, column, indexed)
            parts += fresh.pages
            raw += fresh.uncompressed
            written.append(fresh.meta)
        size = 0
        if chunk.dictionary is not None:
            head, full = self._dictionary(chunk.dictionary, dictionary)
            parts.insert(0, head)
            size, raw = len(head), raw + full
        told = {n: field for n, field in meta.items() if n not in (_STATISTICS, *_COUNTS)}
        told[ENCODINGS] = _encodings([meta, *written], before.name)
        told[VALUES] = (I64, integer(self.rows(ordinal)))
        statistics = statistics_after(
            _described(meta),
            [_described(each) for each in written],
            gone=self._gone(name, set(range(first, first + len(chunk.pages))) - kept),
            kind=kind,
        )
        if statistics is not None:
            told[_STATISTICS] = (STRUCT, raw_struct(statistics))
        return _Column(parts, size, raw, told)

    def _fresh(self, placed: _Placed, column: int, dictionary: Dictionary | None) -> _Column:
        """A page that is written anew, as if it were a column chunk."""
        page, name = placed.page, self.file.before.names[column]
        table = self.file.new if page.kind is PageKind.NEW else self.file.updated
        # None of its columns is nested.
        place = table.column_names.index(name)
        plain = self.written[page.kind].chunk(placed.turn, place)
        if dictionary is None:
            return plain
        values = table[name].slice(placed.start, page.rows).combine_chunks()
        nullable = self.file.schema.field(name).nullable
        indices = dictionary.index_page(values, nullable=nullable)
        packed = compressed(indices, self.options)
        sizes = {"uncompressed": len(indices), "compressed": len(packed)}
        head = index_header(page.rows, dictionary.encodings[1], **sizes)
        # The statistics are those of the same values.
        meta = {number: field for number, field in plain.meta.items() if number != ENCODINGS}
        return _Column([memoryview(head + packed)], 0, len(head) + len(indices), meta)

    def _dictionary(self, page: Page, dictionary: Dictionary | None) -> tuple[memoryview, int]:
        """A dictionary page with its header, and how many bytes that is if not compressed."""
        if dictionary is None or not dictionary.grown:
            start, end = page.start, page.end
            return self.before.body.data[start:end], page.page - start + page.uncompressed
        packed = compressed(dictionary.page, self.options)
        head = dictionary_header(dictionary, len(packed))
        return memoryview(head + packed), len(head) + len(dictionary.page)

    def _gone(self, name: str, places: set[int]) -> int:
        """Nulls of a column in pages of the file before that are not copied."""
        values = self.file.stored[name]
        if not values.null_count:
            return 0
        starts = self.file.before.starts
        sizes = [int(starts[number + 1] - starts[number]) for number in self.file.read]
        found, at = 0, 0
        for number, size in zip(self.file.read, sizes, strict=True):
            found += values.slice(at, size).null_count if number in places else 0
            at += size
        return found


def _checksum(pages: Sequence[memoryview]) -> int:
    checksum = 0
    for page in pages:
        checksum = isal_zlib.crc32(page, checksum)
    return checksum


def _described(meta: RawFields) -> Described:
    """The statistics in a ColumnMetaData."""
    statistics = None
    if _STATISTICS in meta:
        statistics = raw_fields(np.frombuffer(meta[_STATISTICS][1], np.uint8))
    return Described(statistics, integer_of(meta[VALUES][1]))


def _encodings(metas: Sequence[RawFields], name: str) -> tuple[int, bytes]:
    """The encodings of some chunks, each once; the name is for errors."""
    found: dict[int, None] = {}
    for meta in metas:
        if ENCODINGS in meta:
            reader = ThriftReader(meta[ENCODINGS][1], name)
            found |= dict.fromkeys(reader.integer() for _ in range(reader.count(I32)))
    return LIST, list_head(len(found), I32) + b"".join(map(integer, found))
