"""One file group's part of a write: what is asked of it, what came of it, and how its file is put.

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

from keymark.table.format.parquet.base_file import BaseFileOptions, read_footer
from keymark.table.format.schema import META_COLUMNS, with_meta
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile, WriteStat
from keymark.table.layout.naming import PARTITION_METADATA, marker_path, write_token
from keymark.table.metadata.bloom import bloom_records
from keymark.table.metadata.column_stats import column_stats_records, stat_schema
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS
from keymark.table.metadata.writer import partition_metadata
from keymark.table.runtime.ids import RANDOM, Ids
from keymark.table.storage.storage import BytesReader, Storage
from keymark.table.values.changes import ValueChange
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
    page_rows: int = 0
    """Rows of a page in new files (keymark.parquet.page.rows); 0 leaves that to Arrow."""
    whole: bool = False
    """Whether all files are written, also where no row changes, and nothing of them is copied."""
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
    """What a write made of a file group: file and stat (None if nothing changed), outcomes by key.

    `records` holds keys and values for the metadata partitions that describe base files, `values`
    what changes in values that are indexed.
    """

    file: BaseFile | None
    stat: WriteStat | None
    outcomes: npt.NDArray[np.uint8]
    records: Mapping[str, tuple[list[str], list[bytes]]] = field(default_factory=dict)
    values: tuple[ValueChange, ...] = ()


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


def put_slice(
    work: FileGroupWrite,
    file: BaseFile,
    data: bytes,
    *,
    rows: int,
    outcomes: npt.NDArray[np.uint8],
) -> FileGroupResult:
    """Put the file of a file group's next slice.

    Args:
        work: the file group.
        file: the slice's name.
        data: the Parquet file.
        rows: how many it has.
        outcomes: of the incoming rows (Outcome).
    """
    base = work.base
    kind = "CREATE" if base is None else "MERGE"
    schema = with_meta(work.target.schema)
    written, records = put_base_file(work.target, file, data, schema=schema, kind=kind)
    stat = WriteStat(
        file_id=file.file_id,
        path=file.path,
        partition_path=file.partition_path,
        prev_commit="null" if base is None else base.instant_time,
        num_writes=rows,
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
