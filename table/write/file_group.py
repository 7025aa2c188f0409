"""One file group's part of a write: read the base file, merge, put the next slice.

    base rows + incoming rows (put, delete)  ->  rows of the new slice, an outcome per incoming row

The marker comes before the file, so that a dead attempt can be found; the file's name carries the
attempt's own token, so that an attempt that runs twice leaves two files and the commit names one.
Source: HoodieMergeHandle, HoodieCreateHandle of Hudi 0.15.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import (
    BaseFileFooter,
    BaseFileOptions,
    read_base_file,
    read_footer,
    write_base_file,
)
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN, PARTITION_COLUMN
from keymark.table.format.schema import META_COLUMNS, with_meta
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile, WriteStat
from keymark.table.layout.naming import PARTITION_METADATA, marker_path, write_token
from keymark.table.metadata.bloom import bloom_records
from keymark.table.metadata.column_stats import column_stats_records, stat_schema
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS
from keymark.table.metadata.writer import partition_metadata
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.runtime.ids import RANDOM, Ids
from keymark.table.state.base_files import read_base, stored_rows, without_values
from keymark.table.storage.storage import BytesReader, Storage
from keymark.table.values.changes import ValueChange, value_changes
from keymark.table.values.indexed import Indexed


class Op(IntEnum):
    """What an incoming row asks of the file group."""

    PUT = 0
    """Replace the stored row of the key, or add it."""
    DELETE = 1
    """Take the key away, if it is there and, by event time, not newer."""
    MOVE_OUT = 2
    """Take the key away: its row goes to another partition in the same commit."""
    APPEND = 3
    """Add the row, whatever keys the file holds."""


class Outcome(IntEnum):
    """What became of an incoming row."""

    INSERTED = 0
    UPDATED = 1
    DELETED = 2
    UNCHANGED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """What all file groups of one commit share."""

    storage: Storage
    instant: str
    schema: Any
    options: BaseFileOptions
    metadata_partitions: tuple[str, ...]
    keys: StoredKeys = field(default_factory=StoredKeys)
    """How to get the keys of stored rows."""
    stores_meta: bool = True
    """Whether rows are written with meta columns; else those hold null."""
    stat_columns: tuple[str, ...] = ()
    """The columns that column_stats describes; empty for all."""
    indexed: tuple[Indexed, ...] = ()
    """What is indexed by its values."""
    ordering: str | None = None
    """The ordering column, where the stored row wins by event time; None: the incoming row wins."""
    ids: Ids = RANDOM
    """Names new file groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroupWrite:
    """The incoming rows of one file group.

    Attributes:
        base: the slice to merge with; None opens the group.
        number: counts the groups of the commit; part of token and sequence numbers.
        keys: unique.
        ops: of each key its Op.
        tagged: bool per key: the index says that the key is in `base`.
        rows: pa.Table of the data columns, a row per key; None where all ops take keys away.
    """

    target: WriteTarget
    partition_path: str
    file_id: str
    base: BaseFile | None
    number: int
    keys: pa.Array
    ops: npt.NDArray[np.uint8]
    tagged: Any
    rows: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroupResult:
    """What came of it: the file and its stat (None where nothing changed), outcomes per key.

    `records` holds keys and values for the metadata partitions that describe base files, `values`
    what changes in values that are indexed; of a new file group nothing.
    """

    file: BaseFile | None
    stat: WriteStat | None
    outcomes: npt.NDArray[np.uint8]
    records: Mapping[str, tuple[list[str], list[bytes]]] = field(default_factory=dict)
    values: tuple[ValueChange, ...] = ()


def write_file_group(work: FileGroupWrite) -> FileGroupResult:
    """Merge and write one file group; the task that a runner distributes."""
    if work.base is None:
        return _create(work)
    data = read_base(work.target.storage, work.base)
    footer = read_footer(data)
    stored = stored_rows(data, footer, work.target.schema)
    keys = work.target.keys.of_rows(stored, data.name)
    merge = _merge(work, stored, keys)
    if not (merge.outcomes != Outcome.UNCHANGED).any():
        return FileGroupResult(file=None, stat=None, outcomes=merge.outcomes)
    file = new_file(work)
    incoming = _with_meta(work, work.rows, work.keys, file.name)
    table = _compose(_carried(work, stored, keys), incoming, merge.source, file.name)
    if not work.target.stores_meta:
        table = without_values(table, META_COLUMNS)
    # Without deletes the old keys are all there, and their bloom filter goes on.
    kept = not (merge.outcomes == Outcome.DELETED).any()
    done = put_slice(work, file, table, merge.outcomes, previous=footer if kept else None)
    values = value_changes(work.target.indexed, (work.base, stored), (file, table), merge.source)
    return replace(done, values=values)


