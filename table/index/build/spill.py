"""Keys on their way to the shards, in files of the build's folder.

int64 per shard and one more: first key, first byte; uint64 low, high of the shard's digest
per shard, of keys that were read:
    int32 per key: its location
    uint16 per key: its bytes
    the keys
per shard, of keys that are made from row numbers:
    int64: the number that the others are counted from
    uint32 per key: the number of its row
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from keymark.table.errors import CorruptFileError
from keymark.table.format.hashes.digest import Digest
from keymark.table.format.kernels.pieces import (
    Histogram,
    Keys,
    RadixPartitioner,
    Spilled,
    shared_start,
)
from keymark.table.format.kernels.scatter import PartitionedKeys, Sums
from keymark.table.runtime.runner import LocalRunner
from keymark.table.storage.storage import RangeReader

_FIELDS = 4
_HEAD = struct.Struct("<qqQQ")
_ENTRY_BYTES = _HEAD.size
_CODE_BYTES, _LENGTH_BYTES = 4, 2
_KEY_BYTES = _CODE_BYTES + _LENGTH_BYTES
_FIRST_BYTES, _NUMBER_BYTES = 8, 4
# Bytes of a uuid, with its location and its length.
_MADE_KEY_BYTES = 36 + _KEY_BYTES
# This many files show what most keys start with.
_SAMPLES = 8


def encode_spill(dealt: PartitionedKeys) -> bytes:
    """The bytes of a spill file of keys."""
    starts = dealt.byte_bounds + _KEY_BYTES * dealt.row_bounds
    parts = [_head(dealt.row_bounds, starts, dealt.sums)]
    for number in range(len(dealt.sums.rows)):
        rows = slice(*dealt.row_bounds[number : number + 2])
        text = slice(*dealt.byte_bounds[number : number + 2])
        parts += (dealt.codes[rows], dealt.lengths[rows], dealt.text[text])
    return b"".join(parts)


def encode_numbers(first: int, numbers: npt.NDArray[np.uint32], sums: Sums) -> bytes:
    """The bytes of a spill file of row numbers.

    Args:
        first: what the numbers are counted from.
        numbers: by shard.
        sums: of their keys.
    """
    bounds = np.concatenate(([0], np.cumsum(sums.rows)))
    starts = _NUMBER_BYTES * bounds + _FIRST_BYTES * np.arange(len(bounds))
    parts = [_head(bounds, starts, sums)]
    for number in range(len(sums.rows)):
        parts += (np.array([first], np.int64), numbers[bounds[number] : bounds[number + 1]])
    return b"".join(parts)


def _head(row_bounds: npt.NDArray[np.int64], byte_bounds: npt.NDArray[np.int64], sums: Sums) -> Any:
    head = np.zeros((len(row_bounds), _FIELDS), np.int64)
    head[:, 0] = row_bounds
    head[:, 1] = byte_bounds
    head[:-1, 2] = sums.low.view(np.int64)
    head[:-1, 3] = sums.high.view(np.int64)
    return head


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one spill file holds of a shard: where, how many keys and bytes, digest."""

    source: RangeReader
    offset: int
    rows: int
    size: int
    digest: Digest

    @property
    def held(self) -> int:
        """Bytes that its keys take in memory, about: those of row numbers are not made yet."""
        return max(self.size, _MADE_KEY_BYTES * self.rows) if self.rows else 0

    def read(self) -> bytes:
        """Its bytes."""
        data = self.source.read(self.offset, self.size)
        if len(data) != self.size:
            self.fail(f"{len(data)} of {self.size} bytes")
        return data

    def fail(self, detail: str) -> NoReturn:
        """Say what is wrong with it."""
        raise CorruptFileError(self.source.name, self.offset, detail)


class KeySource(Protocol):
    """Some keys of a shard, on storage."""

    @property
    def held(self) -> int:
        """Bytes that they take in memory, about; 0 where there are none."""

    def fail(self, detail: str) -> NoReturn:
        """Say what is wrong with them."""


