"""What a base file of ours says of itself, so that damage and misplacement are found.

    keymark.file      path of the file in its table
    keymark.crc32     hex: CRC-32 of each column chunk, in the order of the footer, then that of
                      the footer itself, taken with zeros in the place of these last eight digits

Both are entries of the footer's key-value metadata, which other readers ignore. Parquet has
checksums of pages only: they cover neither page headers nor the footer.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from isal import isal_zlib

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.file_fields import (
    CHUNK_META,
    FILE_ENTRIES,
    FILE_ROW_GROUPS,
    GROUP_COLUMNS,
    META_COMPRESSED,
    chunk_start,
)
from keymark.table.format.parquet.thrift import BINARY, LIST, STRUCT, Fields, write_struct

FILE_ENTRY = b"keymark.file"
CHECKSUMS_ENTRY = b"keymark.crc32"

_MAGIC = b"PAR1"
_DIGITS = 8
_CHECKSUMS = re.compile(rb"([0-9a-f]{8})+")


@dataclass(frozen=True, slots=True)
class Checksums:
    """The CRC-32 of each column chunk of a base file, in the order of its footer."""

    chunks: tuple[int, ...]

    @classmethod
    def of(cls, entries: Mapping[bytes, bytes] | None) -> Checksums | None:
        """Those among the key-value entries of a footer that was checked; None without."""
        text = (entries or {}).get(CHECKSUMS_ENTRY)
        if text is None:
            return None
        places = range(0, len(text) - _DIGITS, _DIGITS)
        return cls(tuple(int(text[place : place + _DIGITS], 16) for place in places))

    def check(self, number: int, data: bytes | memoryview, name: str, offset: int) -> None:
        """Compare a column chunk.

        Args:
            number: of the chunk in the footer.
            data: its bytes.
            name: the file, for errors.
            offset: of the chunk in the file, for errors.

        Raises:
            CorruptFileError: the bytes are not those that were written.
        """
        if number >= len(self.chunks) or isal_zlib.crc32(data) != self.chunks[number]:
            raise CorruptFileError(name, offset, f"the checksum of column chunk {number} differs")


def close_file(out: bytearray, footer: Fields, path: str | None) -> bytes:
    """Append the footer to the column chunks of a Parquet file.

    Args:
        out: the file up to its last column chunk.
        footer: its footer (FileMetaData).
        path: of the file in its table; the footer gets its checksums then.
    """
    start = len(out)
    if path is not None:
        groups: list[Fields] = footer[FILE_ROW_GROUPS][1][1]
        chunks = [chunk[CHUNK_META][1] for group in groups for chunk in group[GROUP_COLUMNS][1][1]]
        text = b"".join(_crc_of_chunk(out, chunk) for chunk in chunks) + b"0" * _DIGITS
        footer = _with_entries(footer, {FILE_ENTRY: path.encode(), CHECKSUMS_ENTRY: text})
        write_struct(out, footer)
        at = out.index(text, out.rindex(CHECKSUMS_ENTRY)) + len(text) - _DIGITS
        out[at : at + _DIGITS] = _hex(isal_zlib.crc32(memoryview(out)[start:]))
    else:
        write_struct(out, footer)
    return b"".join((out, struct.pack("<I", len(out) - start), _MAGIC))


def _crc_of_chunk(out: bytearray, meta: Fields) -> bytes:
    start = chunk_start(meta)
    return _hex(isal_zlib.crc32(memoryview(out)[start : start + meta[META_COMPRESSED][1]]))


def _hex(checksum: int) -> bytes:
    return b"%08x" % checksum


def _with_entries(footer: Fields, entries: Mapping[bytes, bytes]) -> Fields:
    """The footer with more key-value entries."""
    known = footer[FILE_ENTRIES][1][1] if FILE_ENTRIES in footer else []
    added = [{1: (BINARY, key), 2: (BINARY, value)} for key, value in entries.items()]
    changed = {**footer, FILE_ENTRIES: (LIST, (STRUCT, [*known, *added]))}
    return dict(sorted(changed.items()))


def check_entries(
    entries: Mapping[bytes, bytes | None], footer: bytes, place: tuple[str, int], path: str | None
) -> bool:
    """Compare a footer with what it says of itself; False where it says nothing.

    Args:
        entries: its key-value entries.
        footer: its bytes.
        place: the file and the offset of the footer in it, for errors.
        path: what the file must say that it is; None for anything.

    Raises:
        CorruptFileError: the footer is damaged, or that of another file.
    """
    file, text = entries.get(FILE_ENTRY), entries.get(CHECKSUMS_ENTRY)
    if FILE_ENTRY not in entries and CHECKSUMS_ENTRY not in entries:
        return False
    if file is None or text is None or not _CHECKSUMS.fullmatch(text):
        raise CorruptFileError(*place, "damaged footer: its checksums are incomplete")
    at = footer.find(text, footer.rfind(CHECKSUMS_ENTRY)) + len(text) - _DIGITS
    checksum = isal_zlib.crc32(b"0" * _DIGITS, isal_zlib.crc32(memoryview(footer)[:at]))
    checksum = isal_zlib.crc32(memoryview(footer)[at + _DIGITS :], checksum)
    if _hex(checksum) != text[-_DIGITS:]:
        raise CorruptFileError(*place, "damaged footer: its checksum differs")
    if path is not None and file != path.encode():
        detail = f"this is the file {file.decode(errors='replace')}, in the wrong place"
        raise CorruptFileError(*place, detail)
    return True
