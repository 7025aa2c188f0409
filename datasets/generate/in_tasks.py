"""A round of a generated dataset made by tasks of Spark: the same rows in the same files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import RowsDigest
from keymark.datasets.generate.files import Round, make_folder
from keymark.datasets.generate.generated import GeneratedDataset
from keymark.datasets.specs.spec import DatasetSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """What a task does: makes some of the ranges. A DatasetError is an answer: it stays one."""

    spec: DatasetSpec
    columns: tuple[str, ...]
    number: int
    partitions: int
    out: Path | None

    def __call__(self, indexes: Iterable[int]) -> Iterator[RowsDigest | DatasetError]:
        rows = Round(
            dataset=GeneratedDataset(self.spec, columns=self.columns),
            number=self.number,
            partitions=self.partitions,
            advance=lambda _: None,
        )
        for index in indexes:
            try:
                yield rows.piece(index, self.out)
            except DatasetError as error:
                yield error


def made_in_tasks(spark: SparkSession, rows: Round, out: Path | None) -> RowsDigest:
    """Make the rows of a round, a task for each range, and return their digest.

    Args:
        spark: the session.
        rows: the round.
        out: a new folder, which all executors reach by this path, for a Parquet file per range;
            None where only the digest is asked for.

    Raises:
        DatasetError: the folder is not empty or cannot be written.
    """
    if out is not None:
        make_folder(out)
    work = _Pieces(
        spec=rows.dataset.spec,
        columns=rows.dataset.columns,
        number=rows.number,
        partitions=rows.partitions,
        out=None if out is None else out.absolute(),
    )
    indexes = spark.sparkContext.parallelize(range(rows.partitions), rows.partitions)
    total = RowsDigest()
    for answer in indexes.mapPartitions(work).collect():
        if isinstance(answer, DatasetError):
            raise answer
        total += answer
    return total
