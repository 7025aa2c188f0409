"""Pages of rows that are new, encoded once and taken one by one.

The rows of all pages of a kind are one Parquet file of plain pages, cut at the ends of the pages.
A column whose chunk has a dictionary takes indices into it instead, so that pages are compressed
only when they are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa

from keymark.table.format.parquet.base_file import BaseFileOptions, compressed, encode_pages
from keymark.table.format.parquet.footer_groups import COMPRESSED
from keymark.table.format.parquet.index_pages import Dictionary, index_header
from keymark.table.format.parquet.page_scan import Page, scan_pages
from keymark.table.format.parquet.thrift_scan import RawFields, integer


class PageKind(IntEnum):
    """What the rows of a page are beside those of the page before in the same place."""

    COPIED = 0
    """The same."""
    UPDATED = 1
    """The same keys, some of their rows updated."""
    NEW = 2
    """Other rows."""


@dataclass(frozen=True, slots=True)
class NextPage:
    """A page of the new file: how many rows it has, and which page before it stands for.

    Pages of rows that were inserted behind all others stand for the last one.
    """

    rows: int
    place: int
    kind: PageKind


@dataclass(frozen=True, slots=True)
class Placed:
    """A page of the new file, with its first row among those of its kind."""

    page: NextPage
    start: int


class NewPages:
    """Pages of rows of one kind, encoded as plain pages that are not compressed.

    Pages of one row group of the new file are a row group here, or some, so that its statistics
    are of no other rows.
    """

    def __init__(self, table: pa.Table, groups: Sequence[Sequence[Placed]]) -> None:
        longest = max((placed.page.rows for each in groups for placed in each), default=1)
        runs: list[list[int]] = []
        self.runs: list[range] = []
        for each in groups:
            first = len(runs)
            for placed in each:
                # A page that is not as long as the longest ends its run.
                if len(runs) == first or runs[-1][-1] != longest:
                    runs.append([])
                runs[-1].append(placed.page.rows)
            self.runs.append(range(first, len(runs)))
        self.table = table
        self.body = encode_pages(table, runs)
        groups_of = self.body.groups
        starts = groups_of.starts
        ends = starts + groups_of.of_chunks(COMPRESSED)
        data = np.frombuffer(self.body.data, np.uint8)
        data.flags.writeable = False
        columns = table.num_columns
        self._pages: list[dict[int, Page]] = [{} for _ in range(columns)]
        at = [0] * columns
        for page in scan_pages(data, starts, ends=ends, name=self.body.name):
            column = page.chunk % columns
            self._pages[column][at[column]] = page
            at[column] += page.values

    def page(self, column: int, start: int) -> Page:
        """The page of a column that has a row first."""
        return self._pages[column][start]

    def metas(self, ordinal: int, column: int) -> list[RawFields]:
        """The ColumnMetaData of a column's pages in a row group of the new file."""
        return [self.body.meta(run, column) for run in self.runs[ordinal]]


class PageMaker:
    """Makes the pages of one column and row group that are written.

    Args:
        fresh: pages of their kind.
        name: of the column.
        pages: those of the row group.
        dictionary: of the column chunk before.
    """

    def __init__(
        self,
        fresh: NewPages,
        name: str,
        pages: Sequence[Placed],
        dictionary: Dictionary | None,
    ) -> None:
        self.column = fresh.table.column_names.index(name)
        self._fresh = fresh
        self._dictionary = dictionary
        self._nullable = fresh.table.schema.field(name).nullable
        self._first = pages[0].start if pages else 0
        self._indices = None
        if dictionary is not None and pages:
            rows = sum(placed.page.rows for placed in pages)
            values = fresh.table[name].slice(self._first, rows).combine_chunks()
            self._indices = dictionary.indices(values)

    def page(
        self, placed: Placed, options: BaseFileOptions, *, indexed: bool
    ) -> tuple[memoryview, int]:
        """A page with its header, and how many bytes that is if not compressed.

        It has indices into the dictionary, or values.
        """
        if not indexed or self._dictionary is None or self._indices is None:
            page, data = self._fresh.page(self.column, placed.start), self._fresh.body.data
            packed = compressed(data[page.page : page.end], options)
            sides = data[page.start : page.size_start], data[page.size_end : page.page]
            head = integer(len(packed)).join(sides)
            return memoryview(head + packed), len(head) + page.uncompressed
        rows = placed.page.rows
        indices = self._indices.slice(placed.start - self._first, rows)
        content = self._dictionary.page_of(indices, nullable=self._nullable)
        packed = compressed(content, options)
        sizes = {"uncompressed": len(content), "compressed": len(packed)}
        head = index_header(rows, self._dictionary.encodings[1], **sizes)
        return memoryview(head + packed), len(head) + len(content)
