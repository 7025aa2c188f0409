"""Log file bytes -> blocks; contents stay in the file. See `docs/formats/log_file.md`."""

from __future__ import annotations

from keymark.table.errors import CorruptFileError
from keymark.table.format.coding import ByteCursor
from keymark.table.format.log.block import FORMAT_VERSION, MAGIC, BlockType, HeaderKey, LogBlock
from keymark.table.storage.storage import RangeReader

_PREFIX_BYTES = len(MAGIC) + 8
_FOOT_BYTES_MIN = 4 + 8
_BODY_BYTES_MIN = 4 + 4 + 4 + 8 + _FOOT_BYTES_MIN
# The head of a metadata table's block is little more than its schema, 7 KB of JSON.
_HEAD_BYTES = 16384
_HEAD_BYTES_MAX = 1 << 24
_SCAN_BYTES = 1 << 20


def read_blocks(source: RangeReader, *, complete: bool) -> list[LogBlock]:
    """The blocks of a log file in their order, their contents unread.

    A file cut between two blocks looks like a whole one; a caller that knows the committed size
    compares it.

    Args:
        source: the file.
        complete: whether a completed instant vouches for the whole file. Then any damage is an
            error. Otherwise a damaged block is passed over to the next block that is sound, and
            a torn tail ends the list: it belongs to no completed instant.

    Raises:
        CorruptFileError: a block is torn or damaged and `complete` is set.
    """
    blocks: list[LogBlock] = []
    if complete and not source.size:
        raise CorruptFileError(source.name, 0, "an empty log file")
    at = 0
    while at < source.size:
        try:
            block, end = _read_block(source, at)
        except CorruptFileError:
            if complete:
                raise
            at = _next_magic(source, at + 1)
        else:
            blocks.append(block)
            at = end
    return blocks


def _read_block(source: RangeReader, at: int) -> tuple[LogBlock, int]:
    """The block at `at` and the offset behind it."""
    prefix = ByteCursor(source.read(at, _PREFIX_BYTES), source.name, at)
    if prefix.take(len(MAGIC)) != MAGIC:
        raise CorruptFileError(source.name, at, f"a block does not start with {MAGIC!r}")
    size = prefix.int64()
    start = at + _PREFIX_BYTES
    if not _BODY_BYTES_MIN <= size <= source.size - start:
        prefix.fail(f"a block of {size} bytes, {source.size - start} are left")
    end = start + size
    block = _read_head(source, start, end)
    _check_foot(source, block.content_offset + block.content_length, at, end)
    return block, end


def _read_head(source: RangeReader, start: int, end: int) -> LogBlock:
    """What comes before the content, of a block whose body reaches from `start` to `end`."""
    for limit in (_HEAD_BYTES, _HEAD_BYTES_MAX):
        cursor = ByteCursor(source.read(start, min(limit, end - start)), source.name, start)
        try:
            return _parse_head(source, cursor, start, end)
        except CorruptFileError:
            if limit >= min(_HEAD_BYTES_MAX, end - start):
                raise
    raise AssertionError


def _parse_head(source: RangeReader, cursor: ByteCursor, start: int, end: int) -> LogBlock:
    version, ordinal = cursor.int32(), cursor.int32()
    if version != FORMAT_VERSION:
        cursor.fail(f"log format version {version}, expected {FORMAT_VERSION}")
    if not 0 <= ordinal <= max(BlockType):
        cursor.fail(f"block type {ordinal}")
    headers = _decode_map(cursor)
    length = cursor.int64()
    is_command = ordinal == BlockType.COMMAND
    if is_command != (HeaderKey.COMMAND_BLOCK_TYPE in headers) or (is_command and length):
        cursor.fail(f"a {BlockType(ordinal).name} block of {length} bytes with other's headers")
    offset = start + cursor.position
    if not 0 <= length <= end - offset - _FOOT_BYTES_MIN:
        cursor.fail(f"a content of {length} bytes in a block that ends {end - offset} bytes on")
    return LogBlock(
        type=BlockType(ordinal),
        headers=headers,
        content_offset=offset,
        content_length=length,
        source=source,
    )


def _check_foot(source: RangeReader, start: int, magic_at: int, end: int) -> None:
    """Footer map and trailing length fill the block and agree with its head."""
    if end - start > _HEAD_BYTES_MAX:
        raise CorruptFileError(source.name, start, f"a footer of {end - start} bytes")
    cursor = ByteCursor(source.read(start, end - start), source.name, start)
    _decode_map(cursor)
    length = cursor.int64()
    if cursor.remaining or length != end - 8 - magic_at:
        cursor.fail(f"trailing length {length} of a block of {end - 8 - magic_at} bytes")


def _decode_map(cursor: ByteCursor) -> dict[int, str]:
    """A header or footer: a count, then ordinal, length and UTF-8 text of each entry."""
    count = cursor.int32()
    if not 0 <= count <= cursor.remaining // 8:
        cursor.fail(f"{count} header entries in {cursor.remaining} bytes")
    entries: dict[int, str] = {}
    for _ in range(count):
        key = cursor.int32()
        text = cursor.take(cursor.int32())
        if key in entries:
            cursor.fail(f"header entry {key} occurs twice")
        try:
            entries[key] = text.decode()
        except UnicodeDecodeError:
            cursor.fail(f"header entry {key} is not UTF-8")
    return entries


def _next_magic(source: RangeReader, at: int) -> int:
    """Offset of the first magic from `at` on; the file's size if there is none."""
    overlap = len(MAGIC) - 1
    while at < source.size:
        found = source.read(at, _SCAN_BYTES + overlap).find(MAGIC)
        if found >= 0:
            return at + found
        at += _SCAN_BYTES
    return source.size
