"""The global simple index: the keys asked, joined by Spark with the keys of all base files.

    base files: record key, file name  --broadcast join-->  record key, file number  --+
    keys asked: record key, row number  ----------------------------------------------+--> row, file

Only the key column is read. A location travels as its file's number and becomes partition path
and file id on the driver. How the large join is done is Spark's choice, by the sizes of both sides.
Source: HoodieGlobalSimpleIndex, HoodieSimpleIndex of Hudi 0.15.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from indexes.global_index import GlobalIndex
from indexes.key_scan import ABSENT, locations, read_keys
from table.errors import CorruptFileError
from table.read.spark import scan_files, with_conf
from table.rows import to_arrow
from table.write.file_group import KEY_COLUMN
from table.write.index import IndexContext

_ARROW = "spark.sql.execution.arrow.pyspark.enabled"
_KEYS = pa.schema([(KEY_COLUMN, pa.string())])


class GlobalSimpleIndex(GlobalIndex):
    """Global and exact; needs nothing but the base files."""

    name: ClassVar[str] = "global_simple"

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


def _join(spark: Any, keys: Any, context: IndexContext) -> Any:
    """Row of the key and number of the file (pa.Table of row, file) for each match."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  only where Spark is used

    files = context.snapshot.files
    names = pa.array([file.name for file in files])
    if len(names.unique()) < len(files):
        raise CorruptFileError(context.storage.root, 0, "two base files have the same name")
    stored = scan_files(spark, context.storage, files, _KEYS)
    # Let pandas frames become DataFrames through Arrow.
    with with_conf(spark, _ARROW, "true"):
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


def _refuse_damage(context: IndexContext) -> None:
    """Name the base file that Spark stumbled over, if there is one."""
    for file in context.snapshot.files:
        read_keys(context.storage, file)
