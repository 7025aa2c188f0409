"""Keys of a shard in ascending order, however many there are: an external sort.

    sources -> groups that fit memory -> each sorted -> runs in a local file -> merged

A shard that fits memory is sorted there, and no file is made. Else each group of sources becomes a
run: batches of ascending keys. A batch of each run is in memory while all runs are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.format.hfile.kernels import drop_repeats
from keymark.table.format.hfile.strings import from_arrow
from keymark.table.format.kernels.order import key_order
from keymark.table.format.kernels.pieces import Spilled
from keymark.table.index.build.spill import A, read_keys
from keymark.table.metadata.merge import Batches, merged_batches
from keymark.table.properties.options import TASK_MEMORY_BYTES
from keymark.table.storage.spool import LocalFile

_BATCH_KEYS_MAX, _BATCH_BYTES_MIN = 1 << 14, 1 << 14

OrderedBatch = tuple[pa.Array, npt.NDArray[np.int64], npt.NDArray[np.int32]]
"""Keys as they lie, the order in which they ascend, and the number of each one's location."""


@dataclass(slots=True, kw_only=True)
class OrderedKeys(Generic[A]):
    """The keys of some sources, each once: of equal keys the last one counts.

    Attributes:
        sources: of the keys, in the order in which they came.
        read: gives the keys of each, the same ones every time.
        threads: how many read.
        memory: bytes of keys, and of what sorting them takes, that are held at once. A source is
            held as a whole, whatever its size.
        repeated: how many keys were left out, known once all batches were seen.
        runs: how many were written to the local disk.
    """

    sources: Sequence[A]
    read: Callable[[A], Spilled]
    threads: int = 1
    memory: int = TASK_MEMORY_BYTES
    repeated: int = 0
    runs: int = field(default=0, init=False)

    def batches(self) -> Iterator[OrderedBatch]:
        """The keys in ascending order, also from batch to batch.

        Raises:
            CorruptFileError: a source is damaged.
            StorageError: the local disk is full.
        """
        self.repeated = self.runs = 0
        groups = self._groups()
        if len(groups) == 1:
            yield from self._sorted(groups[0])
        elif groups:
            yield from self._merged(groups)

    def cells(self) -> Batches:
        """The same as cells: ascending keys (binary), and the number of each one's location."""
        for array, order, codes in self.batches():
            yield array.take(pa.array(order)).cast(pa.binary()), pa.array(codes[order])

    def _groups(self) -> list[list[A]]:
        """Neighbouring sources, of half the memory each: they are copied when they are merged."""
        groups: list[list[A]] = []
        room = 0
        for source in self.sources:
            if not source.held:
                continue
            if source.held > room or not groups:
                groups.append([])
                room = self.memory // 2
            groups[-1].append(source)
            room -= source.held
        return groups

    def _sorted(self, group: Sequence[A]) -> Iterator[OrderedBatch]:
        # With several threads keys do not lie as they came.
        for array, codes in read_keys(group, self.read, self.threads).pieces():
            order = key_order(array)
            kept = drop_repeats(from_arrow(array, "key"), order)
            self.repeated += len(order) - kept
            yield array, order[:kept], codes

    def _merged(self, groups: Sequence[Sequence[A]]) -> Iterator[OrderedBatch]:
        runs = _Runs(max(_BATCH_BYTES_MIN, self.memory // (4 * len(groups))))
        for group in groups:
            runs.add(self._sorted(group))
            self.runs += 1
        # Of equal keys the first run's one decides: the one that came last.
        newest_first = [(runs.batches(number), True) for number in reversed(range(self.runs))]
        left = runs.rows
        for keys, codes in merged_batches(newest_first):
            left -= len(keys)
            yield keys, np.arange(len(keys), dtype=np.int64), codes.to_numpy()
        self.repeated += left


class _Runs:
    """Runs of ascending keys in a local file.

    Args:
        batch_bytes: about how many are read at once.

    Attributes:
        rows: of all runs.
    """

    _SCHEMA = pa.schema([("key", pa.binary()), ("code", pa.int32())])

    def __init__(self, batch_bytes: int) -> None:
        self.rows = 0
        self._batch_bytes = batch_bytes
        self._file = LocalFile("a sort of keys")
        # For each run: where each of its batches starts, and its length.
        self._places: list[list[tuple[int, int]]] = []

    def add(self, batches: Iterator[OrderedBatch]) -> None:
        """Write a run."""
        places: list[tuple[int, int]] = []
        for array, order, codes in batches:
            chosen = pa.array(order)
            batch = pa.record_batch(
                [array.take(chosen).cast(pa.binary()), pa.array(codes).take(chosen)],
                schema=self._SCHEMA,
            )
            step = max(1, batch.num_rows * self._batch_bytes // batch.nbytes)
            step = min(step, _BATCH_KEYS_MAX)
            for start in range(0, batch.num_rows, step):
                data = batch.slice(start, step).serialize()
                places.append((self._file.size, self._file.append(data)))
            self.rows += batch.num_rows
        self._places.append(places)

    def batches(self, number: int) -> Batches:
        """The keys and location numbers of a run."""
        for offset, length in self._places[number]:
            data: Any = pa.py_buffer(self._file.read(offset, length))
            keys, codes = pa.ipc.read_record_batch(data, self._SCHEMA).columns
            yield keys, codes
