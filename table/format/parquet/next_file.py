"""A base file whose row groups are partly those of the file before, copied as they lie.

    file before    group 0    group 1    group 2
    new rows                  group 1'             group 3'
    file           group 0    group 1'   group 2   group 3'

A copied row group keeps its pages, encodings and statistics; in the new footer its offsets move
with them. Only its column `_hoodie_file_name` is written anew: its rows are now those of another
file. The checksum of each column chunk is compared before the chunk is copied, so that damage never
gets a new checksum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from keymark.table.format.parquet.base_file import (
    BaseFileFooter,
    BaseFileOptions,
    encode,
    hudi_entries,
)
from keymark.table.format.parquet.checksums import Checksums, close_file
from keymark.table.format.parquet.file_fields import (
    CHUNK_FIELDS,
    CHUNK_META,
    CHUNK_OFFSET,
    FILE_ROW_GROUPS,
    FILE_ROWS,
    FILE_SCHEMA,
    GROUP_COLUMNS,
    GROUP_ORDINAL,
    GROUP_ROWS,
    META_COMPRESSED,
    META_DATA_OFFSET,
    META_DICTIONARY_OFFSET,
    META_PATH,
    META_PLACES,
    chunk_start,
)
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN
from keymark.table.format.parquet.parquet_gzip import UnknownShapeError, footer_of, put_sizes
from keymark.table.format.parquet.thrift import I16, I64, LIST, STRUCT, Fields
from keymark.table.storage.storage import BytesReader

_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of the new file: how many rows it has, and its number in the file before.

    The number is None where its rows are new.
    """

    rows: int
    copied: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFile:
    """What the new file is made of.

    Attributes:
        before: the file before, whose footer was checked; a file of ours with checksums.
        footer: of that file.
        groups: the row groups of the new file, in their order.
        rows: those of all groups that are not copied, in their order, with all columns.
        keys: of all rows of the new file; None for a file without bloom filter.
        inserted: those of them that the file before has not.
        keeps_keys: whether no key of the file before is gone.
        path: of the new file in its table.
        file_name: the last part of it.
    """

    before: BytesReader
    footer: BaseFileFooter
    groups: Sequence[RowGroup]
    rows: pa.Table
    keys: pa.ChunkedArray | None
    inserted: pa.Array
    keeps_keys: bool
    path: str
    file_name: str


def write_next_file(file: NextFile, options: BaseFileOptions) -> bytes | None:
    """Write a base file of copied and new row groups.

    Returns:
        The file; None if the file before has another schema, or parts that cannot be copied.

    Raises:
        CorruptFileError: what would be copied is damaged.
    """
    previous = file.footer if file.keeps_keys else None
    entries = hudi_entries(file.keys, options, previous, file.inserted)
    sizes = [group.rows for group in file.groups if group.copied is None]
    written = encode(file.rows, sizes, options=options, entries=entries).to_pybytes()
    footer, _ = footer_of(written)
    before, _ = footer_of(file.before.data)
    if before[FILE_SCHEMA] != footer[FILE_SCHEMA]:
        return None
    out = bytearray(_MAGIC)
    new_groups = iter(_groups_of(footer))
    names = _FileNames.of(file, options)
    _compare_checksums(file, before)
    groups = []
    try:
        for ordinal, group in enumerate(file.groups):
            start = len(out)
            if group.copied is None:
                fields = _moved(next(new_groups), written, out)
            else:
                copied = _groups_of(before)[group.copied]
                fields = _copied(copied, file.before.data, names, out)
            put_sizes(fields, start)
            if GROUP_ORDINAL in fields:
                fields[GROUP_ORDINAL] = (I16, ordinal)
            groups.append(fields)
    except UnknownShapeError:
        return None
    footer[FILE_ROW_GROUPS] = (LIST, (STRUCT, groups))
    footer[FILE_ROWS] = (I64, sum(group.rows for group in file.groups))
    return close_file(out, footer, file.path)


