"""A Parquet file that is being written: its column chunks are there, its footer is not yet.

    "PAR1" | column chunks | footer | uint32 LE length of the footer | "PAR1"

What a footer says of its column chunks is in `groups`, whose numbers may still change. The other
fields (schema, creator, orders of columns) are carried over as bytes. Entries come when the file is
closed. docs/formats/base_file.md draws all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal import isal_zlib

from keymark.table.errors import CorruptFileError
from keymark.table.format.kernels.compiled import kernel
from keymark.table.format.parquet.checksums import CHECKSUMS_ENTRY, DIGITS, FILE_ENTRY, hex_digits
from keymark.table.format.parquet.footer_groups import (
    COMPRESSED,
    DATA_PAGE,
    DICTIONARY_PAGE,
    FooterGroups,
    list_head,
)
from keymark.table.format.parquet.thrift import BINARY, FALSE, LIST
from keymark.table.format.parquet.thrift_scan import (
    STRANGE,
    new_stack,
    scan_field,
    skip_value,
    varint,
)

MAGIC = b"PAR1"
SCHEMA, ROWS, ROW_GROUPS, ENTRIES = 2, 3, 4, 5
"""Fields of FileMetaData"""

FooterFields = Mapping[int, tuple[int, bytes]]
"""Type and value of each field of a footer, by its number"""

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]

_TAIL_BYTES = 8
_FIELDS_MAX = 16


@dataclass(frozen=True, slots=True)
class FileBody:
    """A Parquet file without its footer.

    Attributes:
        data: the file up to the end of its last column chunk.
        fields: of the footer, without row groups and entries.
        groups: the row groups.
    """

    data: memoryview
    fields: FooterFields
    groups: FooterGroups

    @classmethod
    def of(cls, file: bytes | pa.Buffer, name: str) -> Self:
        """That of a file that was just written, or whose footer was checked.

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
        places = np.zeros((_FIELDS_MAX, 3), np.int64)
        if _scan_fields(footer, places, new_stack()) != length:
            raise CorruptFileError(name, start, "damaged footer: it does not end where it should")
        fields = {
            number: (kind, footer[at:end].tobytes())
            for number, (kind, at, end) in enumerate(places.tolist())
            if kind and number not in (ROW_GROUPS, ENTRIES)
        }
        kind, at, end = places[ROW_GROUPS].tolist()
        if kind != LIST or SCHEMA not in fields:
            raise CorruptFileError(name, start, "damaged footer: no schema, or no row groups")
        groups = FooterGroups.of(footer[at:end], name, start + at)
        _check_places(groups, name, start)
        return cls(whole[:start], fields, groups)

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
        fields = {**self.fields, ROW_GROUPS: (LIST, self.groups.written())}
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
    fields: FooterFields,
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
    out, last = bytearray(), 0
    for number, (kind, value) in sorted(fields.items()):
        out.append((number - last) << 4 | kind)
        out += value
        last = number
    out.append(0)
    if CHECKSUMS_ENTRY in entries:
        text = entries[CHECKSUMS_ENTRY]
        at = out.index(text, out.rindex(CHECKSUMS_ENTRY)) + len(text) - DIGITS
        out[at : at + DIGITS] = hex_digits([isal_zlib.crc32(out)])
    return b"".join([out, struct.pack("<I", len(out)), MAGIC])


def _list_of(entries: Mapping[bytes, bytes]) -> bytes:
    """The value of the field of entries: a list of KeyValue, each with field 1 and 2."""
    out = bytearray(list_head(len(entries)))
    for entry in entries.items():
        for text in entry:
            out.append(1 << 4 | BINARY)
            out += varint(len(text))
            out += text
        out.append(0)
    return bytes(out)


@kernel
def _scan_fields(footer: _Bytes, places: _Numbers, stack: _Numbers) -> int:
    """Note type, start and end of each field; the place behind the footer, or STRANGE."""
    kind, number, at = scan_field(footer, 0, 0)
    while kind:
        if kind <= FALSE or number >= len(places) or places[number, 0]:
            return STRANGE
        places[number, 0], places[number, 1] = kind, at
        at = skip_value(footer, at, kind, stack)
        places[number, 2] = at
        kind, number, at = scan_field(footer, at, number)
    return at
