"""Plan and result of a rollback: Avro object container files of one record, without codec.

Source: HoodieRollbackPlan.avsc and HoodieRollbackMetadata.avsc of Hudi 0.15.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, cast

import fastavro

from table.errors import CorruptFileError

_PLAN, _METADATA = (
    fastavro.parse_schema(
        json.loads(resources.files("table.timeline").joinpath(f"{name}.avsc").read_text())
    )
    for name in ("rollback_plan", "rollback_metadata")
)


def _container(schema: Any, record: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [record])
    return buffer.getvalue()


def encode_plan(time: str, action: str, files: Mapping[str, Sequence[str]]) -> bytes:
    """The plan to roll back an instant; `files` are absolute paths to delete, by partition."""
    requests = [
        {
            "partitionPath": partition,
            "fileId": "",
            "latestBaseInstant": "",
            "filesToBeDeleted": list(paths),
            "logBlocksToBeDeleted": {},
        }
        for partition, paths in sorted(files.items())
    ]
    record = {
        "instantToRollback": {"commitTime": time, "action": action},
        "RollbackRequests": requests,
        "version": 1,
    }
    return _container(_PLAN, record)


def encode_metadata(
    rollback: str, time: str, action: str, files: Mapping[str, Sequence[str]]
) -> bytes:
    """The result of a rollback that deleted `files` (absolute paths by partition)."""
    record = {
        "startRollbackTime": rollback,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": sum(len(paths) for paths in files.values()),
        "commitsRollback": [time],
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "successDeleteFiles": list(paths),
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition, paths in sorted(files.items())
        },
        "version": 1,
        "instantsRollback": [{"commitTime": time, "action": action}],
    }
    return _container(_METADATA, record)


def rolled_back(data: bytes, name: str) -> tuple[str, ...]:
    """The instants that a completed rollback took back."""
    try:
        (record,) = fastavro.reader(io.BytesIO(data))
        return tuple(str(time) for time in cast("dict[str, Any]", record)["commitsRollback"])
    except Exception as error:  # fastavro raises what the bytes provoke
        raise CorruptFileError(name, 0, f"not the Avro file of a rollback ({error})") from error
