"""Base files of a table, opened and checked against what the table says about them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError, InputError
from keymark.table.format.parquet.base_file import BaseFileFooter, read_base_file
from keymark.table.format.parquet.chosen_rows import chosen_rows
from keymark.table.format.schema import conform, with_meta
from keymark.table.layout.model import BaseFile
from keymark.table.storage.storage import BytesReader, RangeReader, Storage

_FEW_ROWS = 100
"""More of them are in most pages of a file."""


def stored_rows(
    data: RangeReader, footer: BaseFileFooter, schema: pa.Schema, *, meta: bool = True
) -> pa.Table:
    """The rows of a base file in the table's schema, with the meta columns or without.

    A column that the file was written without, before the schema had it, reads as null.
    """
    full = with_meta(schema) if meta else schema
    stored = read_base_file(data, None if meta else full.names, footer=footer)
    return in_schema(stored, full, data.name)


def rows_at(
    data: RangeReader,
    footer: BaseFileFooter,
    schema: pa.Schema,
    places: npt.NDArray[np.int64],
    columns: Collection[str] | None = None,
) -> pa.Table:
    """Some rows of a base file in the table's schema, with the meta columns.

    For a few rows only the pages that hold them are read if Keymark wrote the file, else all of it.

    Args:
        data: the file.
        footer: its footer.
        schema: of the table.
        places: numbers of the rows, ascending.
        columns: names of the columns to read; None for all.
    """
    full = with_meta(schema)
    if columns is not None:
        full = pa.schema([item for item in full if item.name in columns])
    if not len(places):
        return full.empty_table()
    if footer.checksums is None or len(places) > _FEW_ROWS:
        stored = stored_rows(data, footer, schema).take(pa.array(places))
        return stored.select(full.names)
    stored = chosen_rows(data, footer.metadata, places, full.names)
    return in_schema(stored, full, data.name)


def in_schema(stored: pa.Table, full: pa.Schema, name: str) -> pa.Table:
    """Rows of a file with the columns of the table, in their order.

    Args:
        stored: the rows.
        full: the columns; one that the rows lack reads as null.
        name: the file, for errors.

    Raises:
        CorruptFileError: a column does not fit that of the table.
    """
    for item in full:
        if item.name not in stored.column_names and item.nullable:
            stored = stored.append_column(item, pa.nulls(stored.num_rows, item.type))
    try:
        return conform(stored, full, name)
    except InputError as error:
        raise CorruptFileError(name, 0, str(error)) from error


def read_base(storage: Storage, base: BaseFile) -> BytesReader:
    """A base file of the table, whole, in memory.

    Raises:
        CorruptFileError: it is gone, or not of the size that the table names.
    """
    try:
        data = storage.read(base.path)
    except FileNotFoundError as error:
        raise CorruptFileError(base.path, 0, "the table needs this file; it is missing") from error
    check_size(base, len(data))
    return BytesReader(name=base.path, data=data)


def open_sized(storage: Storage, base: BaseFile) -> RangeReader:
    """Open a base file of the table.

    Raises:
        FileNotFoundError: it is gone.
        CorruptFileError: it is not of the size that the table names.
    """
    source = storage.open(base.path)
    check_size(base, source.size)
    return source


def check_size(base: BaseFile, size: int) -> None:
    """Refuse a base file that is not of the size that the table names."""
    if size != base.size:
        detail = f"a file of {size} bytes, the table names {base.size}"
        raise CorruptFileError(base.path, min(size, base.size), detail)


def without_values(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """A table with those text columns of it all null."""
    nulls = pa.nulls(table.num_rows, pa.string())
    for name in columns:
        table = table.set_column(table.schema.get_field_index(name), name, nulls)
    return table
