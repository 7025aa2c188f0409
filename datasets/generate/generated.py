"""A dataset out of a specification: every row is a function of (seed, row number)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.datasets.changes.permutation import Permutation
from keymark.datasets.changes.stream import LATE, NEVER_INSERTED, Stream
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate import spark as on_spark
from keymark.datasets.generate.digest import RowsDigest, Truth, check_columns
from keymark.datasets.generate.hashing import derive
from keymark.datasets.generate.rows import Chunk, chunk_rows, digest_rows, make_rows
from keymark.datasets.specs.spec import DatasetSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Numbers = npt.NDArray[np.int64]
_Part = tuple[int, Callable[[int, int, int], _Numbers], int, int]
"""A part of a batch: its rows; a function of round, first and end that gives the numbers of some of
them; the version of the first row; by how much the version grows from row to row."""


@dataclass(frozen=True, slots=True)
class RowHistory:
    """What became of some rows.

    Attributes:
        rows: their latest values; the last ones they had if they were deleted.
        changes: of each row the rounds that brought or changed it, ascending.
        deleted: of each row the round whose delete step took it, None if none did.
    """

    rows: pa.Table
    changes: list[list[int]]
    deleted: list[int | None]


class GeneratedDataset:
    """Implements `keymark.datasets.generate.dataset.Dataset` for a specification.

    Args:
        spec: the dataset.
        partitions: Spark partitions of the DataFrames, 0 for Spark's default parallelism; never
            changes the rows.
        columns: columns to make, all by default.
        advance: called with the number of rows that went into the truth since the last call.

    Raises:
        DatasetError: a column is unknown.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        *,
        partitions: int = 0,
        columns: Sequence[str] | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> None:
        self.spec = spec
        self.stream = Stream(spec)
        self.name = spec.name
        self.record_key = spec.record_key
        self.partition_path = spec.partition_path
        self.ordering = spec.ordering
        known = [name for name, _ in spec.flat_columns()]
        self.columns = tuple(known if columns is None else columns)
        check_columns(self.columns, known)
        self.delete_count = self.stream.deletes
        self._partitions = partitions
        self._advance = advance
        self._changes: dict[int, RowsDigest] = {}

    def batch_counts(self, round: int) -> tuple[int, int]:  # noqa: A002
        """(updates, inserts) of the batch of a round; rows that move are updates."""
        self.stream.before(round)
        return self.stream.updates + self.stream.moves, self.stream.inserts

    def load(self, spark: SparkSession) -> DataFrame:
        """Rows of the first load."""
        return self._frame(on_spark.inserted(spark, self.stream, 0, self._partitions))

    def batch(self, spark: SparkSession, round: int) -> DataFrame:  # noqa: A002
        """Updates and inserts of a round, and the rows that must change nothing."""
        return self._frame(on_spark.batch(spark, self.stream, round, self._partitions))

    def deletes(self, spark: SparkSession, round: int) -> DataFrame:  # noqa: A002
        """The rows that the delete step of a round removes, as if changed in that round."""
        return self._frame(on_spark.deleted(spark, self.stream, round, self._partitions))

    def _frame(self, numbered: DataFrame) -> DataFrame:
        return on_spark.rows(self.spec, numbered, self.columns)

    def truth(self, round: int, *, deleted: bool) -> Truth:  # noqa: A002
        """Rows and digest after the batches 1..round, and after deletes(round) if `deleted`.

        The cost of a round grows with the rows that it changes; the first load's digest is
        computed once per object.
        """
        return self.digest(round, deleted=deleted).truth

    def truth_cost(self, round: int) -> int:  # noqa: A002
        """Rows that a first `truth` of a round makes, without delete steps."""
        updates = self.stream.updates + self.stream.moves
        return self.spec.rows + round * (2 * updates + self.stream.inserts)

    def digest(self, round: int, *, deleted: bool) -> RowsDigest:  # noqa: A002
        """`truth` as a value that can be added to and subtracted from."""
        self.stream.after(round, deleted=deleted)
        total = RowsDigest()
        for past in range(round + 1):
            total += self._change(past)
            every = self.spec.delete_every
            if every and 0 < past < round and past % every == 0:
                total -= self._removed(past)
        return total - self._removed(round) if deleted else total

    def history(self, numbers: _Numbers, round: int) -> RowHistory:  # noqa: A002
        """What became of rows up to a round, at a cost that does not grow with the table.

        Args:
            numbers: of rows that were there by then.
            round: the last one.

        Raises:
            DatasetError: a row comes later, or the round does not exist.
        """
        _, end = self.stream.inserted(round)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < end:
            raise DatasetError(f"rows are numbered 0 to {end - 1:,} by round {round}")
        changes = self.stream.changes(numbers, round)
        versions = np.array([rounds[-1] for rounds in changes], np.int64)
        deleted = self.stream.deleted_in(numbers, round)
        return RowHistory(make_rows(self.spec, numbers, versions, self.columns), changes, deleted)

    def batch_slice(self, round: int, start: int, stop: int) -> Chunk:  # noqa: A002
        """Numbers and versions of a slice of a round's batch.

        Updates, rows that move, inserts, late rows, older rows of the first of these keys, and
        still older ones of the very first. The batch of round 0 is the first load.
        """
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        before = 0
        for size, rows, version, step in self._batch_parts(round):
            first, last = max(start - before, 0), min(stop - before, size)
            before += size
            if first < last:
                versions = version + step * np.arange(first, last, dtype=np.int64)
                parts.append((rows(round, first, last), versions))
        numbers, all_versions = zip(*parts, strict=True)
        return np.concatenate(numbers), np.concatenate(all_versions)

    def _batch_parts(self, round_: int) -> list[_Part]:
        stream = self.stream
        if not round_:
            return [(self.spec.rows, stream.added, round_, 0)]
        return [
            (stream.updates, stream.updated, round_, 0),
            (stream.moves, stream.moved, round_, 0),
            (stream.inserts, stream.added, round_, 0),
            (stream.late, stream.late_rows, LATE, 0),
            (stream.duplicates, stream.doubled, round_ - 1, 0),
            (stream.repeats, stream.repeated, LATE, -1),
        ]

    def batch_size(self, round: int) -> int:  # noqa: A002
        """Rows of a round's batch; those of the first load for round 0."""
        return sum(size for size, *_ in self._batch_parts(round))

    def slices(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut a range of rows into pieces that are made at once."""
        step = chunk_rows(self.spec)
        return ((first, min(first + step, stop)) for first in range(start, stop, step))

    def sample_keys(  # noqa: PLR0913  what a sample is of, by name
        self,
        round: int,  # noqa: A002
        *,
        present: int,
        absent: int,
        deleted: bool,
        loaded: bool = False,
        moved: int = 0,
    ) -> pa.Table:
        """Key columns and `expect_present`; see `Dataset.sample_keys`.

        First come keys that are present and moved between partitions, up to `moved` of them.
        """
        state = self.stream.after(round, deleted=deleted)
        gone_off = self.stream.moved_last(round, min(moved, present))
        # Rows go in the order of their places, and those of the load have the first ones.
        most = max(0, self.spec.rows - state.deleted) if loaded else state.live
        count = min(present, most)
        order = Permutation(max(1, most), derive(self.spec.seed, "sample", round))
        places = order.apply(np.arange(count, dtype=np.int64)) + state.deleted
        live = self.stream.numbers(places)
        live = np.concatenate([gone_off, live[~np.isin(live, gone_off)]])[: len(live)]
        first, end = self.stream.deleted_slice(round) if deleted else (0, 0)
        gone = self.stream.deleted(first, min(end, first + absent // 2))
        never = NEVER_INSERTED + np.arange(absent - len(gone), dtype=np.int64)
        numbers = np.concatenate([live, gone, never])
        keys = make_rows(self.spec, numbers, np.zeros_like(numbers), self.record_key)
        return keys.append_column("expect_present", pa.array(np.arange(len(numbers)) < len(live)))

    def _change(self, round_: int) -> RowsDigest:
        """New versions and new rows of a round, less the versions that they replace."""
        if round_ not in self._changes:
            updates, inserts = self.batch_counts(round_) if round_ else (0, self.spec.rows)
            fresh = self._sum(partial(self.batch_slice, round_), 0, updates + inserts)
            stale = self._sum(partial(self._replaced, round_), 0, updates)
            self._changes[round_] = fresh - stale
        return self._changes[round_]

    def _removed(self, round_: int) -> RowsDigest:
        return self._sum(partial(self._deleted, round_), *self.stream.deleted_slice(round_))

    def _replaced(self, round_: int, start: int, stop: int) -> Chunk:
        numbers, _ = self.batch_slice(round_, start, stop)
        return numbers, self.stream.versions(numbers, round_ - 1)

    def _deleted(self, round_: int, start: int, stop: int) -> Chunk:
        numbers = self.stream.deleted(start, stop)
        return numbers, self.stream.versions(numbers, round_)

    def _sum(self, rows: Callable[[int, int], Chunk], start: int, stop: int) -> RowsDigest:
        chunks = (partial(rows, *span) for span in self.slices(start, stop))
        total = RowsDigest()
        for digest in digest_rows(self.spec, chunks, self.columns):
            total += digest
            if self._advance:
                self._advance(digest.rows)
        return total
