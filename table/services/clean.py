"""Cleaning: base files that no retained commit needs are deleted, here and in the metadata table.

    <B>.clean.requested   the plan: every file that goes
    <B>.clean.inflight
    files deleted, one by one; what is gone already counts as deleted
    delta commit B of the metadata table: the files leave the listing and the column statistics
    <B>.clean             what was deleted

A clean that died is done again from its plan. Files of a savepoint stay. The metadata table's own
old slices go the same way, on its own timeline, with the suffix 002. Source: CleanPlanner,
CleanActionExecutor, HoodieBackedTableMetadataWriter.cleanIfNecessary of Hudi 0.15.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from keymark.table.errors import CorruptFileError, InputError
from keymark.table.format.schema import from_avro, with_meta, without_meta
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import METADATA, PINS, parse_base_file, parse_log_file
from keymark.table.layout.view import listed_files, snapshot
from keymark.table.metadata.reader import MetadataTable
from keymark.table.metadata.writer import DeltaCommit, take_back_delta
from keymark.table.runtime.clock import Clock
from keymark.table.services.retention import Retention
from keymark.table.state.table_state import TableState, table_schema
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage
from keymark.table.timeline.clean_metadata import (
    CleanPlan,
    decode_clean_plan,
    encode_clean,
    encode_clean_plan,
)
from keymark.table.timeline.instant_name import COMPLETED, REQUESTED
from keymark.table.timeline.savepoint_metadata import decode_savepoint
from keymark.table.timeline.timeline import COMMIT_ACTIONS, Timeline

_SUFFIX = "002"
_RETAINED_MIN = 20
_RETAINED_FACTOR = 1.2
_BLOCK_SIZE = 1 << 20

Files = Mapping[str, Iterable[str]]
"""partition path -> names of files"""


def outdated_files(state: TableState, retention: Retention) -> dict[str, list[str]]:
    """The base files that may go, by partition path; none that a savepoint names."""
    kept = savepoint_files(state.timeline) | _pinned_files(state)
    replaced = state.timeline.replaced_file_ids()
    groups: dict[tuple[str, str], list[BaseFile]] = {}
    for file in listed_files(state.listing):
        groups.setdefault((file.partition_path, file.file_id), []).append(file)
    visible = state.timeline.visible({f.instant_time for files in groups.values() for f in files})
    found: dict[str, list[str]] = {}
    for location, files in sorted(groups.items()):
        times = [f.instant_time for f in files if f.instant_time in visible]
        gone = retention.outdated(times) if times else set()
        if location in replaced and retention.forgets(replaced[location]):
            gone = set(times)
        for file in files:
            if file.instant_time in gone and (location[0], file.name) not in kept:
                found.setdefault(location[0], []).append(file.name)
    return found


def savepoint_files(timeline: Timeline) -> set[tuple[str, str]]:
    """(partition path, file name) of every file that a savepoint keeps."""
    kept: set[tuple[str, str]] = set()
    for instant in timeline.completed({"savepoint"}):
        path = timeline.path(instant.time, "savepoint", instant.state)
        files = decode_savepoint(timeline.storage.read(path), path).files
        kept.update((partition, name) for partition, names in files.items() for name in names)
    return kept


def _pinned_files(state: TableState) -> set[tuple[str, str]]:
    """(partition path, file name) of every file that an index build is reading."""
    pinned: set[tuple[str, str]] = set()
    for status in state.storage.walk(PINS):
        # Files that are gone already cannot be kept; the build itself fails then.
        with contextlib.suppress(InputError):
            files = snapshot(state.listing, state.timeline, status.name).files
            pinned |= {(file.partition_path, file.name) for file in files}
    return pinned


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Cleans one table, under its lease."""

    storage: Storage
    clock: Clock
    lease: Lease

    def clean(self, state: TableState, files: Files, retention: Retention | None) -> str | None:
        """Delete base files that no current slice needs; the clean's instant, None without any."""
        if not any(files.values()):
            return None
        instant = state.next_instant(self.clock)
        plan = _plan(state.timeline, files, retention)
        state.timeline.plan(instant, "clean", encode_clean_plan(plan))
        self._run(state, instant, plan)
        return instant

    def resume(self) -> None:
        """Do every clean again that was planned and not completed."""
        timeline = Timeline.load(self.storage)
        for pending in timeline.pending():
            if pending.action == "clean":
                path = timeline.path(pending.time, "clean", REQUESTED)
                data = self.storage.read(path)
                if not data:
                    # Not even its plan was written: nothing was deleted.
                    timeline.remove(pending.time, "clean")
                    continue
                plan = decode_clean_plan(data, path)
                take_back_delta(self.storage, pending.time)
                self._run(TableState.load(self.storage), pending.time, plan)

    def _run(self, state: TableState, instant: str, plan: CleanPlan) -> None:
        files = [
            file for partition, paths in plan.files.items() for file in _named(partition, paths)
        ]
        _refuse_current(state, files, instant)
        state.timeline.ensure_started(instant, "clean", encode_clean_plan(plan))
        for file in files:
            self.storage.delete(file.path)
        delta = None
        if state.metadata is not None:
            delta = DeltaCommit(state.metadata, instant, _BLOCK_SIZE)
            delta.begin()
            delta.drop_files(files, state.config.maintained, schema_columns(state))
        names: dict[str, tuple[str, ...]] = {}
        for file in files:
            names[file.partition_path] = (*names.get(file.partition_path, ()), file.name)
        completions = [delta.completion()] if delta is not None else []
        path = state.timeline.path(instant, "clean", COMPLETED)
        self.lease.publish([*completions, (path, encode_clean(plan.done(instant, names)))])


