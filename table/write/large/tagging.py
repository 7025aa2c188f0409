"""All keys of a large batch found by Spark at once, for an index that can join them.

    spool files of keys  -> a frame: part, row, key, partition  -> the index joins it
    places found         -> dealt out by part, sorted           -> of each part a stretch of tags

No key passes through the driver: it gets the places of the stretches.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from keymark.table.index.protocol import LOCATION_SCHEMA, FrameIndex
from keymark.table.runtime.lost_worker import worker_errors
from keymark.table.runtime.runner import quiet_worker
from keymark.table.storage.storage import Storage
from keymark.table.write.large.spool import Stretch, put_stretches
from keymark.table.write.transaction import WriteTransaction


def tags_by_spark(tx: WriteTransaction, keys: Sequence[Stretch]) -> list[Stretch] | None:
    """The index's answer for each stretch of keys, a row a key; None if it answers no frames.

    Args:
        tx: the write.
        keys: of each part its distinct keys and their partition paths.
    """
    index, runner = tx.index, tx.writer.runner
    weight = sum(stretch.size for stretch in keys)
    if not isinstance(index, FrameIndex) or not runner.distributes(weight):
        return None
    spark = tx.context.spark()
    cores = spark.sparkContext.defaultParallelism
    tasks = min(len(keys), 2 * cores)
    parts = spark.range(0, len(keys), 1, tasks)
    read = _ReadKeys(tx.storage, tuple(keys))
    asked = parts.mapInArrow(read, "part int, row int, key string, partition string")
    with worker_errors("find keys", cores):
        found = index.tag_frame(asked, tx.context)
        if found is None:
            return None
        # A row of each part, whatever is found of it: each has an answer.
        every = parts.selectExpr("cast(id as int) part", "cast(null as int) row")
        found = found.select("part", "row", *LOCATION_SCHEMA.names)
        answers = found.unionByName(every, allowMissingColumns=True)
        dealt = answers.repartition(tasks, "part").sortWithinPartitions("part")
        put = _PutTags(tx.storage, tx.instant, read.keys)
        rows = dealt.mapInArrow(put, "part int, tags binary").collect()
    # The bytes are what our own tasks pickled a moment ago.
    tags: dict[int, Stretch] = {row.part: pickle.loads(row.tags) for row in rows}  # noqa: S301
    return [tags[part] for part in range(len(keys))]


@dataclass(frozen=True, slots=True)
class _ReadKeys:
    """Reads the keys of parts, whose numbers come in."""

    storage: Storage
    keys: tuple[Stretch, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quiet_worker()
        for part in (part for batch in batches for part in batch.column(0).to_pylist()):
            keys = self.keys[part].read(self.storage)
            numbers = [np.full(keys.num_rows, part, np.int32), np.arange(keys.num_rows)]
            columns = [*(pa.array(values, pa.int32()) for values in numbers), *keys.columns]
            names = ["part", "row", *keys.column_names]
            yield from pa.Table.from_arrays(columns, names).to_batches(max_chunksize=1 << 16)


@dataclass(frozen=True, slots=True)
class _PutTags:
    """Puts the answer of each part, whose rows come one behind the other."""

    storage: Storage
    instant: str
    keys: tuple[Stretch, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quiet_worker()
        waiting: list[pa.Table] = []
        part = -1
        for batch in batches:
            numbers = batch.column(0).to_numpy()
            starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
            for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
                if waiting and numbers[start] != part:
                    yield self._put(part, waiting)
                    waiting = []
                part = int(numbers[start])
                waiting.append(pa.Table.from_batches([batch.slice(start, end - start)]))
        if waiting:
            yield self._put(part, waiting)

    def _put(self, part: int, pieces: Sequence[pa.Table]) -> pa.RecordBatch:
        found = (
            pa.concat_tables(pieces)
            .drop_columns("part")
            .sort_by([(name, "descending") for name in LOCATION_SCHEMA.names])
        )
        found = found.filter(found["row"].is_valid()).combine_chunks()
        # A key that is in several files belongs to the first: it is assigned last.
        places = np.full(self.keys[part].rows, -1, np.int64)
        places[found["row"].to_numpy()] = np.arange(found.num_rows)
        taken = found.select(LOCATION_SCHEMA.names).take(pa.array(places, mask=places < 0))
        (stretch,) = put_stretches(self.storage, self.instant, [taken.cast(LOCATION_SCHEMA)])
        return pa.record_batch(
            [pa.array([part], pa.int32()), pa.array([pickle.dumps(stretch)], pa.binary())],
            names=["part", "tags"],
        )
