"""The simple indexes: the keys asked, joined with the keys of the base files that may hold them.

    small   threads of this process read key columns and look each key up among those asked
    large   base files: record key, file name  --broadcast join-->  record key, file, scope  --+
            keys asked: record key, scope, row  -----------------------------------------------+-->
            row, file
    batch   the same with keys that are on storage; the scope is the partition path, or nothing

Only the key column is read. A location travels as its file's number and becomes partition path
and file id on the driver. What is small, the runner says; how the large join is done is Spark's
choice, by the sizes of both sides. Source: HoodieSimpleIndex, HoodieGlobalSimpleIndex of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.indexes.shared.frame_join import join_keys, small_frame
from keymark.indexes.shared.key_scan import (
    file_weight,
    first_of_each,
    locations,
    read_keys,
    search_files,
)
from keymark.indexes.shared.lookup_index import LookupIndex
from keymark.indexes.shared.scope import Scope, scopes
from keymark.indexes.simple.spec import SPEC
from keymark.indexes.spec import IndexSpec
from keymark.table.errors import CorruptFileError
from keymark.table.index.protocol import IndexContext
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.read.spark import scan_files
from keymark.table.rows.arrow import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = pa.schema([(KEY_COLUMN, pa.string())])

_Numbers = npt.NDArray[np.int64]


class SimpleIndex(LookupIndex):
    """Partition-local and exact; needs nothing but the base files."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name

    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Locate keys by a join with the files that may hold them."""
        asked = scopes(len(keys), context.snapshot, None if self.is_global else partitions)
        files = context.snapshot.files
        weight = sum(file_weight(files[n]) for scope in asked for n in scope.files)
        context.stats.files_read += sum(len(scope.files) for scope in asked)
        # Spark joins columns: keys that are made are searched for by tasks, however many.
        large = bool(asked) and context.runner.distributes(weight)
        if large and not context.config.virtual_keys:
            rows, numbers = _join_by_spark(keys, asked, context)
        else:
            rows, numbers = search_files(keys, asked, context)
        return locations(first_of_each(len(keys), rows, numbers), context)

    def tag_frame(self, keys: DataFrame, context: IndexContext) -> DataFrame | None:
        """Locate the keys of a large batch; see table.index.protocol.FrameIndex."""
        files = context.snapshot.files
        large = context.runner.distributes(sum(map(file_weight, files)))
        if not files or not large or context.config.virtual_keys:
            return None
        numbers = list(range(len(files)))
        if not self.is_global:
            paths = {row.partition for row in keys.select("partition").distinct().collect()}
            numbers = [number for number in numbers if files[number].partition_path in paths]
        if not numbers:
            return None
        context.stats.files_read += len(numbers)
        return _joined(keys, numbers, context, is_global=self.is_global)


def _join_by_spark(
    keys: pa.Array, asked: Sequence[Scope], context: IndexContext
) -> tuple[_Numbers, _Numbers]:
    """Row of the key and number of the file for each match, found by a join."""
    files = [number for scope in asked for number in scope.files]
    try:
        found = _join(keys, asked, files, context)
    except Exception:
        # Reading the keys names the base file that Spark stumbled over, if there is one.
        for number in files:
            read_keys(context.storage, context.config, context.snapshot.files[number])
        raise
    return found["row"].to_numpy().astype(np.int64), found["file"].to_numpy().astype(np.int64)


def _join(
    keys: pa.Array, asked: Sequence[Scope], files: Sequence[int], context: IndexContext
) -> pa.Table:
    """The matches (row, file)."""
    rows = np.concatenate([scope.rows for scope in asked])
    of_files = np.repeat(np.arange(len(asked)), [len(scope.files) for scope in asked])
    of_keys = np.repeat(np.arange(len(asked)), [len(scope.rows) for scope in asked])
    lean = _stored(files, context, scope=of_files)
    wanted = small_frame(context.spark(), key=keys.take(pa.array(rows)), row=rows, scope=of_keys)
    return to_arrow(lean.join(wanted, ["key", "scope"]).select("row", "file"))


def _joined(
    keys: DataFrame, files: Sequence[int], context: IndexContext, *, is_global: bool
) -> DataFrame:
    """The matches (part, row and the columns of LOCATION_SCHEMA)."""
    paths = pa.array([context.snapshot.files[number].partition_path for number in files])
    on = ["key"] if is_global else ["key", "partition"]
    lean = _stored(files, context, partition=paths).select(*on, "file")
    return join_keys(lean, keys, files, context, on=on)


def _stored(files: Sequence[int], context: IndexContext, **more: pa.Array | _Numbers) -> DataFrame:
    """The keys of base files: key, file and what is said about each file besides."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  only where Spark is used

    spark = context.spark()
    chosen = [context.snapshot.files[number] for number in files]
    names = pa.array([file.name for file in chosen])
    if len(names.unique()) < len(chosen):
        raise CorruptFileError(context.storage.root, 0, "two base files have the same name")
    stored = scan_files(spark, context.storage, chosen, _KEYS, name="name")
    numbered = small_frame(spark, name=names, file=np.array(files), **more)
    return (
        stored.withColumnRenamed(KEY_COLUMN, "key").join(F.broadcast(numbered), "name").drop("name")
    )
