"""The global simple index: the keys asked, joined by Spark with the keys of all base files.

    base files: record key, file name  --broadcast join-->  record key, file number  --+
    keys asked: record key, row number  ----------------------------------------------+--> row, file

Only the key column is read. A location travels as its file's number and becomes partition path
and file id on the driver. How the large join is done is Spark's choice, by the sizes of both sides.
Source: HoodieGlobalSimpleIndex, HoodieSimpleIndex of Hudi 0.15.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from indexes.key_scan import ABSENT, locations, read_keys
from table.config import TableConfig
from table.errors import CorruptFileError
from table.options import Options
from table.read.spark import scan_files
from table.rows import to_arrow
from table.write.file_group import KEY_COLUMN
from table.write.index import IndexContext

_ARROW = "spark.sql.execution.arrow.pyspark.enabled"
_KEYS = pa.schema([(KEY_COLUMN, pa.string())])


class GlobalSimpleIndex:
    """Global and exact; needs nothing but the base files."""

    name: ClassVar[str] = "global_simple"
    is_global: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True

    def tag(self, keys: Any, partitions: Any, context: IndexContext) -> Any:
        """Locate distinct keys; see table.write.index.Index."""
        return self.lookup(keys, context, partitions)

    def lookup(self, keys: Any, context: IndexContext, partitions: Any = None) -> Any:
        """Locate keys by a join."""
        del partitions
        files = context.snapshot.files
        numbers = np.full(len(keys), ABSENT, np.int64)
        if not files or not len(keys):
            return locations(numbers, context)
        spark = context.spark()
        try:
            found = _join(spark, keys, context)
        except Exception:
            _refuse_damage(context)
            raise
        context.stats.files_read += len(files)
        # A key that is in several files belongs to the first: it is assigned last.
        order = np.argsort(-found["file"].to_numpy(), kind="stable")
        numbers[found["row"].to_numpy()[order]] = found["file"].to_numpy()[order]
        return locations(numbers, context)

    def buckets(self, keys: Any, config: TableConfig, options: Options) -> None:
        """Any file group will do."""
        del keys, config, options


def _join(spark: Any, keys: Any, context: IndexContext) -> Any:
    """Row of the key and number of the file (pa.Table of row, file) for each match."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  only where Spark is used

    files = context.snapshot.files
    names = pa.array([file.name for file in files])
    if len(names.unique()) < len(files):
        raise CorruptFileError(context.storage.root, 0, "two base files have the same name")
    stored = scan_files(spark, context.storage, files, _KEYS)
    with _arrow(spark):
        asked = _frame(spark, "key", keys, "row")
        numbered = _frame(spark, "name", names, "file")
    named = stored.select(
        F.col(KEY_COLUMN).alias("key"), F.col("_metadata.file_name").alias("name")
    )
    lean = named.join(F.broadcast(numbered), "name").select("key", "file")
    return to_arrow(lean.join(asked, "key").select("row", "file"))


def _frame(spark: Any, text: str, values: Any, number: str) -> Any:
    """A DataFrame of texts (pa.Array of string) and their positions; Spark knows its size."""
    columns = {text: values.to_pandas(), number: np.arange(len(values), dtype=np.int32)}
    return spark.createDataFrame(pd.DataFrame(columns), f"{text} string, {number} int")


@contextlib.contextmanager
def _arrow(spark: Any) -> Iterator[None]:
    """Let pandas frames become DataFrames through Arrow; the session is the user's again after."""
    before = spark.conf.get(_ARROW)
    spark.conf.set(_ARROW, "true")
    try:
        yield
    finally:
        spark.conf.set(_ARROW, before)


def _refuse_damage(context: IndexContext) -> None:
    """Name the base file that Spark stumbled over, if there is one."""
    for file in context.snapshot.files:
        read_keys(context.storage, file)
