"""Many keys dealt out to tasks, so that equal keys meet and each task asks little of an index."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.format.hashes.hashing import shards
from keymark.table.index.protocol import (
    Index,
    IndexContext,
    LookupStats,
    no_session,
    spec_of,
)
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import Options
from keymark.table.runtime.runner import LocalRunner

# Without shards of an index: enough for many tasks, few enough to be read from many files.
_PARTS, _PARTS_MAX = 64, 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealing:
    """How keys are dealt out to parts.

    Where the index is in shards, a part is a range of them, so that a task looks keys up in few.
    Where it owns the layout, a part has the keys of some buckets.

    Attributes:
        parts: how many there are.
        shards: of the index, or as many as parts.
        bucket_index: the index, where it puts keys into buckets.
    """

    parts: int
    shards: int
    bucket_index: Index | None
    config: TableConfig
    options: Options

    @classmethod
    def of(cls, index: Index, context: IndexContext) -> Dealing:
        """How the keys of a table with this index are dealt out."""
        config, metadata = context.config, context.metadata
        partition, in_shards = spec_of(index.name).metadata_partition, 0
        if metadata is not None and partition in config.metadata_partitions:
            in_shards = len(metadata.slices(partition))
        by_bucket = index.buckets(pa.array([], pa.string()), config, context.options) is not None
        return cls(
            parts=min(in_shards, _PARTS_MAX) or _PARTS,
            shards=in_shards or _PARTS,
            bucket_index=index if by_bucket else None,
            config=config,
            options=context.options,
        )

    def part_of(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """The part of each key."""
        if self.bucket_index is not None:
            buckets = self.bucket_index.buckets(keys, self.config, self.options)
            return np.asarray(buckets, np.int64) % self.parts
        # Java's remainder may be negative.
        number = np.abs(shards(keys, self.shards).astype(np.int64))
        return number * self.parts // self.shards


def context_of_task(context: IndexContext) -> IndexContext:
    """The table as an index sees it in a task: one thread, no session, no cache."""
    if context.metadata is not None:
        # Read here once, and not in each task.
        _ = context.metadata.recorded
    stats = LookupStats()
    return replace(context, runner=LocalRunner(1), spark=no_session, cache=None, stats=stats)