def _create(work: FileGroupWrite) -> FileGroupResult:
    """Open a file group with the rows that are put; deletes find nothing here."""
    puts = (work.ops == Op.PUT) | (work.ops == Op.APPEND)
    outcomes = np.where(puts, Outcome.INSERTED, Outcome.UNCHANGED).astype(np.uint8)
    if not puts.any():
        return FileGroupResult(file=None, stat=None, outcomes=outcomes)
    file = new_file(work)
    mask = pa.array(puts)
    table = _with_meta(work, work.rows.filter(mask), work.keys.filter(mask), file.name)
    return put_slice(work, file, table, outcomes)


def stored_ordering(target: WriteTarget, base: BaseFile, keys: pa.Array) -> pa.Array:
    """The stored ordering values of keys that a base file holds, in their order."""
    assert target.ordering is not None
    columns = dict.fromkeys([*target.keys.columns, target.ordering])
    table = read_base_file(read_base(target.storage, base), list(columns))
    place = pc.index_in(keys, value_set=target.keys.of_rows(table, base.path))
    return table[target.ordering].combine_chunks().take(place)


@dataclass(frozen=True, slots=True)
class _Merge:
    """`source`: for each row of the new slice its row in (stored ++ incoming)."""

    source: npt.NDArray[np.int64]
    outcomes: npt.NDArray[np.uint8]


def _merge(work: FileGroupWrite, stored: pa.Table, stored_keys: pa.Array) -> _Merge:
    matched, rows = _matches(work, stored_keys)
    stale = _stale(work, stored, matched, rows)
    apply = matched[~stale]
    incoming = rows[~stale]
    outcomes = np.full(len(work.keys), Outcome.UNCHANGED, np.uint8)
    found = np.zeros(len(work.keys), bool)
    found[rows] = True
    _check_tags(work, found)
    added = (work.ops == Op.PUT) | (work.ops == Op.APPEND)
    outcomes[added & ~found] = Outcome.INSERTED
    puts = work.ops[incoming] == Op.PUT
    outcomes[incoming[puts]] = Outcome.UPDATED
    outcomes[incoming[~puts]] = Outcome.DELETED
    source = np.arange(stored.num_rows, dtype=np.int64)
    source[apply[puts]] = stored.num_rows + incoming[puts]
    keep = np.ones(stored.num_rows, bool)
    keep[apply[~puts]] = False
    inserted = stored.num_rows + np.flatnonzero(outcomes == Outcome.INSERTED)
    return _Merge(np.concatenate([source[keep], inserted]), outcomes)


def _carried(work: FileGroupWrite, stored: pa.Table, keys: pa.Array) -> pa.Table:
    """Stored rows for the new slice; with their keys where the table stores keys."""
    if not (work.target.stores_meta and work.target.keys.virtual):
        return stored
    paths = pa.repeat(pa.scalar(work.partition_path), stored.num_rows)
    for name, values in ((KEY_COLUMN, keys), (PARTITION_COLUMN, paths)):
        stored = stored.set_column(stored.schema.get_field_index(name), name, values)
    return stored


def _matches(
    work: FileGroupWrite, stored_keys: pa.Array
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32 | np.int64]]:
    """Stored rows that an incoming row meets, and the incoming row of each."""
    if (work.ops == Op.APPEND).any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    hits = pc.fill_null(pc.index_in(stored_keys, value_set=work.keys), -1).to_numpy()
    matched = np.flatnonzero(hits >= 0)
    return matched, hits[matched]


def _check_tags(work: FileGroupWrite, found: npt.NDArray[np.bool_]) -> None:
    lost = work.tagged & ~found
    if lost.any():
        assert work.base is not None
        detail = f"the index places {int(lost.sum())} key(s) here that the file does not hold"
        raise CorruptFileError(work.base.path, 0, detail)


def _stale(
    work: FileGroupWrite,
    stored: pa.Table,
    matched: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int32 | np.int64],
) -> Any:
    """Matches whose stored row is newer, where event time decides."""
    ordering = work.target.ordering
    none = np.zeros(len(matched), bool)
    if ordering is None or work.rows is None or not len(matched):
        return none
    before = stored[ordering].combine_chunks().take(pa.array(matched))
    after = work.rows[ordering].combine_chunks().take(pa.array(rows))
    newer = pc.fill_null(pc.greater(before, after.cast(before.type)), fill_value=False)
    moved_out = work.ops[rows] == Op.MOVE_OUT
    return newer.to_numpy(zero_copy_only=False) & ~moved_out


def new_file(work: FileGroupWrite) -> BaseFile:
    """The name of the next slice."""
    return BaseFile(
        partition_path=work.partition_path,
        file_id=work.file_id,
        write_token=write_token(work.number),
        instant_time=work.target.instant,
        size=0,
    )


