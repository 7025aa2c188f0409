"""HFile blocks: the 33-byte header, gzip, checksums. See `docs/formats/hfile.md`.

A block stands on its own: it is compressed and checksummed alone. Nothing is allocated on the word
of a header before that word was weighed against the bytes that are really there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from keymark.table.errors import CorruptFileError
from keymark.table.format.hashes.checksum import (
    CHECKSUM_BYTES,
    ChecksumType,
    checksum_count,
    chunk_checksums,
)
from keymark.table.format.hfile.ahead import BlocksAhead
from keymark.table.format.hfile.deflate import Marks, deflate_cells
from keymark.table.storage.storage import RangeReader

HEADER_SIZE = 33
BYTES_PER_CHECKSUM = 16384
BLOCK_BYTES_MAX = 1 << 28
"""Uncompressed bytes of the largest block that is written or read; Hudi's blocks have 1 MiB."""

_HEADER = struct.Struct(">8siiqBii")
_GZIP_WBITS = 31
_GZIP_ERROR: Any = isal_zlib.error
_GZIP_MAGIC = b"\x1f\x8b\x08"
# isal's level 1 comes out 2 % smaller than zlib's level 6 on record-index blocks, ten times faster.
_GZIP_LEVEL = 1
_DEFLATE_RATIO_MAX = 1032
_TAIL_BYTES = 16384


class BlockKind(Enum):
    """The magic of each kind of block (HBase's BlockType)."""

    DATA = b"DATABLK*"
    META = b"METABLKc"
    LEAF_INDEX = b"IDXLEAF2"
    INTERMEDIATE_INDEX = b"IDXINTE2"
    ROOT_INDEX = b"IDXROOT2"
    FILE_INFO = b"FILEINF2"


_MAGICS = frozenset(kind.value for kind in BlockKind)


class Codec(IntEnum):
    """Compression codes of the trailer (HBase's Compression.Algorithm)."""

    LZO = 0
    GZ = 1
    NONE = 2
    SNAPPY = 3
    LZ4 = 4
    BZIP2 = 5
    ZSTD = 6


SUPPORTED_CODECS = frozenset({Codec.GZ, Codec.NONE})


def compress_block(
    kind: BlockKind,
    payload: bytes | npt.NDArray[np.uint8],
    *,
    marks: Marks | None = None,
    read_back: bool = False,
) -> bytes:
    """The payload of a block as a gzip member.

    Args:
        kind: its magic.
        payload: the uncompressed bytes, or a uint8 array of them.
        marks: of the cells of a data block, where they are known.
        read_back: the caller reads the file back and compares it with what it holds.
    """
    compressed = deflate_cells(payload, marks) if kind is BlockKind.DATA else None
    if compressed is None or not (read_back or _inflates_to(compressed, payload)):
        compressed = isal_zlib.compress(payload, _GZIP_LEVEL, _GZIP_WBITS)
    return compressed


def encode_block(kind: BlockKind, compressed: bytes, length: int, previous: int) -> bytes:
    """One block with header and CRC32C checksums.

    Args:
        kind: its magic.
        compressed: its payload as a gzip member.
        length: of the payload, uncompressed.
        previous: offset of the previous block of the same kind, -1 if there is none.
    """
    size = HEADER_SIZE + len(compressed)
    checksums = checksum_count(size, BYTES_PER_CHECKSUM) * CHECKSUM_BYTES
    header = _HEADER.pack(
        kind.value,
        len(compressed) + checksums,
        length,
        previous,
        ChecksumType.CRC32C,
        BYTES_PER_CHECKSUM,
        size,
    )
    block = header + compressed
    return block + chunk_checksums(block, size, BYTES_PER_CHECKSUM)


@dataclass(frozen=True, slots=True)
class _Header:
    """A block header whose sizes were found to agree with each other."""

    magic: bytes
    size: int
    uncompressed: int
    checksum_type: ChecksumType
    chunk: int
    data_end: int


def _inflates_to(compressed: bytes, payload: Any) -> bool:
    """Whether a general inflater makes the payload of it again: nothing else is ever stored."""
    try:
        inflated = isal_zlib.decompress(compressed, _GZIP_WBITS, len(payload))
    except _GZIP_ERROR:
        return False
    return inflated == memoryview(payload).cast("B")


