"""Checksums of chunks, as HBase appends them to HFile blocks: one 4-byte value per chunk.

Algorithms are those of `org.apache.hadoop.hbase.util.ChecksumType`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import google_crc32c
from isal import isal_zlib

CHECKSUM_BYTES = 4


class ChecksumType(IntEnum):
    """The codes that a block header may carry."""

    NONE = 0
    CRC32 = 1
    CRC32C = 2


_ALGORITHMS: dict[ChecksumType, Callable[[bytes], int]] = {
    ChecksumType.CRC32: isal_zlib.crc32,
    ChecksumType.CRC32C: google_crc32c.value,
}


def checksum_count(length: int, chunk: int) -> int:
    """How many values cover `length` bytes."""
    return -(-length // chunk)


def chunk_checksums(
    data: bytes, length: int, chunk: int, kind: ChecksumType = ChecksumType.CRC32C
) -> bytes:
    """One big-endian value per `chunk` of the first `length` bytes, the last may be shorter."""
    compute = _ALGORITHMS[kind]
    return b"".join(
        compute(data[start : min(start + chunk, length)]).to_bytes(CHECKSUM_BYTES, "big")
        for start in range(0, length, chunk)
    )
