"""A Parquet file that is being written: its column chunks are there, its footer is not yet.

    "PAR1" | column chunks | footer | uint32 LE length of the footer | "PAR1"

The fields of the footer are carried over as bytes. Its entries come when the file is closed.
docs/formats/base_file.md draws all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.checksums import CHECKSUMS_ENTRY, DIGITS, FILE_ENTRY, hex_digits
from keymark.table.format.parquet.footer_groups import (
    COMPRESSED,
    DATA_PAGE,
    DICTIONARY_PAGE,
    FooterGroups,
)
from keymark.table.format.parquet.thrift import BINARY, LIST
from keymark.table.format.parquet.thrift_scan import (
    RawFields,
    raw_fields,
    raw_list,
    raw_struct,
    varint,
)

MAGIC = b"PAR1"
SCHEMA, ROWS, ROW_GROUPS, ENTRIES = 2, 3, 4, 5
"""Fields of FileMetaData"""
META = 3
"""The field of ColumnChunk that is its ColumnMetaData"""

_TAIL_BYTES = 8


@dataclass(frozen=True, slots=True)
class FileBody:
    """A Parquet file without its footer.

    Attributes:
        name: the file, for errors.
        data: the file up to the end of its last column chunk.
        fields: of the footer, without row groups and entries.
        groups: the row groups, as the footer describes them.
    """

    name: str
    data: memoryview
    fields: RawFields
    groups: FooterGroups

    @classmethod
    def of(cls, file: bytes | memoryview | pa.Buffer, name: str) -> Self:
        """The body of a file that was just written, or whose footer was checked.

        Raises:
            CorruptFileError: its footer cannot be read, or names places outside of the file.
        """
        whole = memoryview(file).cast("B")
        length = int.from_bytes(whole[-_TAIL_BYTES : -len(MAGIC)], "little")
        start = len(whole) - _TAIL_BYTES - length
        if start < len(MAGIC) or whole[-len(MAGIC) :] != MAGIC:
            raise CorruptFileError(name, len(whole), f"no Parquet footer of {length} bytes")
        footer = np.frombuffer(whole, np.uint8, length, start)
        # Kernels are compiled for arrays that are read-only.
        footer.flags.writeable = False
        fields = raw_fields(footer)
        if fields is None:
            raise CorruptFileError(name, start, "damaged footer: it does not end where it should")
        kind, groups_text = fields.pop(ROW_GROUPS, (0, b""))
        fields.pop(ENTRIES, None)
        if kind != LIST or SCHEMA not in fields:
            raise CorruptFileError(name, start, "damaged footer: no schema, or no row groups")
        groups = FooterGroups.of(np.frombuffer(groups_text, np.uint8), name, start)
        _check_places(groups, name, start)
        return cls(name, whole[:start], fields, groups)

    def meta(self, group: int, column: int) -> dict[int, tuple[int, bytes]]:
        """The ColumnMetaData of a column chunk, one level deep.

        Raises:
            CorruptFileError: it has a field twice.
        """
        start, end = self.groups.chunks[group * self.groups.shape[1] + column]
        chunk = raw_fields(self.groups.data[start:end])
        meta = None if chunk is None else raw_fields(np.frombuffer(chunk[META][1], np.uint8))
        if meta is None:
            detail = f"damaged footer: column chunk {column} of row group {group}"
            raise CorruptFileError(self.name, len(self.data), detail)
        return meta

    def closed(self, entries: Mapping[bytes, bytes], path: str | None) -> bytes:
        """The whole file.

        Args:
            entries: key-value entries of its footer.
            path: of the file in its table. The footer gets it, and checksums. None for a file that
                is in no table.
        """
        checksums = None
        if path is not None:
            starts, sizes = self.groups.starts.tolist(), self.groups.of_chunks(COMPRESSED).tolist()
            checksums = [
                isal_zlib.crc32(self.data[start : start + size])
                for start, size in zip(starts, sizes, strict=True)
            ]
        fields = {**self.fields, ROW_GROUPS: (LIST, self.groups.data.tobytes())}
        return b"".join([self.data, end_of_file(fields, entries, path=path, checksums=checksums)])


def _check_places(groups: FooterGroups, name: str, end: int) -> None:
    """Refuse chunks that do not lie before the footer, at `end`, with both of their offsets."""
    starts, sizes = groups.starts, groups.of_chunks(COMPRESSED)
    outside = (starts < 0) | (sizes < 0) | (sizes > end) | (starts > end - sizes)
    for slot in (DATA_PAGE, DICTIONARY_PAGE):
        offsets = groups.of_chunks(slot)
        # Within 0 to `end` nothing overflows.
        outside |= (offsets < 0) | (offsets > end) | (offsets - starts > sizes)
    if outside.any():
        chunk = int(np.flatnonzero(outside)[0])
        detail = f"column chunk {chunk} at {starts[chunk]} with {sizes[chunk]} bytes, outside of it"
        raise CorruptFileError(name, end, f"damaged footer: {detail}")


def end_of_file(
    fields: RawFields,
    entries: Mapping[bytes, bytes],
    *,
    path: str | None,
    checksums: Sequence[int] | None,
) -> bytes:
    """The footer of a file, its length and the magic.

    Args:
        fields: of the footer, without entries.
        entries: key-value entries.
        path: of the file in its table; None for a file that is in no table.
        checksums: of each column chunk, if there is a path.
    """
    if path is not None and checksums is not None:
        text = hex_digits(checksums) + b"0" * DIGITS
        entries = {**entries, FILE_ENTRY: path.encode(), CHECKSUMS_ENTRY: text}
    if entries:
        fields = {**fields, ENTRIES: (LIST, _list_of(entries))}
    out = bytearray(raw_struct(fields))
    if CHECKSUMS_ENTRY in entries:
        text = entries[CHECKSUMS_ENTRY]
        at = out.index(text, out.rindex(CHECKSUMS_ENTRY)) + len(text) - DIGITS
        out[at : at + DIGITS] = hex_digits([isal_zlib.crc32(out)])
    return b"".join([out, struct.pack("<I", len(out)), MAGIC])


def _list_of(entries: Mapping[bytes, bytes]) -> bytes:
    """The value of the field of entries: a list of KeyValue, each with field 1 and 2."""
    return raw_list(
        [
            raw_struct({n: (BINARY, varint(len(text)) + text) for n, text in enumerate(entry, 1)})
            for entry in entries.items()
        ]
    )
