"""Tables read by hudi-rs: neither code of Keymark's nor of Apache Hudi's.

In version 8 and 9 the timeline is a folder of its own, its instants carry two times and its commits
are Avro. File groups of merge-on-read tables have log files. hudi-rs lists the storage here, so
that what Hudi wrote into the metadata table has no say.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import hudi
import pyarrow as pa

from keymark.harness.errors import HarnessError


def slices(table: Path) -> list[hudi.HudiFileSlice]:
    """The latest slice of every live file group.

    Raises:
        HarnessError: hudi-rs cannot list the table.
    """
    try:
        return list(_open(table).get_file_slices())
    except Exception as error:
        if type(error).__name__ != "HudiCoreError":  # a class that it does not export
            raise
        raise HarnessError(f"hudi-rs cannot list {table}: {error}") from error


def replaced(table: Path) -> dict[tuple[str, str], str]:
    """The instant that replaced each replaced file group, by partition path and file id."""
    timeline = _open(table).get_timeline()
    found: dict[tuple[str, str], str] = {}
    for instant in timeline.get_completed_replacecommits():
        commit = json.loads(timeline.get_instant_metadata_in_json(instant))
        found |= replaced_by(commit, instant.timestamp)
    return found


def replaced_by(commit: Mapping[str, Any], instant: str) -> dict[tuple[str, str], str]:
    """The file groups that a replacecommit replaced, as `replaced` has them."""
    by_partition = commit.get("partitionToReplaceFileIds") or {}
    return {
        (partition, file_id): instant
        for partition, file_ids in by_partition.items()
        for file_id in file_ids
    }


def merged(table: Path, base: str, logs: Collection[str]) -> pa.Table:
    """The rows of a file slice, log files merged into the base file; memory is that of the rows.

    Args:
        table: its folder.
        base: path of the base file, relative to the table.
        logs: paths of the log files, in their order.
    """
    reader = _open(table).create_file_group_reader_with_options()
    return pa.Table.from_batches([reader.read_file_slice_from_paths(base, list(logs))])


def rows_written(table: Path, instants: Collection[str]) -> int:
    """Rows that completed commits wrote, by their metadata.

    Args:
        table: its folder.
        instants: the requested times of the commits.
    """
    timeline, rows = _open(table).get_timeline(), 0
    for instant in _completed(timeline):
        if instant.timestamp in instants:
            commit = json.loads(timeline.get_instant_metadata_in_json(instant))
            partitions = (commit.get("partitionToWriteStats") or {}).values()
            rows += sum(stat.get("numWrites") or 0 for stats in partitions for stat in stats)
    return rows


def _completed(timeline: hudi.HudiTimeline) -> list[hudi.HudiInstant]:
    return [
        *timeline.get_completed_commits(),
        *timeline.get_completed_deltacommits(),
        *timeline.get_completed_replacecommits(),
    ]


def _open(table: Path) -> hudi.HudiTable:
    builder = hudi.HudiTableBuilder.from_base_uri(table.resolve().as_uri())
    return builder.with_hudi_option("hoodie.metadata.enable", "false").build()
