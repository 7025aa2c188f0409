"""Archiving: the oldest instants of a timeline move from its folder into one file of its archive.

    .hoodie/archived/.commits_.archive.<N>_1-0-1    every file of the instants, oldest first
    instants' files deleted                         oldest first: requested, inflight, completed

The archive is put before anything is deleted, so no instant is ever in neither place; one that is
in both is on the timeline, and archived once more by the next run. Commits go oldest first, so what
is left of them has no hole: an instant before the first is a committed one, for us as for Hudi. Of
one instant the completed file goes last: without it, the others would say that the commit is still
to be finished or taken back, and recovery would delete its files. What is completed and was never
requested reads as completed.
Source: HoodieTimelineArchiver of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from keymark.table.layout.model import Instant
from keymark.table.layout.naming import METADATA, TEMP, parse_log_file
from keymark.table.layout.view import Listing, listed_files
from keymark.table.metadata.partitions import FILES
from keymark.table.metadata.reader import MetadataTable
from keymark.table.properties.config import TableConfig, archive_folder
from keymark.table.properties.options import COMMITS_RETAINED, KEEP_MAX, KEEP_MIN, Options
from keymark.table.services.clean import metadata_commits_retained
from keymark.table.state.table_state import list_storage
from keymark.table.state.uncommitted import stored_files, uncommitted_files
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage
from keymark.table.timeline.archived import (
    archive_name,
    archive_number,
    archived_instant,
    encode_archive,
)
from keymark.table.timeline.instant_name import COMPLETED, INFLIGHT, REQUESTED
from keymark.table.timeline.timeline import COMMIT_ACTIONS, Timeline

# Savepoints stay until they are dropped.
_OTHER_ACTIONS = ("clean", "rollback", "restore", "indexing")
# Compactions complete as commits, log compactions as delta commits.
_PENDING_AS = {"commit": "compaction", "deltacommit": "logcompaction"}
_INSTANTS_PER_FILE = 100
_NO_BOUND = "~"


@dataclass(frozen=True, slots=True)
class Limits:
    """More than `maximum` commits on a timeline make the oldest go until `minimum` are left."""

    minimum: int
    maximum: int

    @classmethod
    def of(cls, options: Options) -> Limits:
        """The limits of the data's timeline."""
        limits = cls(options.integer(KEEP_MIN), options.integer(KEEP_MAX))
        if options.text("hoodie.cleaner.policy") == "KEEP_LATEST_COMMITS":
            return limits.beyond(options.integer(COMMITS_RETAINED))
        return limits

    @classmethod
    def of_metadata(cls, options: Options) -> Limits:
        """The limits of the metadata table's timeline, kept longer (createMetadataWriteConfig).

        Its own cleaning counts commits, too: with fewer of them it would never begin.
        """
        data = cls.of(options)
        retained = options.integer(COMMITS_RETAINED)
        limits = cls(data.minimum + 1, data.maximum + 1)
        return limits.beyond(metadata_commits_retained(retained))

    def beyond(self, retained: int) -> Limits:
        """Limits that leave more commits than cleaning retains (ArchivalUtils)."""
        more = max(0, retained + 1 - self.minimum)
        return Limits(self.minimum + more, self.maximum + more)


