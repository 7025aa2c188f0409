"""Where keys are: few of them answered with an Arrow table, many with a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from keymark.table.index.dealing import Dealing, context_of_task
from keymark.table.index.external import located
from keymark.table.index.protocol import LOCATION_SCHEMA, Index, IndexContext
from keymark.table.properties.options import BATCH_COLLECT, TASK_MEMORY
from keymark.table.rows.arrow import is_frame, to_arrow
from keymark.table.rows.frame_size import surely_below, text_bytes
from keymark.table.rows.keys import NamedKeys, keys_of_rows
from keymark.table.runtime.runner import quiet_worker
from keymark.table.state.table_state import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# While they are looked up, keys and their places are in memory about this many times.
_KEY_COPIES = 8


def look_up(keys: NamedKeys, index: Index, context: IndexContext) -> pa.Table | DataFrame:
    """Where keys are: record_key and the columns of LOCATION_SCHEMA, null for absent keys.

    An Arrow table in the order of the keys; a DataFrame in no order for a DataFrame of keys that
    take more than `keymark.batch.collect.bytes`.
    """
    texts = keys.keys
    if is_frame(texts):
        columns = columns_of(context.storage)
        most = context.options.integer(BATCH_COLLECT)
        if not surely_below(texts, most) and text_bytes(texts) > most:
            return _look_up_in_tasks(texts, columns, index, context)
        texts, _ = keys_of_rows(to_arrow(texts), context.config, columns)
    return _places(texts, index, context)


def _places(keys: pa.Array, index: Index, context: IndexContext) -> pa.Table:
    encoded = keys.dictionary_encode()
    found = located(index, encoded.dictionary, context).take(encoded.indices)
    return pa.table([keys, *found.columns], names=["record_key", *found.column_names])


def _look_up_in_tasks(
    keys: DataFrame, columns: pa.Schema, index: Index, context: IndexContext
) -> DataFrame:
    """Deal keys out to tasks by one shuffle, and let each ask the index."""
    dealing, inner = Dealing.of(index, context), context_of_task(context)
    dealt = keys.mapInArrow(_DealKeys(inner, columns, dealing), "record_key string, part int")
    names = ", ".join(f"{name} string" for name in ("record_key", *LOCATION_SCHEMA.names))
    cores = keys.sparkSession.sparkContext.defaultParallelism
    tasks = min(dealing.parts, 2 * cores)
    return dealt.repartition(tasks, "part").mapInArrow(_FindKeys(index, inner), names)


@dataclass(frozen=True, slots=True)
class _DealKeys:
    """Makes record keys, each with the number of its part."""

    context: IndexContext
    columns: pa.Schema
    dealing: Dealing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quiet_worker()
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            keys, _ = keys_of_rows(rows, self.context.config, self.columns)
            part = pa.array(self.dealing.part_of(keys), pa.int32())
            yield pa.record_batch([keys, part], names=["record_key", "part"])


@dataclass(frozen=True, slots=True)
class _FindKeys:
    """Looks up the keys of one Spark partition, as many at a time as memory holds."""

    index: Index
    context: IndexContext

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quiet_worker()
        most = self.context.options.integer(TASK_MEMORY) // _KEY_COPIES
        waiting: list[pa.Array] = []
        size = 0
        for batch in batches:
            waiting.append(batch.column(0))
            size += waiting[-1].nbytes
            if size >= most:
                yield from _places(pa.concat_arrays(waiting), self.index, self.context).to_batches()
                waiting, size = [], 0
        if waiting:
            yield from _places(pa.concat_arrays(waiting), self.index, self.context).to_batches()
