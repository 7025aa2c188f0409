"""A base file whose row groups are partly those of the file before, copied as they lie.

    file before    group 0    group 1    group 2
    updated rows              group 1'
    new rows                                       group 3'
    next file      group 0    group 1'   group 2   group 3'

A copied row group keeps its pages, encodings and statistics; in the new footer its offsets move
with them. Only its column `_hoodie_file_name` is written anew: its rows are now those of another
file. Of a row group with updated rows, the columns in which they do not differ are copied likewise.
The checksum of each column chunk is compared before the chunk is copied, so that damage never gets
a new checksum. docs/formats/base_file.md draws what comes from where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal import isal_zlib

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import BaseFileOptions, encode
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.column_choice import leaves_of
from keymark.table.format.parquet.file_body import (
    MAGIC,
    ROW_GROUPS,
    ROWS,
    SCHEMA,
    FileBody,
    end_of_file,
)
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN
from keymark.table.format.parquet.footer_groups import (
    COMPRESSED,
    FIRST_CHUNK,
    ORDINAL,
    UNCOMPRESSED,
    FooterGroups,
    GroupPlan,
    sizes_of_groups,
)
from keymark.table.format.parquet.thrift import I64, LIST
from keymark.table.format.parquet.thrift_scan import integer
from keymark.table.format.schema import META_COLUMNS
from keymark.table.storage.storage import BytesReader

_Numbers = npt.NDArray[np.int64]

# The meta columns come first, and each is one leaf of the schema.
_NAME_COLUMN = META_COLUMNS.index(FILE_NAME_COLUMN)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of the new file.

    Attributes:
        rows: how many it has.
        before: the number of the row group with the same keys in the file before; None where there
            is none.
        is_copied: whether its rows are the same.
    """

    rows: int
    before: int | None = None
    is_copied: bool = False

    @property
    def is_updated(self) -> bool:
        """Whether some of its rows differ from those before."""
        return self.before is not None and not self.is_copied


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFile:
    """What the new file is made of.

    Attributes:
        before: the file before, whose footer was checked.
        checksums: of that file.
        groups: the row groups of the new file, in their order.
        new: the rows of all groups that have none before, in their order, with all columns.
        updated: the rows of all groups that have one before and are not copied; only the columns
            that differ, and that of file names.
        entries: of the new footer (`hudi_entries`).
        path: of the new file in its table.
    """

    before: BytesReader
    checksums: Checksums
    groups: Sequence[RowGroup]
    new: pa.Table
    updated: pa.Table
    entries: Mapping[bytes, bytes]
    path: str


def write_next_file(file: NextFile, options: BaseFileOptions) -> bytes | None:
    """Write a base file of copied and new row groups.

    Returns:
        The file; None if the file before has another schema, or parts that cannot be copied.

    Raises:
        CorruptFileError: what would be copied is damaged.
    """
    before = FileBody.of(file.before.data, file.before.name)
    new = encode(file.new, [group.rows for group in file.groups if group.before is None], options)
    if not before.groups.movable or before.fields[SCHEMA] != new.fields[SCHEMA]:
        return None
    sizes = [group.rows for group in file.groups if group.is_updated]
    updated = encode(file.updated, sizes, options)
    lengths = sorted({group.rows for group in file.groups if group.is_copied})
    names = encode(_names(file, sum(lengths)), lengths, options)
    sources = _Sources.of((before, new, updated, names))
    numbers, chunks = _chosen(file, before.groups, lengths)
    compressed = sources.groups.of_chunks(COMPRESSED)[chunks]
    ends = FIRST_CHUNK + np.cumsum(compressed).reshape(compressed.shape)
    shifts = ends - compressed - sources.groups.starts[chunks]
    pieces = sources.pieces(chunks)
    checksums = [isal_zlib.crc32(piece) for piece in pieces]
    _compare(file, before, chunks.ravel().tolist(), checksums)
    uncompressed = sources.groups.of_chunks(UNCOMPRESSED)[chunks]
    told = {
        **sizes_of_groups(uncompressed, compressed),
        ORDINAL: np.arange(len(numbers)),
    }
    groups = sources.groups.with_numbers({}, _of_all(told, numbers, len(sources.groups.heads)))
    fields = {
        **new.fields,
        ROWS: (I64, integer(sum(group.rows for group in file.groups))),
        ROW_GROUPS: (LIST, groups.written(GroupPlan(numbers, chunks, shifts))),
    }
    end = end_of_file(fields, file.entries, path=file.path, checksums=checksums)
    return b"".join([MAGIC, *pieces, end])


