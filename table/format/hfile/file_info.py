"""The file info block: names and values, a protobuf map. See `docs/formats/hfile.md`."""

from __future__ import annotations

from collections.abc import Mapping

from keymark.table.format.coding import ByteCursor, encode_varint

IDENTITY = "keymark.file"
"""Entry of HFiles of ours: their file group and the instant that wrote them. Others ignore it."""

_MAGIC = b"PBUF"
_ENTRY_TAG = b"\x0a"
_KEY_TAG = b"\x0a"
_VALUE_TAG = b"\x12"


def _delimited(tag: bytes, value: bytes) -> bytes:
    return tag + encode_varint(len(value)) + value


def identity(file_id: str, instant: str) -> bytes:
    """The value of the entry `IDENTITY`."""
    return f"{file_id}_{instant}".encode()


def encode_file_info(entries: Mapping[str, bytes]) -> bytes:
    """The block's payload, entries sorted by the bytes of their names."""
    named = sorted((name.encode(), value) for name, value in entries.items())
    message = b"".join(
        _delimited(_ENTRY_TAG, _delimited(_KEY_TAG, name) + _delimited(_VALUE_TAG, value))
        for name, value in named
    )
    return _MAGIC + encode_varint(len(message)) + message


def decode_file_info(payload: bytes, name: str, origin: int) -> dict[str, bytes]:
    """Names and values of a payload.

    Args:
        payload: the block's uncompressed bytes.
        name: the file, for errors.
        origin: offset of the block in the file, for errors.
    """
    cursor = ByteCursor(payload, name, origin)
    if cursor.take(len(_MAGIC)) != _MAGIC:
        cursor.fail(f"file info starts with {payload[:4]!r}, expected {_MAGIC!r}")
    message = cursor.take(cursor.varint())
    entries: dict[str, bytes] = {}
    for _, entry in ByteCursor(message, name, origin).protobuf():
        if not isinstance(entry, bytes):
            cursor.fail("a number where a file info entry was expected")
        pair = dict(ByteCursor(entry, name, origin).protobuf())
        key, value = pair.get(1), pair.get(2)
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            cursor.fail("a file info entry without a name or value")
        try:
            entries[key.decode()] = value
        except UnicodeDecodeError:
            cursor.fail("the name of a file info entry is not UTF-8")
    return entries
