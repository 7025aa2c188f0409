"""The plan of a compaction: an Avro file of one record (HoodieCompactionPlan), version 2.

It stands in the requested file of a compaction of the metadata table; the inflight file is empty,
and the compaction completes as a commit. Files are named without their folders. Source:
CompactionUtils.buildFromFileSlice and ScheduleCompactionActionExecutor of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keymark.table.timeline.avro_file import encode_container, load_schema

_PLAN = "compaction_plan"
_VERSION = 2
_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOperation:
    """One file slice to be merged.

    Attributes:
        partition_path: the partition of the metadata table.
        file_id: the file group.
        base_instant_time: the instant of the slice.
        base_file: name of its base file; None without one.
        log_files: names of its log files, in the order in which they are merged.
        metrics: see `slice_metrics`. Hudi runs no operation without them.
    """

    partition_path: str
    file_id: str
    base_instant_time: str
    base_file: str | None
    log_files: tuple[str, ...]
    metrics: Mapping[str, float]


def slice_metrics(base_bytes: int, log_bytes: Sequence[int]) -> dict[str, float]:
    """What Hudi notes of a slice for its choice of slices (CompactionStrategy.captureMetrics).

    Args:
        base_bytes: size of the base file, 0 without one.
        log_bytes: sizes of the log files.
    """
    total = sum(log_bytes)
    read, written = (base_bytes + total) // _MEGABYTE, base_bytes // _MEGABYTE
    return {
        "TOTAL_LOG_FILES": float(len(log_bytes)),
        "TOTAL_IO_MB": float(read + written),
        "TOTAL_IO_READ_MB": float(read),
        "TOTAL_LOG_FILES_SIZE": float(total),
        "TOTAL_IO_WRITE_MB": float(written),
    }


def encode_compaction_plan(operations: Sequence[CompactionOperation]) -> bytes:
    """The requested file of a compaction."""
    record = {
        "operations": [
            {
                "baseInstantTime": operation.base_instant_time,
                "deltaFilePaths": list(operation.log_files),
                "dataFilePath": operation.base_file,
                "fileId": operation.file_id,
                "partitionPath": operation.partition_path,
                "metrics": dict(operation.metrics),
                "bootstrapFilePath": None,
            }
            for operation in operations
        ],
        "extraMetadata": None,
        "version": _VERSION,
        "strategy": None,
        "preserveHoodieMetadata": False,
    }
    return encode_container(load_schema(_PLAN), record)
