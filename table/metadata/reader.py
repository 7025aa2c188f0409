"""Reading the metadata table: its partitions' shards, and the listing of the table's files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from keymark.table.errors import CorruptFileError, SnapshotExpiredError
from keymark.table.format.hfile.cache import BlockCache
from keymark.table.layout.model import BaseFile, FileSlice, LogFile
from keymark.table.layout.naming import (
    METADATA,
    check_name,
    check_relative,
    parse_base_file,
    parse_log_file,
)
from keymark.table.metadata.partitions import FILES, file_id
from keymark.table.metadata.records import ALL_PARTITIONS, decode_files
from keymark.table.metadata.shard import CommittedFile, OpenedShards, Shard, Validity
from keymark.table.storage.storage import Storage
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.timeline.timeline import COMMIT_ACTIONS, Timeline

_INITIAL = re.compile(r"^(\d{17}|0{14})(0[1-9]\d|[1-9]\d\d)$")


def is_initial(time: str) -> bool:
    """Whether an instant of the metadata table is one that made a partition: `<instant>010` on."""
    return _INITIAL.match(time) is not None


@dataclass(frozen=True)
class MetadataTable:
    """The metadata table as of one reading of both timelines."""

    storage: Storage
    timeline: Timeline
    validity: Validity

    def __getstate__(self) -> dict[str, Any]:
        """What travels to a task: what was read, without the files that are open here."""
        return {name: value for name, value in self.__dict__.items() if name != "_opened"}

    @classmethod
    def load(cls, storage: Storage, data: Timeline) -> MetadataTable:
        """Read the metadata table's timeline."""
        timeline = Timeline.load(storage, METADATA)
        return cls(storage, timeline, Validity(timeline, data))

    @cached_property
    def recorded(self) -> dict[str, CommittedFile]:
        """Path -> what the completed delta commits say about it, of every file that one names."""
        return self._recorded("")

    def recorded_since(self, time: str) -> dict[str, CommittedFile]:
        """The same of the delta commits from an instant on, of which one file each is read.

        No commit before the base instant of a file slice names a file of that slice.
        """
        if "recorded" in self.__dict__:
            return self.recorded
        if time not in self._since:
            self._since[time] = self._recorded(time)
        return self._since[time]

    @cached_property
    def _since(self) -> dict[str, dict[str, CommittedFile]]:
        """What `recorded_since` has answered."""
        return {}

    def _recorded(self, since: str) -> dict[str, CommittedFile]:
        recorded: dict[str, CommittedFile] = {}
        for instant in self.timeline.completed(COMMIT_ACTIONS):
            if instant.time < since:
                continue
            for _, path, size in self.timeline.commit(instant).files:
                known = recorded.get(path, CommittedFile(0, frozenset()))
                instants = known.instants | {instant.time}
                recorded[path] = CommittedFile(max(size, known.size), instants)
        return recorded

    def shards(self, partition: str, cache: BlockCache | None = None) -> tuple[Shard, ...]:
        """The file groups of a partition in the order that key hashes count them.

        Args:
            partition: its name.
            cache: keeps what lookups in them decode.
        """
        slices = self.slices(partition)
        recorded = self.recorded_since(min(item.base_instant_time for item in slices))
        return tuple(
            Shard(self.storage, item, self.validity, recorded, len(slices), cache)
            for item in slices
        )

    def opened_shards(self, partition: str, cache: BlockCache | None = None) -> tuple[Shard, ...]:
        """The same for lookups: listed once for this reading, and kept open between them."""
        kept = self._opened.get(partition)
        if kept is None or kept[0].cache is not cache:
            opened = OpenedShards()
            shards = self.shards(partition, cache)
            kept = self._opened[partition] = tuple(replace(s, opened=opened) for s in shards)
        return kept

    @cached_property
    def _opened(self) -> dict[str, tuple[Shard, ...]]:
        """What `opened_shards` has answered."""
        return {}

    def slice_files(self, partitions: Iterable[str]) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Partition -> file id -> base instant -> names of all files of that slice."""
        found: dict[str, dict[str, dict[str, list[str]]]] = {}
        for partition in partitions:
            for status in self.storage.list(f"{METADATA}/{partition}"):
                owner = slice_of(partition, status.name)
                if owner is not None:
                    group = found.setdefault(partition, {}).setdefault(owner[0], {})
                    group.setdefault(owner[1], []).append(status.name)
        return found

    def largest_slice(self, partition: str) -> int:
        """Bytes of the largest of the latest file slices of a partition, by one listing."""
        sizes: dict[tuple[str, str], int] = {}
        for status in self.storage.list(f"{METADATA}/{partition}"):
            owner = slice_of(partition, status.name)
            if owner is not None:
                sizes[owner] = sizes.get(owner, 0) + status.size
        # The latest slice of a file group comes last.
        return max({owner[0]: sizes[owner] for owner in sorted(sizes)}.values(), default=0)

    def slices(self, partition: str) -> tuple[FileSlice, ...]:
        """The latest file slice of each file group of a partition, ordered by file id.

        Raises:
            CorruptFileError: a group is missing, or a file that a completed commit names in one.
            SnapshotExpiredError: since the timeline was read there are fewer.
        """
        bases: dict[str, list[BaseFile]] = {}
        logs: dict[str, list[LogFile]] = {}
        start = self.dealt_out_anew(partition)
        times: set[str] = set()
        for status in self.storage.list(f"{METADATA}/{partition}"):
            base = parse_base_file(partition, status.name, status.size)
            log = parse_log_file(partition, status.name, status.size)
            if base is not None and base.instant_time >= start:
                bases.setdefault(base.file_id, []).append(base)
                times.add(base.instant_time)
            elif log is not None and log.base_instant_time >= start:
                logs.setdefault(log.file_id, []).append(log)
                times.add(log.base_instant_time)
        if not all(self.validity.opened(time) for time in times):
            self._refuse_outdated(partition, start)
        groups = (
            self._latest(name, bases.get(name, []), logs.get(name, []))
            for name in sorted(bases.keys() | logs.keys())
        )
        found = tuple(item for item in groups if item is not None)
        self._check_groups(partition, found)
        return found

    def _refuse_outdated(self, partition: str, start: str) -> None:
        """SnapshotExpiredError if a partition has been dealt out to fewer groups since `start`.

        Some of the slices that this timeline knows are deleted, then. The commit that did it before
        may have been archived since: that changes nothing.
        """
        if replace(self, timeline=self.timeline.again()).dealt_out_anew(partition) > start:
            raise SnapshotExpiredError(
                f"{partition} got fewer file groups while it was being read: read it again"
            )

    def dealt_out_anew(self, partition: str) -> str:
        """When a partition was last dealt out to fewer file groups; "" if it never was.

        All that it has were opened then. Older slices are of those, or of groups that are gone.
        """
        return max(
            (
                instant.time
                for instant in self.timeline.completed({"replacecommit"})
                if partition in self.timeline.commit(instant).replaced
            ),
            default="",
        )

    def _check_in_step(self, since: str) -> None:
        """Each commit of the data that is newer than a base file must be a delta commit here."""
        for instant in self.validity.data.completed(("commit", "replacecommit")):
            if instant.time > since and not self.validity.opened(instant.time):
                path = self.timeline.path(instant.time, "deltacommit", COMPLETED)
                raise CorruptFileError(path, 0, "the table has this commit and the file is gone")

    def _check_groups(self, partition: str, found: tuple[FileSlice, ...]) -> None:
        """No group may be missing, nor a file of a latest slice that a completed commit names."""
        if not found:
            raise CorruptFileError(partition, 0, "no file group of this partition is there")
        for number, item in enumerate(found):
            if item.file_id != file_id(partition, number):
                # With one group less, keys would be looked for in the wrong groups.
                raise CorruptFileError(file_id(partition, number), 0, "the file group is gone")
        opened = {item.file_id: item.base_instant_time for item in found}
        # Before that the partition was another one, dropped since.
        start = min(opened.values())
        known = {log.path for item in found for log in item.log_files}
        known |= {item.base_file.path for item in found if item.base_file is not None}
        for path in self.recorded_since(start).keys() - known:
            folder, _, name = path.rpartition("/")
            owner = slice_of(partition, name) if folder == partition else None
            if owner is not None and owner[1] >= opened.get(owner[0], start):
                raise CorruptFileError(path, 0, "a commit names this file; it is missing")

    def _latest(self, file_id: str, bases: list[BaseFile], logs: list[LogFile]) -> FileSlice | None:
        """The latest slice of a file group; None where a re-sharding has not ended to make it."""
        times = {b.instant_time for b in bases} | {log.base_instant_time for log in logs}
        opened = [time for time in times if self.validity.opened(time)]
        if not opened:
            # It may have begun, or ended, since the timeline was read.
            if times <= {instant.time for instant in self.timeline.again().instants}:
                return None
            raise CorruptFileError(file_id, 0, "no commit opened this file group")
        time = max(opened)
        of_slice = [log for log in logs if log.base_instant_time == time]
        ordered = sorted(of_slice, key=lambda log: (log.version, log.write_token))
        of_time = [base for base in bases if base.instant_time == time]
        if len(of_time) > 1:
            # The commit names one of two attempts.
            named = self.recorded_since(time)
            of_time.sort(key=lambda base: base.path not in named)
        base = of_time[0] if of_time else None
        return FileSlice(
            file_id=file_id, base_instant_time=time, base_file=base, log_files=tuple(ordered)
        )

    def listing(self) -> dict[str, dict[str, int]]:
        """The `files` partition: partition path -> live file name -> size in bytes.

        Raises:
            CorruptFileError: a completed commit is missing from it, or a name in it leads away.
        """
        shard = self.shards(FILES)[0]
        self._check_in_step(shard.slice.base_instant_time)
        merged = merged_files(shard)
        partitions = merged.pop(ALL_PARTITIONS, {})
        listed: dict[str, dict[str, int]] = {}
        for identifier, (_, deleted) in partitions.items():
            if deleted:
                continue
            path = "" if identifier == "." else check_relative(identifier, METADATA)
            entries = merged.get(identifier, {})
            listed[path] = {
                check_name(name, METADATA): size
                for name, (size, gone) in entries.items()
                if not gone
            }
        return listed


def merged_files(shard: Shard) -> dict[str, dict[str, tuple[int, bool]]]:
    """The records of the `files` partition: key -> name -> size in bytes, and whether deleted."""
    merged: dict[str, dict[str, tuple[int, bool]]] = {}
    for key, value in shard.history():
        if value is None:
            merged.pop(key.decode(), None)
            continue
        entries = merged.setdefault(key.decode(), {})
        _merge_files(entries, decode_files(value, shard.slice.file_id))
    return merged


def slice_of(partition: str, name: str) -> tuple[str, str] | None:
    """File id and base instant of a file of a partition; None where the name is no such file's."""
    base, log = parse_base_file(partition, name, 0), parse_log_file(partition, name, 0)
    if base is not None:
        return base.file_id, base.instant_time
    return (log.file_id, log.base_instant_time) if log is not None else None


def _merge_files(
    entries: dict[str, tuple[int, bool]], update: Mapping[str, tuple[int, bool]]
) -> None:
    """Apply a newer files record: HoodieMetadataPayload.combineFileSystemMetadata."""
    for name, (size, deleted) in update.items():
        known = entries.get(name)
        if not deleted:
            entries[name] = (max(size, known[0] if known else 0), False)
        elif known is not None and not known[1]:
            del entries[name]
        else:
            entries[name] = (size, True)
