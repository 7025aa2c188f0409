"""New rows to file groups: small files are filled first, the rest opens new groups.

Source: UpsertPartitioner of Hudi 0.15 (average record size from the latest commits, inserts per
new file = maximum file size / record size). Hudi leaves out commits of less than a small file: a
file of few rows is mostly what each file has, as its bloom filter. Here such a commit counts, but
a row no more than its bytes in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import bucket_file_id, numbered_file_id
from keymark.table.properties.options import Options
from keymark.table.runtime.ids import Ids

# What a row has in a file beside its values, key and path: a number in its commit, mainly.
_META_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizing:
    """How many rows a base file takes; sizes in bytes."""

    max_file: int
    small_limit: int
    record: float

    @classmethod
    def of(cls, options: Options, *, record: float | None, held: float = math.inf) -> FileSizing:
        """From the options, and the bytes per row of the latest commit where there is one.

        Args:
            options: of the write.
            record: those bytes; None before the first commit.
            held: the bytes of a new row in memory, with its key and path.
        """
        estimate = float(options.integer("hoodie.copyonwrite.record.size.estimate"))
        return cls(
            max_file=options.integer("hoodie.parquet.max.file.size"),
            small_limit=options.integer("hoodie.parquet.small.file.limit"),
            record=min(record, held + _META_BYTES) if record else estimate,
        )

    def room(self, size: int) -> int:
        """Rows that still fit into a file of that size."""
        return max(0, int((self.max_file - size) / self.record))

    @property
    def rows_per_file(self) -> int:
        """Rows of a new file."""
        return max(1, self.room(0))


def assign(
    partitions: pa.Array, small: Sequence[BaseFile], sizing: FileSizing, ids: Ids
) -> list[str]:
    """A file id for each new row, given the partition path of each."""
    encoded = partitions.dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    chosen = np.empty(len(codes), object)
    for number, partition in enumerate(encoded.dictionary.to_pylist()):
        rows = order[bounds[number] : bounds[number + 1]]
        files = [file for file in small if file.partition_path == partition]
        start = 0
        for file_id, count in fill(partition, len(rows), files, sizing, ids):
            chosen[rows[start : start + count]] = file_id
            start += count
    return list(chosen)


def fill(
    partition: str, rows: int, files: Sequence[BaseFile], sizing: FileSizing, ids: Ids
) -> Iterator[tuple[str, int]]:
    """File ids for the new rows of a partition path, with the number of rows of each.

    `files` are the partition's; the smallest file is filled first.
    """
    start = 0
    small = [file for file in files if file.size < sizing.small_limit]
    for file in sorted(small, key=lambda f: f.size):
        room = min(sizing.room(file.size), rows - start)
        if room:
            yield file.file_id, room
        start += room
    while start < rows:
        room = min(sizing.rows_per_file, rows - start)
        yield numbered_file_id(ids.uuid(partition, start)), room
        start += room


def assign_buckets(
    partitions: pa.Array,
    buckets: npt.NDArray[np.int32],
    known: Mapping[tuple[str, int], str],
    ids: Ids,
) -> list[str]:
    """A file id for each row of a bucket table: its bucket's group, opened where there is none."""
    opened = dict(known)
    chosen = []
    for location in zip(partitions.to_pylist(), buckets.tolist(), strict=True):
        if location not in opened:
            opened[location] = bucket_file_id(location[1], ids.uuid(*location))
        chosen.append(opened[location])
    return chosen
