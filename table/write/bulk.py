"""Bulk insert: new files from a stream of rows, without collecting or tagging them.

    rows, sorted by partition path inside each Spark partition
      -> task: rows of one partition path after the other, cut into files of the maximum size
      -> keys by shard in a key file -> one task per shard: sorted, checked, put as a log block

A bucket table has one file per partition path and bucket, so its rows are first shuffled by both.
Files of one task are named `<UUID of the task>-<n>`, as Hudi's are: the index compresses better
for it.
Source: HoodieRowCreateHandle, BulkInsertDataInternalWriterHelper of Hudi 0.15.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import InputError, InvalidOptionError, TableError, UnsupportedTableError
from keymark.table.format.parquet.base_file import write_base_file
from keymark.table.format.schema import with_meta
from keymark.table.index.external import KeyPart
from keymark.table.index.key_file import KeyFile, KeySink
from keymark.table.index.protocol import Index, spec_of
from keymark.table.keygen import partition_paths, record_keys
from keymark.table.keygen.auto import auto_keys
from keymark.table.layout.model import BaseFile, CommitResult, WriteStat
from keymark.table.layout.naming import bucket_file_id, numbered_file_id, write_token
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import DUP_POLICY, TASK_MEMORY, Options
from keymark.table.rows.arrow import arrow_schema, is_frame
from keymark.table.runtime.lost_worker import worker_errors
from keymark.table.runtime.runner import quiet_worker
from keymark.table.storage.durability import sync_all
from keymark.table.write.assign import FileSizing
from keymark.table.write.batch import DELETED_COLUMN, check_fields, delete_flags, in_table_schema
from keymark.table.write.bulk_index import BulkKeys
from keymark.table.write.file_group import FileGroupResult, WriteTarget, meta_columns, put_base_file
from keymark.table.write.transaction import Counts, WriteTransaction, begin
from keymark.table.write.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SAMPLE_ROWS = 10_000
_PATH, _BUCKET = "_keymark_path", "_keymark_bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkTask:
    """What every task of a bulk insert knows.

    `bucket_index` is set on a bucket table; keys are kept for an index: by `shards` of the record
    index, where there are any. A part of `memory` (bytes) is for keys that are in no key file yet.
    """

    target: WriteTarget
    config: TableConfig
    sizing: FileSizing
    memory: int
    shards: int
    keeps_keys: bool
    bucket_index: Index | None
    options: Options


@dataclass(frozen=True, slots=True)
class BulkDone:
    """What a task wrote: a result per file, and where its keys are.

    The numbers in its key files count the results.
    """

    results: tuple[FileGroupResult, ...]
    keys: tuple[KeyFile, ...]
    rows: int


def bulk_insert(writer: Writer, rows: DataFrame | pa.Table) -> CommitResult:
    """Add rows as new files."""
    with begin(writer, "BULK_INSERT", arrow_schema(rows)) as tx:
        check_fields(arrow_schema(rows).empty_table(), tx.config)
        _check_policy(tx)
        task = _task(tx)
        with tx.phase("write"):
            tx.start()
            done = _run_spark(rows, task) if is_frame(rows) else [_run_local(rows, task)]
        files = [result for part in done for result in part.results]
        changes = BulkKeys(
            _key_parts(done),
            refuse_known=tx.options.text(DUP_POLICY) == "fail",
            memory=tx.options.integer(TASK_MEMORY),
        )
        counts = Counts(inserted=sum(part.rows for part in done))
        return tx.commit(files, changes, counts)


def _key_parts(done: Sequence[BulkDone]) -> tuple[KeyPart, ...]:
    """The key files of all tasks, each with the places of its task's files."""
    parts = []
    for task in done:
        places = tuple((r.file.partition_path, r.file.file_id) for r in task.results if r.file)
        parts += [KeyPart(keys, places) for keys in task.keys]
    return tuple(parts)


def _check_policy(tx: WriteTransaction) -> None:
    policy = tx.options.text(DUP_POLICY)
    indexed = RECORD_INDEX in tx.config.metadata_partitions
    if policy == "drop" or (policy == "fail" and not indexed):
        raise InvalidOptionError(
            f"option {DUP_POLICY}={policy} needs insert: bulk_insert looks no key up without a "
            "record index, and drops none"
        )
    if spec_of(tx.index.name).owns_layout and tx.state.snapshot.files:
        raise UnsupportedTableError(
            "bulk_insert into a bucket table that holds rows is not supported: use insert or upsert"
        )


def _task(tx: WriteTransaction) -> BulkTask:
    index = tx.index
    return BulkTask(
        target=tx.target,
        config=tx.config,
        sizing=FileSizing.of(tx.options, record=None),
        memory=tx.options.integer(TASK_MEMORY),
        shards=tx.index_shards,
        keeps_keys=tx.keeps_keys,
        bucket_index=index if spec_of(index.name).owns_layout else None,
        options=tx.options,
    )


