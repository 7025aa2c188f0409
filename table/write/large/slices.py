"""The rows of a part in slices that memory holds, each a range of keys.

    some keys of each spool file  -> the keys at which slices begin
    the part's rows               -> dealt out to slices, by several tasks

Slices of one shard ask for other blocks of it, so that a shard with most of the keys costs no more
than as many keys in several shards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.format.kernels.order import key_order
from keymark.table.properties.options import TASK_MEMORY
from keymark.table.storage.storage import Storage
from keymark.table.write.large.prepare import SpooledRows
from keymark.table.write.large.spool import ROW_COPIES, Stretch, put_dealt
from keymark.table.write.transaction import WriteTransaction

# While its rows are combined and sorted, a slice is in memory about this many times.
SLICE_COPIES = 4


@dataclass(frozen=True, slots=True)
class SplitWork:
    """Neighbouring rows of a part that is dealt out to slices.

    Attributes:
        storage: of the rows.
        instant: of the write.
        part: its number.
        stretches: of the rows.
        bounds: the keys at which slices begin, but for the first slice; ascending.
    """

    storage: Storage
    instant: str
    part: int
    stretches: tuple[Stretch, ...]
    bounds: tuple[bytes, ...]

    @property
    def weight(self) -> int:
        """Bytes of its rows."""
        return _size(self.stretches)


def slices_of_parts(tx: WriteTransaction, rows: SpooledRows) -> list[tuple[Stretch, ...]]:
    """The rows of each part; a part that memory does not hold is dealt out to several slices."""
    memory = tx.options.integer(TASK_MEMORY)
    found: list[tuple[Stretch, ...]] = []
    works: list[SplitWork] = []
    for part in range(rows.dealing.parts):
        stretches = rows.stretches(part)
        count = -(-_size(stretches) // (memory // SLICE_COPIES))
        if count == 1:
            found.append(stretches)
        elif count:
            bounds = _bounds(rows.sampled(part), count)
            works += [
                SplitWork(tx.storage, tx.instant, part, neighbours, bounds)
                for neighbours in _neighbours(stretches, memory // ROW_COPIES)
            ]
    files = tx.writer.runner.run(split_rows, works, weights=[work.weight for work in works])
    of_parts: dict[int, list[tuple[Stretch | None, ...]]] = {}
    for work, file in zip(works, files, strict=True):
        of_parts.setdefault(work.part, []).append(file)
    for of_part in of_parts.values():
        dealt = (tuple(s for s in pieces if s is not None) for pieces in zip(*of_part, strict=True))
        found += [stretches for stretches in dealt if stretches]
    return found


def split_rows(work: SplitWork) -> tuple[Stretch | None, ...]:
    """Put a spool file with a stretch for each slice; a task that a runner distributes."""
    tables = [stretch.read(work.storage) for stretch in work.stretches]
    table = pa.concat_tables(tables).combine_chunks()
    numbers = range_of(table.column(0).combine_chunks(), work.bounds)
    return put_dealt(work.storage, work.instant, table, numbers, len(work.bounds) + 1)


def range_of(keys: pa.Array, bounds: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """For each key how many of the ascending bounds are not above it."""
    order = key_order(keys)
    ascending = keys.take(pa.array(order)).cast(pa.binary())
    rows = range(len(keys))
    starts = [bisect_left(rows, bound, key=lambda row: ascending[row].as_py()) for bound in bounds]
    sizes = np.diff([0, *starts, len(keys)])
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.repeat(np.arange(len(sizes)), sizes)
    return numbers


def _bounds(sample: pa.Array, count: int) -> tuple[bytes, ...]:
    """The keys at which slices of about one size are cut, from a sample of all keys."""
    ascending = sample.take(pa.array(key_order(sample))).cast(pa.binary())
    places = [len(sample) * number // count for number in range(1, count)]
    cuts = ascending.take(pa.array(places, pa.int64())) if len(sample) else ascending
    return tuple(dict.fromkeys(cuts.to_pylist()))


def _neighbours(stretches: Sequence[Stretch], most: int) -> Iterator[tuple[Stretch, ...]]:
    """Stretches one behind the other, cut whenever they reach a number of bytes."""
    taken: list[Stretch] = []
    for stretch in stretches:
        taken.append(stretch)
        if _size(taken) >= most:
            yield tuple(taken)
            taken = []
    if taken:
        yield tuple(taken)


def _size(stretches: Sequence[Stretch]) -> int:
    return sum(stretch.size for stretch in stretches)
