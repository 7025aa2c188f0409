"""Bulk insert: new files from a stream of rows, without collecting or tagging them.

    rows of a Spark partition, in any order
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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
from keymark.table.storage.durability import count_synced, seconds_synced, sync_all
from keymark.table.write.assign import FileSizing
from keymark.table.write.batch import (
    DELETED_COLUMN,
    check_fields,
    counted_from,
    delete_flags,
    in_table_schema,
)
from keymark.table.write.bulk_index import BulkKeys
from keymark.table.write.file_group import FileGroupResult, WriteTarget, meta_columns, put_base_file
from keymark.table.write.grouping import Group, GroupedRows
from keymark.table.write.page_layout import with_small_pages
from keymark.table.write.transaction import Counts, WriteTransaction, begin
from keymark.table.write.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SAMPLE_ROWS = 10_000
_BATCH_ROWS = 1 << 16
_ONE_GROUP = Group("", 0)
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
            f"option {DUP_POLICY}={policy} is for insert: bulk_insert looks up no key without a "
            "record index, and never drops one"
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
    try:
        return write_rows(rows.to_batches(max_chunksize=_BATCH_ROWS), task)
    except InputError:
        # Keys are made of groups of rows. The error names the row of the input.
        if not task.config.generates_keys:
            record_keys(_puts(rows, task), task.config)
        raise


def _run_spark(rows: DataFrame, task: BulkTask) -> list[BulkDone]:
    """A task per Spark partition of the frame; of buckets each is in one Spark partition."""
    cores = rows.sparkSession.sparkContext.defaultParallelism
    if task.bucket_index is not None:
        schema = rows.schema.__class__(list(rows.schema.fields))
        schema = schema.add(_PATH, "string").add(_BUCKET, "integer")
        rows = rows.mapInArrow(_AddGroups(task), schema)
        # By the path, not by its values: null and "" make one path.
        rows = rows.repartition(cores, _PATH, _BUCKET)
    with worker_errors("bulk insert", cores):
        answers = rows.mapInArrow(_WritePartition(task), "answer binary").collect()
    # The bytes are what our own tasks pickled a moment ago.
    done = [pickle.loads(row.answer) for row in answers]  # noqa: S301
    count_synced(sum(seconds for _, seconds in done))
    for answer, _ in done:
        if isinstance(answer, TableError):
            raise answer
    return [answer for answer, _ in done]


@dataclass(frozen=True, slots=True)
class _AddGroups:
    """Adds each row's partition path and bucket, for the shuffle."""

    task: BulkTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quiet_worker()
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            try:
                paths, buckets = _groups_of(_puts(rows, self.task), self.task)
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
        synced = seconds_synced()
        try:
            answer: BulkDone | TableError = write_rows(batches, self.task, *_turn())
            # The driver cannot sync what this process has put.
            sync_all()
        except TableError as error:
            answer = error
        pickled = pickle.dumps((answer, seconds_synced() - synced))
        yield pa.record_batch([pa.array([pickled], pa.binary())], names=["answer"])


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


def _groups_of(rows: pa.Table, task: BulkTask) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """The partition path of each row in the table's schema, and its bucket; 0 without buckets."""
    paths = partition_paths(rows, task.config)
    if task.bucket_index is None:
        return paths, np.zeros(rows.num_rows, np.int32)
    keys = record_keys(rows, task.config)
    return paths, task.bucket_index.buckets(keys, task.config, task.options)


def write_rows(
    batches: Iterable[pa.RecordBatch], task: BulkTask, partition: int = 0, attempt: int = 0
) -> BulkDone:
    """Write incoming rows into files, their keys into key files.

    `partition` is the number of the Spark partition, which generated keys name, and `attempt` that
    of the attempt at it: two attempts leave files of different names.
    """
    files = _Files(task, partition, task.target.ids.uuid(partition, attempt))
    grouped = GroupedRows(task.memory)
    is_one_group = not task.config.partition_fields and task.bucket_index is None
    first = 0
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if _BUCKET in rows.column_names:
            rows = rows.drop_columns([_PATH, _BUCKET])
        rows = _puts(rows, task)
        if is_one_group:
            files.add(rows, _ONE_GROUP)
        else:
            with counted_from(partition, first):
                groups = _groups_of(rows, task)
            grouped.add(rows, *groups)
        first += rows.num_rows
    for group, pieces in grouped.groups():
        for rows in pieces:
            files.add(rows, group)
    return files.close()


