"""Plan and result of a restore: Avro files of one record.

A restore rolls back every instant after a savepoint, the latest first; its result holds the result
of each of these rollbacks, which have no instants of their own. Source: BaseRestoreActionExecutor
and TimelineMetadataUtils.convertRestoreMetadata of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keymark.table.timeline.avro_file import decode_container, encode_container, load_schema
from keymark.table.timeline.rollback_metadata import Rollback, rollback_record

_PLAN, _METADATA = "restore_plan", "restore_metadata"
_PLAN_VERSION, _METADATA_VERSION = 2, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a restore is to take back.

    Attributes:
        instants: (time, action) of the instants to roll back, the latest first.
        savepoint: the instant to go back to; None in files of Hudi before 0.13.
    """

    instants: tuple[tuple[str, str], ...]
    savepoint: str | None


def encode_restore_plan(plan: RestorePlan) -> bytes:
    """The requested file of a restore."""
    record = {
        "instantsToRollback": [_instant(time, action) for time, action in plan.instants],
        "version": _PLAN_VERSION,
        "savepointToRestoreTimestamp": plan.savepoint,
    }
    return encode_container(load_schema(_PLAN), record)


def _instant(time: str, action: str) -> dict[str, str]:
    return {"commitTime": time, "action": action}


def decode_restore_plan(data: bytes, name: str) -> RestorePlan:
    """Parse the plan of a restore.

    Raises:
        CorruptFileError: the bytes are no such file.
    """
    record = decode_container(data, name, load_schema(_PLAN))
    return RestorePlan(
        instants=tuple((i["commitTime"], i["action"]) for i in record["instantsToRollback"]),
        savepoint=record["savepointToRestoreTimestamp"],
    )


def encode_restore(time: str, rollbacks: Sequence[Rollback], *, millis: int = 0) -> bytes:
    """The completed file of a restore.

    Args:
        time: the restore's instant.
        rollbacks: what it rolled back, in that order.
        millis: how long it took.
    """
    record = {
        "startRestoreTime": time,
        "timeTakenInMillis": millis,
        "instantsToRollback": [rollback.time for rollback in rollbacks],
        "hoodieRestoreMetadata": {
            rollback.time: [rollback_record(rollback)] for rollback in rollbacks
        },
        "version": _METADATA_VERSION,
        "restoreInstantInfo": [_instant(r.time, r.action) for r in rollbacks],
    }
    return encode_container(load_schema(_METADATA), record)


def restored(data: bytes, name: str) -> tuple[str, ...]:
    """The instants that a completed restore took back, in its order, each once.

    Both the restore's own list and those of its rollbacks count: Hudi goes by the latter
    (HoodieTableMetadataUtil.getRollbackedCommits).

    Raises:
        CorruptFileError: the bytes are no such file.
    """
    record = decode_container(data, name, load_schema(_METADATA))
    rollbacks = [r for listed in record["hoodieRestoreMetadata"].values() for r in listed if r]
    times = [*record["instantsToRollback"], *(t for r in rollbacks for t in r["commitsRollback"])]
    return tuple(dict.fromkeys(times))
