"""Keys on their way from the base files to the shards, in files of the build's folder.

    int64 per shard and one more: first row, first byte; uint64 low, high of the shard's digest
    uint16 per key: its bytes
    int32 per key: its base file's number
    the keys

Keys lie in the order of their shards, so that a shard's part is three stretches of the file.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from table.errors import CorruptFileError
from table.format.digest import Digest, total
from table.format.scatter import Dealt
from table.storage import RangeReader, Storage

_FIELDS = 4
_HEAD = struct.Struct("<qqQQ")
_ENTRY_BYTES = _HEAD.size
_LENGTH_BYTES = 2
_CODE_BYTES = 4


def encode_spill(dealt: Dealt) -> bytes:
    """The bytes of a spill file."""
    shards = len(dealt.sums.rows)
    head = np.zeros((shards + 1, _FIELDS), np.int64)
    head[:, 0] = dealt.row_bounds
    head[:, 1] = dealt.byte_bounds
    head[:-1, 2] = dealt.sums.low.view(np.int64)
    head[:-1, 3] = dealt.sums.high.view(np.int64)
    parts: list[Any] = [head, dealt.lengths, dealt.codes, dealt.text]
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one spill file holds of a shard: bounds of its rows and bytes, digest."""

    source: RangeReader
    rows: tuple[int, int]
    text: tuple[int, int]
    digest: Digest
    head_bytes: int
    all_rows: int

    def read(self, into: Keys, row: int, at: int) -> None:
        """Read lengths, codes and keys to their places."""
        first, last = self.rows
        start, end = self.text
        lengths = self.head_bytes + _LENGTH_BYTES * first
        codes = self.head_bytes + _LENGTH_BYTES * self.all_rows + _CODE_BYTES * first
        keys = self.head_bytes + (_LENGTH_BYTES + _CODE_BYTES) * self.all_rows + start
        count = last - first
        sizes = self._array(lengths, count, np.uint16)
        if int(sizes.sum()) != end - start:
            raise CorruptFileError(self.source.name, lengths, "the lengths of keys do not add up")
        into.offsets[row + 1 : row + count + 1] = at + np.cumsum(sizes, dtype=np.int64)
        into.codes[row : row + count] = self._array(codes, count, np.int32)
        into.text[at : at + end - start] = self._array(keys, end - start, np.uint8)

    def _array(self, offset: int, count: int, kind: Any) -> Any:
        size = count * np.dtype(kind).itemsize
        data = self.source.read(offset, size)
        if len(data) != size:
            raise CorruptFileError(self.source.name, offset, f"{len(data)} of {size} bytes")
        return np.frombuffer(data, kind)


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of one shard, unsorted: `text[offsets[i]:offsets[i + 1]]`, location `codes[i]`."""

    offsets: Any
    text: Any
    codes: Any

    def array(self) -> Any:
        """The keys as pa.Array of large_binary, over the same memory."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.text)]
        return pa.Array.from_buffers(pa.large_binary(), len(self.codes), buffers)


def read_shard(
    storage: Storage, paths: Sequence[str], *, number: int, shards: int, threads: int = 1
) -> tuple[Keys, Digest]:
    """All keys of one of so many shards, and their digest as it was before they were spilled.

    Raises:
        CorruptFileError: a spill file is damaged.
    """
    stretches = [_stretch(storage.open(path), number, shards) for path in paths]
    rows = sum(s.rows[1] - s.rows[0] for s in stretches)
    size = sum(s.text[1] - s.text[0] for s in stretches)
    keys = Keys(np.zeros(rows + 1, np.int64), np.empty(size, np.uint8), np.empty(rows, np.int32))
    rows_before = itertools.accumulate((s.rows[1] - s.rows[0] for s in stretches), initial=0)
    bytes_before = itertools.accumulate((s.text[1] - s.text[0] for s in stretches), initial=0)
    with ThreadPoolExecutor(threads) as pool:
        reading = pool.map(
            Stretch.read, stretches, itertools.repeat(keys), rows_before, bytes_before
        )
        list(reading)
    return keys, total([stretch.digest for stretch in stretches])


def _stretch(source: RangeReader, number: int, shards: int) -> Stretch:
    head_bytes = (shards + 1) * _ENTRY_BYTES
    data = source.read(number * _ENTRY_BYTES, 2 * _ENTRY_BYTES)
    end = source.read(shards * _ENTRY_BYTES, _ENTRY_BYTES)
    if len(data) != 2 * _ENTRY_BYTES or len(end) != _ENTRY_BYTES:
        raise CorruptFileError(source.name, 0, "the file ends in its head")
    (first, start, low, high), (last, stop, _, _) = _HEAD.iter_unpack(data)
    all_rows, all_bytes, _, _ = _HEAD.unpack(end)
    size = head_bytes + (_LENGTH_BYTES + _CODE_BYTES) * all_rows + all_bytes
    ordered = 0 <= first <= last <= all_rows and 0 <= start <= stop <= all_bytes
    if source.size != size or not ordered:
        raise CorruptFileError(source.name, 0, "head and size of the file contradict each other")
    digest = Digest(last - first, low, high)
    return Stretch(source, (first, last), (start, stop), digest, head_bytes, all_rows)
