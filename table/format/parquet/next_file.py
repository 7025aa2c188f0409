"""A base file whose row groups are partly those of the file before, copied as they lie.

    file before    group 0    group 1    group 2
    new rows                  group 1'             group 3'
    next file      group 0    group 1'   group 2   group 3'

A copied row group keeps its pages, encodings and statistics; in the new footer its offsets move
with them. Only its column `_hoodie_file_name` is written anew: its rows are now those of another
file. The checksum of each column chunk is compared before the chunk is copied, so that damage never
gets a new checksum. docs/formats/base_file.md draws what comes from where.
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
    """A row group of the new file: how many rows it has, and its number in the file before.

    The number is None where its rows are new.
    """

    rows: int
    copied: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFile:
    """What the new file is made of.

    Attributes:
        before: the file before, whose footer was checked.
        checksums: of that file.
        groups: the row groups of the new file, in their order.
        rows: those of all groups that are not copied, in their order, with all columns.
        entries: of the new footer (`hudi_entries`).
        path: of the new file in its table.
    """

    before: BytesReader
    checksums: Checksums
    groups: Sequence[RowGroup]
    rows: pa.Table
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
    sizes = [group.rows for group in file.groups if group.copied is None]
    new = encode(file.rows, sizes, options)
    if not before.groups.movable or before.fields[SCHEMA] != new.fields[SCHEMA]:
        return None
    lengths = sorted({group.rows for group in file.groups if group.copied is not None})
    names = encode(_names(file, sum(lengths)), lengths, options)
    sources = _Sources.of((before, new, names))
    numbers, chunks = _chosen(file.groups, before.groups, len(sizes), lengths)
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
        files: the file before, the new rows, the column of file names.
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
    return pa.table([names], schema=pa.schema([file.rows.schema.field(FILE_NAME_COLUMN)]))


def _chosen(
    groups: Sequence[RowGroup], before: FooterGroups, new: int, lengths: Sequence[int]
) -> tuple[_Numbers, _Numbers]:
    """Of each row group its number among all sources, and those of its chunks.

    Args:
        groups: of the new file.
        before: of the file before.
        new: how many row groups have new rows.
        lengths: how many rows each chunk of file names has, ascending.
    """
    count, columns = before.shape
    is_copied = np.array([group.copied is not None for group in groups])
    numbers = np.array([group.copied or 0 for group in groups])
    numbers[~is_copied] = count + np.arange(new)
    chunks = numbers[:, None] * columns + np.arange(columns)
    places = np.searchsorted(lengths, [group.rows for group in groups])
    chunks[is_copied, _NAME_COLUMN] = (count + new) * columns + places[is_copied]
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
