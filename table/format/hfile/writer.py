"""Sorted keys and values -> HFile bytes, in the order of `docs/formats/hfile.md`.

The bytes written so far and one open data block are all that a writer holds; of the bytes at most
`memory` stay in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import InputError
from keymark.table.format.coding import encode_int32, encode_int64
from keymark.table.format.hfile import kernels
from keymark.table.format.hfile.block import (
    BLOCK_BYTES_MAX,
    HEADER_SIZE,
    BlockKind,
    Codec,
    compress_block,
    encode_block,
)
from keymark.table.format.hfile.cells import Cells, Strings
from keymark.table.format.hfile.deflate import Marks
from keymark.table.format.hfile.file_info import encode_file_info
from keymark.table.format.hfile.index import encode_entry
from keymark.table.format.hfile.strings import Ordered, from_arrow
from keymark.table.format.hfile.trailer import TRAILER_SIZE, Trailer
from keymark.table.storage.spool import Content, Spool, whole

BLOCK_SIZE = 1 << 20
"""Uncompressed bytes at which a data block is closed, where nothing else is asked for."""

_BLOOM_BLOCK_NAME = b"bloomFilter"
_KEY_OVERHEAD = 12
# What follows the row in a key: no column family, the newest timestamp, type Put.
_KEY_SUFFIX = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"
_KEY_VALUE_VERSION_WITH_MVCC = 1
# Offsets are widened for this many cells at a time, however long a batch is.
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
    threads: int = 1,
) -> bytes:
    """A whole HFile of one batch of cells: see `HFileWriter`, which also has the errors.

    Args:
        keys: as `HFileWriter.add` takes them; may be empty.
        values: as many as keys.
        schema: Avro schema of the values as JSON.
        block_size: uncompressed bytes at which a data block is closed.
        bloom: payload of the meta block `bloomFilter`, where there is one.
        file_info: entries beside those that every file has.
        threads: how many compress blocks.
    """
    writer = HFileWriter(schema, block_size, threads=threads)
    writer.add(keys, values)
    return writer.finish(bloom, file_info)


class HFileWriter:
    """An HFile as HBase 2.4 inside Hudi 0.15 writes them, from successive batches of cells.

    What the file's blocks hold does not depend on how its cells were cut into batches; how small
    ones are compressed may (isal). A writer that raised an error is of no further use.

    Args:
        schema: Avro schema of the values as JSON.
        block_size: uncompressed bytes at which a data block is closed.
        read_back: the caller reads the file back and compares it with what it holds.
        threads: how many compress blocks.
        memory: bytes of the file that stay in memory; the rest goes to a local file. None for all.

    Attributes:
        entry_count: how many cells were added.
        first_key: the first of their keys, None before there is one.
        last_key: the last one.
    """

    def __init__(
        self,
        schema: str,
        block_size: int = BLOCK_SIZE,
        *,
        read_back: bool = False,
        threads: int = 1,
        memory: int | None = None,
    ) -> None:
        self.entry_count = 0
        self.first_key: bytes | None = None
        self.last_key: bytes | None = None
        self._schema = schema
        self._block_size = max(1, block_size)
        self._parts = _Parts(Spool("an HFile", memory), read_back=read_back, threads=threads)
        self._key_bytes = 0
        self._value_bytes = 0
        # The open block: room for it, bytes of it that are filled, its first row; marks of its
        # cells, and of how many, where they are known.
        self._block, self._marks = self._room()
        self._filled = self._marked = 0
        self._first_row = b""

    def _room(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        size = min(self._block_size + _CELL_ROOM, BLOCK_BYTES_MAX)
        return np.empty(size, np.uint8), _room_for_marks(size)

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
        for start in range(0, len(keys), _CELLS_AT_ONCE):
            part = from_arrow(keys.slice(start, _CELLS_AT_ONCE), "key")
            self._put(Cells(part, from_arrow(values.slice(start, _CELLS_AT_ONCE), "value")))

    def _put(self, cells: Cells) -> None:
        """Append a few cells; blocks that become full are written."""
        self._check(cells.keys)
        if self._marked:
            self._close_block()
        at, count = 0, len(cells.keys.offsets) - 1
        while at < count:
            if not self._filled:
                self._first_row = cells.keys.item(at)
            started = at
            at, self._filled = kernels.put_cells(
                cells, at, self._block, self._filled, self._block_size
            )
            self._value_bytes += cells.values.size(started, at)
            self.entry_count += at - started
            if self._filled >= self._block_size:
                self._close_block()
            elif at < count:
                self._make_room(cells.keys.size(at, at + 1) + cells.values.size(at, at + 1))

    def add_ordered(self, cells: Ordered) -> None:
        """Append cells whose keys lie in any order, above all that were added before.

        Raises:
            InputError: as in `add`.
        """
        check_lengths(cells.keys)
        at, count, written = 0, len(cells.order), 0
        if count and self.last_key is not None and cells.key(0) <= self.last_key:
            self._refuse_order()
        if self._filled and not self._marked:
            self._close_block()
        ahead = kernels.room_ahead()
        while at < count:
            if not self._filled:
                self._first_row = cells.key(at)
            started, filled = at, self._filled
            out = self._block, self._marks[:, self._marked :], ahead
            at, self._filled, fault = kernels.put_ordered(cells, at, out, filled, self._block_size)
            self._marked += at - started
            self.entry_count += at - started
            written += self._filled - filled
            if fault:
                self._refuse_order()
            if self._filled >= self._block_size:
                self._close_block()
            elif at < count:
                self._make_room(cells.size(at))
        if count:
            self.first_key = self.first_key or cells.key(0)
            self.last_key = cells.key(count - 1)
            row_bytes = cells.keys.size(0, count)
            self._key_bytes += row_bytes + count * _KEY_OVERHEAD
            self._value_bytes += written - row_bytes - count * kernels.CELL_OVERHEAD

    def _refuse_order(self) -> NoReturn:
        raise InputError(f"key number {self.entry_count} is not above the one before it")

    def _check(self, keys: Strings) -> None:
        """Refuse keys that no HFile can hold, or not at this place; count their bytes."""
        check_lengths(keys, self.entry_count)
        fault = kernels.check_order(keys)
        first = keys.item(0)
        if self.last_key is not None and first <= self.last_key:
            fault = 0
        if fault != kernels.NO_FAULT:
            self.entry_count += fault
            self._refuse_order()
        if self.first_key is None:
            self.first_key = first
        count = len(keys.offsets) - 1
        self.last_key = keys.item(count - 1)
        self._key_bytes += keys.size(0, count) + count * _KEY_OVERHEAD

    def _make_room(self, size: int) -> None:
        """Make room in the open block for a cell, by the bytes of its key and value."""
        needed = self._filled + kernels.CELL_OVERHEAD + size
        if needed > BLOCK_BYTES_MAX:
            raise InputError(
                f"the block with key number {self.entry_count} exceeds {BLOCK_BYTES_MAX} bytes"
            )
        grown = np.empty(needed, np.uint8)
        grown[: self._filled] = self._block[: self._filled]
        marks = _room_for_marks(needed)
        marks[:, : self._marked] = self._marks[:, : self._marked]
        self._block, self._marks = grown, marks

    def _close_block(self) -> None:
        marks = Marks(*self._marks[:, : self._marked]) if self._marked else None
        self._parts.add_data(self._block[: self._filled], marks, _full_key(self._first_row))
        if self._parts.threads > 1:
            self._block, self._marks = self._room()
        self._filled = self._marked = 0

    def finish(
        self, bloom: bytes | None = None, file_info: Mapping[str, bytes] | None = None
    ) -> bytes:
        """The whole file in memory; nothing can be added afterwards. Takes what `close` does."""
        return whole(self.close(bloom, file_info))

    def close(
        self, bloom: bytes | None = None, file_info: Mapping[str, bytes] | None = None
    ) -> Content:
        """The whole file, where it is; nothing can be added afterwards.

        Args:
            bloom: payload of the meta block `bloomFilter`, where there is one.
            file_info: entries beside those that every file has (minRecordKey, maxRecordKey,
                bloomFilterTypeCode in base files).
        """
        if self._filled:
            self._close_block()
        self._parts.settle()
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
    """The bytes so far, and what index and trailer must say about them.

    Data blocks are compressed by as many threads as there are, and written in their order.
    """

    def __init__(self, written: Spool, *, read_back: bool, threads: int) -> None:
        self.threads = threads
        self.data_index: list[bytes] = []
        self.meta_index: list[bytes] = []
        self._read_back = read_back
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._pending: deque[tuple[bytes, int, Future[bytes]]] = deque()
        self._written = written
        self._uncompressed = 0
        self._last: dict[BlockKind, int] = {}
        self._first_data_block = -1

    def add_data(self, payload: npt.NDArray[np.uint8], marks: Marks | None, key: bytes) -> None:
        """Append a data block of a uint8 payload, with its entry in the index.

        With several threads, the payload is kept until the block is written.
        """
        if self._pool is None:
            self._put_data(key, len(payload), self._compress(payload, marks))
            return
        # As many more wait as are being worked on.
        if len(self._pending) >= 2 * self.threads:
            self._settle_first()
        self._pending.append((key, len(payload), self._pool.submit(self._compress, payload, marks)))

    def _compress(self, payload: npt.NDArray[np.uint8], marks: Marks | None) -> bytes:
        return compress_block(BlockKind.DATA, payload, marks=marks, read_back=self._read_back)

    def _settle_first(self) -> None:
        key, length, compressed = self._pending.popleft()
        self._put_data(key, length, compressed.result())

    def settle(self) -> None:
        """Write the data blocks that are not written yet."""
        while self._pending:
            self._settle_first()
        if self._pool is not None:
            self._pool.shutdown()

    def _put_data(self, key: bytes, length: int, compressed: bytes) -> None:
        offset, size = self._put(BlockKind.DATA, compressed, length)
        self.data_index.append(encode_entry(offset, size, key))

    def add(self, kind: BlockKind, payload: bytes) -> tuple[int, int]:
        """Append a block of another kind; its offset and size."""
        return self._put(kind, compress_block(kind, payload), len(payload))

    def _put(self, kind: BlockKind, compressed: bytes, length: int) -> tuple[int, int]:
        offset = self._written.tell()
        previous = self._last.get(kind, -1)
        if kind is BlockKind.DATA and previous == -1:
            self._first_data_block = offset
        size = self._written.write(encode_block(kind, compressed, length, previous))
        self._last[kind] = offset
        self._uncompressed += HEADER_SIZE + length
        return offset, size

    def finish(self, file_info: Mapping[str, bytes], entry_count: int) -> Content:
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
        return self._written.content()


def _room_for_marks(size: int) -> npt.NDArray[np.int32]:
    """Marks of as many cells as a block of that size can have."""
    return np.empty((2, size // kernels.CELL_OVERHEAD + 1), np.int32)


def check_lengths(keys: Strings, before: int = 0) -> None:
    """Refuse keys that no HFile can hold; `before` is the number of the first."""
    number = kernels.check_lengths(keys.offsets)
    if number != kernels.NO_FAULT:
        raise InputError(
            f"key number {before + number} has {keys.size(number, number + 1)} bytes, "
            f"not 1 to {kernels.ROW_BYTES_MAX}"
        )


def _full_key(row: bytes) -> bytes:
    return len(row).to_bytes(2, "big") + row + _KEY_SUFFIX
