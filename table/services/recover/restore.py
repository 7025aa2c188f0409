"""Going back: savepoints, the rollback of the latest commit, the restore of a savepoint.

    <T>.savepoint                       the files of the snapshot at commit T; no clean deletes them

    <B>.rollback.requested, .inflight   or <B>.restore.*: the plan
    delta commit B                      the inverse of what is taken back: files leave the listing,
                                        keys go back to where they were
    <B>.rollback                        from here on the table is as it was before
    instants and files taken back are deleted, the latest first

A death before the completed instant leaves the table as it was, and the next write sweeps up; a
death after it leaves only deletions to do, and the next write does them. Hudi makes the instants
pending first instead; both orders leave tables that Hudi reads. What the metadata table says about
the instants taken back still counts (getRollbackedCommits), and the inverse comes after it: so it
makes no difference whether a compaction has taken them in.
Source: BaseRollbackActionExecutor, BaseRestoreActionExecutor, SavepointActionExecutor of Hudi 0.15.
"""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import dataclass, replace

from keymark.table.errors import InputError, UnsupportedTableError
from keymark.table.format.parquet.base_file import read_footer, read_metadata
from keymark.table.index.external import ExternalEntries, store_changes
from keymark.table.layout.model import BaseFile, Instant
from keymark.table.layout.naming import TEMP, parse_base_file
from keymark.table.layout.view import Snapshot, listed_files, snapshot
from keymark.table.metadata.bloom import bloom_records
from keymark.table.metadata.column_ranges import live_keys
from keymark.table.metadata.column_stats import column_stats_records, stat_schema
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS, RECORD_INDEX
from keymark.table.metadata.writer import take_back_delta
from keymark.table.properties.config import archive_folder
from keymark.table.read.arrow import open_base
from keymark.table.runtime.clock import Clock
from keymark.table.runtime.runner import TaskRunner
from keymark.table.services.check.verify_index import net_changes
from keymark.table.services.clean import schema_columns
from keymark.table.services.index.builds import refuse_while_building
from keymark.table.services.recover.held_keys import HeldSearch, puts_keys_twice, with_held
from keymark.table.services.recover.returning_keys import log_returns
from keymark.table.services.recover.stale_entries import stale_entries, with_stale
from keymark.table.services.rewrite import lacks_keys
from keymark.table.state.late import fenced_times, note_fenced
from keymark.table.state.table_state import TableState, stored_schema
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage
from keymark.table.timeline.instant_name import COMPLETED, REQUESTED
from keymark.table.timeline.restore_metadata import RestorePlan, encode_restore, encode_restore_plan
from keymark.table.timeline.rollback_metadata import Rollback, encode_metadata, encode_plan
from keymark.table.timeline.savepoint_metadata import Savepoint, decode_savepoint, encode_savepoint
from keymark.table.timeline.timeline import Timeline
from keymark.table.write.index_changes import NO_CHANGES, KeyChanges, placed_changes
from keymark.table.write.transaction import Transaction
from keymark.table.write.undo import data_files

_BLOCK_SIZE = 1 << 20
_ACTIONS = ("commit", "replacecommit")


