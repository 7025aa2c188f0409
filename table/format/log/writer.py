"""Log blocks -> bytes. See `docs/formats/log_file.md`."""

from __future__ import annotations

from collections.abc import Mapping

from keymark.table.format.coding import encode_int32, encode_int64
from keymark.table.format.log.block import (
    FORMAT_VERSION,
    MAGIC,
    BlockType,
    HeaderKey,
)
from keymark.table.format.log.deletes import encode_deletes


def encode_block(block_type: BlockType, headers: Mapping[HeaderKey, str], content: bytes) -> bytes:
    """One whole block; a log file is such blocks one behind the other."""
    head, foot = block_ends(block_type, headers, len(content))
    return b"".join((head, content, foot))


def block_ends(
    block_type: BlockType, headers: Mapping[HeaderKey, str], length: int
) -> tuple[bytes, bytes]:
    """What comes before and after the content of a block, by its size in bytes."""
    start = encode_int32(FORMAT_VERSION) + encode_int32(block_type)
    start += _encode_map(headers) + encode_int64(length)
    end = _encode_map({})
    body = len(start) + length + len(end)
    # The size counts what follows it, the trailing length is counted from the magic.
    size = encode_int64(body + 8)
    return MAGIC + size + start, end + encode_int64(len(MAGIC) + len(size) + body)


def _encode_map(entries: Mapping[HeaderKey, str]) -> bytes:
    parts = [encode_int32(len(entries))]
    for key, text in entries.items():
        value = text.encode()
        parts += (encode_int32(key), encode_int32(len(value)), value)
    return b"".join(parts)


def empty_delete_block(instant: str) -> bytes:
    """The whole content of the log file that opens a file group of the metadata table."""
    content = encode_deletes([], "")
    return encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, content)
