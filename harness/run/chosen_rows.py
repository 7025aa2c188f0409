"""Rows of a generated dataset that a run chooses, beside those of the change stream.

    latest   rows that the last batch updated: a delete of them touches what batches touch
    spread   rows drawn evenly from the whole table, changed once more

Their truth follows from that of the stream: digests are sums, so rows that go are subtracted and
rows that change are exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.datasets.changes.permutation import Permutation
from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import RowsDigest
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.generate.hashing import derive
from keymark.datasets.generate.rows import make_rows

_FILE_ROWS = 50_000

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ChosenRows:
    """Rows by number.

    Attributes:
        dataset: that they are of.
        numbers: of the rows.
        before: the version of each in the table.
        after: the version that a batch of them brings; None where they are deleted.
    """

    dataset: GeneratedDataset
    numbers: _Numbers
    before: _Numbers
    after: int | None = None

    def _tables(self, versions: _Numbers) -> Iterator[pa.Table]:
        for start in range(0, len(self.numbers), _FILE_ROWS):
            part = slice(start, start + _FILE_ROWS)
            yield make_rows(
                self.dataset.spec, self.numbers[part], versions[part], self.dataset.columns
            )

    @property
    def _brought(self) -> _Numbers:
        return self.before if self.after is None else np.full_like(self.numbers, self.after)

    def write(self, folder: Path, columns: list[str] | None = None) -> None:
        """Write what a batch brings as Parquet files of some of the columns, or of all."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, rows in enumerate(self._tables(self._brought)):
            pq.write_table(rows.select(columns or rows.column_names), folder / f"{number}.parquet")

    @cached_property
    def change(self) -> RowsDigest:
        """What is to be added to the digest of a table that gets the batch."""
        total = RowsDigest()
        for rows in self._tables(self.before):
            total -= RowsDigest.of(rows, self.dataset.columns)
        for rows in self._tables(self._brought) if self.after is not None else ():
            total += RowsDigest.of(rows, self.dataset.columns)
        return total


def latest(dataset: GeneratedDataset, round_: int) -> ChosenRows:
    """As many rows as a delete step takes, of those that a round updates.

    Raises:
        DatasetError: it updates fewer.
    """
    if dataset.delete_count > dataset.stream.updates:
        raise DatasetError(
            f"{dataset.name}: round {round_} updates {dataset.stream.updates} rows, of which "
            f"{dataset.delete_count} are to be deleted"
        )
    return ChosenRows(dataset, *dataset.batch_slice(round_, 0, dataset.delete_count))


def spread(
    dataset: GeneratedDataset, round_: int, *, deleted: bool, without: ChosenRows | None
) -> ChosenRows:
    """As many rows as a batch has, drawn evenly from those that are live after a round.

    Args:
        dataset: of the rows.
        round_: the last one before; the rows get the version of the next.
        deleted: whether the stream's own delete step followed.
        without: rows that are not there any more.
    """
    stream = dataset.stream
    state = stream.after(round_, deleted=deleted)
    count = min(sum(dataset.batch_counts(max(round_, 1))), state.live)
    order = Permutation(state.live, derive(dataset.spec.seed, "spread", round_))
    numbers = stream.numbers(order.apply(np.arange(count, dtype=np.int64)) + state.deleted)
    if without is not None:
        numbers = numbers[~np.isin(numbers, without.numbers)]
    return ChosenRows(dataset, numbers, stream.versions(numbers, round_), round_ + 1)
