"""Keys on their way from the base files to the shards, in files of the build's folder.

int64 per shard and one more: first row, first byte; uint64 low, high of the shard's digest
per shard:
    int32 per key: its base file's number
    uint16 per key: its bytes
    the keys
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np

from table.errors import CorruptFileError
from table.format.digest import Digest, total
from table.format.pieces import Dealing, Keys, Spilled, Tally, shared_start
from table.format.scatter import Dealt
from table.storage import RangeReader, Storage
from table.write.runner import LocalRunner

_FIELDS = 4
_HEAD = struct.Struct("<qqQQ")
_ENTRY_BYTES = _HEAD.size
_LENGTH_BYTES = 2
_CODE_BYTES = 4
# So many files show what most keys start with.
_SAMPLES = 8


def encode_spill(dealt: Dealt) -> bytes:
    """The bytes of a spill file."""
    shards = len(dealt.sums.rows)
    head = np.zeros((shards + 1, _FIELDS), np.int64)
    head[:, 0] = dealt.row_bounds
    head[:, 1] = dealt.byte_bounds
    head[:-1, 2] = dealt.sums.low.view(np.int64)
    head[:-1, 3] = dealt.sums.high.view(np.int64)
    parts: list[Any] = [head]
    for number in range(shards):
        rows = slice(*dealt.row_bounds[number : number + 2])
        text = slice(*dealt.byte_bounds[number : number + 2])
        parts += (dealt.codes[rows], dealt.lengths[rows], dealt.text[text])
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one spill file holds of a shard: where, how many keys and bytes of them, digest."""

    source: RangeReader
    offset: int
    rows: int
    size: int
    digest: Digest

    def read(self) -> Spilled:
        """Its keys."""
        keys = (_CODE_BYTES + _LENGTH_BYTES) * self.rows
        data = self.source.read(self.offset, keys + self.size)
        if len(data) != keys + self.size:
            self.fail(f"{len(data)} of {keys + self.size} bytes")
        return Spilled(
            np.frombuffer(data, np.int32, self.rows),
            np.frombuffer(data, np.uint16, self.rows, _CODE_BYTES * self.rows),
            np.frombuffer(data, np.uint8, self.size, keys),
        )

    def fail(self, detail: str) -> NoReturn:
        """Say what is wrong with it."""
        raise CorruptFileError(self.source.name, self.offset, detail)


def read_shard(
    storage: Storage, paths: Sequence[str], *, number: int, shards: int, threads: int = 1
) -> tuple[Keys, Digest]:
    """All keys of one of so many shards, and their digest as it was before they were spilled.

    Raises:
        CorruptFileError: a spill file is damaged.
    """
    stretches = [_stretch(storage.open(path), number, shards) for path in paths]
    digest = total([stretch.digest for stretch in stretches])
    stretches = [stretch for stretch in stretches if stretch.rows]
    samples = stretches[:: max(1, len(stretches) // _SAMPLES)]
    start = shared_start([stretch.read() for stretch in samples])
    lots = [stretches[lot::threads] for lot in range(threads)]
    # One thread is this one: memory that others freed would be of no use to it.
    runner, weights = LocalRunner(threads), [1] * threads
    dealing = Dealing(runner.run(partial(_tally, start), lots, weights=weights))
    runner.run(partial(_deal, dealing), list(enumerate(lots)), weights=weights)
    return dealing.keys, digest


def _tally(start: bytes, lot: Sequence[Stretch]) -> Tally:
    tally = Tally(start)
    for stretch in lot:
        if not tally.add(stretch.read()):
            stretch.fail("the lengths of keys do not add up")
    return tally


def _deal(dealing: Dealing, numbered: tuple[int, Sequence[Stretch]]) -> None:
    number, lot = numbered
    for stretch in lot:
        if not dealing.put(number, stretch.read()):
            stretch.fail("other keys than a moment ago")


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
    offset = head_bytes + (_LENGTH_BYTES + _CODE_BYTES) * first + start
    return Stretch(source, offset, last - first, stop - start, Digest(last - first, low, high))
