"""Rows of a table of version 8 or 9, as a DataFrame: to look at, not to write.

Copy-on-write: Spark reads the base files of the latest slices. Merge-on-read: hudi-rs merges each
file group's log files in a task, which holds the rows of one file group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keymark.table.errors import (
    CorruptFileError,
    InputError,
    StorageError,
    UnsupportedTableError,
)
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.layout.naming import BOOTSTRAPPED
from keymark.table.properties.config import VERSION
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import Storage
from keymark.table.survey.survey import read_snapshot, table_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def is_later(storage: Storage) -> bool:
    """Whether a table has a later version than Keymark's own reader takes."""
    return table_version(storage) > int(VERSION)


def columns(storage: Storage) -> list[str]:
    """The names of all columns, meta columns included; errors as in `read`."""
    root, groups, has_logs = _file_groups(storage)
    if has_logs:
        return list(_Merge(root).table(*groups[0]).column_names)
    # A file has the columns that the table had when it was written.
    found: dict[str, None] = {}
    for base, _ in groups:
        found |= dict.fromkeys(
            read_footer(storage.open(base)).metadata.schema.to_arrow_schema().names
        )
    return list(found)


def read(spark: SparkSession, storage: Storage) -> DataFrame:
    """The rows of the latest snapshot, meta columns included.

    Args:
        spark: the session.
        storage: of the table, on this machine's disk.

    Raises:
        StorageError: the table is not on this machine's disk, or cannot be listed.
        CorruptFileError: a part of the timeline cannot be read.
        InputError: the table has no rows.
        UnsupportedTableError: it has base files of Hudi's bootstrap.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  only with Spark

    root, groups, has_logs = _file_groups(storage)
    if not has_logs:
        paths = [str(Path(root, base)) for base, _ in groups]
        # No partition columns from folder names, no glob characters in them.
        options = {
            "mergeSchema": "true",
            "recursiveFileLookup": "true",
            "__globPaths__": "false",
        }
        return spark.read.options(**options).parquet(*paths)
    merge = _Merge(root)
    schema = from_arrow_schema(merge.table(*groups[0]).schema)
    places = spark.createDataFrame(groups, "base string, logs array<string>")
    return places.repartition(len(groups)).mapInArrow(merge, schema)


def _file_groups(storage: Storage) -> tuple[str, list[tuple[str, list[str]]], bool]:
    """The table's folder, each file group's base file and log files, whether any has log files."""
    if not isinstance(storage, LocalStorage):
        raise StorageError(f"{storage.root}: tables of version 8 and 9 are read on a disk only")
    problems: list[str] = []
    slices = read_snapshot(storage, problems).slices.values()
    if problems:
        raise CorruptFileError(storage.root, 0, problems[0])
    if not slices:
        raise InputError(f"{storage.root} has no rows")
    if any(each.base and each.base.instant == BOOTSTRAPPED for each in slices):
        raise UnsupportedTableError(
            f"{storage.root} has base files of Hudi's bootstrap, which hold the meta columns alone"
        )
    groups = [
        (each.base.path if each.base else "", [log.path for log in each.logs]) for each in slices
    ]
    return storage.root, groups, any(logs for _, logs in groups)


@dataclass(frozen=True, slots=True)
class _Merge:
    """Merges file groups; the task that Spark distributes."""

    root: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.to_pylist():
                yield from self.table(place["base"], place["logs"]).to_batches()

    def table(self, base: str, logs: Sequence[str]) -> pa.Table:
        """The rows of a file group: log files, in the order of their instants, on a base file."""
        import hudi  # noqa: PLC0415  most reads need none

        builder: Any = hudi.HudiTableBuilder.from_base_uri(Path(self.root).as_uri())
        opened = builder.with_hudi_option("hoodie.metadata.enable", "false").build()
        reader = opened.create_file_group_reader_with_options()
        return pa.Table.from_batches([reader.read_file_slice_from_paths(base, list(logs))])
