"""Blocks that a lookup is about to read: announced to a disk, fetched together from a store.

A disk works on many reads at a time, if it knows them. So the system learns of the next blocks
while those before them are inflated. A request to a store takes long however little it fetches. So
blocks that lie near each other come with one, and so does what is between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from keymark.table.storage.storage import Foretold, RangeReader

# Bytes of blocks that are announced at once, and how many such lots ahead of the reader.
_TOLD = 1 << 20
_TOLD_AHEAD = 2
# A store sends so much in the time that a request takes.
_GAP = 512 << 10
_FETCHED_MAX = 4 << 20

Place = tuple[int, int]
"""Offset and length of a block"""


class BlocksAhead:
    """Reads blocks that are known before; any other bytes, too.

    Args:
        source: the file.
        blocks: the places of the blocks, in the order in which they are read.
    """

    def __init__(self, source: RangeReader, blocks: Iterable[Place]) -> None:
        self._source = source
        self._near = source if isinstance(source, Foretold) else None
        # Lots that nothing was read of yet.
        lots = _fetched_at_once(blocks) if self._near is None else _told_at_once(blocks)
        self._lots = deque(lots)
        # Where the lots begin that were announced last.
        self._begun = deque([-1] * _TOLD_AHEAD)
        self._held = (0, b"")

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the file, cut at its end."""
        if self._near is not None:
            self._tell(self._near, offset)
        elif self._holds(offset, length):
            start, data = self._held
            return data[offset - start : offset - start + length]
        return self._source.read(offset, length)

    def _tell(self, source: Foretold, offset: int) -> None:
        """Tell of one more lot for each that is begun."""
        while self._lots and offset >= self._begun[0]:
            lot = self._lots.popleft()
            self._begun.popleft()
            self._begun.append(lot[0][0])
            for start, length in _joined(lot):
                source.foretell(start, length)

    def _holds(self, offset: int, length: int) -> bool:
        """Whether bytes are held; those of a lot are fetched when its first block is read."""
        if self._lots and offset == self._lots[0][0][0]:
            lot = self._lots.popleft()
            start, end = lot[0][0], sum(lot[-1])
            self._held = start, self._source.read(start, end - start)
        start, data = self._held
        return start <= offset and offset + length <= start + len(data)


def _told_at_once(blocks: Iterable[Place]) -> Iterator[Sequence[Place]]:
    lot: list[Place] = []
    size = 0
    for start, length in blocks:
        if lot and size + length > _TOLD:
            yield lot
            lot, size = [], 0
        lot.append((start, length))
        size += length
    if lot:
        yield lot


def _fetched_at_once(blocks: Iterable[Place]) -> Iterator[Sequence[Place]]:
    lot: list[Place] = []
    for start, length in blocks:
        if lot:
            fits = start + length - lot[0][0] <= _FETCHED_MAX
            if not (fits and 0 <= start - sum(lot[-1]) <= _GAP):
                yield lot
                lot = []
        lot.append((start, length))
    if lot:
        yield lot


def _joined(lot: Sequence[Place]) -> Iterator[Place]:
    """The places of a lot; blocks that lie side by side are one."""
    first = end = lot[0][0]
    for start, length in lot:
        if start != end:
            yield first, end - first
            first = start
        end = start + length
    yield first, end - first
