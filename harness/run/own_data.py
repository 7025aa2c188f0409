"""The user's own rows as the dataset of a run: any table that Spark reads, its key columns named.

It is read once, checked for one row per key, and kept as Parquet beside the batches; from there on
it is loaded and changed like generated rows (`keymark.datasets.generate.source`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from keymark.datasets.errors import DatasetError
from keymark.datasets.generate.digest import check_columns
from keymark.datasets.profiles import folders
from keymark.harness.engines.base import Layout
from keymark.harness.errors import HarnessError
from keymark.harness.scenario.fields import Names, Section, Texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERING = "keymark_ordering"
"""The column that is added where no ordering column is named: 0 in all rows."""

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


class SourceSection(Section):
    """`[dataset.source]`: where the rows are and what their columns mean.

    Attributes:
        path: file or folder; it is only read.
        format: parquet, csv, iceberg or delta; guessed from what is in the folder by default.
        record_key: key columns; no two rows may have the same key.
        partition_path: partition columns, may be empty.
        ordering: an integer or timestamp column, which updates raise; a column is added by default.
        options: of Spark's reader.
    """

    path: str
    format: str | None = None
    record_key: Names = Field(min_length=1)
    partition_path: Names = ()
    ordering: str | None = None
    options: Texts = Field(default_factory=dict)

    @property
    def mistake(self) -> str | None:
        """What can be seen to be wrong before Spark starts."""
        try:
            found = self.resolved_format
        except DatasetError as error:
            return f"dataset.source: {error}"
        if found == "hudi":
            return f"dataset.source: {self.path} is a Hudi table, which table.source starts from"
        if found not in folders.FORMATS:
            return f"dataset.source.format: {found!r} is none of {', '.join(folders.FORMATS)}"
        named = (*self.record_key, *self.partition_path, *filter(None, [self.ordering]))
        try:
            folders.check_named(self.path, found, named, self.options)
        except DatasetError as error:
            return f"dataset.source: {error}"
        return None

    @property
    def resolved_format(self) -> str:
        """The format, given or guessed; DatasetError where it shows in nothing."""
        return self.format or folders.format_of(self.path)


def refuse_repeated_keys(rows: pa.Table, layout: Layout, *, in_partitions: bool) -> None:
    """A Hudi table may hold a key in two partitions; steps are verified by one row for each key.

    Args:
        rows: of the table.
        layout: how they are keyed and laid out.
        in_partitions: whether all indexes look for a key in its partition only: then one row for
            each key and partition is enough, and some key must be in one partition only, to be
            looked up.

    Raises:
        HarnessError: a key is there more often, with counts and no key.
    """
    keys = list(layout.record_key)
    if in_partitions:
        keys = list(dict.fromkeys((*keys, *layout.partition_path)))
    counts = rows.group_by(keys).aggregate([([], "count_all")])["count_all"]
    most = pc.max(counts).as_py() or 0
    if most > 1:
        repeated = pc.sum(pc.greater(counts, 1)).as_py()
        where = " in one partition" if in_partitions else ""
        raise HarnessError(
            f"{layout.name} holds {repeated:,} keys more than once{where}, one of them {most:,} "
            "times: a run measures tables whose keys are unique in the whole table, or in each "
            "partition where all of its indexes look there only"
        )
    if not in_partitions:
        return
    by_key = rows.group_by(list(layout.record_key)).aggregate([([], "count_all")])["count_all"]
    if (pc.min(by_key).as_py() or 0) > 1:
        raise HarnessError(f"{layout.name} holds each key in several partitions: none can be asked")


def load(spark: SparkSession, section: SourceSection, folder: Path) -> tuple[pa.Table, Layout]:
    """The rows and what their columns mean.

    Args:
        spark: reads them.
        section: where they are.
        folder: new, for a copy as Parquet.

    Raises:
        HarnessError: keys are null or come more than once, with counts and no key.
        DatasetError: the table cannot be read or has no such columns.
    """
    from keymark.table.read.spark import with_conf  # noqa: PLC0415  scenarios are read without it

    df = folders.read(
        spark,
        section.path,
        format=section.resolved_format,
        options=section.options,
        texts=section.record_key,
    )
    ordering = section.ordering or ORDERING
    if section.ordering is None:
        df = df.selectExpr("*", f"0L as {ORDERING}")
    check_columns([*section.record_key, *section.partition_path, ordering], df.columns)
    name = Path(section.path).resolve().stem
    with folders.reading(section.path, section.resolved_format):
        mistake = folders.count_keys(df, section.record_key).mistake
        if mistake is not None:
            raise HarnessError(f"{name} cannot be a table with this key: {mistake}")
        # Spark's older form of a timestamp ends in the year 2262.
        with with_conf(spark, _TIMESTAMPS, "TIMESTAMP_MICROS"):
            df.write.parquet(str(folder))
    layout = Layout(
        name=re.sub(r"[^A-Za-z0-9_]", "_", name),
        record_key=section.record_key,
        partition_path=section.partition_path,
        ordering=ordering,
    )
    return pq.read_table(folder), layout