@dataclass(frozen=True, slots=True)
class Archived:
    """Times of the instants that went, by timeline, in order."""

    data: tuple[str, ...]
    metadata: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archiver:
    """Archives the timelines of one reading of a table, under its lease.

    `known_listing` is the listing of that reading; without it the listing is read when needed.
    """

    config: TableConfig
    timeline: Timeline
    metadata: MetadataTable | None
    lease: Lease
    known_listing: Listing | None = None

    @classmethod
    def load(cls, storage: Storage, config: TableConfig, lease: Lease) -> Archiver:
        """Read the two timelines, and nothing else."""
        timeline = Timeline.load(storage)
        metadata = None
        if FILES in config.metadata_partitions:
            metadata = MetadataTable.load(storage, timeline)
        return cls(config=config, timeline=timeline, metadata=metadata, lease=lease)

    def run(self, *, data: Limits, metadata: Limits) -> Archived:
        """Archive what may go; nothing is read where nothing may.

        The metadata table's timeline comes second: it reaches back as far as the data's at least.
        """
        gone = outdated(self.timeline, data, self._bound())
        if gone:
            # Later ones are needed to read the table as it is.
            bound = min(self._bound(), self._uncompacted(), self._uncleaned())
            gone = outdated(self.timeline, data, bound)
            self._sweep_uncommitted()
            _sweep_markers(self.timeline.storage, {instant.time for instant in gone})
            _move(self.timeline, gone, self.lease)
        left = tuple(instant for instant in self.timeline.instants if instant not in gone)
        later = self._archive_metadata(replace(self.timeline, instants=left), metadata)
        return Archived(tuple(i.time for i in gone), tuple(i.time for i in later))

    def _archive_metadata(self, data: Timeline, limits: Limits) -> tuple[Instant, ...]:
        """What went from the metadata table's timeline, by what is left of the data's.

        Instants that the data's timeline names are kept here, too
        (TimelineUtils.getEarliestInstantForMetadataArchival).
        """
        if self.metadata is None:
            return ()
        timeline = self.metadata.timeline
        start = min(data.commit_times(), default="")
        pending = min((i.time for i in data.pending()), default=_NO_BOUND)
        bound = min(start, pending, self._compaction())
        gone = outdated(timeline, limits, bound)
        if gone:
            gone = outdated(timeline, limits, min(bound, self._uncompacted()))
            _sweep_unopened(self.metadata, self.config.maintained)
            _move(timeline, gone, self.lease)
        return gone

    def _sweep_uncommitted(self) -> None:
        """Delete base files of instants that were never completed, before archiving passes them.

        From then on other readers would count them as archived.
        """
        listing = self._listing() if self.metadata else None
        storage = self.timeline.storage
        for file in uncommitted_files(stored_files(storage), self.timeline, listing):
            storage.delete(file.path)

    def _listing(self) -> Listing:
        if self.known_listing is not None:
            return self.known_listing
        return self.metadata.listing() if self.metadata else list_storage(self.timeline.storage)

    def _bound(self) -> str:
        """The first instant of the data that stays, as far as the timelines can tell."""
        saved = min((i.time for i in self.timeline.completed({"savepoint"})), default=_NO_BOUND)
        return min(saved, self._compaction())

    def _compaction(self) -> str:
        """The latest compaction of the metadata table: later blocks are not merged yet."""
        if self.metadata is None:
            return _NO_BOUND
        return max((i.time for i in self.metadata.timeline.completed({"commit"})), default="")

    def _uncompacted(self) -> str:
        """The first instant with a block in a log file that readers still merge.

        Such a block counts only as long as its instant, or the one that took it back, is on the
        data's timeline. The latest compaction says too little: it leaves out a partition that was
        being built then, whose blocks lie there until the next one.
        """
        if self.metadata is None:
            return _NO_BOUND
        merged = {
            log.path
            for partition in self.config.metadata_partitions
            for file_slice in self.metadata.slices(partition)
            for log in file_slice.log_files
        }
        first = _NO_BOUND
        for path, recorded in self.metadata.recorded.items():
            partition, _, name = path.rpartition("/")
            log = parse_log_file(partition, name, 0)
            if log is not None and (path in merged or partition in self.config.building):
                first = min(first, *recorded.instants)
        return first

    def _uncleaned(self) -> str:
        """The first replace commit with files that were not cleaned yet: they would come back.

        Source: ClusteringUtils.getOldestInstantToRetainForClustering, which asks the latest clean.
        """
        replaced = self.timeline.replaced_file_ids()
        if not replaced:
            return _NO_BOUND
        files = listed_files(self._listing())
        there = {(file.partition_path, file.file_id) for file in files}
        return min((replaced[place] for place in replaced.keys() & there), default=_NO_BOUND)


