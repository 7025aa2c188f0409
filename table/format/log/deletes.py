"""The content of DELETE blocks, a HoodieDeleteRecordList. See `docs/formats/log_file.md`.

The Avro schema is `delete_record_list.avsc` beside this module; all records of a list are written
and read at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from keymark.table.errors import CorruptFileError, InputError, UnsupportedTableError
from keymark.table.format.avro.records import encode_long, encode_text, read_long
from keymark.table.format.coding import ByteCursor, encode_int32
from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.format.hfile.strings import to_arrow

_VERSION = 3
_LENGTH_MAX = (1 << 31) - 1
_PRESENT = b"\x02"
# Branch 2 of the union, an IntWrapper, of 0: what Hudi writes for the record index.
_ORDERING_VALUE = b"\x04\x00"
_END = b"\x00"
_HEADER_BYTES = 8
_NO_FAULT = -1

# What the branches of orderingVal hold, in the schema's order.
_NOTHING, _BOOLEAN, _VARINT, _FOUR_BYTES, _EIGHT_BYTES, _BYTES = range(6)
_BRANCHES = np.array(
    (
        _NOTHING,
        _BOOLEAN,
        _VARINT,  # int
        _VARINT,  # long
        _FOUR_BYTES,  # float
        _EIGHT_BYTES,  # double
        _BYTES,
        _BYTES,  # string
        _VARINT,  # date
        _BYTES,  # decimal
        _VARINT,  # time
        _VARINT,  # timestamp
    ),
    np.int64,
)
# Three unions and the length of the key.
_RECORD_BYTES_MIN = 4


def encode_deletes(keys: Sequence[str] | pa.Array, partition: str) -> bytes:
    """Delete records of keys.

    Args:
        keys: record keys, also as an array of string.
        partition: the partition they are deleted from; for a metadata table its partition's name.

    Raises:
        InputError: the list would be longer than its 32-bit length can tell.
    """
    texts = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.large_string())
    encoded = b"".join((*_records(texts.cast(pa.large_binary()), partition), _END))
    if len(encoded) > _LENGTH_MAX:
        raise InputError(f"{len(encoded)} bytes of deletes do not fit into one block")
    return encode_int32(_VERSION) + encode_int32(len(encoded)) + encoded


def _records(keys: pa.Array, partition: str) -> tuple[bytes, ...]:
    """The block of an Avro array that holds the records of keys (pa.large_binary)."""
    if not len(keys):
        return ()
    lengths, which = np.unique(pc.binary_length(keys).to_numpy(), return_inverse=True)
    starts = [_PRESENT + encode_long(length) for length in lengths.tolist()]
    start = pa.array(starts, pa.large_binary()).take(pa.array(which))
    rest = pa.scalar(_PRESENT + encode_text(partition) + _ORDERING_VALUE, pa.large_binary())
    joined = pc.binary_join_element_wise(start, keys, rest, pa.scalar(b"", pa.large_binary()))
    offsets, records = string_buffers(joined)
    return encode_long(len(keys)), records[offsets[0] : offsets[-1]].tobytes()


def decode_deletes(content: bytes, name: str) -> pa.Array:
    """The record keys of a DELETE block, in its order.

    Args:
        content: the block's content.
        name: the file, for errors; offsets in errors count from the content's start.

    Returns:
        Of string, without nulls.

    Raises:
        UnsupportedTableError: versions 1 and 2, which hold serialised Java objects.
        CorruptFileError: anything else that does not parse.
    """
    cursor = ByteCursor(content, name)
    version = cursor.int32()
    if version in (1, 2):
        raise UnsupportedTableError(f"{name}: delete block version {version} is not supported")
    if version != _VERSION:
        cursor.fail(f"delete block version {version}, expected {_VERSION}")
    encoded = cursor.take(cursor.int32())
    if cursor.remaining:
        cursor.fail(f"{cursor.remaining} bytes behind the delete records")
    data = np.frombuffer(encoded, np.uint8)
    keys = np.empty((2, data.size // _RECORD_BYTES_MIN), np.int64)
    fault, count = _split_records(data, keys)
    if fault != _NO_FAULT:
        detail = f"the bytes after {count} delete records are not a delete record with a record key"
        raise CorruptFileError(name, _HEADER_BYTES + fault, detail)
    try:
        return to_arrow(data, keys[0, :count], keys[1, :count]).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFileError(name, _HEADER_BYTES, "a record key that is not UTF-8") from error


@njit(cache=True, nogil=True)
def _split_records(data: npt.NDArray[np.uint8], keys: npt.NDArray[np.int64]) -> Any:
    """Where the key of each record is.

    Args:
        data: blocks of records up to one of none.
        keys: out, 2 x as many records as there could be: key start, key length.

    Returns:
        Position of the first fault or -1, and the number of records before it.
    """
    at = 0
    found = 0
    while True:
        block = at
        count, at = read_long(data, at, data.size)
        if at < 0:
            return block, found
        if count == 0:
            return (_NO_FAULT if at == data.size else at), found
        end = -1
        if count < 0:
            # A negative count is followed by the bytes of the block.
            count = -count
            size, at = read_long(data, at, data.size)
            end = at + size
        if at < 0 or count < 0 or count > keys.shape[1] - found:
            return block, found
        for _ in range(count):
            start, length, following = _record(data, at)
            if following < 0:
                return at, found
            keys[0, found] = start
            keys[1, found] = length
            found += 1
            at = following
        if end not in (-1, at):
            return block, found


@njit(cache=True, nogil=True)
def _record(data: npt.NDArray[np.uint8], at: int) -> Any:
    """Start and length of a record's key, and the record's end; -1 if it is no record."""
    branch, at = read_long(data, at, data.size)
    if at < 0 or branch != 1:
        return 0, 0, -1
    key, length, at = _bytes(data, at)
    if at < 0:
        return 0, 0, -1
    branch, at = read_long(data, at, data.size)
    if at < 0 or branch < 0 or branch > 1:
        return 0, 0, -1
    if branch == 1:
        _, _, at = _bytes(data, at)
        if at < 0:
            return 0, 0, -1
    return key, length, _skip_ordering_value(data, at)


@njit(cache=True, nogil=True)
def _bytes(data: npt.NDArray[np.uint8], at: int) -> Any:
    """Start, length and end of a string or bytes value; the end is -1 if the data ends first."""
    length, start = read_long(data, at, data.size)
    if start < 0 or length < 0 or length > data.size - start:
        return 0, 0, -1
    return start, length, start + length


@njit(cache=True, nogil=True)
def _skip_ordering_value(data: npt.NDArray[np.uint8], at: int) -> int:
    """The end of the union of wrapper records, -1 if it is none."""
    branch, at = read_long(data, at, data.size)
    if at < 0 or branch < 0 or branch >= _BRANCHES.size:
        return -1
    kind = _BRANCHES[branch]
    if kind == _VARINT:
        _, at = read_long(data, at, data.size)
    elif kind == _BYTES:
        _, _, at = _bytes(data, at)
    elif kind == _BOOLEAN:
        at = at + 1 if at < data.size and data[at] <= 1 else -1
    elif kind == _FOUR_BYTES:
        at += 4
    elif kind == _EIGHT_BYTES:
        at += 8
    return at if at <= data.size else -1