class BlockReader:
    """Ranged, verified reads of the blocks of one HFile, which may lie inside a larger file.

    Offsets taken by the methods count from the start of the HFile, those in errors from the start
    of the file. The last bytes are read once and kept: the trailer, and for most files the whole
    section that is needed to open one, lie there.

    Args:
        source: the file.
        offset: where the HFile starts in it.
        length: its length; by default up to the end of the file.
    """

    def __init__(self, source: RangeReader, offset: int, length: int | None) -> None:
        self.length = source.size - offset if length is None else length
        self._source = source
        self._offset = offset
        self.codec = Codec.GZ
        if offset < 0 or self.length < 0 or offset + self.length > source.size:
            self._fail(0, f"{self.length} bytes at {offset} of a file of {source.size} bytes")
        self._tail_start = max(0, self.length - _TAIL_BYTES)
        self._tail = source.read(offset + self._tail_start, self.length - self._tail_start)
        self._ahead = BlocksAhead(source, ())

    @property
    def name(self) -> str:
        """The file's name, for errors."""
        return self._source.name

    @property
    def identity(self) -> tuple[str, int, int, int]:
        """Tells the HFile from others, also from one that had its path before.

        Name and size of the file, place of the HFile, and a hash of the bytes that were kept of it:
        index and trailer of any HFile, the whole of a small one.
        """
        return self.name, self._source.size, self._offset, hash(self._tail)

    def place(self, at: int) -> int:
        """Offset in the file of an offset in the HFile."""
        return self._offset + at

    def _fail(self, at: int, detail: str) -> NoReturn:
        raise CorruptFileError(self.name, self.place(at), detail)

    def expect(self, blocks: Iterable[tuple[int, int]]) -> None:
        """Prepare for the reading of blocks: their offsets, ascending, and sizes on disk."""
        within = (place for place in blocks if 0 <= place[0] <= sum(place) <= self._tail_start)
        self._ahead = BlocksAhead(self._source, ((self.place(at), size) for at, size in within))

    def raw(self, at: int, length: int) -> bytes:
        """Bytes as they are stored; exactly as many as asked for."""
        if at < 0 or length < 0 or at + length > self.length:
            self._fail(at, f"{length} bytes reach outside of the HFile of {self.length} bytes")
        if at >= self._tail_start:
            start = at - self._tail_start
            data = self._tail[start : start + length]
        else:
            data = self._ahead.read(self._offset + at, length)
        if len(data) != length:
            self._fail(at, f"{length} bytes expected, {len(data)} could be read")
        return data

    def read(self, at: int, kind: BlockKind, size: int | None = None) -> bytes:
        """The uncompressed payload of the block at `at`, its checksums verified.

        Args:
            at: offset of the block.
            kind: the kind it must be.
            size: its length on disk with header, where an index names one.

        Raises:
            CorruptFileError: anything about the block is not as its header or the index says.
        """
        if size is None:
            header = self._header(self.raw(at, HEADER_SIZE), at)
            block = self.raw(at, header.size)
        else:
            block = self.raw(at, size)
            header = self._header(block[:HEADER_SIZE], at)
            if header.size != size:
                self._fail(at, f"a block of {header.size} bytes, its index entry says {size}")
        if header.magic != kind.value:
            self._fail(at, f"block magic {header.magic!r}, expected {kind.value!r}")
        self._verify(block, header, at)
        compressed = memoryview(block)[HEADER_SIZE : header.data_end]
        if self.codec is Codec.GZ:
            return self._inflate(compressed, header.uncompressed, at)
        if len(compressed) != header.uncompressed:
            self._fail(at, f"{len(compressed)} stored bytes, the header says {header.uncompressed}")
        return bytes(compressed)

    def walk(self, end: int) -> Iterator[bytes]:
        """The payloads of all blocks up to `end`, whether an index names them or not."""
        at = 0
        while at < end:
            header = self._header(self.raw(at, HEADER_SIZE), at)
            if header.magic not in _MAGICS:
                self._fail(at, f"block magic {header.magic!r}")
            yield self.read(at, BlockKind(header.magic), header.size)
            at += header.size

    def looks_gzipped(self, at: int) -> bool:
        """Whether the payload of the block at `at` starts as a gzip stream does."""
        return self.raw(at, HEADER_SIZE + len(_GZIP_MAGIC))[HEADER_SIZE:] == _GZIP_MAGIC

    def _header(self, data: bytes, at: int) -> _Header:
        if len(data) < HEADER_SIZE:
            self._fail(at, f"a block of {len(data)} bytes has no room for its header")
        magic, on_disk, uncompressed, _, checksum_code, chunk, data_end = _HEADER.unpack(data)
        if checksum_code > ChecksumType.CRC32C:
            self._fail(at, f"checksum type {checksum_code}")
        checksum_type = ChecksumType(checksum_code)
        size = HEADER_SIZE + on_disk
        if on_disk < 0 or uncompressed < 0 or not HEADER_SIZE <= data_end <= size:
            self._fail(at, f"block sizes {on_disk}, {uncompressed} and {data_end} contradict")
        if checksum_type is not ChecksumType.NONE and (
            chunk <= 0 or size - data_end != checksum_count(data_end, chunk) * CHECKSUM_BYTES
        ):
            self._fail(at, f"{size - data_end} bytes of checksums for chunks of {chunk} bytes")
        return _Header(magic, size, uncompressed, checksum_type, chunk, data_end)

    def _verify(self, block: bytes, header: _Header, at: int) -> None:
        if header.checksum_type is ChecksumType.NONE:
            return
        sums = chunk_checksums(block, header.data_end, header.chunk, header.checksum_type)
        if sums != block[header.data_end :]:
            self._fail(at, f"{header.checksum_type.name} checksum of the block does not match")

    def _inflate(self, compressed: memoryview, uncompressed: int, at: int) -> bytes:
        if uncompressed > min(BLOCK_BYTES_MAX, _DEFLATE_RATIO_MAX * len(compressed)):
            self._fail(at, f"{len(compressed)} bytes claim to inflate to {uncompressed}")
        stream = isal_zlib.decompressobj(_GZIP_WBITS)
        try:
            # One byte more than claimed, so that the stream comes to its end and its CRC.
            payload = bytes(stream.decompress(compressed, uncompressed + 1))
        except _GZIP_ERROR as error:
            raise CorruptFileError(self.name, self.place(at), f"gzip: {error}") from error
        if len(payload) != uncompressed or not stream.eof or stream.unused_data:
            self._fail(at, f"the gzip stream does not hold {uncompressed} bytes")
        return payload
