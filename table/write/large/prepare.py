"""The first step of a write: incoming rows keyed and checked, here or in the tasks that make them.

The size of a DataFrame is unknown before it has run, and it must not run twice. So its tasks
spool what they prepare, and return the bytes; a batch within `keymark.batch.collect.bytes` is then
read by the writer's process. The bytes of an Arrow table are known beforehand, and those of a frame
that only selects from small files well enough.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import TableError
from keymark.table.index.dealing import Dealing
from keymark.table.keygen import record_keys
from keymark.table.keygen.auto import auto_keys
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import BATCH_COLLECT, TASK_MEMORY
from keymark.table.rows.arrow import arrow_schema, is_frame, to_arrow
from keymark.table.rows.frame_size import surely_below
from keymark.table.rows.keys import NamedKeys, keys_of_rows
from keymark.table.runtime.lost_worker import worker_errors
from keymark.table.runtime.runner import quiet_worker
from keymark.table.write.batch import (
    Batch,
    check_fields,
    combine,
    counted_from,
    delete_flags,
    in_table_schema,
    keyed,
)
from keymark.table.write.file_group import WriteTarget
from keymark.table.write.large.spool import ROW_COPIES, Stretch, batch_of, put_dealt, table_of
from keymark.table.write.transaction import WriteTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SLICE_ROWS = 1 << 16
# One key is sampled from about this many bytes of rows.
_SAMPLE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What is known where rows are prepared.

    Attributes:
        new: whether the rows are those of an insert; keys are generated then, where the table has
            no key fields.
        deletes: whether rows name keys that go; they have no other columns then.
        is_global: whether a key counts once in the table, or once per partition path.
        memory: bytes that a task may hold.
    """

    target: WriteTarget
    config: TableConfig
    new: bool
    deletes: bool
    is_global: bool
    memory: int

    @classmethod
    def of(cls, tx: WriteTransaction, *, new: bool = False, deletes: bool = False) -> Preparation:
        """How the rows of a write are prepared."""
        return cls(
            target=tx.target,
            config=tx.config,
            new=new,
            deletes=deletes,
            is_global=tx.index.is_global,
            memory=tx.options.integer(TASK_MEMORY),
        )

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the prepared rows; None where there are keys alone."""
        return None if self.deletes else self.target.schema


@dataclass(frozen=True, slots=True)
class SpoolFile:
    """Prepared rows of a task.

    Attributes:
        parts: of each part a stretch, None where it has no rows.
        sample: some of their keys, at even distances, and the part of each (key, part).
    """

    parts: tuple[Stretch | None, ...]
    sample: pa.Table


@dataclass(frozen=True, slots=True)
class SpooledRows:
    """A batch on storage.

    Attributes:
        files: in the order of their rows.
        schema: of the rows; None where there are keys alone.
        dealing: how keys are dealt out to parts.
    """

    files: tuple[SpoolFile, ...]
    schema: pa.Schema | None
    dealing: Dealing

    def stretches(self, part: int) -> tuple[Stretch, ...]:
        """The rows of a part, in their order."""
        found = (file.parts[part] for file in self.files)
        return tuple(stretch for stretch in found if stretch is not None)

    def sampled(self, part: int) -> pa.Array:
        """Some keys of a part."""
        sample = pa.concat_tables([file.sample for file in self.files]).combine_chunks()
        return sample.filter(pc.equal(sample["part"], part))["key"].combine_chunks()

    @property
    def size(self) -> int:
        """Bytes that the rows take in memory."""
        return sum(s.size for part in range(self.dealing.parts) for s in self.stretches(part))

    @property
    def row_bytes(self) -> float:
        """Bytes that a row takes in memory, on average."""
        parts = range(self.dealing.parts)
        return self.size / max(1, sum(s.rows for part in parts for s in self.stretches(part)))

    def paths(self) -> list[str]:
        """The spool files."""
        parts = range(self.dealing.parts)
        return list({stretch.path for part in parts for stretch in self.stretches(part)})


def incoming_rows(
    tx: WriteTransaction, rows: DataFrame | pa.Table, work: Preparation
) -> Batch | SpooledRows:
    """Incoming rows, prepared: a batch, or what was spooled if that is too large for one."""
    most = tx.options.integer(BATCH_COLLECT)
    if not is_frame(rows):
        if rows.nbytes <= most:
            return prepared(rows, work)
        return _spooled(_slices(rows, work), work, Dealing.of(tx.index, tx.context))
    if surely_below(rows, most):
        return prepared(to_arrow(rows), work)
    # What does not fit the table is refused before a job starts.
    nothing = prepared(arrow_schema(rows).empty_table(), work)
    spooled = _spooled_by_spark(rows, work, Dealing.of(tx.index, tx.context))
    if spooled.size > most:
        return spooled
    return _collected(spooled, work) if spooled.files else nothing


def incoming_keys(tx: WriteTransaction, keys: NamedKeys) -> Batch | SpooledRows:
    """Keys that are to go: a batch, or what was spooled if they are too many for one."""
    work = Preparation.of(tx, deletes=True)
    if is_frame(keys.keys):
        return incoming_rows(tx, keys.keys, work)
    batch = Batch.of_deletes(keys.keys, keys.partitions)
    if batch.keys.nbytes <= tx.options.integer(BATCH_COLLECT):
        return batch
    starts = range(0, len(batch), _SLICE_ROWS)
    pieces = (batch.take(np.arange(n, min(n + _SLICE_ROWS, len(batch)))) for n in starts)
    return _spooled(pieces, work, Dealing.of(tx.index, tx.context))


def prepared(rows: pa.Table, work: Preparation, task: int = 0, first: int = 0) -> Batch:
    """Incoming rows in the table's schema, keyed and checked.

    Args:
        rows: as they were handed in.
        work: what is to be done.
        task: the number of the Spark partition, which generated keys name.
        first: the number of the first row in it.
    """
    config = work.config
    if work.deletes:
        known = pa.schema([]) if work.target.schema is None else work.target.schema
        return Batch.of_deletes(*keys_of_rows(rows, config, known))
    check_fields(rows, config)
    keys = None
    if config.generates_keys:
        # A stored row names its key by a meta column, which the table's schema does not have.
        count, instant = rows.num_rows, work.target.instant
        keys = auto_keys(instant, task, first, count) if work.new else record_keys(rows, config)
    return keyed(in_table_schema(rows, work.target.schema), config, delete_flags(rows), keys)


def _spooled_by_spark(rows: DataFrame, work: Preparation, dealing: Dealing) -> SpooledRows:
    """Prepare the rows of a Spark DataFrame in tasks, once."""
    cores = rows.sparkSession.sparkContext.defaultParallelism
    with worker_errors("prepare rows", cores):
        answers = rows.mapInArrow(_PreparePartition(work, dealing), "answer binary").collect()
    files: list[SpoolFile] = []
    for row in answers:
        # The bytes are what our own tasks pickled a moment ago.
        answer = pickle.loads(row.answer)  # noqa: S301
        if isinstance(answer, TableError):
            raise answer
        files += answer
    return SpooledRows(tuple(files), work.schema, dealing)


def _spooled(batches: Iterable[Batch], work: Preparation, dealing: Dealing) -> SpooledRows:
    """Spool rows that are in this process."""
    sink = _Sink(work, dealing)
    for batch in batches:
        sink.add(batch)
    return SpooledRows(tuple(sink.close()), work.schema, dealing)


def _slices(rows: pa.Table, work: Preparation) -> Iterator[Batch]:
    """Prepare an Arrow table piece by piece."""
    for first in range(0, rows.num_rows, _SLICE_ROWS):
        yield _located(rows.slice(first, _SLICE_ROWS), work, 0, first)


def _collected(rows: SpooledRows, work: Preparation) -> Batch:
    """All rows of a spooled batch, in the order in which they came."""
    tables = []
    for file in rows.files:
        stretches = [stretch for stretch in file.parts if stretch is not None]
        table = pa.concat_tables([s.read(work.target.storage) for s in stretches])
        tables.append(table.take(pa.array(np.argsort(table.column(3).to_numpy()))))
    return batch_of(pa.concat_tables(tables).combine_chunks(), rows.schema, more=1)


@dataclass(frozen=True, slots=True)
class _PreparePartition:
    """Prepares the rows of one Spark partition. A TableError is an answer, no reason to retry."""

    work: Preparation
    dealing: Dealing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415  only where Spark runs a task

        quiet_worker()
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        try:
            answer: Sequence[SpoolFile] | TableError = self._spooled(batches, task)
        except TableError as error:
            answer = error
        yield pa.record_batch([pa.array([pickle.dumps(answer)], pa.binary())], names=["answer"])

    def _spooled(self, batches: Iterable[pa.RecordBatch], task: int) -> list[SpoolFile]:
        sink, first = _Sink(self.work, self.dealing), 0
        for batch in batches:
            if batch.num_rows:
                sink.add(_located(pa.Table.from_batches([batch]), self.work, task, first))
                first += batch.num_rows
        return sink.close()


def _located(rows: pa.Table, work: Preparation, task: int, first: int) -> Batch:
    """Prepared rows; an error that names a row says what its number is counted from."""
    with counted_from(task, first):
        return prepared(rows, work, task, first)


@dataclass(slots=True)
class _Sink:
    """Takes prepared rows in their order; a spool file is put when memory asks for it."""

    work: Preparation
    dealing: Dealing
    _batches: list[Batch] = field(default_factory=list)
    _bytes: int = 0
    _files: list[SpoolFile] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Take rows."""
        self._batches.append(batch)
        self._bytes += table_of(batch).nbytes
        if self._bytes >= self.work.memory // ROW_COPIES:
            self._put()

    def close(self) -> list[SpoolFile]:
        """Put what is left; all spool files."""
        if self._batches:
            self._put()
        return self._files

    def _put(self) -> None:
        """Put a spool file of what there is, with the number of each row in it."""
        work, dealing, target = self.work, self.dealing, self.work.target
        table = pa.concat_tables([table_of(batch) for batch in self._batches]).combine_chunks()
        if not work.new:
            # All rows of a key meet in one slice, so a key that comes a million times must be a few
            # rows there. An insert tells how many rows repeat a key, and needs all of them.
            batch = batch_of(table, work.schema)
            table = table_of(combine(batch, work.config, is_global=work.is_global))
        table = table.add_column(3, "row", pa.array(np.arange(table.num_rows, dtype=np.int32)))
        keys = table.column(0).combine_chunks()
        part = dealing.part_of(keys)
        chosen = np.arange(0, len(keys), max(1, _SAMPLE_BYTES * len(keys) // table.nbytes))
        sample = pa.table({"key": keys.take(pa.array(chosen)), "part": part[chosen]})
        put = put_dealt(target.storage, target.instant, table, part, dealing.parts)
        self._files.append(SpoolFile(put, sample))
        self._batches, self._bytes = [], 0
