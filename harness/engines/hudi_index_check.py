"""Hudi's record index, read by Hudi as rows of its metadata table, compared with the data.

    rows of the metadata table  -> key, partition path, file id  -.
                                                                   >- full join by key -> counts
    meta columns of the table   -> key, partition path, file id  -'

The comparison is a join in Spark, whose keys stay in its tasks. What reads is the release that
wrote; that the rows are right is proven apart and without Hudi (`tables.independent`).

From 1.1 on, Hudi cannot merge rows of a metadata table that an earlier release wrote, because these
have a field less (apache/hudi#19559). Its own lookups can. So where a table of an earlier
release was not written to yet, the index is asked for each key of the table instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

_RECORD_INDEX = 5
"""Type of the record index's entries in the metadata table (Hudi's `MetadataPartitionType`)."""

_IS_TEXT = 1
"""Encoding of a file id that is no UUID with a number behind it (`HoodieTableMetadataUtil`)."""

UNREADABLE = "ArrayIndexOutOfBoundsException"
"""What Hudi raises for rows of a metadata table that an earlier release wrote."""

_ASKED_TOGETHER = 100_000
"""Keys that the index is asked for at a time."""

Ask = Callable[[Sequence[str]], Mapping[str, tuple[str, str]]]
"""Looks keys up in the record index: partition path and file id of those that it has."""


def compare(rows: DataFrame, metadata: DataFrame, *, in_partitions: bool) -> dict[str, int]:
    """How often record index and data disagree.

    Args:
        rows: of the table, with Hudi's meta columns.
        metadata: rows of its metadata table.
        in_partitions: whether a key is unique in its partition only.

    Returns:
        The counts of `base.IndexCheck`.
    """
    keys = ["key", "partition"] if in_partitions else ["key"]

    def places(frame: DataFrame, name: str) -> DataFrame:
        count, place = f.count(f.lit(1)), f.min(f.struct("partition", "file"))
        return frame.groupBy(*keys).agg(count.alias(f"{name}_count"), place.alias(f"{name}_place"))

    joined = places(_held(rows), "data").join(places(_entries(metadata), "index"), keys, "full")
    has_both = f.col("data_count").isNotNull() & f.col("index_count").isNotNull()
    counts = {
        "missing": f.col("index_count").isNull(),
        "extra": f.col("data_count").isNull(),
        "wrong": has_both & (f.col("data_place") != f.col("index_place")),
        "duplicate": (f.col("data_count") > 1) | (f.col("index_count") > 1),
    }
    found = joined.agg(*(f.count_if(is_so).alias(name) for name, is_so in counts.items())).first()
    return {name: int(found[name]) if found else 0 for name in counts}


def compare_answers(rows: DataFrame, ask: Ask) -> dict[str, int]:
    """How often the answers of a record index of the whole table and the data disagree.

    An entry whose key the table does not have is not found: there is nothing to ask for.

    Args:
        rows: of the table, with Hudi's meta columns.
        ask: looks keys up.

    Returns:
        The counts of `base.IndexCheck`; none is extra.
    """
    held = _held(rows)
    counts = {"missing": 0, "extra": 0, "wrong": 0}
    counts["duplicate"] = held.groupBy("key").count().where("count > 1").count()
    left = iter(held.toLocalIterator())
    while batch := list(islice(left, _ASKED_TOGETHER)):
        places = {row["key"]: (row["partition"], row["file"]) for row in batch}
        found = ask(list(places))
        counts["missing"] += len(places.keys() - found.keys())
        counts["wrong"] += sum(places[key] != found[key] for key in places.keys() & found.keys())
    return counts


def _held(rows: DataFrame) -> DataFrame:
    """Where each row of a table is: key, partition path, file id."""
    return rows.select(
        f.col("_hoodie_record_key").alias("key"),
        f.col("_hoodie_partition_path").alias("partition"),
        f.regexp_extract("_hoodie_file_name", "^[.]?([^_]+)", 1).alias("file"),
    )


def _entries(metadata: DataFrame) -> DataFrame:
    """The entries of the record index: key, partition path, file id."""
    entry = f.col("recordIndexMetadata")
    uuid = _uuid(entry["fileIdHighBits"], entry["fileIdLowBits"])
    numbered = f.when(entry["fileIndex"] < 0, uuid).otherwise(
        f.concat_ws("-", uuid, entry["fileIndex"].cast("string"))
    )
    is_text = f.coalesce(entry["fileIdEncoding"], f.lit(0)) == _IS_TEXT
    return metadata.where(f.col("type") == _RECORD_INDEX).select(
        "key",
        entry["partitionName"].alias("partition"),
        f.when(is_text, entry["fileId"]).otherwise(numbered).alias("file"),
    )


def _uuid(high: Column, low: Column) -> Column:
    """The text of a UUID whose halves are two numbers of 64 bits."""
    digits = f.lower(f.concat(*(f.lpad(f.hex(half), 16, "0") for half in (high, low))))
    groups = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    return f.concat_ws("-", *(f.substring(digits, start, length) for start, length in groups))
