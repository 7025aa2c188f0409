"""Sorted keys and values -> HFile bytes, in the order of `table/spec/hfile.md`.

The bytes written so far and one open data block are all that a writer holds.
"""

from __future__ import annotations

import io
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
from table.format.hfile.strings import Cells, Strings, from_arrow
from table.format.hfile.trailer import TRAILER_SIZE, Trailer

BLOCK_SIZE = 1 << 20
"""Uncompressed bytes at which a data block is closed, where nothing else is asked for."""

_BLOOM_BLOCK_NAME = b"bloomFilter"
_KEY_OVERHEAD = 12
# What follows the row in a key: no column family, the newest timestamp, type Put.
_KEY_SUFFIX = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"
_KEY_VALUE_VERSION_WITH_MVCC = 1
# Offsets are widened for so many cells at a time, whatever the length of a batch.
_CELLS_AT_ONCE = 8192
_CELL_ROOM = 1 << 16


def write_hfile(  # noqa: PLR0913 - the parts an HFile is made of
    keys: pa.Array,
    values: pa.Array,
    *,
    schema: str,
    block_size: int = BLOCK_SIZE,
    bloom: bytes | None = None,
    file_info: Mapping[str, bytes] | None = None,
) -> bytes:
    """A whole HFile of one batch of cells: see `HFileWriter`, which also has the errors.

    Args:
        keys: as `HFileWriter.add` takes them; may be empty.
        values: as many as keys.
        schema: Avro schema of the values as JSON.
        block_size: uncompressed bytes at which a data block is closed.
        bloom: payload of the meta block `bloomFilter`, where there is one.
        file_info: entries beside those that every file has.
    """
    writer = HFileWriter(schema, block_size)
    writer.add(keys, values)
    return writer.finish(bloom, file_info)