@dataclass(frozen=True, slots=True)
class Restorer:
    """Takes one table back, under its lease.

    `memory` is what a task may hold; `entries` are those of an index outside the table.
    """

    storage: Storage
    clock: Clock
    runner: TaskRunner
    lease: Lease
    memory: int
    entries: ExternalEntries | None = None

    def savepoint(self, time: str | None) -> str:
        """Keep the snapshot of a completed commit, the latest by default; its instant."""
        state = TableState.load(self.storage)
        commit = _commit(state.timeline, time)
        if any(i.time == commit.time and i.action == "savepoint" for i in state.timeline.instants):
            raise InputError(f"commit {commit.time} has a savepoint")
        files: dict[str, tuple[str, ...]] = {}
        for file in snapshot(state.listing, state.timeline, commit.time).files:
            files[file.partition_path] = (*files.get(file.partition_path, ()), file.name)
        made = Savepoint(
            user=getpass.getuser(), millis=self.clock.millis(), comments="", files=files
        )
        state.timeline.ensure_started(commit.time, "savepoint", b"")
        path = state.timeline.path(commit.time, "savepoint", COMPLETED)
        self.lease.publish([(path, encode_savepoint(made))])
        return commit.time

    def drop_savepoint(self, time: str) -> str:
        """Give a savepoint up: cleaning may delete its files from now on; its instant."""
        timeline = Timeline.load(self.storage)
        _savepoint(timeline, time)
        timeline.remove(time, "savepoint")
        return time

    def rollback(self, time: str) -> str:
        """Take the latest commit back; the rollback's instant."""
        state = TableState.load(self.storage)
        commit = _commit(state.timeline, time)
        later = [i.time for i in state.timeline.completed(_ACTIONS) if i.time > commit.time]
        if later:
            raise InputError(
                f"commit {commit.time} is not the latest: roll back {max(later)} first, or restore "
                "a savepoint"
            )
        return self._take_back(state, (commit,), None)

    def restore(self, time: str) -> str | None:
        """Take everything after a savepoint back; the restore's instant, None if nothing was."""
        state = TableState.load(self.storage)
        _savepoint(state.timeline, time)
        later = [i for i in state.timeline.completed(_ACTIONS) if i.time > time]
        if not later:
            return None
        return self._take_back(state, tuple(reversed(later)), time)

    def _take_back(
        self, state: TableState, targets: tuple[Instant, ...], savepoint: str | None
    ) -> str:
        _refuse_targets(state, targets)
        before = _before(state, targets, savepoint)
        _refuse_files_without_keys(state, before)
        # The index may not answer: it is asked before anything is begun.
        stale = self._stale_entries(state, targets, before)
        dead = _written_by(state, targets)
        instant, files = state.next_instant(self.clock), _paths(self.storage.root, dead)
        action, plan, content = _documents(instant, targets, savepoint, files)
        tx = Transaction(state=state, lease=self.lease, instant=instant, action=action)
        state.timeline.plan(instant, action, plan)
        state.timeline.start(instant, action)
        delta = tx.begin_delta(_BLOCK_SIZE)
        if delta is not None:
            columns, again = schema_columns(state), self._described(state, before)
            delta.drop_files(dead, state.config.maintained, columns, again=again)
            if RECORD_INDEX in state.config.maintained:
                stats = log_returns(delta, state, before, self.runner, self.memory)
                delta.stats.extend(stats)
        if self.entries is not None:
            changes = self._entry_changes(state, targets, before, instant)
            changes = with_stale(changes, stale)
            placed = placed_changes(changes, before, state.timeline)
            store_changes(self.storage, instant, placed)
        tx.publish(delta, content)
        # Key files. Those of a rollback that dies, the next write deletes.
        self.storage.delete_tree(f"{TEMP}/{instant}")
        if self.entries is not None:
            self.entries.apply_pending(instant, self.storage)
        sweep_taken_back(self.storage)
        return instant

    def _stale_entries(
        self, state: TableState, targets: Sequence[Instant], before: Snapshot
    ) -> KeyChanges:
        """Keys that stay where they are, and whose entries outside would count no more.

        One commit that asked where its keys are has put none of them where it was already.
        """
        if self.entries is None:
            return NO_CHANGES
        if len(targets) < 2 and not puts_keys_twice(state.timeline, targets):
            return NO_CHANGES
        times = [target.time for target in targets]
        return stale_entries(state, before, times, self.entries, self.runner)

    def _entry_changes(
        self, state: TableState, targets: Sequence[Instant], before: Snapshot, instant: str
    ) -> KeyChanges:
        """What changes outside of the table; a key that goes may be in another file group."""
        changes = net_changes(state, state.snapshot, before, self.runner)
        if not puts_keys_twice(state.timeline, targets):
            return changes
        search = HeldSearch(
            state=state, before=before, instant=instant, shards=0, memory=self.memory
        )
        return with_held(changes, search, self.runner)

    def _described(self, state: TableState, before: Snapshot) -> dict[str, dict[str, bytes]]:
        """What describes the files that are current again, where a build since has left it out.

        No build is under way: it would have refused this. Column statistics that are there are not
        put again: Hudi adds up the counts of two records (mergeColumnStatsRecords).
        """
        again: dict[str, dict[str, bytes]] = {COLUMN_STATS: {}, BLOOM_FILTERS: {}}
        if not again.keys() & set(state.config.maintained):
            return again
        known = set(state.snapshot.files)
        schema = stat_schema(stored_schema(state), state.config.stat_columns)
        for file in before.files:
            if file not in known:
                footer = read_footer(open_base(self.storage, file))
                path, name, time = file.partition_path, file.name, file.instant_time
                stats = column_stats_records(path, name, footer.metadata, schema)
                again[COLUMN_STATS].update(zip(*stats, strict=True))
                blooms = bloom_records(path, name, footer, time)
                again[BLOOM_FILTERS].update(zip(*blooms, strict=True))
        if state.metadata is not None and COLUMN_STATS in state.config.maintained:
            for key in live_keys(state.metadata.shards(COLUMN_STATS), [*again[COLUMN_STATS]]):
                del again[COLUMN_STATS][key]
        return again


