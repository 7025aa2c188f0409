"""Shared by the indexes that find the keys of a large batch by a join of Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from keymark.table.index.protocol import IndexContext
from keymark.table.read.spark import with_conf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ARROW = "spark.sql.execution.arrow.pyspark.enabled"


def join_keys(
    stored: DataFrame,
    keys: DataFrame,
    files: Sequence[int],
    context: IndexContext,
    *,
    on: Sequence[str],
) -> DataFrame:
    """The matches of a large batch: part, row and the columns of LOCATION_SCHEMA.

    Args:
        stored: the columns `on` and file, a number.
        keys: of the batch, as `table.index.protocol.FrameIndex` has them.
        files: numbers of the files that are asked, in the snapshot.
        context: the table.
        on: `key`, and `partition` where a key counts within its partition path.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  only where Spark is used

    chosen = [context.snapshot.files[number] for number in files]
    places = small_frame(
        context.spark(),
        file=np.array(files),
        partition_path=pa.array([file.partition_path for file in chosen]),
        file_id=pa.array([file.file_id for file in chosen]),
        instant_time=pa.array([file.instant_time for file in chosen]),
    )
    # Spark takes the keys for few, as it cannot know better: without a hint it would collect them.
    found = stored.join(keys.hint("merge"), list(on)).select("part", "row", "file")
    return found.join(F.broadcast(places), "file").drop("file")


def small_frame(spark: SparkSession, **columns: pa.Array | npt.NDArray[np.int64]) -> DataFrame:
    """A DataFrame of texts and numbers; Spark knows its size."""
    texts = {name: values for name, values in columns.items() if isinstance(values, pa.Array)}
    schema = ", ".join(f"{name} {'string' if name in texts else 'int'}" for name in columns)
    values = {
        name: texts[name].to_pandas() if name in texts else values.astype(np.int32)
        for name, values in columns.items()
    }
    # Let pandas frames become DataFrames through Arrow.
    with with_conf(spark, _ARROW, "true"):
        return spark.createDataFrame(pd.DataFrame(values), schema)