def _plan(timeline: Timeline, files: Files, retention: Retention | None) -> CleanPlan:
    root = timeline.storage.root
    prefix = f"{root}/{timeline.base}" if timeline.base else root
    return CleanPlan(
        earliest=retention.earliest if retention else None,
        last_completed=max(timeline.commit_times(), default=""),
        files={
            partition: tuple(
                f"{prefix}/{partition}/{name}" if partition else f"{prefix}/{name}"
                for name in names
            )
            for partition, names in files.items()
        },
        policy=retention.policy if retention else "KEEP_LATEST_FILE_VERSIONS",
    )


def _named(partition: str, paths: Iterable[str]) -> Iterable[BaseFile]:
    """The base files that a plan names; a plan is input, and no other file may be deleted by it."""
    for path in paths:
        name = path.rpartition("/")[2]
        file = parse_base_file(partition, name, 0)
        if file is None or not path.endswith(f"/{partition}/{name}" if partition else f"/{name}"):
            detail = "a clean plan names a path that is not a base file of the table"
            raise CorruptFileError(path, 0, detail)
        yield file


def _refuse_current(state: TableState, files: Iterable[BaseFile], instant: str) -> None:
    current = {file.path for file in state.snapshot.files}
    for file in files:
        if file.path in current:
            detail = f"the plan of clean {instant} names a file that the table needs"
            raise CorruptFileError(file.path, 0, detail)


def schema_columns(state: TableState) -> tuple[str, ...]:
    """The columns of a table, meta columns included; none before its first commit."""
    schema = table_schema(state.timeline)
    return tuple(with_meta(without_meta(from_avro(schema))).names) if schema else ()


def metadata_commits_retained(retained: int) -> int:
    """Commits that cleaning retains in the metadata table, by those that it does in the data's."""
    return max(_RETAINED_MIN, int(retained * _RETAINED_FACTOR))


def clean_metadata_table(
    metadata: MetadataTable, partitions: Iterable[str], retained: int
) -> str | None:
    """Delete slices of the metadata table that no reader of the last commits needs.

    Args:
        metadata: the metadata table.
        partitions: its partitions.
        retained: commits that the data table's cleaning retains.
    """
    commits = metadata.timeline.completed(COMMIT_ACTIONS)
    retention = Retention.since(commits, metadata_commits_retained(retained))
    if retention is None:
        return None
    files: dict[str, list[str]] = {}
    for partition, groups in metadata.slice_files(partitions).items():
        for versions in groups.values():
            for time in retention.outdated([t for t in versions if metadata.validity.opened(t)]):
                files.setdefault(partition, []).extend(versions[time])
    if not files or any(i.time == _clean_instant(metadata) for i in metadata.timeline.instants):
        # A clean after the same delta commit has the name: the next one's will do.
        return None
    return delete_slices(metadata, files, retention)


def _clean_instant(metadata: MetadataTable) -> str:
    return max(i.time for i in metadata.timeline.completed({"deltacommit"})) + _SUFFIX


def delete_slices(metadata: MetadataTable, files: Files, retention: Retention | None) -> str:
    """Delete files of old slices of the metadata table, as a clean on its own timeline."""
    timeline = metadata.timeline
    instant = _clean_instant(metadata)
    plan = _plan(timeline, files, retention)
    timeline.plan(instant, "clean", encode_clean_plan(plan))
    _finish_slices(timeline, instant, plan)
    return instant


def resume_metadata_cleans(storage: Storage) -> None:
    """Do every clean of the metadata table again that was planned and not completed."""
    timeline = Timeline.load(storage, METADATA)
    for pending in timeline.pending():
        if pending.action == "clean":
            path = timeline.path(pending.time, "clean", REQUESTED)
            plan = decode_clean_plan(storage.read(path), path)
            _finish_slices(timeline, pending.time, plan)


def _finish_slices(timeline: Timeline, instant: str, plan: CleanPlan) -> None:
    timeline.ensure_started(instant, "clean", encode_clean_plan(plan))
    names: dict[str, tuple[str, ...]] = {}
    for partition, paths in plan.files.items():
        listed = tuple(path.rpartition("/")[2] for path in paths)
        for name in listed:
            if not (parse_base_file(partition, name, 0) or parse_log_file(partition, name, 0)):
                raise CorruptFileError(name, 0, "a clean plan names a file of no file slice")
            timeline.storage.delete(f"{METADATA}/{partition}/{name}")
        names[partition] = listed
    timeline.complete(instant, "clean", encode_clean(plan.done(instant, names)))
