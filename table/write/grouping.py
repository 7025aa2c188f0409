"""The rows of one task of a bulk insert, group by group, however many there are.

    rows as they come -> dealt out by group when they are too many -> a local file
                      -> the rows of a group behind each other, in their order

Only the number of a group is compared, so this costs much less than a sort of the rows. The local
file holds each stretch of rows of one group as a compressed Arrow stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.storage.spool import LocalFile

# While they are dealt out, rows are there as they came, as one table, dealt out and compressed.
_COPIES = 4
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Group(NamedTuple):
    """A partition path and, in a table of buckets, the bucket; else 0."""

    path: str
    bucket: int


@dataclass(slots=True)
class GroupedRows:
    """Takes rows and gives them back group by group.

    Attributes:
        memory: bytes that rows may take while they wait.
    """

    memory: int
    _numbers: dict[Group, int] = field(default_factory=dict)
    _waiting: list[tuple[pa.Table, npt.NDArray[np.int64]]] = field(default_factory=list)
    _bytes: int = 0
    _file: LocalFile | None = None
    # For each group, by its number: offset and length of its stretches.
    _places: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, rows: pa.Table, paths: pa.Array, buckets: npt.NDArray[np.int32]) -> None:
        """Take rows, each with the partition path and the bucket that it belongs to.

        Raises:
            StorageError: the local disk is full.
        """
        if not rows.num_rows:
            return
        self._waiting.append((rows, self._numbers_of(paths, buckets)))
        self._bytes += rows.nbytes
        if self._bytes > self.memory // _COPIES:
            self._spill()

    def groups(self) -> Iterator[tuple[Group, Iterator[pa.Table]]]:
        """Each group with its rows, ascending by path and bucket. Nothing can be added then.

        Raises:
            StorageError: the local disk cannot be read.
        """
        last = self._dealt()
        for group in sorted(self._numbers):
            yield group, self._rows_of(self._numbers[group], last)

    def _numbers_of(self, paths: pa.Array, buckets: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The number of each row's group; a group that is new gets the next one."""
        encoded = paths.dictionary_encode()
        width = int(buckets.max()) + 1
        codes = encoded.indices.to_numpy().astype(np.int64) * width + buckets
        found, places = np.unique(codes, return_inverse=True)
        groups = (
            Group(encoded.dictionary[code // width].as_py(), code % width)
            for code in found.tolist()
        )
        numbers = [self._numbers.setdefault(group, len(self._numbers)) for group in groups]
        return np.array(numbers, np.int64)[places]

    def _dealt(self) -> dict[int, pa.Table]:
        """The waiting rows by the number of their group; none wait after it."""
        if not self._waiting:
            return {}
        rows = pa.concat_tables([table for table, _ in self._waiting])
        numbers = np.concatenate([numbers for _, numbers in self._waiting])
        self._waiting, self._bytes = [], 0
        if (numbers == numbers[0]).all():
            return {int(numbers[0]): rows}
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows.take(pa.array(order)), numbers[order]
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        return {
            int(numbers[start]): rows.slice(start, end - start) for start, end in pairwise(starts)
        }

    def _spill(self) -> None:
        """Put the waiting rows into the local file, a stretch a group."""
        if self._file is None:
            self._file = LocalFile("rows of a bulk insert")
        for number, rows in self._dealt().items():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as stream:
                stream.write_table(rows)
            place = (self._file.size, self._file.append(sink.getvalue()))
            self._places.setdefault(number, []).append(place)

    def _rows_of(self, number: int, last: dict[int, pa.Table]) -> Iterator[pa.Table]:
        """The rows of a group: what was spilled, then the last of them."""
        for offset, length in self._places.get(number, ()):
            assert self._file is not None
            yield pa.ipc.open_stream(self._file.read(offset, length)).read_all()
        if number in last:
            yield last.pop(number)
