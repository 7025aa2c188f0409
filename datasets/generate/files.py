"""A round of a generated dataset as Parquet files or as a digest, on all cores, without Spark."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import RowsDigest
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.rows import make_rows

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Round:
    """The rows of a round's batch, to be made in ranges side by side.

    Attributes:
        dataset: the dataset.
        number: the round; the batch of round 0 is the first load.
        partitions: number of ranges; it never changes the rows.
        advance: called with the number of rows done since the last call, from any thread.
    """

    dataset: GeneratedDataset
    number: int
    partitions: int
    advance: Callable[[int], None]
    _stopped: Event = field(default_factory=Event, init=False, repr=False)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.dataset.batch_size(self.number)

    def digest(self) -> RowsDigest:
        """Return the digest of the rows."""
        return self._on_all_cores(None)

    def write(self, out: Path) -> RowsDigest:
        """Write one Parquet file per range into a new folder, and return the rows' digest.

        Raises:
            DatasetError: the folder is not empty or cannot be written.
        """
        make_folder(out)
        return self._on_all_cores(out)

    def piece(self, index: int, out: Path | None) -> RowsDigest:
        """Make one of the ranges, write its file where there is a folder, and return its digest."""
        first = self.rows * index // self.partitions
        span = first, self.rows * (index + 1) // self.partitions
        if out is None:
            return sum((RowsDigest.of(table) for table in self._tables(span)), RowsDigest())
        return self._written(span, out / f"part-{index:05d}.parquet")

    def _on_all_cores(self, out: Path | None) -> RowsDigest:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            futures = [pool.submit(self.piece, index, out) for index in range(self.partitions)]
            try:
                return sum((future.result() for future in futures), RowsDigest())
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _tables(self, span: Span) -> Iterator[pa.Table]:
        """The rows of a range, some at a time; at least one table, which may be empty.

        It ends early once another range failed or the user interrupted: the rest is not needed.
        """
        dataset = self.dataset
        for start, stop in list(dataset.slices(*span)) or [span]:
            if self._stopped.is_set():
                return
            numbers, versions = dataset.batch_slice(self.number, start, stop)
            yield make_rows(dataset.spec, numbers, versions, dataset.columns)
            self.advance(stop - start)

    def _written(self, span: Span, path: Path) -> RowsDigest:
        """Write a file under a hidden name first: what has its name is complete.

        The hidden name is this attempt's own: Spark may have a task run twice at the same time.
        """
        hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        writer: pq.ParquetWriter | None = None
        total = RowsDigest()
        try:
            for table in self._tables(span):
                writer = writer or pq.ParquetWriter(hidden, table.schema)
                writer.write_table(table)
                total += RowsDigest.of(table)
            if writer is not None:
                writer.close()
            if not self._stopped.is_set():
                hidden.rename(path)
        except OSError as error:
            raise DatasetError(f"{path} cannot be written: {error.strerror or error}") from error
        finally:
            hidden.unlink(missing_ok=True)
        return total


def make_folder(out: Path) -> None:
    """Make a folder for files.

    Raises:
        DatasetError: it is not empty or cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        empty = not any(out.iterdir())
    except OSError as error:
        raise DatasetError(f"{out} cannot be written: {error.strerror}") from error
    if not empty:
        raise DatasetError(f"{out} is not empty")