def _run_local(rows: pa.Table, task: BulkTask) -> BulkDone:
    """All rows as one task of this process."""
    if not rows.num_rows:
        return BulkDone((), (), 0)
    grouped = _Stream(task).ordered(_puts(rows, task))
    return write_stream(grouped.to_batches(max_chunksize=1 << 16), task)


def _run_spark(rows: DataFrame, task: BulkTask) -> list[BulkDone]:
    """A task per Spark partition of the frame, sorted so that each sees one group at a time."""
    fields = list(task.config.partition_fields)
    cores = rows.sparkSession.sparkContext.defaultParallelism
    if task.bucket_index is not None:
        schema = rows.schema.__class__(list(rows.schema.fields))
        schema = schema.add(_PATH, "string").add(_BUCKET, "integer")
        rows = rows.mapInArrow(_AddGroups(task), schema)
        # Different values can make one path: null and "" do.
        fields = [_PATH, _BUCKET]
        rows = rows.repartition(cores, *fields)
    if fields:
        rows = rows.sortWithinPartitions(*fields)
    with worker_errors("bulk insert", cores):
        answers = rows.mapInArrow(_WritePartition(task), "answer binary").collect()
    # The bytes are what our own tasks pickled a moment ago.
    done = [pickle.loads(row.answer) for row in answers]  # noqa: S301
    for answer in done:
        if isinstance(answer, TableError):
            raise answer
    return done


@dataclass(frozen=True, slots=True)
class _AddGroups:
    """Adds each row's partition path and bucket, for the shuffle."""

    task: BulkTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quiet_worker()
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            try:
                data = _puts(rows, self.task)
                paths = partition_paths(data, self.task.config)
                buckets = _Stream(self.task).buckets(record_keys(data, self.task.config))
            except TableError:
                # The task that writes these rows meets the same error, and answers with it.
                paths = pa.repeat(pa.scalar("", pa.string()), rows.num_rows)
                buckets = np.zeros(rows.num_rows, np.int32)
            table = rows.append_column(_PATH, paths)
            table = table.append_column(_BUCKET, pa.array(buckets, pa.int32()))
            yield from table.to_batches()


@dataclass(frozen=True, slots=True)
class _WritePartition:
    """Writes the rows of one Spark partition. A TableError is an answer, not a reason to retry."""

    task: BulkTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quiet_worker()
        try:
            answer: BulkDone | TableError = write_stream(self._rows(batches), self.task, *_turn())
            # The driver cannot sync what this process has put.
            sync_all()
        except TableError as error:
            answer = error
        yield pa.record_batch([pa.array([pickle.dumps(answer)], pa.binary())], names=["answer"])

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            if _BUCKET in rows.column_names:
                rows = rows.drop_columns([_PATH, _BUCKET])
            yield from _puts(rows, self.task).to_batches()


def _turn() -> tuple[int, int]:
    """Numbers of the Spark partition and of the attempt at it."""
    from pyspark import TaskContext  # noqa: PLC0415  only where Spark runs a task

    context = TaskContext.get()
    return (0, 0) if context is None else (context.partitionId(), context.attemptNumber())


def _puts(rows: pa.Table, task: BulkTask) -> pa.Table:
    """Incoming rows in the table's schema, none of which takes its key away."""
    if delete_flags(rows).any():
        raise InputError(
            f"bulk_insert takes no deletes, and {DELETED_COLUMN} is true in a row: upsert them"
        )
    return in_table_schema(rows, task.target.schema)


def write_stream(
    batches: Iterable[pa.RecordBatch], task: BulkTask, partition: int = 0, attempt: int = 0
) -> BulkDone:
    """Write grouped rows (record batches in table schema) into files, keys into a key file.

    `partition` is the number of the Spark partition, which generated keys name, and `attempt` that
    of the attempt at it: two attempts leave files of different names.
    """
    name, keys = task.target.ids.uuid(partition, attempt), None
    if task.keeps_keys:
        keys = KeySink(
            storage=task.target.storage,
            instant=task.target.instant,
            name=name,
            shards=task.shards,
            memory=task.memory,
        )
    stream = _Stream(task, partition, name, keys=keys)
    for batch in batches:
        stream.take(pa.Table.from_batches([batch]))
    return stream.close()