def _refuse_targets(state: TableState, targets: Sequence[Instant]) -> None:
    """InputError while an index is being built, or if a savepoint keeps one of the commits."""
    refuse_while_building(state.storage, state.config)
    saved = {i.time for i in state.timeline.instants if i.action == "savepoint"}
    for target in targets:
        if target.time in saved:
            raise InputError(f"commit {target.time} has a savepoint: it cannot be taken back")


def _refuse_files_without_keys(state: TableState, before: Snapshot) -> None:
    """InputError if files come back that a rewrite has since given stored keys."""
    if not state.config.stores_meta:
        return
    known = set(state.snapshot.files)
    for file in before.files:
        if file not in known and lacks_keys(read_metadata(open_base(state.storage, file))):
            raise InputError(
                f"{file.path} would come back, and its rows have no stored keys: give up stored "
                "keys first (table rewrite PATH --virtual-keys on)"
            )


def _commit(timeline: Timeline, time: str | None) -> Instant:
    commits = timeline.completed(_ACTIONS)
    for commit in reversed(commits):
        if time is None or commit.time == time:
            return commit
    raise InputError(
        "the table has no commit" if time is None else f"{time} is not a commit of the table"
    )


def _savepoint(timeline: Timeline, time: str) -> Savepoint:
    if not any(i.time == time for i in timeline.completed({"savepoint"})):
        known = ", ".join(i.time for i in timeline.completed({"savepoint"})) or "none"
        raise InputError(f"{time} is not a savepoint of the table; there are: {known}")
    path = timeline.path(time, "savepoint", COMPLETED)
    return decode_savepoint(timeline.storage.read(path), path)


def _before(state: TableState, targets: Sequence[Instant], savepoint: str | None) -> Snapshot:
    """The snapshot as of the latest commit that stays; InputError where files were cleaned."""
    timeline = state.timeline
    kept = replace(timeline, instants=tuple(i for i in timeline.instants if i not in targets))
    if not kept.commit_times() and state.storage.list(archive_folder(timeline)):
        # Files older than the first active commit count as archived.
        raise InputError(
            f"commit {targets[-1].time} is the first that is not archived: it cannot be taken back"
        )
    before = snapshot(state.listing, kept)
    names = {(file.partition_path, file.name) for file in before.files}
    if savepoint is not None:
        saved = _savepoint(timeline, savepoint).files
        missing = {(p, name) for p, listed in saved.items() for name in listed} - names
    else:
        missing = set()
    found = before.by_location()
    for target in sorted(targets, key=lambda instant: instant.time):
        done = timeline.commit(target)
        for path, previous in done.previous.items():
            partition, _, name = path.rpartition("/")
            file = parse_base_file(partition, name, 0)
            if file is None or previous in {t.time for t in targets}:
                continue
            base = found.get((partition, file.file_id))
            if base is None or base.instant_time != previous:
                missing.add((partition, name))
        for partition, file_ids in done.replaced.items():
            missing |= {(partition, i) for i in file_ids if (partition, i) not in found}
    gone = [f for f in before.files if not state.storage.exists(f.path)]
    if missing or gone:
        raise InputError(
            f"{len(missing) + len(gone)} files from before commit {targets[-1].time} were cleaned: "
            "it cannot be taken back"
        )
    return replace(before, as_of=max(kept.commit_times(), default=None))