def outdated(timeline: Timeline, limits: Limits, before: str) -> tuple[Instant, ...]:
    """The completed instants that may go, oldest first; none while there are not too many commits.

    With the oldest commits go the instants of other actions that are older than the commits left,
    but for the latest of each action: the next clean of Hudi starts from it. Hudi counts each
    action by the same limits and keeps up to `maximum` more, which no reader needs.

    Args:
        timeline: the timeline.
        limits: how many stay.
        before: only instants before this one go.
    """
    commits = timeline.completed(COMMIT_ACTIONS)
    if len(commits) <= limits.maximum:
        return ()
    pending = min((i.time for i in timeline.pending()), default=_NO_BOUND)
    if pending != _NO_BOUND:
        # One commit before it stays: else it would lie before the first and count as committed.
        earlier = [c.time for c in commits if c.time < pending]
        before = min(before, max(earlier, default=pending))
    surplus = commits[: len(commits) - limits.minimum]
    gone = [commit for commit in surplus if commit.time < before]
    if gone:
        before = min(before, commits[len(gone)].time)
        for action in _OTHER_ACTIONS:
            older = timeline.completed({action})[:-1]
            gone.extend(instant for instant in older if instant.time < before)
    return tuple(sorted(gone, key=lambda instant: (instant.time, instant.action)))


def _sweep_markers(storage: Storage, times: set[str]) -> None:
    """Delete markers of archived instants: recovery would take them for those of a dead write."""
    marked = {s.path.split("/")[2] for s in storage.walk(TEMP) if s.path.count("/") > 2}
    for time in sorted(marked & times):
        storage.delete_tree(f"{TEMP}/{time}")


def _sweep_unopened(metadata: MetadataTable, partitions: Sequence[str]) -> None:
    """Delete files of the metadata table's slices whose instant was never completed."""
    pending = {instant.time for instant in metadata.timeline.pending()}
    for partition, groups in metadata.slice_files(partitions).items():
        for versions in groups.values():
            for time in versions.keys() - pending:
                if not metadata.validity.opened(time):
                    for name in versions[time]:
                        metadata.storage.delete(f"{METADATA}/{partition}/{name}")


def _move(timeline: Timeline, instants: Sequence[Instant], lease: Lease) -> None:
    """Put instants into the archive and delete their files, some at a time."""
    storage = timeline.storage
    there = {status.path for status in storage.list(timeline.folder)} if instants else set()
    for first in range(0, len(instants), _INSTANTS_PER_FILE):
        files = [
            (file, path)
            for instant in instants[first : first + _INSTANTS_PER_FILE]
            for file, path in _files(timeline, instant)
            if path in there
        ]
        entries = [
            archived_instant(file, storage.read(path), changed=file.time, name=path)
            for file, path in files
        ]
        data = encode_archive(entries)
        with lease.fenced():
            _put_archive(storage, archive_folder(timeline), data)
            _delete(storage, files)


def _delete(storage: Storage, files: Sequence[tuple[Instant, str]]) -> None:
    """Delete files of archived instants; after a power cut no later one is gone before an earlier.

    An instant without its completed file would be taken for a dead writer's, and its data deleted.
    A gap between completed instants would be taken for commits that were never made.
    """
    for instant, path in files:
        if not instant.completed:
            storage.delete(path)
    storage.sync()
    for instant, path in files:
        if instant.completed:
            storage.delete(path)
            storage.sync()


def _files(timeline: Timeline, instant: Instant) -> Iterator[tuple[Instant, str]]:
    """The files that a completed instant can have, the completed one last."""
    begun_as = (_PENDING_AS.get(instant.action), instant.action)
    for state in (REQUESTED, INFLIGHT):
        for action in filter(None, begun_as):
            begun = Instant(time=instant.time, action=action, state=state)
            yield begun, timeline.path(instant.time, action, state)
    yield instant, timeline.path(instant.time, instant.action, COMPLETED)


def _put_archive(storage: Storage, folder: str, data: bytes) -> None:
    """Put the next archive file; of those that are there, only the names are looked at."""
    number = _last_number(storage, folder)
    while True:
        number += 1
        try:
            storage.put(f"{folder}/{archive_name(number)}", data)
        except FileExistsError:
            continue
        return


def _last_number(storage: Storage, folder: str) -> int:
    """The number of the latest archive file; 0 before the first.

    They are numbered from 1 without a hole, so that a few names tell it, however many there are.
    Where Hudi merged the first ones (hoodie.archive.merge.enable), all are listed.
    """

    def there(number: int) -> bool:
        return storage.exists(f"{folder}/{archive_name(number)}")

    if not there(1):
        numbers = (archive_number(status.name) for status in storage.list(folder))
        return max((number for number in numbers if number is not None), default=0)
    low, high = 1, 2
    while there(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if there(middle) else (low, middle)
    return low
