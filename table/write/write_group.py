"""The task that writes one file group: read the base file, merge, put the next slice.

Where a batch changes few pages of a base file, the others are copied as they lie, and only those
that change are decoded and encoded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.parquet.base_file import (
    BaseFileFooter,
    hudi_entries,
    read_base_file,
    read_columns,
    read_footer,
    write_base_file,
)
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN, PARTITION_COLUMN
from keymark.table.format.parquet.next_file import NextFile, write_next_file
from keymark.table.format.parquet.paged_file import PagedFile
from keymark.table.format.parquet.plain_strings import plain_pages, plain_strings
from keymark.table.format.schema import META_COLUMNS, with_meta
from keymark.table.layout.model import BaseFile
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.state.base_files import in_schema, read_base, stored_rows, without_values
from keymark.table.storage.storage import BytesReader
from keymark.table.values.changes import (
    ValueChange,
    first_values,
    unchanged_values,
    value_changes,
)
from keymark.table.values.indexed import Indexed
from keymark.table.write.file_group import (
    FileGroupResult,
    FileGroupWrite,
    Op,
    Outcome,
    WriteTarget,
    new_file,
    put_slice,
)
from keymark.table.write.merge import (
    Merge,
    compose,
    merge_rows,
    with_new_meta,
    with_stored_keys,
)
from keymark.table.write.page_layout import (
    Layout,
    changed_columns,
    columns_apart,
    layout_of,
    paged_file,
    rows_of,
    rows_of_pages,
    with_small_pages,
)


@dataclass(frozen=True, slots=True)
class _Before:
    """The slice before, merged with the incoming rows.

    Attributes:
        data: its file.
        footer: of that.
        paged: its pages; None where they cannot be copied.
        stored: its rows; where pages can be copied only the columns that a merge looks at.
        keys: of its rows.
        merge: what becomes of them.
    """

    data: BytesReader
    footer: BaseFileFooter
    paged: PagedFile | None
    stored: pa.Table
    keys: pa.Array
    merge: Merge


@dataclass(frozen=True, slots=True)
class _Pages:
    """Some pages of a slice.

    Attributes:
        rows: of all of them.
        numbers: of the pages, ascending.
        starts: of every page of the slice the first row, and the row behind the last one.
    """

    rows: pa.Table
    numbers: Sequence[int]
    starts: npt.NDArray[np.int64]

    def column(self, name: str) -> dict[int, pa.Array]:
        """The values of each page by its first row; nothing where the column was not read."""
        if name not in self.rows.column_names:
            return {}
        values, found, at = self.rows[name].combine_chunks(), {}, 0
        for number in self.numbers:
            first, end = self.starts[number : number + 2].tolist()
            found[first] = values.slice(at, end - first)
            at += end - first
        return found


def write_file_group(work: FileGroupWrite) -> FileGroupResult:
    """Merge and write one file group; the task that a runner distributes."""
    if work.base is None:
        return _create(work)
    data = read_base(work.target.storage, work.base)
    footer = read_footer(data)
    paged = paged_file(data, footer, work.target)
    if paged is not None:
        stored, keys = _merged_columns(work.target, data, footer)
    else:
        stored = stored_rows(data, footer, work.target.schema)
        keys = work.target.keys.of_rows(stored, data.name)
    merge = merge_rows(work, stored, keys)
    if merge.changes_nothing and not work.target.whole:
        return FileGroupResult(file=None, stat=None, outcomes=merge.outcomes)
    before = _Before(data, footer, paged, stored, keys, merge)
    if paged is not None:
        written = _write_changed_pages(work, before, paged)
        if written is not None:
            return written
        before = replace(before, stored=_all_columns(work.target, before))
    return _write_all(work, before)


def _create(work: FileGroupWrite) -> FileGroupResult:
    """Open a file group with the rows that are put; deletes find nothing here."""
    puts = (work.ops == Op.PUT) | (work.ops == Op.APPEND)
    outcomes = np.where(puts, Outcome.INSERTED, Outcome.UNCHANGED).astype(np.uint8)
    if not puts.any():
        return FileGroupResult(file=None, stat=None, outcomes=outcomes)
    file = new_file(work)
    mask = pa.array(puts)
    table = with_new_meta(work, work.rows.filter(mask), work.keys.filter(mask), file.name)
    options = with_small_pages(work.target, table.num_rows)
    data = write_base_file(table, options=options, path=file.path)
    done = put_slice(work, file, data, rows=table.num_rows, outcomes=outcomes)
    return replace(done, values=first_values(work.target.indexed, file, table))


def _write_all(work: FileGroupWrite, before: _Before) -> FileGroupResult:
    """Encode all rows of the next file."""
    assert work.base is not None
    target, stored, merge = work.target, before.stored, before.merge
    file = new_file(work)
    incoming = with_new_meta(work, work.rows, work.keys, file.name)
    carried = with_stored_keys(work, stored, before.keys)
    table = compose(carried, incoming, merge.source, file.name)
    if not target.stores_meta:
        table = without_values(table, META_COLUMNS)
    written = write_base_file(
        table,
        options=with_small_pages(target, table.num_rows),
        # Without deletes the old keys are all there, and their bloom filter stays in use.
        previous=before.footer if merge.keeps_keys else None,
        inserted=_inserted(work, merge),
        path=file.path,
    )
    done = put_slice(work, file, written, rows=table.num_rows, outcomes=merge.outcomes)
    values = value_changes(target.indexed, (work.base, stored), (file, incoming), merge.source)
    return replace(done, values=values)


def _write_changed_pages(
    work: FileGroupWrite, before: _Before, paged: PagedFile
) -> FileGroupResult | None:
    """Copy the pages that stay; None where the file is better written whole."""
    assert work.base is not None
    target, merge = work.target, before.merge
    layout = layout_of(merge, paged.starts, target.page_rows)
    if layout is None:
        return None
    file = new_file(work)
    incoming = with_new_meta(work, work.rows, work.keys, file.name)
    stored = _read_pages(before, paged, layout, incoming.schema)
    changed = changed_columns(stored, incoming, layout)
    page_rows = rows_of_pages(layout, paged.firsts)
    # All rows of these are written. Arrow encodes them faster at once than page by page.
    whole = changed if page_rows else []
    by_pages = stored.drop_columns(whole)
    updated = stored.select([] if whole else changed)
    written = write_next_file(
        NextFile(
            before=paged,
            pages=layout.pages,
            read=layout.read,
            stored=stored,
            new=compose(by_pages, incoming, layout.new, file.name),
            updated=compose(updated, incoming, layout.updated, file.name),
            anew=_columns_anew(before, incoming, file.name, stored.select(whole)),
            schema=incoming.schema,
            entries=hudi_entries(
                lambda: _keys_after(work, before),
                target.options,
                before.footer if merge.keeps_keys else None,
                _inserted(work, merge),
            ),
            path=file.path,
        ),
        replace(target.options, page_rows=page_rows or None),
    )
    if written is None:
        return None
    done = put_slice(work, file, written, rows=len(merge.source), outcomes=merge.outcomes)
    # Where no row comes or goes, the keys stay, and so do columns in which no row differs.
    same: set[str] = set()
    if merge.keeps_keys and not len(_inserted(work, merge)):
        same = {KEY_COLUMN, *stored.column_names}.difference(changed)
    pages = _Pages(stored, layout.read, paged.starts)
    return replace(done, values=_noted_values(work, before, (file, incoming), pages, same))


def _noted_values(
    work: FileGroupWrite,
    before: _Before,
    new: tuple[BaseFile, pa.Table],
    pages: _Pages,
    same: set[str],
) -> tuple[ValueChange, ...]:
    """The changes of indexed values, for which all rows of a column are needed unless it stays.

    Args:
        work: the file group.
        before: the slice before.
        new: the next slice, and the rows of the batch.
        pages: of the slice before, those that are not copied.
        same: columns that are in each row as they were.
    """
    assert work.base is not None
    stay = [each for each in work.target.indexed if each.column in same]
    change = [each for each in work.target.indexed if each.column not in same]
    columns = {KEY_COLUMN: before.keys}
    for each in change:
        if each.column not in columns:
            columns[each.column] = _whole_column(before, each, pages)
    stored = pa.table(columns)
    changes = value_changes(change, (work.base, stored), new, before.merge.source)
    return changes + unchanged_values(stay, work.base, new[0])


def _whole_column(before: _Before, indexed: Indexed, pages: _Pages) -> pa.ChunkedArray:
    """All rows of a column; plain texts are read without Arrow, which takes twice as long."""
    data, metadata, name = before.data, before.footer.metadata, indexed.column
    if indexed.kind != pa.string():
        return read_columns(data, metadata, [name])[name]
    known = pages.column(name)
    others = plain_pages(data, metadata, name, lambda first, _: first not in known)
    if others is not None:
        parts = [values for _, values in sorted({**known, **dict(others)}.items())]
        if sum(map(len, parts)) == len(before.keys):
            return pa.chunked_array(parts)
    texts = plain_strings(data, metadata, name)
    return pa.chunked_array(texts) if texts else read_columns(data, metadata, [name])[name]


def _read_pages(before: _Before, paged: PagedFile, layout: Layout, schema: pa.Schema) -> pa.Table:
    """The rows of the pages that are not copied, without the columns that are written anew.

    Where all pages keep their keys, columns that depend on keys alone are not needed. Columns that
    a merge looks at are not read again, nor a key field that holds the keys themselves.
    """
    rows = rows_of(layout.read, paged.starts)
    keep_keys = len(rows) == len(layout.updated) and not len(layout.new)
    known = dict(zip(before.stored.column_names, before.stored.columns, strict=True))
    keys = pa.chunked_array([before.keys])
    apart = {*columns_apart(schema)}
    together = pa.schema([item for item in schema if item.name not in apart])
    same = paged.same_pages(layout.read, KEY_COLUMN, together)
    known |= dict.fromkeys([KEY_COLUMN, *same], keys)
    if keep_keys:
        apart |= {KEY_COLUMN, PARTITION_COLUMN}
    names = [name for name in schema.names if name not in apart]
    stored = paged.read(layout.read, [name for name in names if name not in known])
    is_all = len(rows) == len(before.keys)
    for name in names:
        if name in known:
            values = known[name] if is_all else known[name].take(pa.array(rows))
            stored = stored.append_column(schema.field(name), values.cast(schema.field(name).type))
    return stored.select(names)


def _columns_anew(
    before: _Before, incoming: pa.Table, file_name: str, stored: pa.Table
) -> pa.Table:
    """The columns that are written anew, with all rows of the next slice.

    Args:
        before: the slice before.
        incoming: the rows of the batch.
        file_name: of the next slice.
        stored: of the columns those whose stored rows are all at hand.
    """
    source, names = before.merge.source, columns_apart(incoming.schema)
    others = [name for name in names if name != FILE_NAME_COLUMN]
    columns = {
        FILE_NAME_COLUMN: pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(len(source), np.int32)), [file_name]
        )
    }
    parts = [stored]
    if others:
        parts.append(read_columns(before.data, before.footer.metadata, others))
    for part in parts:
        rows = compose(part, incoming, source, file_name)
        columns.update(zip(rows.column_names, rows.columns, strict=True))
    # A column that must not be null has other pages.
    fields = [
        item.with_type(columns[item.name].type) for item in incoming.schema if item.name in columns
    ]
    return pa.table([columns[item.name] for item in fields], schema=pa.schema(fields))


def _merged_columns(
    target: WriteTarget, data: BytesReader, footer: BaseFileFooter
) -> tuple[pa.Table, pa.Array]:
    """The columns of all stored rows that a merge looks at, and their keys."""
    wanted = [target.ordering] if target.ordering else []
    # Arrow takes no names for no rows.
    stored = read_columns(data, footer.metadata, wanted) if wanted else pa.table({})
    return stored, target.keys.read(data, footer.metadata)


def _all_columns(target: WriteTarget, before: _Before) -> pa.Table:
    """The stored rows; their keys are not decoded again."""
    names = with_meta(target.schema).names
    place = names.index(KEY_COLUMN)
    rest = read_base_file(before.data, names[:place] + names[place + 1 :], footer=before.footer)
    return rest.add_column(place, KEY_COLUMN, before.keys)


def _keys_after(work: FileGroupWrite, before: _Before) -> pa.ChunkedArray:
    """The keys of all rows of the next slice."""
    both = pa.concat_arrays([before.keys, work.keys.cast(before.keys.type)])
    return pa.chunked_array([both.take(pa.array(before.merge.source))])


def _inserted(work: FileGroupWrite, merge: Merge) -> pa.Array:
    return work.keys.filter(pa.array(merge.outcomes == Outcome.INSERTED))


def stored_ordering(target: WriteTarget, base: BaseFile, keys: pa.Array) -> pa.Array:
    """The stored ordering values of keys that a base file holds, in their order.

    They have the type of the table's column, also where the file was written with a narrower one,
    and are null where it was written without the column.
    """
    assert target.ordering is not None
    columns = dict.fromkeys([*target.keys.columns, target.ordering])
    table = read_base_file(read_base(target.storage, base), list(columns))
    place = pc.index_in(keys, value_set=target.keys.of_rows(table, base.path))
    stored = table.select([target.ordering] if target.ordering in table.column_names else [])
    values = in_schema(stored, pa.schema([target.schema.field(target.ordering)]), base.path)
    return values[target.ordering].combine_chunks().take(place)