@dataclass(frozen=True, slots=True)
class _Sources:
    """Files that column chunks are taken from; their row groups and chunks are counted through.

    Attributes:
        files: the file before, the new rows, the updated ones, the column of file names.
        groups: of all of them.
        firsts: the number of each file's first chunk. (files,).
    """

    files: tuple[FileBody, ...]
    groups: FooterGroups
    firsts: _Numbers

    @classmethod
    def of(cls, files: tuple[FileBody, ...]) -> Self:
        """Those of files."""
        counts = np.array([len(file.groups.chunks) for file in files])
        joined = FooterGroups.joined([file.groups for file in files])
        return cls(files, joined, np.cumsum(counts) - counts)

    def pieces(self, chunks: _Numbers) -> list[memoryview]:
        """The bytes of column chunks."""
        chosen = chunks.ravel()
        # The last of equal firsts: a file without chunks has the first chunk of the next one.
        owners = np.searchsorted(self.firsts, chosen, side="right") - 1
        starts = self.groups.starts[chosen]
        ends = starts + self.groups.of_chunks(COMPRESSED)[chosen]
        return [
            self.files[owner].data[start:end]
            for owner, start, end in zip(
                owners.tolist(), starts.tolist(), ends.tolist(), strict=True
            )
        ]


def _names(file: NextFile, rows: int) -> pa.Table:
    """The column of the new file's name."""
    names = pa.repeat(pa.scalar(file.path.rpartition("/")[2]), rows)
    return pa.table([names], schema=pa.schema([file.new.schema.field(FILE_NAME_COLUMN)]))


def _chosen(
    file: NextFile, before: FooterGroups, lengths: Sequence[int]
) -> tuple[_Numbers, _Numbers]:
    """Of each row group its number among all sources, and those of its chunks.

    Args:
        file: the new file.
        before: the row groups of the one before.
        lengths: how many rows each chunk of file names has, ascending.
    """
    groups = file.groups
    count, columns = before.shape
    is_new = np.array([group.before is None for group in groups])
    is_copied = np.array([group.is_copied for group in groups])
    numbers = np.array([group.before or 0 for group in groups])
    numbers[is_new] = count + np.arange(is_new.sum())
    chunks = numbers[:, None] * columns + np.arange(columns)
    first = (count + int(is_new.sum())) * columns
    written = set(file.updated.column_names)
    leaves = [path.partition(".")[0] in written for path in leaves_of(file.new)]
    updated = np.flatnonzero([group.is_updated for group in groups])
    places = np.ix_(updated, np.flatnonzero(leaves))
    chunks[places] = first + np.arange(chunks[places].size).reshape(chunks[places].shape)
    first += chunks[places].size
    which = np.searchsorted(lengths, [group.rows for group in groups])
    chunks[is_copied, _NAME_COLUMN] = first + which[is_copied]
    return numbers, chunks


def _of_all(told: Mapping[int, _Numbers], numbers: _Numbers, count: int) -> dict[int, _Numbers]:
    """Numbers of some row groups as numbers of all; the others are not written."""
    found = {slot: np.zeros(count, np.int64) for slot in told}
    for slot, values in told.items():
        found[slot][numbers] = values
    return found


def _compare(
    file: NextFile, before: FileBody, chunks: Sequence[int], checksums: Sequence[int]
) -> None:
    """Refuse damage in what is copied.

    Args:
        file: the new file.
        before: the one before, whose chunks are the first ones.
        chunks: the numbers of the new file's chunks.
        checksums: of the bytes that they are made of.
    """
    known = file.checksums.chunks
    starts = before.groups.starts.tolist()
    for chunk, checksum in zip(chunks, checksums, strict=True):
        if chunk < len(starts) and (chunk >= len(known) or known[chunk] != checksum):
            detail = f"the checksum of column chunk {chunk} differs"
            raise CorruptFileError(file.before.name, starts[chunk], detail)
