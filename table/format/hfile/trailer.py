"""The last 4096 bytes of an HFile. See `docs/formats/hfile.md`."""

from __future__ import annotations

from dataclasses import dataclass

from keymark.table.errors import UnsupportedTableError
from keymark.table.format.coding import ByteCursor, encode_varint
from keymark.table.format.hfile.block import SUPPORTED_CODECS, BlockReader, Codec

TRAILER_SIZE = 4096
MAGIC = b'TRABLK"$'
COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
INDEX_LEVELS_MAX = 8
_VERSION = b"\x03\x00\x00\x03"
_VERSIONS_READ = frozenset({_VERSION, b"\x00\x00\x00\x03"})
_COMPARATOR_FIELD = 11
_CODEC_FIELD = 12
# Hudi 1.x leaves out the total of uncompressed bytes; no reader needs it.
_REQUIRED_FIELDS = frozenset({1, 2, 5, 6, 7, 8, _CODEC_FIELD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """Where the parts of an HFile lie; offsets count from its start, -1 where there is no block."""

    file_info_offset: int
    load_on_open_offset: int
    uncompressed_data_index_size: int
    total_uncompressed_bytes: int
    data_index_count: int
    meta_index_count: int
    entry_count: int
    index_levels: int
    first_data_block_offset: int
    last_data_block_offset: int
    codec: Codec

    def encode(self) -> bytes:
        """The 4096 bytes, as HBase 2.4 inside Hudi 0.15 writes them."""
        numbers = (
            self.file_info_offset,
            self.load_on_open_offset,
            self.uncompressed_data_index_size,
            self.total_uncompressed_bytes,
            self.data_index_count,
            self.meta_index_count,
            self.entry_count,
            self.index_levels,
            self.first_data_block_offset,
            self.last_data_block_offset,
        )
        message = b"".join(
            encode_varint(field << 3) + encode_varint(value)
            for field, value in enumerate(numbers, start=1)
        )
        message += encode_varint(_COMPARATOR_FIELD << 3 | 2) + encode_varint(len(COMPARATOR))
        message += COMPARATOR + encode_varint(_CODEC_FIELD << 3) + encode_varint(self.codec)
        body = MAGIC + encode_varint(len(message)) + message
        return body.ljust(TRAILER_SIZE - len(_VERSION), b"\0") + _VERSION


def read_trailer(blocks: BlockReader) -> Trailer:
    """Read and check the trailer of an HFile.

    Raises:
        CorruptFileError: it is not one, or contradicts the file's length.
        UnsupportedTableError: the blocks are compressed by a codec that is not read.
    """
    at = blocks.length - TRAILER_SIZE
    data = blocks.raw(at, TRAILER_SIZE)
    cursor = ByteCursor(data, blocks.name, blocks.place(at))
    if cursor.take(len(MAGIC)) != MAGIC:
        cursor.fail(f"trailer magic {data[: len(MAGIC)]!r}, expected {MAGIC!r}")
    if data[-len(_VERSION) :] not in _VERSIONS_READ:
        cursor.fail(
            f"HFile version bytes {data[-len(_VERSION) :].hex()}, expected {_VERSION.hex()}"
        )
    place = blocks.place(at + cursor.position)
    fields = ByteCursor(cursor.take(cursor.varint()), blocks.name, place).protobuf()
    numbers = {number: value for number, value in fields if isinstance(value, int)}
    if missing := _REQUIRED_FIELDS - set(numbers):
        cursor.fail(f"trailer fields {sorted(missing)} are missing")
    if numbers[_CODEC_FIELD] > max(Codec):
        cursor.fail(f"compression codec {numbers[_CODEC_FIELD]}")
    trailer = Trailer(
        file_info_offset=numbers[1],
        load_on_open_offset=numbers[2],
        uncompressed_data_index_size=numbers.get(3, 0),
        total_uncompressed_bytes=numbers.get(4, 0),
        data_index_count=numbers[5],
        meta_index_count=numbers[6],
        entry_count=numbers[7],
        index_levels=numbers[8],
        first_data_block_offset=_signed(numbers.get(9, -1)),
        last_data_block_offset=_signed(numbers.get(10, -1)),
        codec=Codec(numbers[_CODEC_FIELD]),
    )
    if not 1 <= trailer.index_levels <= INDEX_LEVELS_MAX:
        cursor.fail(f"{trailer.index_levels} levels of index")
    if max(trailer.load_on_open_offset, trailer.file_info_offset) > at:
        cursor.fail(f"sections start at {trailer.load_on_open_offset} and later, behind {at}")
    if (trailer.entry_count == 0) != (trailer.data_index_count == 0):
        cursor.fail(f"{trailer.entry_count} entries in {trailer.data_index_count} indexed blocks")
    if trailer.codec not in SUPPORTED_CODECS:
        if blocks.looks_gzipped(trailer.load_on_open_offset):
            cursor.fail(f"compression codec {trailer.codec.name}, but the blocks are gzip")
        raise UnsupportedTableError(
            f"{blocks.name}: HFile compression {trailer.codec.name} is not supported"
        )
    return trailer


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