class HFileWriter:
    """An HFile as HBase 2.4 inside Hudi 0.15 writes them, from successive batches of cells.

    The file does not depend on how its cells were cut into batches. A writer that raised an error
    is of no further use.

    Args:
        schema: Avro schema of the values as JSON.
        block_size: uncompressed bytes at which a data block is closed.
        read_back: the caller reads the file back and compares it with what it holds.

    Attributes:
        entry_count: how many cells were added.
        first_key: the first of their keys, None before there is one.
        last_key: the last one.
    """

    def __init__(
        self, schema: str, block_size: int = BLOCK_SIZE, *, read_back: bool = False
    ) -> None:
        self.entry_count = 0
        self.first_key: bytes | None = None
        self.last_key: bytes | None = None
        self._schema = schema
        self._block_size = max(1, block_size)
        self._parts = _Parts(read_back=read_back)
        self._key_bytes = 0
        self._value_bytes = 0
        # The open block: room for it, bytes of it that are filled, its first row.
        self._block = np.empty(min(self._block_size + _CELL_ROOM, BLOCK_BYTES_MAX), np.uint8)
        self._filled = 0
        self._first_row = b""

    def add(self, keys: pa.Array, values: pa.Array) -> None:
        """Append cells.

        Args:
            keys: pa.string() or pa.binary() or their large variants, without nulls, strictly
                ascending by UTF-8 bytes, also from batch to batch.
            values: pa.binary() or pa.large_binary(), as many as keys, without nulls.

        Raises:
            InputError: a key is null, empty, longer than 32767 bytes, or not above its predecessor.
        """
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys with {len(values)} values")
        no_codes = _codes(np.empty(0, np.int64))
        for start in range(0, len(keys), _CELLS_AT_ONCE):
            part = from_arrow(values.slice(start, _CELLS_AT_ONCE), "value")
            self._put(Cells(_slice(keys, start), part, no_codes))

    def add_coded(self, keys: pa.Array, codes: Any, dictionary: pa.Array) -> None:
        """Append cells whose values repeat: all keys of one file group share their value's bytes.

        Args:
            keys: as in `add`.
            codes: integers (pa.Array or numpy), as many as keys: rows of `dictionary`.
            dictionary: pa.binary() or pa.large_binary(), the distinct values, without nulls.

        Raises:
            InputError: as in `add`.
        """
        if len(keys) != len(codes):
            raise ValueError(f"{len(keys)} keys with {len(codes)} codes")
        values = from_arrow(dictionary, "value")
        for start in range(0, len(keys), _CELLS_AT_ONCE):
            part = _codes(codes[start : start + _CELLS_AT_ONCE])
            if part.min() < 0 or part.max() >= len(dictionary):
                raise ValueError(f"a code outside of {len(dictionary)} distinct values")
            self._put(Cells(_slice(keys, start), values, part))

    def _put(self, cells: Cells) -> None:
        """Append a few cells; blocks that become full are written."""
        self._check(cells.keys)
        at, count = 0, len(cells.keys.offsets) - 1
        while at < count:
            if not self._filled:
                self._first_row = cells.keys.item(at)
            started = at
            at, self._filled = kernels.put_cells(
                cells, at, self._block, self._filled, self._block_size
            )
            self._value_bytes += cells.value_bytes(started, at)
            if self._filled >= self._block_size:
                self._close_block()
            elif at < count:
                self._make_room(cells, at)
        self.entry_count += count

    def _check(self, keys: Strings) -> None:
        """Refuse keys that no HFile can hold, or not at this place; count their bytes."""
        sizes = np.diff(keys.offsets)
        for number in np.flatnonzero((sizes < 1) | (sizes > kernels.ROW_BYTES_MAX)).tolist():
            raise InputError(
                f"key number {self.entry_count + number} has {sizes[number]} bytes, "
                f"not 1 to {kernels.ROW_BYTES_MAX}"
            )
        fault = kernels.check_order(keys)
        first = keys.item(0)
        if self.last_key is not None and first <= self.last_key:
            fault = 0
        if fault != kernels.NO_FAULT:
            number = self.entry_count + fault
            raise InputError(f"key number {number} is not above the one before it")
        if self.first_key is None:
            self.first_key = first
        self.last_key = keys.item(len(sizes) - 1)
        self._key_bytes += int(sizes.sum()) + len(sizes) * _KEY_OVERHEAD

    def _make_room(self, cells: Cells, number: int) -> None:
        """Let the cell that did not fit into the open block fit."""
        needed = self._filled + kernels.CELL_OVERHEAD
        needed += cells.keys.size(number, number + 1) + cells.value_bytes(number, number + 1)
        if needed > BLOCK_BYTES_MAX:
            place = self.entry_count + number
            raise InputError(f"the block with key number {place} exceeds {BLOCK_BYTES_MAX} bytes")
        grown = np.empty(needed, np.uint8)
        grown[: self._filled] = self._block[: self._filled]
        self._block = grown

    def _close_block(self) -> None:
        offset, size = self._parts.add(BlockKind.DATA, self._block[: self._filled])
        self._parts.data_index.append(encode_entry(offset, size, _full_key(self._first_row)))
        self._filled = 0

    def finish(
        self, bloom: bytes | None = None, file_info: Mapping[str, bytes] | None = None
    ) -> bytes:
        """The whole file; nothing can be added afterwards.

        Args:
            bloom: payload of the meta block `bloomFilter`, where there is one.
            file_info: entries beside those that every file has (minRecordKey, maxRecordKey,
                bloomFilterTypeCode in base files).
        """
        if self._filled:
            self._close_block()
        if bloom is not None:
            offset, size = self._parts.add(BlockKind.META, bloom)
            self._parts.meta_index.append(encode_entry(offset, size, _BLOOM_BLOCK_NAME))
        return self._parts.finish(self._info() | dict(file_info or {}), self.entry_count)

    def _info(self) -> dict[str, bytes]:
        divisor = max(1, self.entry_count)
        entries = {
            "KEY_VALUE_VERSION": encode_int32(_KEY_VALUE_VERSION_WITH_MVCC),
            "MAX_MEMSTORE_TS_KEY": encode_int64(0),
            "hfile.AVG_KEY_LEN": encode_int32(self._key_bytes // divisor),
            "hfile.AVG_VALUE_LEN": encode_int32(self._value_bytes // divisor),
            "hfile.CREATE_TIME_TS": encode_int64(0),
            "schema": self._schema.encode(),
        }
        if self.last_key is not None:
            entries["hfile.LASTKEY"] = _full_key(self.last_key)
        return entries


class _Parts:
    """The bytes so far, and what index and trailer must say about them."""

    def __init__(self, *, read_back: bool) -> None:
        self._read_back = read_back
        self.data_index: list[bytes] = []
        self.meta_index: list[bytes] = []
        self._written = io.BytesIO()
        self._uncompressed = 0
        self._last: dict[BlockKind, int] = {}
        self._first_data_block = -1

    def add(self, kind: BlockKind, payload: Any) -> tuple[int, int]:
        """Append a block with a payload of bytes or uint8; its offset and size."""
        offset = self._written.tell()
        previous = self._last.get(kind, -1)
        if kind is BlockKind.DATA and previous == -1:
            self._first_data_block = offset
        size = self._written.write(encode_block(kind, payload, previous, read_back=self._read_back))
        self._last[kind] = offset
        self._uncompressed += HEADER_SIZE + len(payload)
        return offset, size

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
        self._written.write(trailer.encode())
        # Unlike a join of pieces, this hands out the buffer itself.
        return self._written.getvalue()


def _slice(keys: pa.Array, start: int) -> Strings:
    return from_arrow(keys.slice(start, _CELLS_AT_ONCE), "key")


def _codes(codes: Any) -> Any:
    """Codes as the kernel takes them: int64, read-only."""
    codes = np.asarray(codes).astype(np.int64)
    codes.flags.writeable = False
    return codes


def _full_key(row: bytes) -> bytes:
    return len(row).to_bytes(2, "big") + row + _KEY_SUFFIX
