"""Completed commits of any table version: JSON up to version 6, an Avro container from 8 on.

A commit lists each file that it wrote. A table of 20,000 files may have thousands of commits, so
that nothing of a commit is kept but its sums and the rows of its base files.
Source: HoodieCommitMetadata, CommitMetadataSerDeV1 and V2, HoodieWriteStat.RuntimeStats, whose
times run from the making of a file's write handle to its end (HoodieWriteHandle), of Hudi 1.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from keymark.table.errors import CorruptFileError
from keymark.table.survey.instants import SurveyInstant
from keymark.table.survey.model import WriteFacts
from keymark.table.timeline.avro_file import decode_container, load_schema

_AVRO = b"Obj"
_BAD = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_BASE_FILE = ".parquet"
_TIMES = ("totalScanTime", "totalUpsertTime", "totalCreateTime")
"""Milliseconds in which a task read a file group's logs, merged into a file, or created one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What is kept of a commit.

    Attributes:
        facts: its sums.
        rows: of each base file that it wrote, by path.
        replaced: partition path and file id of the file groups that it took out.
    """

    facts: WriteFacts
    rows: Mapping[str, int]
    replaced: frozenset[tuple[str, str]]


def decode(data: bytes, instant: SurveyInstant) -> Commit:
    """A completed commit, delta commit or replace commit.

    Raises:
        CorruptFileError: it is none, or damaged.
    """
    document = _document(data, instant)
    try:
        stats = [_Stat.of(stat, path) for path, stat in _stats(document)]
        replaced = document.get("partitionToReplaceFileIds") or {}
        return Commit(
            facts=WriteFacts(
                time=instant.time,
                action=instant.action,
                operation=str(document.get("operationType") or "UNKNOWN"),
                updated=sum(stat.updated for stat in stats),
                inserted=sum(stat.inserted for stat in stats),
                deleted=sum(stat.deleted for stat in stats),
                rows_written=sum(stat.rows for stat in stats),
                bytes_written=sum(stat.bytes for stat in stats),
                files=len({(stat.partition, stat.file_id) for stat in stats}),
                partitions=len({stat.partition for stat in stats}),
                seconds=instant.seconds,
                # Keymark's own commits tell zeros.
                file_seconds=sum(stat.milliseconds for stat in stats) / 1000 or None,
            ),
            rows={stat.path: stat.rows for stat in stats if stat.path.endswith(_BASE_FILE)},
            replaced=frozenset(
                (str(path), str(file_id)) for path, ids in replaced.items() for file_id in ids
            ),
        )
    except _BAD as error:
        raise CorruptFileError(
            instant.path, 0, f"not the metadata of a commit ({error})"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stat:
    """What is needed of one file of a commit."""

    partition: str
    file_id: str
    path: str
    rows: int
    updated: int
    inserted: int
    deleted: int
    bytes: int
    milliseconds: int

    @classmethod
    def of(cls, stat: Mapping[str, Any], partition: str) -> _Stat:
        took = stat.get("runtimeStats") or {}
        return cls(
            partition=partition,
            file_id=str(stat.get("fileId")),
            path=str(stat.get("path") or ""),
            rows=int(stat.get("numWrites") or 0),
            updated=int(stat.get("numUpdateWrites") or 0),
            inserted=int(stat.get("numInserts") or 0),
            deleted=int(stat.get("numDeletes") or 0),
            bytes=int(stat.get("totalWriteBytes") or 0),
            milliseconds=sum(int(took.get(name) or 0) for name in _TIMES),
        )


def _stats(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Partition path and write stat of every file."""
    for partition, listed in (document.get("partitionToWriteStats") or {}).items():
        for stat in listed:
            yield str(partition), stat


def _document(data: bytes, instant: SurveyInstant) -> Mapping[str, Any]:
    if data.startswith(_AVRO):
        replaces = instant.action == "replacecommit"
        schema = load_schema("replace_write_stats" if replaces else "write_stats")
        return decode_container(data, instant.path, schema)
    try:
        document = json.loads(data)
    except _BAD as error:
        raise CorruptFileError(instant.path, 0, f"not the JSON of a commit ({error})") from error
    if not isinstance(document, dict):
        raise CorruptFileError(instant.path, 0, "not the JSON of a commit")
    return document
