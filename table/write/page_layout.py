"""Which pages of a base file a merge leaves as they are, and what the others become.

    file before    page 0    page 1 (a row updated)    page 2 (full)
    next file      page 0    page 1'                   page 2           page 3' (inserted rows)

A page is a stretch of rows in all columns. Where rows are updated and none are deleted, it keeps
its keys, and of its columns only those whose values changed are written: even if all pages are
updated, the other columns are copied. Inserted rows join the last page while it has room. A file is
written whole where more than half of its pages lose rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.format.parquet.base_file import BaseFileFooter, BaseFileOptions
from keymark.table.format.parquet.column_choice import leaves_of
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN
from keymark.table.format.parquet.index_pages import has_known_dictionary
from keymark.table.format.parquet.new_pages import NextPage, PageKind
from keymark.table.format.parquet.paged_file import PagedFile
from keymark.table.format.schema import with_meta
from keymark.table.storage.storage import BytesReader
from keymark.table.write.file_group import WriteTarget
from keymark.table.write.merge import Merge

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """The pages of a file that copies some of the file before.

    Sources are rows of (rows of the pages that are read ++ incoming rows).

    Attributes:
        pages: in their order.
        read: numbers of the pages of the file before that are not copied.
        new: the source of each row of the pages that are NEW.
        updated: the source of each row of those that are UPDATED.
        stored: the row before each of those: its source if it is not updated.
    """

    pages: tuple[NextPage, ...]
    read: tuple[int, ...]
    new: _Numbers
    updated: _Numbers
    stored: _Numbers


def paged_file(data: BytesReader, footer: BaseFileFooter, target: WriteTarget) -> PagedFile | None:
    """A file whose pages may be copied; None where that cannot be.

    It must be a file of ours, whose checksums prove what is copied, with the columns of the table,
    with stored keys, and with pages that end at the same rows but for nested columns.
    """
    if target.whole or footer.checksums is None or target.keys.virtual:
        return None
    if not _has_small_pages(target, footer.num_rows):
        return None
    schema = with_meta(target.schema).remove_metadata()
    # Not by metadata.schema: the two would refer to each other, and stay with the bloom filter of
    # the footer until the garbage collector comes around.
    file = pq.ParquetFile(pa.BufferReader(data.data), metadata=footer.metadata, pre_buffer=False)
    if not file.schema_arrow.remove_metadata().equals(schema):
        return None
    names = [path.partition(".")[0] for path in leaves_of(schema.empty_table())]
    found = PagedFile.of(data, footer.checksums, names, apart=columns_apart(schema))
    return found if found is not None and len(found.starts) > 2 else None


def columns_apart(schema: pa.Schema) -> list[str]:
    """The columns that are written anew in each file.

    The column of file names, nested columns, and columns of types whose dictionaries are not read.
    """
    return [
        item.name
        for item in schema
        if item.name == FILE_NAME_COLUMN
        or not (pa.types.is_boolean(item.type) or has_known_dictionary(item.type))
    ]


def with_small_pages(target: WriteTarget, rows: int) -> BaseFileOptions:
    """How a file with that number of rows is encoded, so that the next write can copy its pages.

    Its pages have keymark.parquet.page.rows rows. They stay as large as Arrow makes them where
    keys are not stored, because nothing of such files is copied, and in files of less than two.
    """
    is_small = _has_small_pages(target, rows)
    return replace(target.options, page_rows=target.page_rows if is_small else None)


def _has_small_pages(target: WriteTarget, rows: int) -> bool:
    """Whether files with that number of rows get pages of keymark.parquet.page.rows rows."""
    return 0 < target.page_rows <= rows // 2 and target.stores_meta


def layout_of(merge: Merge, starts: _Numbers, least: int) -> Layout | None:
    """The pages of the next file; None where more than half of the pages lose rows.

    Args:
        merge: of all rows.
        starts: the first row of each page of the file before, and the number of rows.
        least: rows of a full page, if the file has no larger one.
    """
    count = len(starts) - 1
    full = max(least, int(np.diff(starts).max()))
    # A kept row's place in `source` is the number of kept rows before it.
    places = np.append(0, np.cumsum(merge.kept))[starts]
    left = np.diff(places)
    if 2 * np.count_nonzero(left < np.diff(starts)) > count:
        return None
    touched = _touched(merge, starts, full)
    is_touched = np.isin(np.arange(count), touched)
    # Inserted rows join the last page if that is written anyway and has room.
    joined = is_touched[-1] and left[-1] < full and int(places[-1]) < len(merge.source)
    nothing = np.empty(0, np.int64)
    pages: list[NextPage] = []
    new, updated, stored = [nothing], [nothing], [nothing]
    for number in range(count - 1 if joined else count):
        rows = int(starts[number + 1] - starts[number])
        part = merge.source[places[number] : places[number + 1]]
        if not is_touched[number]:
            pages.append(NextPage(rows, number, PageKind.COPIED))
        elif len(part) == rows:
            pages.append(NextPage(rows, number, PageKind.UPDATED))
            updated.append(part)
            stored.append(np.arange(starts[number], starts[number + 1]))
        elif len(part):
            pages.append(NextPage(len(part), number, PageKind.NEW))
            new.append(part)
    tail = merge.source[places[-2 if joined else -1] :]
    pages += [
        NextPage(min(full, len(tail) - at), count - 1, PageKind.NEW)
        for at in range(0, len(tail), full)
    ]
    return Layout(
        pages=tuple(pages),
        read=tuple(touched.tolist()),
        new=_local(np.concatenate([*new, tail]), touched, starts),
        updated=_local(np.concatenate(updated), touched, starts),
        stored=_local(np.concatenate(stored), touched, starts),
    )


def rows_of_pages(layout: Layout, firsts: _Numbers) -> int:
    """The rows of each page but the last one of each row group, where no page is copied.

    Columns that change can be encoded as a whole then. 0 where a page is copied or is shorter.

    Args:
        layout: of the next file.
        firsts: the first page of each row group of the file before.
    """
    rows = max((page.rows for page in layout.pages), default=0)
    groups = np.searchsorted(firsts, [page.place for page in layout.pages], "right").tolist()
    copied = any(page.kind is PageKind.COPIED for page in layout.pages)
    short = any(
        page.rows < rows and group == behind
        for page, group, behind in zip(layout.pages, groups, groups[1:], strict=False)
    )
    return 0 if copied or short else rows


def rows_of(pages: Sequence[int], starts: _Numbers) -> _Numbers:
    """The rows of some pages of a file, ascending."""
    rows = [np.arange(starts[number], starts[number + 1]) for number in pages]
    return np.concatenate([np.empty(0, np.int64), *rows])


def changed_columns(stored: pa.Table, incoming: pa.Table, layout: Layout) -> list[str]:
    """The columns in which updated pages differ from those before.

    Args:
        stored: rows of the pages that are read. A column that it lacks does not differ.
        incoming: rows of the batch.
        layout: of the next file.
    """
    rows = np.flatnonzero(layout.updated >= stored.num_rows)
    before = pa.array(layout.stored[rows])
    after = pa.array(layout.updated[rows] - stored.num_rows)
    return [
        name
        for name in stored.column_names
        if not _same(stored[name].take(before), incoming[name].take(after))
    ]


def _same(before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    """Whether values are equal, and floating numbers bit by bit: to Arrow both zeros are equal."""
    if pa.types.is_floating(before.type):
        bits = pa.int64() if before.type.bit_width == 64 else pa.int32()
        before, after = (values.combine_chunks().view(bits) for values in (before, after))
    return bool(before.equals(after))


def _touched(merge: Merge, starts: _Numbers, full: int) -> _Numbers:
    """The numbers of the pages that change; the last one where inserted rows join it."""
    changes = np.add.reduceat(merge.changed, starts[:-1], dtype=np.int64)
    inserts = len(merge.source) > np.count_nonzero(merge.kept)
    if inserts and starts[-1] - starts[-2] < full:
        changes[-1] += 1
    return np.flatnonzero(changes)


def _local(source: _Numbers, touched: _Numbers, starts: _Numbers) -> _Numbers:
    """Rows of (stored ++ incoming) as rows of (rows of the touched pages ++ incoming)."""
    read = rows_of(touched.tolist(), starts)
    local = np.zeros(int(starts[-1]), np.int64)
    local[read] = np.arange(len(read))
    stored = source < starts[-1]
    found: _Numbers = source - starts[-1] + len(read)
    found[stored] = local[source[stored]]
    return found
