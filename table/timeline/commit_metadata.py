"""Commit metadata of layout 1: JSON of completed commits, delta commits and replace commits.

Source: HoodieCommitMetadata, HoodieReplaceCommitMetadata, HoodieWriteStat, HoodieDeltaWriteStat of
Hudi 0.15; the fields are written in Hudi's order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keymark.table.errors import CorruptFileError
from keymark.table.layout.model import WriteStat

Replaced = Mapping[str, Sequence[str]]
"""File ids by partition."""

REPLACED = "partitionToReplaceFileIds"
"""The entry of a replace commit with what it took out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaStat:
    """What a delta commit appended to one file group of the metadata table; sizes in bytes."""

    file_id: str
    path: str
    partition_path: str
    base_instant_time: str
    base_file: str
    log_files: tuple[str, ...]
    log_version: int
    records: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """What a reader needs of a completed commit.

    `files` holds (partition path, path relative to the table, size in bytes) of every write stat;
    `previous` the instant of the slice before, by path, where a file group had one;
    `rows` and `bytes_written` are totals over them; `replaced` the file ids that a replace commit
    took out, by partition; `changes_keys` whether record keys came or went.
    """

    operation: str
    schema: str | None
    files: tuple[tuple[str, str, int], ...]
    rows: int
    bytes_written: int
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    previous: Mapping[str, str] = field(default_factory=dict)
    changes_keys: bool = False


def _stat(values: Mapping[str, object]) -> dict[str, Any]:
    """A write stat with Hudi's fields in Hudi's order, zeros and nulls where not given."""
    stat: dict[str, Any] = {
        "fileId": None,
        "path": None,
        "cdcStats": None,
        "prevCommit": "null",
        "numWrites": 0,
        "numDeletes": 0,
        "numUpdateWrites": 0,
        "numInserts": 0,
        "totalWriteBytes": 0,
        "totalWriteErrors": 0,
        "tempPath": None,
        "partitionPath": None,
        "totalLogRecords": 0,
        "totalLogFilesCompacted": 0,
        "totalLogSizeCompacted": 0,
        "totalUpdatedRecordsCompacted": 0,
        "totalLogBlocks": 0,
        "totalCorruptLogBlock": 0,
        "totalRollbackBlocks": 0,
        "fileSizeInBytes": 0,
        "minEventTime": None,
        "maxEventTime": None,
        "runtimeStats": {"totalScanTime": 0, "totalUpsertTime": 0, "totalCreateTime": 0},
    }
    return stat | dict(values)


def _write_stat(stat: WriteStat) -> dict[str, Any]:
    return _stat(
        {
            "fileId": stat.file_id,
            "path": stat.path,
            "prevCommit": stat.prev_commit,
            "numWrites": stat.num_writes,
            "numDeletes": stat.num_deletes,
            "numUpdateWrites": stat.num_updates,
            "numInserts": stat.num_inserts,
            "totalWriteBytes": stat.size,
            "partitionPath": stat.partition_path,
            "fileSizeInBytes": stat.size,
        }
    )


def _delta_stat(stat: DeltaStat) -> dict[str, Any]:
    return _stat(
        {
            "fileId": stat.file_id,
            "path": stat.path,
            "prevCommit": stat.base_instant_time,
            "numWrites": stat.records,
            "numUpdateWrites": stat.records,
            "totalWriteBytes": stat.size,
            "partitionPath": stat.partition_path,
            "fileSizeInBytes": stat.size,
            "logVersion": stat.log_version,
            "logOffset": 0,
            "baseFile": stat.base_file,
            "logFiles": list(stat.log_files),
            "recordsStats": {"val": None},
        }
    )


def encode_commit(
    stats: Iterable[WriteStat | DeltaStat],
    *,
    schema: str | None,
    operation: str,
    compacted: bool = False,
    replaced: Replaced | None = None,
) -> bytes:
    """The JSON of a completed commit or delta commit.

    Args:
        stats: of the files that it made or appended to.
        schema: of their rows.
        operation: Hudi's name of it.
        compacted: whether it is that of a compaction.
        replaced: what a replace commit takes out; None for other commits.
    """
    by_partition: dict[str, list[dict[str, Any]]] = {}
    for stat in stats:
        encoded = _write_stat(stat) if isinstance(stat, WriteStat) else _delta_stat(stat)
        by_partition.setdefault(stat.partition_path, []).append(encoded)
    document = {
        "partitionToWriteStats": by_partition,
        "compacted": compacted,
        "extraMetadata": {} if schema is None else {"schema": schema},
        "operationType": operation,
    }
    return _encoded(document if replaced is None else {**document, REPLACED: dict(replaced)})


def encode_replaced(data: bytes, replaced: Replaced) -> bytes:
    """The JSON `data` of a completed replace commit, with other file ids as those it takes out."""
    return _encoded({**json.loads(data), REPLACED: dict(replaced)})


def _encoded(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


def decode_commit(data: bytes, name: str) -> CommitMetadata:
    """Parse a completed commit; CorruptFileError names the file and what is wrong in it."""
    try:
        document = json.loads(data)
        stats = [
            (partition, stat)
            for partition, listed in (document.get("partitionToWriteStats") or {}).items()
            for stat in listed
            if stat.get("path")
        ]
        replaced = {
            partition: tuple(str(file_id) for file_id in file_ids)
            for partition, file_ids in (document.get(REPLACED) or {}).items()
        }
        schema = (document.get("extraMetadata") or {}).get("schema")
        return CommitMetadata(
            operation=str(document.get("operationType")),
            schema=None if schema is None else str(schema),
            files=tuple(
                (partition, str(stat["path"]), int(stat.get("fileSizeInBytes") or 0))
                for partition, stat in stats
            ),
            rows=sum(int(stat.get("numWrites") or 0) for _, stat in stats),
            bytes_written=sum(int(stat.get("totalWriteBytes") or 0) for _, stat in stats),
            replaced=replaced,
            previous={
                str(stat["path"]): str(stat["prevCommit"])
                for _, stat in stats
                if stat.get("prevCommit") not in (None, "null")
            },
            changes_keys=bool(replaced)
            or any(stat.get("numInserts") or stat.get("numDeletes") for _, stat in stats),
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise CorruptFileError(name, 0, f"not the JSON of a commit ({error})") from error
