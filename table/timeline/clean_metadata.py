"""Plan and result of a clean: Avro files of one record (HoodieCleanerPlan, HoodieCleanMetadata).

The plan stands in the requested and in the inflight file of a clean, the result in the completed
one. The plan names files by absolute path, the result by name. Source: CleanPlanActionExecutor,
CleanActionExecutor and CleanerUtils of Hudi 0.15; version 2 of both records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keymark.table.errors import UnsupportedTableError
from keymark.table.layout.model import Instant
from keymark.table.timeline.avro_file import decode_container, encode_container, load_schema

KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
_PLAN, _METADATA = "clean_plan", "clean_metadata"
_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """What a clean is to delete.

    Attributes:
        earliest: the earliest instant whose files stay; None if the policy names none.
        last_completed: time of the last commit that the plan took into account.
        files: absolute paths to delete, by partition path.
        partitions: partition paths that go as a whole.
        policy: name of a HoodieCleaningPolicy.
    """

    earliest: Instant | None
    last_completed: str
    files: Mapping[str, tuple[str, ...]]
    partitions: tuple[str, ...] = ()
    policy: str = KEEP_LATEST_COMMITS

    def done(self, instant: str, names: Mapping[str, tuple[str, ...]]) -> Clean:
        """The result, once the files of these names are deleted."""
        return Clean(
            time=instant,
            earliest=self.earliest.time if self.earliest else "",
            last_completed=self.last_completed,
            files=names,
            policy=self.policy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """What a clean deleted.

    Attributes:
        time: the clean's instant.
        earliest: time of the earliest commit whose files stay, "" if the policy names none.
        last_completed: time of the last commit that its plan took into account.
        files: names of the files deleted, by partition path.
        partitions: partition paths that went as a whole; they are keys of `files` as well.
        policy: name of a HoodieCleaningPolicy.
        millis: how long it took.
        failed: names of files that could not be deleted, by partition path.
    """

    time: str
    earliest: str
    last_completed: str
    files: Mapping[str, tuple[str, ...]]
    partitions: tuple[str, ...] = ()
    policy: str = KEEP_LATEST_COMMITS
    millis: int = 0
    failed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def retains(self) -> str:
        """The first time as of which all is left that readers need, as far as this clean goes."""
        return self.earliest or self.time


def encode_clean_plan(plan: CleanPlan) -> bytes:
    """The requested (and the inflight) file of a clean."""
    earliest = plan.earliest and {
        "timestamp": plan.earliest.time,
        "action": plan.earliest.action,
        "state": plan.earliest.state.upper(),
    }
    record = {
        "earliestInstantToRetain": earliest,
        "lastCompletedCommitTimestamp": plan.last_completed,
        "policy": plan.policy,
        "filesToBeDeletedPerPartition": {},
        "version": _VERSION,
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
            for partition, paths in plan.files.items()
        },
        "partitionsToBeDeleted": list(plan.partitions),
        "extraMetadata": {},
    }
    return encode_container(load_schema(_PLAN), record)


def decode_clean_plan(data: bytes, name: str) -> CleanPlan:
    """Parse the plan of a clean.

    Raises:
        CorruptFileError: the bytes are no such file.
        UnsupportedTableError: version 1, which names files without their folders.
    """
    record = decode_container(data, name, load_schema(_PLAN))
    if record["version"] != _VERSION:
        raise UnsupportedTableError(f"{name}: a clean plan of version {record['version']}")
    earliest = record["earliestInstantToRetain"]
    files = record["filePathsToBeDeletedPerPartition"] or {}
    return CleanPlan(
        earliest=earliest
        and Instant(
            time=earliest["timestamp"],
            action=earliest["action"],
            state=earliest["state"].lower(),
        ),
        last_completed=record["lastCompletedCommitTimestamp"],
        files={
            partition: tuple(info["filePath"] for info in infos if info["filePath"])
            for partition, infos in files.items()
        },
        partitions=tuple(record["partitionsToBeDeleted"] or ()),
        policy=record["policy"],
    )


def encode_clean(clean: Clean) -> bytes:
    """The completed file of a clean."""
    touched = dict.fromkeys([*clean.files, *clean.failed, *clean.partitions])
    record = {
        "startCleanTime": clean.time,
        "timeTakenInMillis": clean.millis,
        "totalFilesDeleted": sum(len(names) for names in clean.files.values()),
        "earliestCommitToRetain": clean.earliest,
        "lastCompletedCommitTimestamp": clean.last_completed,
        "partitionMetadata": {partition: _partition(clean, partition) for partition in touched},
        "version": _VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": {},
    }
    return encode_container(load_schema(_METADATA), record)


def _partition(clean: Clean, partition: str) -> dict[str, Any]:
    deleted, failed = clean.files.get(partition, ()), clean.failed.get(partition, ())
    return {
        "partitionPath": partition,
        "policy": clean.policy,
        "deletePathPatterns": [*deleted, *failed],
        "successDeleteFiles": list(deleted),
        "failedDeleteFiles": list(failed),
        "isPartitionDeleted": partition in clean.partitions,
    }


def decode_clean(data: bytes, name: str) -> Clean:
    """Parse the result of a clean; files of version 1, which are paths, become names, too.

    Raises:
        CorruptFileError: the bytes are no such file.
    """
    return clean_of(decode_container(data, name, load_schema(_METADATA)))


def clean_of(record: Mapping[str, Any]) -> Clean:
    """The result of a clean by its Avro values, as the archive holds them, too."""
    cleaned: dict[str, Any] = record["partitionMetadata"]
    return Clean(
        time=record["startCleanTime"],
        earliest=record["earliestCommitToRetain"],
        last_completed=record["lastCompletedCommitTimestamp"],
        files={p: _names(values["successDeleteFiles"]) for p, values in cleaned.items()},
        partitions=tuple(p for p, values in cleaned.items() if values["isPartitionDeleted"]),
        policy=next((values["policy"] for values in cleaned.values()), KEEP_LATEST_COMMITS),
        millis=record["timeTakenInMillis"],
        failed={
            p: _names(values["failedDeleteFiles"])
            for p, values in cleaned.items()
            if values["failedDeleteFiles"]
        },
    )


def _names(paths: list[str]) -> tuple[str, ...]:
    return tuple(path.rpartition("/")[2] for path in paths)
