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
from typing import Self

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from keymark.table.format.parquet.base_file import (
    BaseFileOptions,
    compressed,
    empty_body,
    encode,
)
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
from keymark.table.format.parquet.index_pages import Dictionary, dictionary_header
from keymark.table.format.parquet.new_pages import NewPages, NextPage, PageKind, PageMaker, Placed
from keymark.table.format.parquet.page_scan import Page
from keymark.table.format.parquet.paged_file import (
    UNCOMPRESSED_BYTES,
    VALUES,
    PagedFile,
    chunk_struct,
    has_indices,
)
from keymark.table.format.parquet.thrift import I16, I64, LIST, STRUCT
from keymark.table.format.parquet.thrift_scan import (
    RawFields,
    integer,
    integer_of,
    raw_fields,
    raw_list,
    raw_struct,
)

# Fields of ColumnMetaData: its statistics; pages by encoding and values by level, which may be
# left out.
_STATISTICS = 12
_COUNTS = (13, 16)


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
        The file; None if the file before has another schema or codec, or no room for more rows, or
        if a dictionary would have values for more than half of the rows.
    """
    parts = _Parts.of(file, options)
    if not parts.fit():
        return None
    pieces: list[bytes | memoryview] = [MAGIC]
    at, checksums, groups = len(MAGIC), [], []
    for ordinal in range(len(parts.groups)):
        first, raw, structs = at, 0, []
        for column in parts.columns(ordinal):
            if column is None:
                return None
            size = sum(map(len, column.pages))
            meta = {**column.meta, UNCOMPRESSED_BYTES: (I64, integer(column.uncompressed))}
            structs.append(chunk_struct(meta, start=at, dictionary=column.dictionary, size=size))
            checksums.append(_checksum(column.pages))
            pieces += column.pages
            at, raw = at + size, raw + column.uncompressed
        group = {
            1: (LIST, raw_list(structs)),
            2: (I64, integer(raw)),
            3: (I64, integer(parts.rows(ordinal))),
            5: (I64, integer(first)),
            6: (I64, integer(at - first)),
            7: (I16, integer(ordinal)),
        }
        groups.append(raw_struct(group))
    fields = {
        **parts.empty.fields,
        ROWS: (I64, integer(sum(page.rows for page in file.pages))),
        ROW_GROUPS: (LIST, raw_list(groups)),
    }
    end = end_of_file(fields, file.entries, path=file.path, checksums=checksums)
    return b"".join([*pieces, end])


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
        fresh: the pages that are written, by their kind.
        anew: a row group for each of `groups`.
        options: codec.
    """

    file: NextFile
    groups: Sequence[tuple[int, Sequence[Placed]]]
    before: _Source
    empty: FileBody
    fresh: Mapping[PageKind, NewPages]
    anew: _Source
    options: BaseFileOptions

    @classmethod
    def of(cls, file: NextFile, options: BaseFileOptions) -> Self:
        """Encode what is not copied."""
        rows = dict.fromkeys(PageKind, 0)
        groups: dict[int, list[Placed]] = {}
        owners = np.searchsorted(file.before.firsts, [page.place for page in file.pages], "right")
        for page, behind in zip(file.pages, owners.tolist(), strict=True):
            groups.setdefault(behind - 1, []).append(Placed(page, rows[page.kind]))
            rows[page.kind] += page.rows
        tables = {PageKind.NEW: file.new, PageKind.UPDATED: file.updated}
        members = {
            kind: [
                [placed for placed in each if placed.page.kind is kind] for each in groups.values()
            ]
            for kind in tables
        }
        sizes = [sum(placed.page.rows for placed in each) for each in groups.values()]
        return cls(
            file=file,
            groups=list(groups.items()),
            before=_Source(file.before.body),
            empty=empty_body(file.schema, options),
            fresh={
                kind: NewPages(table, members[kind])
                for kind, table in tables.items()
                if rows[kind] and table.num_columns
            },
            anew=_Source(encode(file.anew, sizes, options)),
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

    def columns(self, ordinal: int) -> Iterator[_Column | None]:
        """The column chunks of a row group; None for one that is better encoded anew."""
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

    def _mixed(self, ordinal: int, column: int, kept: set[int]) -> _Column | None:
        """A column chunk of pages of the file before, those `kept`, and of others.

        None where its dictionary grows so large that it takes more than it saves: values that no
        row has any more stay in it.
        """
        group, pages = self.groups[ordinal]
        before, data = self.file.before, self.before.body.data
        name, first = before.names[column], int(before.firsts[group])
        chunk = before.chunks[group][column]
        meta = self.before.body.meta(group, column)
        kind = self.file.schema.field(name).type
        dictionary = before.dictionary(group, column, kind)
        if dictionary is not None and not kept:
            dictionary = dictionary.emptied()
        makers = {
            of: PageMaker(fresh, name, [each for each in pages if each.page.kind is of], dictionary)
            for of, fresh in self.fresh.items()
            if name in fresh.table.column_names
        }
        values = len(dictionary.values) if dictionary is not None and dictionary.grown else 0
        if 2 * values > self.rows(ordinal):
            return None
        parts: list[memoryview] = []
        raw, written = 0, dict.fromkeys(makers, 0)
        for placed in pages:
            there = chunk.pages[placed.page.place - first]
            if placed.page.place in kept and placed.page.kind is not PageKind.NEW:
                parts.append(data[there.start : there.end])
                raw += there.page - there.start + there.uncompressed
                continue
            part, size = makers[placed.page.kind].page(
                placed, self.options, indexed=has_indices(there)
            )
            parts.append(part)
            raw += size
            written[placed.page.kind] += 1
        size = 0
        if chunk.dictionary is not None:
            head, full = self._dictionary(chunk.dictionary, dictionary)
            parts.insert(0, head)
            size, raw = len(head), raw + full
        metas = [
            each
            for of, count in written.items()
            if count
            for each in self.fresh[of].metas(ordinal, makers[of].column)
        ]
        fields = {n: field for n, field in meta.items() if n not in (_STATISTICS, *_COUNTS)}
        fields[VALUES] = (I64, integer(self.rows(ordinal)))
        statistics = statistics_after(
            _described(meta) if kept else None,
            [_described(each) for each in metas],
            gone=self._gone(name, set(range(first, first + len(chunk.pages))) - kept),
            kind=kind,
        )
        if statistics is not None:
            fields[_STATISTICS] = (STRUCT, raw_struct(statistics))
        return _Column(parts, size, raw, fields)

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