A = TypeVar("A", bound=KeySource)

KeyReader = Callable[[Stretch], Spilled]
"""Gives the keys of a stretch that is not empty, the same ones every time."""


def spilled_keys(stretch: Stretch) -> Spilled:
    """The keys of a stretch of a spill file of keys."""
    data, rows = stretch.read(), stretch.rows
    if len(data) < _KEY_BYTES * rows:
        stretch.fail(f"{rows} keys in {len(data)} bytes")
    return Spilled(
        np.frombuffer(data, np.int32, rows),
        np.frombuffer(data, np.uint16, rows, _CODE_BYTES * rows),
        np.frombuffer(data, np.uint8, -1, _KEY_BYTES * rows),
    )


def spilled_numbers(stretch: Stretch) -> npt.NDArray[np.int64]:
    """The row numbers of a stretch of a spill file of row numbers."""
    data = stretch.read()
    if len(data) != _FIRST_BYTES + _NUMBER_BYTES * stretch.rows:
        stretch.fail(f"{stretch.rows} row numbers in {len(data)} bytes")
    numbers = np.frombuffer(data, np.uint32, stretch.rows, _FIRST_BYTES)
    return np.frombuffer(data, np.int64, 1) + numbers


def read_keys(sources: Sequence[A], read: Callable[[A], Spilled], threads: int = 1) -> Keys:
    """All keys of some sources, in pieces.

    Args:
        sources: none of which is empty.
        read: gives the keys of each, the same ones every time.
        threads: how many work.

    Raises:
        CorruptFileError: a spill file is damaged.
    """
    samples = sources[:: max(1, len(sources) // _SAMPLES)]
    start = shared_start([read(source) for source in samples])
    lots = [sources[lot::threads] for lot in range(threads)]
    # A single thread runs inline: it could not use memory that other threads freed.
    runner, weights = LocalRunner(threads), [1] * threads
    partitioner = RadixPartitioner(runner.run(partial(_tally, read, start), lots, weights=weights))
    runner.run(partial(_deal, read, partitioner), list(enumerate(lots)), weights=weights)
    return partitioner.keys


def _tally(read: Callable[[A], Spilled], start: bytes, lot: Sequence[A]) -> Histogram:
    histogram = Histogram(start)
    for source in lot:
        if not histogram.add(read(source)):
            source.fail("the lengths of keys do not add up")
    return histogram


def _deal(
    read: Callable[[A], Spilled], partitioner: RadixPartitioner, numbered: tuple[int, Sequence[A]]
) -> None:
    number, lot = numbered
    for source in lot:
        if not partitioner.put(number, read(source)):
            source.fail("other keys than a moment ago")


def find_stretch(source: RangeReader, number: int, shards: int) -> Stretch:
    """What a spill file holds of one shard.

    Raises:
        CorruptFileError: the file is damaged.
    """
    data = source.read(number * _ENTRY_BYTES, 2 * _ENTRY_BYTES)
    end = source.read(shards * _ENTRY_BYTES, _ENTRY_BYTES)
    if len(data) != 2 * _ENTRY_BYTES or len(end) != _ENTRY_BYTES:
        raise CorruptFileError(source.name, 0, "the file ends in its head")
    (first, start, low, high), (last, stop, _, _) = _HEAD.iter_unpack(data)
    all_rows, all_bytes, _, _ = _HEAD.unpack(end)
    head_bytes = (shards + 1) * _ENTRY_BYTES
    ordered = 0 <= first <= last <= all_rows and 0 <= start <= stop <= all_bytes
    if source.size != head_bytes + all_bytes or not ordered:
        raise CorruptFileError(source.name, 0, "head and size of the file contradict each other")
    digest = Digest(last - first, low, high)
    return Stretch(source, head_bytes + start, last - first, stop - start, digest)