def _groups_of(footer: Fields) -> list[Fields]:
    groups: list[Fields] = footer[FILE_ROW_GROUPS][1][1]
    return groups


def _chunks_of(group: Fields) -> list[Fields]:
    chunks: list[Fields] = group[GROUP_COLUMNS][1][1]
    return chunks


def _moved(group: Fields, data: bytes, out: bytearray) -> Fields:
    """Append a new row group; the group with its offsets moved."""
    chunks = [_append(chunk, data, out) for chunk in _chunks_of(group)]
    return {**group, GROUP_COLUMNS: (LIST, (STRUCT, chunks))}


def _compare_checksums(file: NextFile, before: Fields) -> None:
    """Refuse damage in what is copied."""
    checksums = Checksums.of(file.footer.metadata.metadata)
    assert checksums is not None
    groups, data = _groups_of(before), memoryview(file.before.data)
    for number in (group.copied for group in file.groups if group.copied is not None):
        chunks = _chunks_of(groups[number])
        for column, chunk in enumerate(chunks, number * len(chunks)):
            if not _is_file_name(chunk):
                meta = chunk[CHUNK_META][1]
                start = chunk_start(meta)
                pages = data[start : start + meta[META_COMPRESSED][1]]
                checksums.check(column, pages, file.before.name, start)


def _is_file_name(chunk: Fields) -> bool:
    path: list[bytes] = chunk[CHUNK_META][1][META_PATH][1][1]
    return path == [FILE_NAME_COLUMN.encode()]


def _copied(group: Fields, data: bytes, names: _FileNames, out: bytearray) -> Fields:
    """Append a row group of the file before, with its rows' new file name; the group moved."""
    chunks = [
        _append(names.chunks[group[GROUP_ROWS][1]], names.data, out)
        if _is_file_name(chunk)
        else _append(chunk, data, out)
        for chunk in _chunks_of(group)
    ]
    return {**group, GROUP_COLUMNS: (LIST, (STRUCT, chunks))}


def _append(chunk: Fields, data: bytes, out: bytearray) -> Fields:
    """Append the pages of a column chunk; the chunk with its offsets moved."""
    meta = chunk[CHUNK_META][1]
    if not chunk.keys() <= CHUNK_FIELDS or meta.keys() & META_PLACES:
        raise UnknownShapeError
    start = chunk_start(meta)
    by = len(out) - start
    out += memoryview(data)[start : start + meta[META_COMPRESSED][1]]
    meta = dict(meta)
    for place in (META_DATA_OFFSET, META_DICTIONARY_OFFSET):
        if place in meta:
            meta[place] = (meta[place][0], meta[place][1] + by)
    moved = {**chunk, CHUNK_META: (STRUCT, meta)}
    if chunk[CHUNK_OFFSET][1]:
        moved[CHUNK_OFFSET] = (I64, start + by)
    return moved


@dataclass(frozen=True, slots=True)
class _FileNames:
    """Column chunks that repeat the new file's name, one for each number of rows.

    Attributes:
        data: a Parquet file of the one column, with a row group for each number of rows.
        chunks: by number of rows.
    """

    data: bytes
    chunks: dict[int, Fields]

    @classmethod
    def of(cls, file: NextFile, options: BaseFileOptions) -> _FileNames:
        """Those that the copied row groups need."""
        sizes = sorted({group.rows for group in file.groups if group.copied is not None})
        names = pa.repeat(pa.scalar(file.file_name), sum(sizes))
        schema = pa.schema([file.rows.schema.field(FILE_NAME_COLUMN)])
        table = pa.table([names], schema=schema)
        data = encode(table, sizes, options=options, entries={}).to_pybytes()
        groups = _groups_of(footer_of(data)[0])
        return cls(data, {n: _chunks_of(each)[0] for n, each in zip(sizes, groups, strict=True)})
