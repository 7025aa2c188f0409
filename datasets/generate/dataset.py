"""What a benchmark needs from its data: rows, batches, deletes, and the truth about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from keymark.datasets.generate.digest import Truth

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Dataset(Protocol):
    """A first load, rounds of changes, and what a table must hold after each.

    Rounds count from 1; round 0 is the first load. Every answer depends on nothing but the
    dataset's definition and the arguments.

    Attributes:
        name: of the dataset and, by default, of its table.
        record_key: key columns.
        partition_path: partition columns, may be empty.
        ordering: the column that is greater in each later change of a row.
        columns: all, in order; digests are over these.
        delete_count: rows removed by one delete step.
    """

    name: str
    record_key: tuple[str, ...]
    partition_path: tuple[str, ...]
    ordering: str | None
    columns: tuple[str, ...]
    delete_count: int

    def batch_counts(self, round: int) -> tuple[int, int]:  # noqa: A002
        """(updates, inserts) of the batch of a round."""
        ...

    def load(self, spark: SparkSession) -> DataFrame:
        """Rows of the first load."""
        ...

    def batch(self, spark: SparkSession, round: int) -> DataFrame:  # noqa: A002
        """Updates and inserts of a round, and rows that must change nothing.

        These are older, by the ordering column, than what the table or the batch has of their keys.
        """
        ...

    def deletes(self, spark: SparkSession, round: int) -> DataFrame:  # noqa: A002
        """The rows that the delete step of a round removes, all columns.

        Key and partition columns are those of the stored rows; the ordering value is not below
        the stored one.
        """
        ...

    def truth(self, round: int, *, deleted: bool) -> Truth:  # noqa: A002
        """Rows and digest after the batches 1..round, and after deletes(round) if `deleted`."""
        ...

    def sample_keys(
        self,
        round: int,  # noqa: A002
        *,
        present: int,
        absent: int,
        deleted: bool,
        loaded: bool = False,
    ) -> pa.Table:
        """Key columns and `expect_present`: keys that the state has, then keys that it lacks.

        Where `loaded`, the load has brought all that the state has.

        Where `deleted`, up to half of the absent keys are deleted ones. Keys are distinct; when the
        state has fewer than `present` rows, all of them come.
        """
        ...
