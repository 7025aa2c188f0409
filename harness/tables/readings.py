"""The rows of large tables, compared with the truth by reading each base file once.

Base files are immutable, so what a file held when it was read it holds for as long as it is the
same file: same name, same inode, same size, same time of its last change. The digest of a table is
the sum of the digests of the files that an independent listing counts, and only files that were not
read before are read. A repetition's table shares its files with the loaded one by links, so that
after a step the files that it wrote are read, in full, and all others are proven unchanged.

The proof ends where a file is changed in place, at the same size, and its time is set back. This
is what the engine's own reading of the whole table finds, once per cell (`verify.is_whole`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from keymark.datasets.generate.digest import RowsDigest
from keymark.harness.tables.independent import Slice, each_read, slices

_BATCH_ROWS = 65_536


class FileIdentity(NamedTuple):
    """What stays the same until a file is changed; a link of it has the same."""

    name: str
    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """The identity of a file that is there."""
        stat = path.stat()
        return cls(path.name, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


@dataclass(slots=True)
class FileReadings:
    """The digests of the base files that were read: some 300 bytes for each file of a run."""

    _digests: dict[tuple[FileIdentity | str, ...], RowsDigest] = field(default_factory=dict)

    def digest(self, table: Path, columns: Sequence[str]) -> tuple[int, str]:
        """Rows and digest of the rows that a listing of the table says are live.

        Memory is that of a batch of rows per core; of a file slice where it has log files.

        Args:
            table: its folder.
            columns: that the digest is over; the same in every call.
        """

        def read(part: Slice) -> RowsDigest:
            # Taken first: a file that changes while it is read has another identity later.
            identity: tuple[FileIdentity | str, ...] = (
                *map(FileIdentity.of, part.files),
                part.mark,
            )
            if identity not in self._digests:
                self._digests[identity] = _digest(part, columns)
            return self._digests[identity]

        total = RowsDigest()
        for each in each_read(slices(table), read):
            total += each
        return total.rows, total.hex


def _digest(part: Slice, columns: Sequence[str]) -> RowsDigest:
    names, total = sorted(columns), RowsDigest()
    if not part.is_plain:
        return RowsDigest.of(part.read(names), names)
    with pq.ParquetFile(part.path) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=names, use_threads=False):
            total += RowsDigest.of(pa.Table.from_batches([batch]), names)
    return total