def _written_by(state: TableState, targets: Sequence[Instant]) -> list[BaseFile]:
    times = {target.time for target in targets}
    return [file for file in listed_files(state.listing) if file.instant_time in times]


def _paths(root: str, files: Sequence[BaseFile]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Instant -> partition path -> absolute paths."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for file in files:
        listed = found.setdefault(file.instant_time, {})
        paths = listed.get(file.partition_path, ())
        listed[file.partition_path] = (*paths, f"{root}/{file.path}")
    return found


def _documents(
    instant: str,
    targets: Sequence[Instant],
    savepoint: str | None,
    files: dict[str, dict[str, tuple[str, ...]]],
) -> tuple[str, bytes, bytes]:
    """The action, its plan and its result."""
    if savepoint is None:
        (target,) = targets
        deleted = files.get(target.time, {})
        plan = encode_plan(target.time, target.action, deleted)
        return "rollback", plan, encode_metadata(instant, target.time, target.action, deleted)
    planned = tuple((target.time, target.action) for target in targets)
    done = [
        Rollback(start=instant, time=t.time, action=t.action, files=files.get(t.time, {}))
        for t in targets
    ]
    restore_plan = encode_restore_plan(RestorePlan(instants=planned, savepoint=savepoint))
    return "restore", restore_plan, encode_restore(instant, done)


def sweep_taken_back(storage: Storage) -> None:
    """Delete instants and files that a completed rollback or restore took back, if any are left."""
    timeline = Timeline.load(storage)
    taken: set[str] = set()
    for instant in timeline.completed({"rollback", "restore"}):
        taken.update(timeline.taken_back_by(instant))
    left = [i for i in reversed(timeline.completed(_ACTIONS)) if i.time in taken]
    for instant in left:
        # Invisible at once to those who read the timeline and list storage, and pending: whatever
        # takes a dead write back can go on from here.
        storage.delete(timeline.path(instant.time, instant.action, COMPLETED))
        # A power cut must not bring a commit back whose files are gone, nor files without it.
        storage.sync()
        # Markers are not synced: after a power cut their folder may be there without them.
        for path in list(data_files(storage, instant.time, everywhere=True)):
            storage.delete(path)
        storage.sync()
        timeline.remove(instant.time, instant.action)


def take_back_unfinished(storage: Storage) -> None:
    """Take rollbacks, restores and savepoints back that were begun and not completed.

    Raises:
        UnsupportedTableError: Hudi began it, and some of what it takes back is gone already.
    """
    timeline = Timeline.load(storage)
    for pending in timeline.pending():
        if pending.action == "savepoint":
            timeline.remove(pending.time, "savepoint")
        if pending.action not in ("rollback", "restore"):
            continue
        if pending.time in fenced_times(storage) and not storage.exists(
            timeline.path(pending.time, pending.action, REQUESTED)
        ):
            # Its writer put this after another one had taken the plan back.
            timeline.remove(pending.time, pending.action)
            continue
        targets = timeline.planned_by(pending)
        done = {instant.time for instant in timeline.completed(_ACTIONS)}
        if not set(targets) <= done:
            raise UnsupportedTableError(
                f"a {pending.action} of instant {pending.time} is pending: finish it with Apache "
                "Hudi first"
            )
        note_fenced(storage, pending.time, ())
        take_back_delta(storage, pending.time)
        timeline.remove(pending.time, pending.action)
