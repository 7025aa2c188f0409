"""Plan and result of a rollback: Avro files of one record.

Source: HoodieRollbackPlan.avsc and HoodieRollbackMetadata.avsc of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keymark.table.errors import CorruptFileError
from keymark.table.timeline.avro_file import decode_container, encode_container, load_schema

_PLAN, _METADATA = "rollback_plan", "rollback_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """What a rollback is to take back.

    Attributes:
        time: the instant to roll back.
        action: its action.
        files: absolute paths to delete, by partition path.
        log_files: absolute path -> size in bytes of log files that get a rollback block appended
            to their group (merge-on-read, so in the metadata table).
    """

    time: str
    action: str
    files: Mapping[str, tuple[str, ...]]
    log_files: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """What a rollback took back.

    Attributes:
        start: the instant at which it was begun.
        time: the instant that it took back.
        action: that instant's action.
        files: absolute paths that it deleted, by partition path.
        millis: how long it took.
    """

    start: str
    time: str
    action: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    millis: int = 0


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
    return encode_container(load_schema(_PLAN), record)


def decode_plan(data: bytes, name: str) -> RollbackPlan:
    """Parse the plan of a rollback, ours or Hudi's.

    Raises:
        CorruptFileError: the bytes are no such file, or it does not name the instant.
    """
    record = decode_container(data, name, load_schema(_PLAN))
    instant = record["instantToRollback"]
    if instant is None:
        raise CorruptFileError(name, 0, "a rollback plan that names no instant")
    files: dict[str, tuple[str, ...]] = {}
    log_files: dict[str, int] = {}
    for request in record["RollbackRequests"] or ():
        partition = request["partitionPath"]
        files[partition] = (*files.get(partition, ()), *request["filesToBeDeleted"])
        log_files.update(request["logBlocksToBeDeleted"] or {})
    return RollbackPlan(
        time=instant["commitTime"], action=instant["action"], files=files, log_files=log_files
    )


def encode_metadata(
    rollback: str, time: str, action: str, files: Mapping[str, Sequence[str]]
) -> bytes:
    """The result of a rollback that deleted `files` (absolute paths by partition)."""
    deleted = {partition: tuple(paths) for partition, paths in sorted(files.items())}
    result = Rollback(start=rollback, time=time, action=action, files=deleted)
    return encode_container(load_schema(_METADATA), rollback_record(result))


def rollback_record(rollback: Rollback) -> dict[str, Any]:
    """The HoodieRollbackMetadata of a rollback, as Avro's values."""
    return {
        "startRollbackTime": rollback.start,
        "timeTakenInMillis": rollback.millis,
        "totalFilesDeleted": sum(len(paths) for paths in rollback.files.values()),
        "commitsRollback": [rollback.time],
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "successDeleteFiles": list(paths),
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition, paths in rollback.files.items()
        },
        "version": 1,
        "instantsRollback": [{"commitTime": rollback.time, "action": rollback.action}],
    }


def rolled_back(data: bytes, name: str) -> tuple[str, ...]:
    """The instants that a completed rollback took back."""
    return tuple(decode_container(data, name, load_schema(_METADATA))["commitsRollback"])
