"""A base file written anew with the same rows: with stored keys, or without.

stored -> virtual   the meta columns become null, filter and key range leave the footer
virtual -> stored   the meta columns are filled: the key that the generator makes, and as commit
                    time the slice's instant: the row's own is not known, and is not later
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import read_footer, write_base_file
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN
from keymark.table.format.schema import META_COLUMNS, with_meta
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.state.base_files import read_base, stored_rows
from keymark.table.write.file_group import (
    FileGroupResult,
    FileGroupWrite,
    meta_columns,
    new_file,
    put_slice,
)
from keymark.table.write.page_layout import with_small_pages

_NOTHING = np.empty(0, np.uint8)


def rewrite_group(work: FileGroupWrite) -> FileGroupResult:
    """Put the next slice of a file group; a task for a runner.

    `work` has no incoming rows; its target says how keys are made and whether they are stored.

    Raises:
        CorruptFileError: the file is damaged, or a stored key is not the one that is made.
    """
    assert work.base is not None
    target, file = work.target, new_file(work)
    data = read_base(target.storage, work.base)
    footer = read_footer(data)
    if not target.stores_meta:
        # The keys were proved before the table said that they are made.
        rows = stored_rows(data, footer, target.schema, meta=False)
        nulls = [pa.nulls(rows.num_rows, pa.string())] * len(META_COLUMNS)
        table = pa.table([*nulls, *rows.columns], schema=with_meta(target.schema))
    else:
        stored = stored_rows(data, footer, target.schema)
        made = target.keys.of_rows(stored, data.name)
        refuse_other_keys(stored, made, data.name)
        table = _filled(work, stored, made, file.name)
    options = with_small_pages(target, table.num_rows)
    written = write_base_file(table, options=options, path=file.path)
    return put_slice(work, file, written, rows=table.num_rows, outcomes=_NOTHING)


def refuse_other_keys(stored: pa.Table, made: pa.Array, name: str) -> None:
    """Refuse rows whose stored keys, where there are any, are not those made.

    Raises:
        CorruptFileError: names the file and the first row.
    """
    keys = stored[KEY_COLUMN].combine_chunks().cast(pa.string())
    differs = pc.and_(_holds(keys), pc.fill_null(pc.not_equal(keys, made), fill_value=False))
    if pc.any(differs).as_py():
        row = pc.index(differs, value=True).as_py()
        raise CorruptFileError(
            name,
            0,
            f"row {row} has the key {keys[row].as_py()!r}, and its columns make "
            f"{made[row].as_py()!r}: keys of this table cannot be virtual",
        )


def _holds(texts: pa.Array) -> pa.Array:
    """Where texts are neither null nor empty, as Hudi leaves them."""
    return pc.fill_null(pc.not_equal(texts, ""), fill_value=False)


def _filled(work: FileGroupWrite, stored: pa.Table, keys: pa.Array, file_name: str) -> pa.Table:
    """Rows with all meta columns; what is there stays, but for the file's name."""
    assert work.base is not None
    instant = work.base.instant_time
    columns = meta_columns(work.target, work.number, keys, work.partition_path, file_name)
    count = pa.array(np.arange(len(keys))).cast(pa.string())
    columns[:2] = [
        pa.repeat(pa.scalar(instant), len(keys)),
        pc.binary_join_element_wise(f"{instant}_{work.number}", count, "_"),
    ]
    for name, values in zip(META_COLUMNS, columns, strict=True):
        before = stored[name].combine_chunks()
        kept = values if name == FILE_NAME_COLUMN else pc.if_else(_holds(before), before, values)
        stored = stored.set_column(stored.schema.get_field_index(name), name, kept)
    return stored
