"""Keys of a shard in pieces that fit the processor's cache, by their first letters.

Spilled keys lie as they were scanned. To sort two million of them, and to copy them in their order,
is to go to main memory for each. So they are dealt out first, in two passes: one counts keys by
the two bytes behind what most of them start with, the other copies each to its piece. Pieces
ascend; within a piece, keys lie as they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.format.kernels.compiled import inlined, kernel
from keymark.table.format.kernels.order import common_start

# This many keys of an index, their order and an open block take about 2 MB.
_PIECE_KEYS = 1 << 14
# Keys below what most start with, those with it by the next two bytes, keys above.
_SLOTS = 1 + (1 << 16) + 1


class Spilled(NamedTuple):
    """Keys as they come.

    Attributes:
        codes: location of each key.
        lengths: bytes of each key.
        text: all keys one behind the other.
    """

    codes: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.uint16]
    text: npt.NDArray[np.uint8]

    def start(self) -> bytes:
        """What all of them start with; there is one at least."""
        common = common_start(_offsets(self.lengths), self.text)
        return bytes(self.text[:common].tobytes())


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a shard.

    Attributes:
        spilled: all of them, piece by piece.
        rows: where each piece starts and the last one ends, in keys.
        bytes: the same in bytes of `spilled.text`.
    """

    spilled: Spilled
    rows: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]

    def pieces(self) -> Iterator[tuple[pa.Array, npt.NDArray[np.int32]]]:
        """Keys (large_binary, over the same memory) and locations, piece by piece."""
        for number in np.flatnonzero(np.diff(self.rows)).tolist():
            first, last = self.rows[number : number + 2]
            start, end = self.bytes[number : number + 2]
            offsets = _offsets(self.spilled.lengths[first:last])
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.spilled.text[start:end])]
            keys = pa.Array.from_buffers(pa.large_binary(), int(last - first), buffers)
            yield keys, self.spilled.codes[first:last]


class Histogram:
    """How many keys, and bytes of them, a lot of keys has in each slot.

    Args:
        start: what most keys of the shard start with.
    """

    def __init__(self, start: bytes) -> None:
        self.start = np.frombuffer(start, np.uint8)
        self.counts = np.zeros((2, _SLOTS), np.int64)

    def add(self, spilled: Spilled) -> bool:
        """Count keys; False if their lengths do not add up."""
        return bool(_tally(spilled.lengths, spilled.text, self.start, self.counts))


class RadixPartitioner:
    """Keys on their way into pieces.

    Args:
        histograms: of all lots of keys, one at least.
    """

    def __init__(self, histograms: Sequence[Histogram]) -> None:
        self._start = histograms[0].start
        counts = [histogram.counts for histogram in histograms]
        rows = sum(count[0] for count in counts)
        cuts = np.diff((np.cumsum(rows) - rows) // _PIECE_KEYS, prepend=-1) > 0
        firsts = np.flatnonzero(cuts)
        self._pieces = np.cumsum(cuts, dtype=np.int32) - np.int32(1)
        # By piece and lot, then lot by lot within a piece: where its keys start and end.
        sizes = np.stack([np.add.reduceat(count, firsts, axis=1) for count in counts], axis=2)
        ends = np.cumsum(sizes.reshape(2, -1), axis=1)
        self._ends = ends.reshape(sizes.shape)
        self._places = self._ends - sizes
        bounds = np.zeros((2, len(firsts) + 1), np.int64)
        bounds[:, 1:] = self._ends[:, :, -1]
        found = Spilled(
            np.empty(bounds[0, -1], np.int32),
            np.empty(bounds[0, -1], np.uint16),
            np.empty(bounds[1, -1], np.uint8),
        )
        self.keys = Keys(found, bounds[0], bounds[1])

    def put(self, lot: int, spilled: Spilled) -> bool:
        """Copy keys of a lot to their pieces; False if these are not the keys that were counted."""
        places = self._places[:, :, lot], self._ends[:, :, lot]
        return bool(_deal(spilled, self._start, self._pieces, places, self.keys.spilled))


def _offsets(lengths: npt.NDArray[np.uint16]) -> npt.NDArray[np.int64]:
    """Where strings start, and the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def shared_start(lots: Sequence[Spilled]) -> bytes:
    """What the keys of all lots start with."""
    starts = sorted(lot.start() for lot in lots)
    if not starts:
        return b""
    low, high = starts[0], starts[-1]
    pairs = enumerate(zip(low, high, strict=False))
    return low[: next((at for at, (left, right) in pairs if left != right), len(low))]


@inlined
def _slot(text: npt.NDArray[np.uint8], at: Any, length: Any, start: npt.NDArray[np.uint8]) -> Any:
    """The slot of a key: never below that of a lower key."""
    common = len(start)
    for place in range(common):
        if place >= length or text[np.uint64(at + place)] < start[place]:
            return 0
        if text[np.uint64(at + place)] > start[place]:
            return _SLOTS - 1
    first = np.int64(text[np.uint64(at + common)]) if length > common else 0
    second = np.int64(text[np.uint64(at + common + 1)]) if length > common + 1 else 0
    return 1 + (first << 8 | second)


@kernel
def _tally(
    lengths: npt.NDArray[np.uint16],
    text: npt.NDArray[np.uint8],
    start: npt.NDArray[np.uint8],
    counts: npt.NDArray[np.int64],
) -> Any:
    at: Any = 0
    for row in range(len(lengths)):
        length = np.int64(lengths[row])
        if length > len(text) - at:
            return False
        slot = _slot(text, at, length, start)
        counts[0, slot] += 1
        counts[1, slot] += length
        at += length
    return at == len(text)


@kernel
def _deal(
    spilled: Spilled,
    start: npt.NDArray[np.uint8],
    pieces: npt.NDArray[np.int32],
    places: Any,
    out: Spilled,
) -> Any:
    """Copy each key to the next place of its piece; places move on."""
    codes, lengths, text = spilled
    next_place, end = places
    out_codes, out_lengths, out_text = out
    at: Any = 0
    for index in range(len(lengths)):
        length = np.int64(lengths[index])
        if length > len(text) - at:
            return False
        piece = pieces[_slot(text, at, length, start)]
        row, to = next_place[0, piece], next_place[1, piece]
        if row >= end[0, piece] or length > end[1, piece] - to:
            return False
        source, target = np.uint64(at), np.uint64(to)
        for byte in range(np.uint64(length)):
            out_text[target + byte] = text[source + byte]
        out_codes[row] = codes[index]
        out_lengths[row] = length
        next_place[0, piece] = row + 1
        next_place[1, piece] = to + length
        at += length
    return at == len(text)
