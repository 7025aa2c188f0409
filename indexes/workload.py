"""What a prediction is about: a table, a batch and a cluster. A leaf module."""

from __future__ import annotations

import math
from dataclasses import dataclass

MAX_FILE_BYTES = 125_829_120
"""Hudi's `hoodie.parquet.max.file.size`."""
SMALL_FILE_BYTES = 104_857_600
"""Hudi's `hoodie.parquet.small.file.limit`: smaller files take new rows."""
SHARD_BYTES = 1 << 30
"""Hudi's `hoodie.metadata.record.index.max.filegroup.size`: the largest shard of a record index."""
FILTER_BYTES = 431_000
"""A bloom filter in a base file's footer at Hudi's defaults: 60,000 keys, 1e-9 (measured)."""
BLOCK_BYTES = 1 << 20
"""Hudi's `hoodie.hfile.block.size`: of a data block of the metadata table, uncompressed."""
LOCAL_BYTES = 64 << 20
"""`keymark.local.bytes`: work of this many bytes or more is done by Spark."""
PAGE_ROWS = 2_048
"""`keymark.parquet.page.rows`: of a page of a base file that has at least two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A table, a change batch and a cluster.

    Attributes:
        rows: N, the table's rows.
        batch: M, the batch's keys.
        cores: C, of all executors together.
        partitions: the table's partition paths.
        files: F, its base files; every file group has one.
        shards: n, file groups of the record index.
        local_shards: file groups of a record index of each partition, in all partition paths
            together; 0: as few as have room.
        buckets: of the bucket index, in all partition paths together.
        new_share: share of the batch whose keys are new.
        key_bytes: of a record key.
        row_bytes: of a row in a base file, filters aside.
        ordered: keys grow with time, so that each file has a range of its own.
        one_load: the files are of one bulk insert, so that their ids share a UUID.
        local_bytes: `keymark.local.bytes`.
        broadcast_bytes: Spark's `spark.sql.autoBroadcastJoinThreshold`; below it nothing is
            shuffled. -1: everything is.
        block_bytes: `hoodie.hfile.block.size`.
        changed_files: base files that a batch rewrites, or of a merge-on-read table file groups
            that it writes to, where that is known; None: keys fall on all files alike.
    """

    rows: float
    batch: float
    cores: int = 2
    partitions: int = 10
    files: float = 20
    shards: int = 10
    local_shards: float = 0.0
    buckets: float = 20
    new_share: float = 0.5
    key_bytes: float = 36.0
    row_bytes: float = 104.0
    ordered: bool = False
    one_load: bool = False
    local_bytes: float = LOCAL_BYTES
    broadcast_bytes: float = 10 << 20
    block_bytes: float = BLOCK_BYTES
    changed_files: float | None = None

    @property
    def updates(self) -> float:
        """u, keys of the batch that the table has."""
        return self.batch * (1 - self.new_share)

    @property
    def inserts(self) -> float:
        """Keys of the batch that the table does not have."""
        return self.batch * self.new_share

    @property
    def lanes(self) -> int:
        """Shards of the record index that are worked on at a time, each by one core."""
        return min(self.shards, self.cores)

    @property
    def file_bytes(self) -> float:
        """Bytes of a base file, with its filter."""
        return self.rows * self.row_bytes / self.files + FILTER_BYTES

    @property
    def reach(self) -> float:
        """Share of the partition paths that the batch names: 1 - e^(-M/P)."""
        return touched(self.partitions, self.batch) / self.partitions


def touched(places: float, draws: float) -> float:
    """How many of F places are hit by u draws at random: F*(1 - e^(-u/F))."""
    return -math.expm1(-draws / places) * places


def has_pages(rows: float) -> bool:
    """Whether a base file with that number of rows has pages that can be copied: at least two."""
    return rows >= 2 * PAGE_ROWS


def updated_pages(rows: float, updates: float) -> float:
    """Share of a file's pages with an updated row; 1 of a file without pages."""
    pages = rows / PAGE_ROWS
    return touched(pages, updates) / pages if has_pages(rows) else 1.0


def rewritten(at: Workload) -> float:
    """Base files that an upsert rewrites: F*(1 - e^(-u/F)), and those that take its new rows."""
    if at.changed_files is not None:
        return at.changed_files
    updated = touched(at.files, at.updates) if at.updates else 0.0
    if not at.inserts or at.file_bytes >= SMALL_FILE_BYTES:
        return updated
    chosen = min(touched(at.partitions, at.inserts), at.files)
    return updated + chosen * (1 - updated / at.files)


def files_for(
    rows: float, row_bytes: float, partitions: int, most: float = MAX_FILE_BYTES
) -> float:
    """The fewest base files of a table by its rows, at least one for each partition path.

    `most` are the bytes of the largest one.
    """
    room = max(1.0, most - FILTER_BYTES)
    return float(partitions * max(1, math.ceil(rows * row_bytes / partitions / room)))