class _Files:
    """The file being filled, and what is done. Holds the rows of one file at a time.

    Args:
        task: of the bulk insert.
        partition: the number of the Spark partition.
        name: of the task, in the names of its files.
    """

    def __init__(self, task: BulkTask, partition: int, name: str) -> None:
        self._task = task
        self._partition = partition
        self._name = name
        self._group = _ONE_GROUP
        self._taken_before_group = 0
        self._pending: list[tuple[pa.Table, pa.Array]] = []
        self._pending_rows = 0
        self._rows_per_file = 0
        self._results: list[FileGroupResult] = []
        self._taken = 0
        self._keys = None
        if task.keeps_keys:
            self._keys = KeySink(
                storage=task.target.storage,
                instant=task.target.instant,
                shards=task.shards,
                memory=task.memory,
            )

    def add(self, rows: pa.Table, group: Group) -> None:
        """Add rows of a group; those of the group before are written then."""
        if group != self._group:
            self._flush(everything=True)
            self._group, self._taken_before_group = group, self._taken
        if rows.num_rows:
            self._pending.append((rows, self._keys_of(rows)))
            self._pending_rows += rows.num_rows
            self._flush(everything=False)

    def close(self) -> BulkDone:
        """Write what is left."""
        self._flush(everything=True)
        keys = self._keys.close() if self._keys is not None else ()
        return BulkDone(tuple(self._results), keys, self._taken)

    def _keys_of(self, rows: pa.Table) -> pa.Array:
        """The record keys of the rows that come next."""
        task, first = self._task, self._taken
        self._taken += rows.num_rows
        if task.config.generates_keys:
            return auto_keys(task.target.instant, self._partition, first, rows.num_rows)
        first -= self._taken_before_group
        with counted_from(self._partition, first, path=self._group.path):
            return record_keys(rows, task.config)

    def _flush(self, *, everything: bool) -> None:
        """Write full files, or all pending rows; a bucket is one file whatever its size."""
        whole = self._task.bucket_index is not None
        if not self._pending_rows or (whole and not everything):
            return
        enough = self._rows_per_file or _SAMPLE_ROWS
        if not everything and self._pending_rows < enough:
            return
        rows = pa.concat_tables([r for r, _ in self._pending]).combine_chunks()
        keys = pa.concat_arrays([k for _, k in self._pending])
        if not self._rows_per_file:
            self._rows_per_file = self._measure(rows)
        start, size = 0, len(keys) if whole else self._rows_per_file
        while len(keys) - start >= size or (everything and start < len(keys)):
            self._write(rows.slice(start, size), keys.slice(start, size))
            start += size
        self._pending = [(rows.slice(start), keys.slice(start))] if start < len(keys) else []
        self._pending_rows = max(0, len(keys) - start)

    def _measure(self, rows: pa.Table) -> int:
        """Rows per file, from the size of a sample as it is written."""
        sample = rows.slice(0, _SAMPLE_ROWS)
        options = with_small_pages(self._task.target, sample.num_rows)
        options = replace(options, footer=replace(options.footer, bloom_enabled=False))
        size = len(write_base_file(sample, options=options))
        return replace(self._task.sizing, record=max(1.0, size / sample.num_rows)).rows_per_file

    def _write(self, rows: pa.Table, keys: pa.Array) -> None:
        target, (path, bucket) = self._task.target, self._group
        number = len(self._results)
        file = BaseFile(
            partition_path=path,
            file_id=bucket_file_id(bucket, target.ids.uuid(self._name, path))
            if self._task.bucket_index is not None
            else numbered_file_id(self._name, number),
            write_token=write_token(number),
            instant_time=target.instant,
            size=0,
        )
        meta = meta_columns(target, number, keys, path, file.name)
        table = pa.table([*meta, *rows.columns], schema=with_meta(target.schema))
        options = with_small_pages(target, table.num_rows)
        data = write_base_file(table, options=options, path=file.path)
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
        self._results.append(
            FileGroupResult(file=written, stat=stat, outcomes=outcomes, records=records)
        )
        if self._keys is not None:
            self._keys.add(keys, number)
