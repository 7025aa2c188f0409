"""Plan and result of an asynchronous index build: Avro files of one record.

The requested file of an indexing action holds a HoodieIndexPlan, the completed one a
HoodieIndexCommitMetadata; the inflight file is empty. Source: ScheduleIndexActionExecutor and
RunIndexActionExecutor of Hudi 0.15; version 1 of both records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keymark.table.errors import CorruptFileError
from keymark.table.timeline.avro_file import decode_container, encode_container, load_schema

_PLAN, _METADATA = "index_plan", "index_commit_metadata"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPartition:
    """A partition of the metadata table that is built, and how far.

    Attributes:
        partition: its path: record_index, column_stats ...
        upto: the last instant of the data table that the build takes in.
    """

    partition: str
    upto: str


def encode_index_plan(partitions: Sequence[IndexedPartition]) -> bytes:
    """The requested file of an indexing action."""
    record = {"version": _VERSION, "indexPartitionInfos": _infos(partitions)}
    return encode_container(load_schema(_PLAN), record)


def decode_index_plan(data: bytes, name: str) -> tuple[IndexedPartition, ...]:
    """Parse the plan of an indexing action; CorruptFileError if the bytes are none."""
    infos = decode_container(data, name, load_schema(_PLAN))["indexPartitionInfos"] or ()
    if any(i["metadataPartitionPath"] is None or i["indexUptoInstant"] is None for i in infos):
        raise CorruptFileError(name, 0, "an index partition without path or instant")
    return tuple(
        IndexedPartition(partition=i["metadataPartitionPath"], upto=i["indexUptoInstant"])
        for i in infos
    )


def encode_index_commit(partitions: Sequence[IndexedPartition]) -> bytes:
    """The completed file of an indexing action."""
    record = {
        "version": _VERSION,
        "operationType": None,
        "indexPartitionInfos": _infos(partitions),
    }
    return encode_container(load_schema(_METADATA), record)


def _infos(partitions: Sequence[IndexedPartition]) -> list[dict[str, Any]]:
    return [
        {
            "version": _VERSION,
            "metadataPartitionPath": indexed.partition,
            "indexUptoInstant": indexed.upto,
        }
        for indexed in partitions
    ]
