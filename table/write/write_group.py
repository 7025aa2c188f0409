"""The task that writes one file group: read the base file, merge, put the next slice.

Where a batch changes few row groups of a base file, the others are copied as they lie, and only
those that change are decoded and encoded again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.parquet.base_file import (
    BaseFileFooter,
    read_base_file,
    read_columns,
    read_footer,
    write_base_file,
)
from keymark.table.format.parquet.next_file import NextFile, write_next_file
from keymark.table.format.schema import META_COLUMNS
from keymark.table.layout.model import BaseFile
from keymark.table.state.base_files import read_base, stored_rows, without_values
from keymark.table.storage.storage import BytesReader
from keymark.table.values.changes import value_changes
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
from keymark.table.write.row_groups import can_copy, group_size, group_starts, layout_of


def write_file_group(work: FileGroupWrite) -> FileGroupResult:
    """Merge and write one file group; the task that a runner distributes."""
    if work.base is None:
        return _create(work)
    data = read_base(work.target.storage, work.base)
    footer = read_footer(data)
    result = None
    if can_copy(footer.metadata, work.target):
        result = _write_changed_groups(work, data, footer)
    return result or _write_all(work, data, footer)


def _create(work: FileGroupWrite) -> FileGroupResult:
    """Open a file group with the rows that are put; deletes find nothing here."""
    puts = (work.ops == Op.PUT) | (work.ops == Op.APPEND)
    outcomes = np.where(puts, Outcome.INSERTED, Outcome.UNCHANGED).astype(np.uint8)
    if not puts.any():
        return FileGroupResult(file=None, stat=None, outcomes=outcomes)
    file = new_file(work)
    mask = pa.array(puts)
    table = with_new_meta(work, work.rows.filter(mask), work.keys.filter(mask), file.name)
    data = bytes(write_base_file(table, options=work.target.options, path=file.path))
    return put_slice(work, file, data, rows=table.num_rows, outcomes=outcomes)


def _write_all(work: FileGroupWrite, data: BytesReader, footer: BaseFileFooter) -> FileGroupResult:
    """Decode all rows of the file, and encode all rows of the next one."""
    assert work.base is not None
    target = work.target
    stored = stored_rows(data, footer, target.schema)
    keys = target.keys.of_rows(stored, data.name)
    merge = merge_rows(work, stored, keys)
    if merge.changes_nothing:
        return FileGroupResult(file=None, stat=None, outcomes=merge.outcomes)
    file = new_file(work)
    incoming = with_new_meta(work, work.rows, work.keys, file.name)
    carried = with_stored_keys(work, stored, keys)
    table = compose(carried, incoming, merge.source, file.name)
    if not target.stores_meta:
        table = without_values(table, META_COLUMNS)
    written = write_base_file(
        table,
        options=replace(target.options, group_rows=group_size(merge, target.group_rows)),
        # Without deletes the old keys are all there, and their bloom filter goes on.
        previous=footer if merge.keeps_keys else None,
        inserted=_inserted(work, merge),
        path=file.path,
    )
    done = put_slice(work, file, bytes(written), rows=table.num_rows, outcomes=merge.outcomes)
    values = value_changes(target.indexed, (work.base, stored), (file, table), merge.source)
    return replace(done, values=values)


def _write_changed_groups(
    work: FileGroupWrite, data: BytesReader, footer: BaseFileFooter
) -> FileGroupResult | None:
    """Copy the row groups that stay; None where the file is better written whole."""
    assert work.base is not None
    target, metadata = work.target, footer.metadata
    keys = target.keys.read(data, metadata)
    stored = _stored_columns(target, data, footer)
    merge = merge_rows(work, stored, keys)
    if merge.changes_nothing:
        return FileGroupResult(file=None, stat=None, outcomes=merge.outcomes)
    layout = layout_of(merge, group_starts(metadata), target.group_rows)
    if layout is None:
        return None
    file = new_file(work)
    incoming = with_new_meta(work, work.rows, work.keys, file.name)
    changing = read_columns(data, metadata, None, layout.read)
    has_filter = target.options.footer.bloom_enabled
    all_keys = pa.concat_arrays([keys, work.keys.cast(keys.type)]) if has_filter else None
    written = write_next_file(
        NextFile(
            before=data,
            footer=footer,
            groups=layout.groups,
            rows=compose(changing, incoming, layout.source, file.name),
            keys=None if all_keys is None else pa.chunked_array([all_keys.take(merge.source)]),
            inserted=_inserted(work, merge),
            keeps_keys=merge.keeps_keys,
            path=file.path,
            file_name=file.name,
        ),
        target.options,
    )
    if written is None:
        return None
    rows = len(merge.source)
    done = put_slice(work, file, written, rows=rows, outcomes=merge.outcomes)
    if not target.indexed:
        return done
    after = compose(stored, incoming, merge.source, file.name)
    values = value_changes(target.indexed, (work.base, stored), (file, after), merge.source)
    return replace(done, values=values)


def _stored_columns(target: WriteTarget, data: BytesReader, footer: BaseFileFooter) -> pa.Table:
    """Of all stored rows the columns that a merge looks at."""
    wanted = dict.fromkeys(each.column for each in target.indexed)
    if target.ordering:
        wanted[target.ordering] = None
    # Arrow takes no names for no rows.
    return read_columns(data, footer.metadata, list(wanted)) if wanted else pa.table({})


def _inserted(work: FileGroupWrite, merge: Merge) -> pa.Array:
    return work.keys.filter(pa.array(merge.outcomes == Outcome.INSERTED))


def stored_ordering(target: WriteTarget, base: BaseFile, keys: pa.Array) -> pa.Array:
    """The stored ordering values of keys that a base file holds, in their order."""
    assert target.ordering is not None
    columns = dict.fromkeys([*target.keys.columns, target.ordering])
    table = read_base_file(read_base(target.storage, base), list(columns))
    place = pc.index_in(keys, value_set=target.keys.of_rows(table, base.path))
    return table[target.ordering].combine_chunks().take(place)
