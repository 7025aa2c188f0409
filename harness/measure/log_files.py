r"""The bytes of Spark's event logs: in one file or rolled into parts, plain or compressed.

A log is one JSON object a line. The ending of its name says how it is compressed
(`spark.eventLog.compression.codec`):

    .zstd    a stream of zstd
    .lz4     blocks of lz4-java: `LZ4Block`, a byte of method, then the compressed length, the
             length and a checksum as little-endian words of four bytes, then the bytes
    .snappy  blocks of snappy-java: `\x82SNAPPY\0` and two words of four bytes, then blocks, each
             after its length as a big-endian word of four bytes
    .lzf     not read: no library at hand knows it

Source: LZ4BlockOutputStream of lz4-java, SnappyOutputStream of snappy-java, EventLogFileWriters of
Spark 3.5. The log of a killed process ends anywhere: what is complete is read. Logs may come from
anyone, so that no length in them is believed beyond a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa

from keymark.harness.errors import RunFolderError

_LONGEST_LINE = 64 << 20
"""Bytes of one event; plans of large queries take some megabytes"""
_MOST_BYTES = 128 << 20
_MOST_RATIO = 1000
"""Events compress to a tenth or a fiftieth: no log of Spark decompresses to more than both."""
_CHUNK = 4096  # small: what a cut-off stream yields last is lost by the chunk
_LARGEST_BLOCK = 64 << 20

_LZ4_MAGIC, _LZ4_HEADER, _LZ4_METHOD, _LZ4_PLAIN = b"LZ4Block", 21, 0xF0, 0x10
_SNAPPY_MAGIC, _SNAPPY_HEADER = b"\x82SNAPPY\0", 16
_UNREAD = (".lzf",)


def parts(path: Path) -> list[Path]:
    """The files of an event log in their order: itself, or those that Spark rolled it into.

    Args:
        path: a log, or the folder of one that was rolled (`spark.eventLog.rolling.enabled`).

    Raises:
        RunFolderError: there is no log, or it is compressed in a way that is not read.
    """
    found = sorted(path.glob("events_*"), key=part_number) if path.is_dir() else [path]
    if not found or not all(part.is_file() for part in found):
        raise RunFolderError(f"{path} is no event log of Spark")
    for part in found:
        codec = next((ending for ending in part.suffixes if ending in _UNREAD), None)
        if codec is not None:
            raise RunFolderError(
                f"{part} is compressed with {codec.lstrip('.')}, which is not read; write logs "
                "with spark.eventLog.compression.codec=zstd"
            )
    return found


def part_number(path: Path) -> int:
    """The number of a part: `events_12_app-1.zstd` is the twelfth."""
    number = path.name.split("_")[1]
    return int(number) if number.isdecimal() else 0


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file of a log, decompressed as far as it goes.

    Raises:
        RunFolderError: a line, or the whole, is longer than a log of Spark can be.
    """
    pending: list[bytes] = []
    length = total = 0
    most = max(_MOST_BYTES, _MOST_RATIO * path.stat().st_size)
    for chunk in _chunks(path):
        total += len(chunk)
        if total > most:
            raise RunFolderError(f"{path} decompresses to more than {most:,} bytes")
        first, *rest = chunk.split(b"\n")
        pending.append(first)
        length += len(first)
        if length > _LONGEST_LINE:
            raise RunFolderError(f"{path} has a line of more than {_LONGEST_LINE:,} bytes")
        for line in rest:
            if pending != [b""]:
                yield b"".join(pending)
            pending, length = [line], len(line)
    yield b"".join(pending)


def _chunks(path: Path) -> Iterator[bytes]:
    blocks = {".lz4": _lz4_blocks, ".snappy": _snappy_blocks}
    for ending, read in blocks.items():
        if ending in path.suffixes:
            with path.open("rb") as file:
                yield from read(file)
            return
    with pa.OSFile(str(path)) as file:
        compressed = ".zstd" in path.suffixes
        stream: pa.NativeFile = pa.CompressedInputStream(file, "zstd") if compressed else file
        while chunk := _chunk(stream):
            yield chunk


def _chunk(stream: pa.NativeFile) -> bytes:
    try:
        return bytes(stream.read(_CHUNK))
    except (OSError, pa.ArrowInvalid):
        return b""  # the stream of a killed process has no end


def _lz4_blocks(file: IO[bytes]) -> Iterator[bytes]:
    unpack = _unpacker("lz4_raw")
    while len(header := file.read(_LZ4_HEADER)) == _LZ4_HEADER:
        packed, length = (int.from_bytes(header[at : at + 4], "little") for at in (9, 13))
        if not header.startswith(_LZ4_MAGIC) or max(packed, length) > _LARGEST_BLOCK:
            return
        data = file.read(packed)
        if header[8] & _LZ4_METHOD != _LZ4_PLAIN and length:
            data = unpack(data, length)
        if len(data) != length:
            return
        yield data


def _snappy_blocks(file: IO[bytes]) -> Iterator[bytes]:
    unpack = _unpacker("snappy")
    while word := file.read(4):
        if _SNAPPY_MAGIC.startswith(word):
            file.read(_SNAPPY_HEADER - len(word))
            continue
        packed = int.from_bytes(word, "big")
        data = file.read(packed) if packed <= _LARGEST_BLOCK else b""
        length = _snappy_length(data)
        if len(data) != packed or not 0 < length <= _LARGEST_BLOCK:
            return
        block = unpack(data, length)
        if not block:
            return
        yield block


def _snappy_length(data: bytes) -> int:
    """The length that a block of snappy begins with, seven bits a byte, the lowest first."""
    length = 0
    for place, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return length
    return 0


def _unpacker(name: str) -> Callable[[bytes, int], bytes]:
    """What unpacks a block to its length; to nothing where it is damaged."""
    codec = pa.Codec(name)

    def unpack(data: bytes, length: int) -> bytes:
        try:
            return bytes(codec.decompress(data, length, asbytes=True))
        except (OSError, pa.ArrowInvalid):
            return b""

    return unpack