@dataclass(slots=True)
class _Stream:
    """The file being filled, and what is done. Holds the rows of one file at a time.

    Attributes:
        keys: takes the keys of files that are written; None where no index wants them.
    """

    task: BulkTask
    partition: int = 0
    name: str = ""
    group: tuple[str, int] | None = None
    pending: list[tuple[pa.Table, pa.Array]] = field(default_factory=list)
    pending_rows: int = 0
    rows_per_file: int = 0
    results: list[FileGroupResult] = field(default_factory=list)
    keys: KeySink | None = None
    rows: int = 0
    taken: int = 0

    def keys_of(self, rows: pa.Table) -> pa.Array:
        """The record keys of the rows that come next."""
        task = self.task
        if task.config.generates_keys:
            return auto_keys(task.target.instant, self.partition, self.taken, rows.num_rows)
        return record_keys(rows, task.config)

    def buckets(self, keys: pa.Array) -> Any:
        """The bucket of each key; 0 where the index has none."""
        index = self.task.bucket_index
        if index is None:
            return np.zeros(len(keys), np.int32)
        return index.buckets(keys, self.task.config, self.task.options)

    def ordered(self, rows: pa.Table) -> pa.Table:
        """Rows grouped by partition path and bucket, otherwise in their order."""
        paths = partition_paths(rows, self.task.config)
        buckets = self.buckets(self.keys_of(rows))
        table = pa.table({"path": paths, "group": buckets, "row": np.arange(len(paths))})
        order = pc.sort_indices(
            table, sort_keys=[(name, "ascending") for name in table.column_names]
        )
        return rows.take(order)

    def take(self, rows: pa.Table) -> None:
        """Add rows: each stretch of one group to that group's file."""
        if not rows.num_rows:
            return
        keys = self.keys_of(rows)
        paths = partition_paths(rows, self.task.config)
        buckets = self.buckets(keys)
        self.taken += rows.num_rows
        codes = paths.dictionary_encode().indices.to_numpy()
        change = (np.diff(codes) != 0) | (np.diff(buckets) != 0)
        starts = [0, *(np.flatnonzero(change) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
            group = (paths[start].as_py(), int(buckets[start]))
            if group != self.group:
                self._flush(everything=True)
                self.group = group
            length = end - start
            self.pending.append((rows.slice(start, length), keys.slice(start, length)))
            self.pending_rows += length
            self._flush(everything=False)

    def close(self) -> BulkDone:
        """Write what is left."""
        self._flush(everything=True)
        keys = self.keys.close() if self.keys is not None else ()
        return BulkDone(tuple(self.results), keys, self.rows)

    def _flush(self, *, everything: bool) -> None:
        """Write full files, or all pending rows; a bucket is one file whatever its size."""
        whole = self.task.bucket_index is not None
        if not self.pending_rows or (whole and not everything):
            return
        if not everything and self.pending_rows < _SAMPLE_ROWS and not self.rows_per_file:
            return
        rows = pa.concat_tables([r for r, _ in self.pending]).combine_chunks()
        keys = pa.concat_arrays([k for _, k in self.pending])
        if not self.rows_per_file:
            self.rows_per_file = self._measure(rows)
        start, size = 0, len(keys) if whole else self.rows_per_file
        while len(keys) - start >= size or (everything and start < len(keys)):
            self._write(rows.slice(start, size), keys.slice(start, size))
            start += size
        self.pending = [(rows.slice(start), keys.slice(start))] if start < len(keys) else []
        self.pending_rows = max(0, len(keys) - start)

    def _measure(self, rows: pa.Table) -> int:
        """Rows per file, from the size of a sample as it is written."""
        sample = rows.slice(0, _SAMPLE_ROWS)
        footer = replace(self.task.target.options.footer, bloom_enabled=False)
        options = replace(self.task.target.options, footer=footer)
        size = len(write_base_file(sample, options=options))
        return replace(self.task.sizing, record=max(1.0, size / sample.num_rows)).rows_per_file

    def _write(self, rows: pa.Table, keys: pa.Array) -> None:
        assert self.group is not None
        target, (path, bucket) = self.task.target, self.group
        number = len(self.results)
        file = BaseFile(
            partition_path=path,
            file_id=bucket_file_id(bucket, target.ids.uuid(self.name, path))
            if self.task.bucket_index is not None
            else numbered_file_id(self.name, number),
            write_token=write_token(number),
            instant_time=target.instant,
            size=0,
        )
        meta = meta_columns(target, number, keys, path, file.name)
        table = pa.table([*meta, *rows.columns], schema=with_meta(target.schema))
        data = bytes(write_base_file(table, options=target.options, path=file.path))
        written, records = put_base_file(target, file, data, schema=table.schema, kind="CREATE")
        stat = WriteStat(
            file_id=file.file_id,
            path=file.path,
            partition_path=path,
            prev_commit="null",
            num_writes=len(keys),
            num_inserts=len(keys),
            num_updates=0,
            num_deletes=0,
            size=written.size,
        )
        outcomes = np.empty(0, np.uint8)
        self.results.append(
            FileGroupResult(file=written, stat=stat, outcomes=outcomes, records=records)
        )
        self.rows += len(keys)
        if self.keys is not None:
            self.keys.add(keys, number)