def meta_columns(
    target: WriteTarget, number: int, keys: pa.Array, partition_path: str, file_name: str
) -> list[pa.Array]:
    """The five meta columns of rows written now (HoodieRecord.HOODIE_META_COLUMNS)."""
    instant, count = target.instant, len(keys)
    if not target.stores_meta:
        return [pa.nulls(count, pa.string())] * len(META_COLUMNS)
    rows = pa.array(np.arange(count)).cast(pa.string())
    return [
        pa.repeat(pa.scalar(instant), count),
        pc.binary_join_element_wise(f"{instant}_{number}", rows, "_"),
        keys,
        pa.repeat(pa.scalar(partition_path), count),
        pa.repeat(pa.scalar(file_name), count),
    ]


def _with_meta(
    work: FileGroupWrite, rows: pa.Table | None, keys: pa.Array, file_name: str
) -> pa.Table:
    schema = with_meta(work.target.schema)
    if rows is None:
        rows = pa.table(
            [pa.nulls(len(keys), f.type) for f in work.target.schema], schema=work.target.schema
        )
    meta = meta_columns(work.target, work.number, keys, work.partition_path, file_name)
    return pa.table([*meta, *rows.columns], schema=schema)


def _compose(
    stored: pa.Table, incoming: pa.Table, source: npt.NDArray[np.int64], file_name: str
) -> pa.Table:
    """The rows of the new slice, all of them with its file name."""
    indices = pa.array(source)
    columns = []
    for name in stored.column_names:
        if name == FILE_NAME_COLUMN:
            columns.append(pa.repeat(pa.scalar(file_name), len(source)))
            continue
        chunks = [*stored[name].chunks, *incoming[name].chunks]
        columns.append(pa.concat_arrays(chunks).take(indices))
    return pa.table(columns, schema=stored.schema)


def put_slice(
    work: FileGroupWrite,
    file: BaseFile,
    table: pa.Table,
    outcomes: npt.NDArray[np.uint8],
    *,
    previous: BaseFileFooter | None = None,
) -> FileGroupResult:
    """Put the rows (with meta columns) of a file group's next slice.

    Args:
        work: the file group.
        file: the slice's name.
        table: its rows.
        outcomes: of the incoming rows (Outcome).
        previous: footer of the slice before, if no key of it is gone.
    """
    base = work.base
    inserted = work.keys.filter(pa.array(outcomes == Outcome.INSERTED))
    data = write_base_file(
        table,
        options=work.target.options,
        previous=previous,
        inserted=inserted,
        path=file.path,
    )
    kind = "CREATE" if base is None else "MERGE"
    written, records = put_base_file(work.target, file, bytes(data), schema=table.schema, kind=kind)
    stat = WriteStat(
        file_id=file.file_id,
        path=file.path,
        partition_path=file.partition_path,
        prev_commit="null" if base is None else base.instant_time,
        num_writes=table.num_rows,
        num_inserts=int((outcomes == Outcome.INSERTED).sum()),
        num_updates=int((outcomes == Outcome.UPDATED).sum()),
        num_deletes=int((outcomes == Outcome.DELETED).sum()),
        size=written.size,
    )
    return FileGroupResult(file=written, stat=stat, outcomes=outcomes, records=records)


def _open_partition(target: WriteTarget, path: str) -> None:
    """Put the partition's own file, unless it is there. A marker must name the partition before."""
    name = f"{path}/{PARTITION_METADATA}" if path else PARTITION_METADATA
    with contextlib.suppress(FileExistsError):
        if not target.storage.exists(name):
            target.storage.put(name, partition_metadata(target.instant, path))


def put_base_file(
    target: WriteTarget, file: BaseFile, data: bytes, *, schema: pa.Schema, kind: str
) -> tuple[BaseFile, dict[str, tuple[list[str], list[bytes]]]]:
    """Marker, partition metadata, file; and records of the metadata partitions that describe it.

    Args:
        target: the commit.
        file: the file's name; its size is not known yet.
        data: the Parquet file.
        schema: the meta columns first.
        kind: CREATE or MERGE.
    """
    target.storage.put(marker_path(target.instant, file, kind), b"")
    if kind == "CREATE":
        _open_partition(target, file.partition_path)
    target.storage.put(file.path, data)
    written = replace(file, size=len(data))
    records: dict[str, tuple[list[str], list[bytes]]] = {}
    wanted = {COLUMN_STATS, BLOOM_FILTERS} & set(target.metadata_partitions)
    if wanted:
        path, name = file.partition_path, file.name
        footer = read_footer(BytesReader(name=file.path, data=data))
        if COLUMN_STATS in wanted:
            described = stat_schema(schema, target.stat_columns)
            records[COLUMN_STATS] = column_stats_records(path, name, footer.metadata, described)
        if BLOOM_FILTERS in wanted:
            records[BLOOM_FILTERS] = bloom_records(path, name, footer, target.instant)
    return written, records
