"""What a base file of ours says about itself, so that damage and misplacement are found.

    keymark.file      path of the file in its table
    keymark.crc32     hex: CRC-32 of each column chunk, in the order of the footer, then that of
                      the footer itself, taken with zeros in the place of these last eight digits

Both are entries of the footer's key-value metadata, which other readers ignore. Parquet has
checksums of pages only: they cover neither page headers nor the footer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from isal import isal_zlib

from keymark.table.errors import CorruptFileError

FILE_ENTRY = b"keymark.file"
CHECKSUMS_ENTRY = b"keymark.crc32"

DIGITS = 8
"""Hex digits of a checksum"""
_CHECKSUMS = re.compile(rb"([0-9a-f]{8})+")


@dataclass(frozen=True, slots=True)
class Checksums:
    """The CRC-32 of each column chunk of a base file, in the order of its footer."""

    chunks: tuple[int, ...]

    @classmethod
    def of(cls, entries: Mapping[bytes, bytes] | None) -> Checksums | None:
        """The checksums among the key-value entries of a checked footer; None if it has none."""
        text = (entries or {}).get(CHECKSUMS_ENTRY)
        if text is None:
            return None
        return cls(tuple(np.frombuffer(bytes.fromhex(text[:-DIGITS].decode()), ">u4").tolist()))

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


def hex_digits(checksums: Sequence[int]) -> bytes:
    """Eight hex digits for each checksum."""
    return np.array(checksums, ">u4").tobytes().hex().encode()


def check_entries(
    entries: Mapping[bytes, bytes | None], footer: bytes, place: tuple[str, int], path: str | None
) -> bool:
    """Compare a footer with what it says about itself; False where it says nothing.

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
    at = footer.find(text, footer.rfind(CHECKSUMS_ENTRY)) + len(text) - DIGITS
    checksum = isal_zlib.crc32(b"0" * DIGITS, isal_zlib.crc32(memoryview(footer)[:at]))
    checksum = isal_zlib.crc32(memoryview(footer)[at + DIGITS :], checksum)
    if hex_digits([checksum]) != text[-DIGITS:]:
        raise CorruptFileError(*place, "damaged footer: its checksum differs")
    if path is not None and file != path.encode():
        detail = f"this is the file {file.decode(errors='replace')}, in the wrong place"
        raise CorruptFileError(*place, detail)
    return True
