"""Sorted keys and values -> HFile bytes, in the order of `table/spec/hfile.md`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from table.errors import InputError
from table.format.coding import encode_int32, encode_int64
from table.format.hfile import kernels
from table.format.hfile.block import BLOCK_BYTES_MAX, HEADER_SIZE, BlockKind, Codec, encode_block
from table.format.hfile.file_info import encode_file_info
from table.format.hfile.index import encode_entry
from table.format.hfile.strings import Strings, from_arrow
from table.format.hfile.trailer import TRAILER_SIZE, Trailer

_BLOOM_BLOCK_NAME = b"bloomFilter"
_KEY_OVERHEAD = 12
# What follows the row in a key: no column family, the newest timestamp, type Put.
_KEY_SUFFIX = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"
_KEY_VALUE_VERSION_WITH_MVCC = 1


def write_hfile(  # noqa: PLR0913 - the parts an HFile is made of
    keys: pa.Array,
    values: pa.Array,
    *,
    schema: str,
    block_size: int = 1 << 20,
    bloom: bytes | None = None,
    file_info: Mapping[str, bytes] | None = None,
) -> bytes:
    """A whole HFile, as HBase 2.4 inside Hudi 0.15 writes them.

    Args:
        keys: pa.string() or pa.binary() or their large variants, strictly ascending by UTF-8
            bytes, without nulls; may be empty.
        values: pa.binary() or pa.large_binary(), as many as keys, without nulls.
        schema: Avro schema of the values as JSON.
        block_size: uncompressed bytes at which a data block is closed.
        bloom: payload of the meta block `bloomFilter`, where there is one.
        file_info: entries beside those that every file has (minRecordKey, maxRecordKey,
            bloomFilterTypeCode in base files).

    Raises:
        InputError: a key is null, empty, longer than 32767 bytes, or not above its predecessor.
    """
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys with {len(values)} values")
    key_strings, value_strings = from_arrow(keys, "key"), from_arrow(values, "value")
    _check_keys(key_strings)
    parts = _Parts()
    bounds = _block_bounds(key_strings, value_strings, block_size)
    for first, last in itertools.pairwise(bounds):
        payload = _cells(key_strings.part(first, last), value_strings.part(first, last))
        offset, size = parts.add(BlockKind.DATA, payload)
        parts.data_index.append(encode_entry(offset, size, _full_key(key_strings.item(first))))
    if bloom is not None:
        offset, size = parts.add(BlockKind.META, bloom)
        parts.meta_index.append(encode_entry(offset, size, _BLOOM_BLOCK_NAME))
    info = _file_info(key_strings, value_strings, schema) | dict(file_info or {})
    return parts.finish(info, len(keys))


class _Parts:
    """The bytes so far, and what index and trailer must say about them."""

    def __init__(self) -> None:
        self.data_index: list[bytes] = []
        self.meta_index: list[bytes] = []
        self._pieces: list[bytes] = []
        self._offset = 0
        self._uncompressed = 0
        self._last: dict[BlockKind, int] = {}
        self._first_data_block = -1

    def add(self, kind: BlockKind, payload: Any) -> tuple[int, int]:
        """Append a block with a payload of bytes or uint8; its offset and size."""
        offset = self._offset
        previous = self._last.get(kind, -1)
        if kind is BlockKind.DATA and previous == -1:
            self._first_data_block = offset
        block = encode_block(kind, payload, previous)
        self._pieces.append(block)
        self._last[kind] = offset
        self._offset += len(block)
        self._uncompressed += HEADER_SIZE + len(payload)
        return offset, len(block)

    def finish(self, file_info: Mapping[str, bytes], entry_count: int) -> bytes:
        """Append the section that is loaded on open, and the trailer."""
        data_index = b"".join(self.data_index)
        root, _ = self.add(BlockKind.ROOT_INDEX, data_index)
        # HBase leaves the root of the data index out of its count of uncompressed bytes.
        self._uncompressed -= HEADER_SIZE + len(data_index)
        self.add(BlockKind.ROOT_INDEX, b"".join(self.meta_index))
        info, _ = self.add(BlockKind.FILE_INFO, encode_file_info(file_info))
        trailer = Trailer(
            file_info_offset=info,
            load_on_open_offset=root,
            uncompressed_data_index_size=len(data_index),
            total_uncompressed_bytes=self._uncompressed + TRAILER_SIZE,
            data_index_count=len(self.data_index),
            meta_index_count=len(self.meta_index),
            entry_count=entry_count,
            index_levels=1,
            first_data_block_offset=self._first_data_block,
            last_data_block_offset=self._last.get(BlockKind.DATA, -1),
            codec=Codec.GZ,
        )
        return b"".join([*self._pieces, trailer.encode()])


def _check_keys(keys: Strings) -> None:
    sizes = np.diff(keys.offsets)
    for number in np.flatnonzero((sizes < 1) | (sizes > kernels.ROW_BYTES_MAX)).tolist():
        raise InputError(
            f"key number {number} has {sizes[number]} bytes, not 1 to {kernels.ROW_BYTES_MAX}"
        )
    fault = kernels.check_order(keys)
    if fault != kernels.NO_FAULT:
        raise InputError(f"key number {fault} is not above the one before it")


def _block_bounds(keys: Strings, values: Strings, block_size: int) -> list[int]:
    """Entry numbers at which blocks start, and the number of entries.

    A block is closed before the cell that finds it at or above the block size (HFileWriterImpl.
    checkBlockBoundary).
    """
    cell_sizes = np.diff(keys.offsets) + np.diff(values.offsets) + kernels.CELL_OVERHEAD
    ends = np.cumsum(cell_sizes)
    bounds = [0]
    while bounds[-1] < len(ends):
        start = bounds[-1]
        written = int(ends[start - 1]) if start else 0
        full = int(np.searchsorted(ends, written + block_size)) + 1
        bounds.append(min(max(full, start + 1), len(ends)))
        if int(ends[bounds[-1] - 1]) - written > BLOCK_BYTES_MAX:
            raise InputError(f"the block from key number {start} exceeds {BLOCK_BYTES_MAX} bytes")
    return bounds


def _cells(keys: Strings, values: Strings) -> Any:
    """The payload of a data block, a uint8 array."""
    count = len(keys.offsets) - 1
    size = keys.size(0, count) + values.size(0, count) + count * kernels.CELL_OVERHEAD
    out = np.empty(size, np.uint8)
    kernels.put_cells(keys, values, out)
    return out


def _full_key(row: bytes) -> bytes:
    return len(row).to_bytes(2, "big") + row + _KEY_SUFFIX


def _file_info(keys: Strings, values: Strings, schema: str) -> dict[str, bytes]:
    count = len(keys.offsets) - 1
    divisor = max(1, count)
    key_bytes = keys.size(0, count) + count * _KEY_OVERHEAD
    entries = {
        "KEY_VALUE_VERSION": encode_int32(_KEY_VALUE_VERSION_WITH_MVCC),
        "MAX_MEMSTORE_TS_KEY": encode_int64(0),
        "hfile.AVG_KEY_LEN": encode_int32(key_bytes // divisor),
        "hfile.AVG_VALUE_LEN": encode_int32(values.size(0, count) // divisor),
        "hfile.CREATE_TIME_TS": encode_int64(0),
        "schema": schema.encode(),
    }
    if count:
        entries["hfile.LASTKEY"] = _full_key(keys.item(count - 1))
    return entries
