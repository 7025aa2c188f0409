"""The timeline of a table: what happened, in which order, and how far it came."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Any

from keymark.table.errors import CommitConflictError
from keymark.table.layout.model import Instant
from keymark.table.layout.naming import FENCED, HOODIE
from keymark.table.runtime.clock import Clock
from keymark.table.storage.storage import Storage
from keymark.table.timeline.clean_metadata import Clean, decode_clean
from keymark.table.timeline.commit_metadata import CommitMetadata, decode_commit
from keymark.table.timeline.instant_name import (
    COMPLETED,
    INFLIGHT,
    REQUESTED,
    format_instant,
    instant_file,
    instant_millis,
    parse_instant,
)
from keymark.table.timeline.restore_metadata import decode_restore_plan, restored
from keymark.table.timeline.rollback_metadata import decode_plan, rolled_back

COMMIT_ACTIONS = frozenset({"commit", "deltacommit", "replacecommit"})
_RANK = {REQUESTED: 0, INFLIGHT: 1, COMPLETED: 2}
# A compaction completes as a commit of the same time, a log compaction as a delta commit.
_COMPLETES_AS = {"compaction": "commit", "logcompaction": "deltacommit"}


@dataclass(frozen=True, slots=True)
class Timeline:
    """One reading of a timeline folder.

    `instants` holds each (time, action) once, in its furthest state, ordered by time. `base` is the
    table's folder relative to the storage's root: "" for data, `.hoodie/metadata` for its metadata.
    What completed commits say is read once: no name comes again, and no file changes, but where a
    replace commit of the metadata table forgets what is deleted (`metadata/replaced.py`).
    """

    storage: Storage
    base: str
    instants: tuple[Instant, ...]
    _commits: dict[str, CommitMetadata] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Tasks take the instants along, and not what was read of them."""
        return type(self), (self.storage, self.base, self.instants)

    @classmethod
    def load(cls, storage: Storage, base: str = "") -> Timeline:
        """Read the timeline folder of a table."""
        return cls(storage, base, _instants(storage, base))

    def again(self) -> Timeline:
        """The timeline as it is now; completed commits that were read are not read again."""
        return replace(self, instants=_instants(self.storage, self.base))

    def completed(self, actions: Iterable[str] | None = None) -> tuple[Instant, ...]:
        """Completed instants, of the actions given or of all."""
        wanted = None if actions is None else frozenset(actions)
        return tuple(
            i for i in self.instants if i.completed and (wanted is None or i.action in wanted)
        )

    def pending(self) -> tuple[Instant, ...]:
        """Instants that were begun and not completed."""
        return tuple(i for i in self.instants if not i.completed)

    def commit_times(self) -> frozenset[str]:
        """Times of the completed commits, delta commits and replace commits."""
        return frozenset(i.time for i in self.completed(COMMIT_ACTIONS))

    def visible(self, times: Iterable[str]) -> frozenset[str]:
        """The times whose files are visible: completed here, or archived before."""
        commits = self.commit_times()
        start = min(commits, default="")
        return frozenset(time for time in times if time in commits or time < start)

    def lasting(self, time: str) -> str:
        """The instant for an entry of a row that is there: of a base file that commit `time` wrote.

        The row may be older than that commit, which can be taken back. The first commit is taken
        back only with all rows.
        """
        return min([time, *self.commit_times()])

    def commit(self, instant: Instant) -> CommitMetadata:
        """The metadata of a completed commit, delta commit or replace commit."""
        path = self.path(instant.time, instant.action, COMPLETED)
        if path not in self._commits:
            self._commits[path] = decode_commit(self.storage.read(path), path)
        return self._commits[path]

    def rolled_back(self) -> frozenset[str]:
        """Instants that completed rollbacks and restores took back."""
        times: set[str] = set()
        for instant in self.completed({"rollback", "restore"}):
            times.update(self.taken_back_by(instant))
        return frozenset(times)

    def taken_back_by(self, instant: Instant) -> tuple[str, ...]:
        """The instants that a completed rollback or restore took back."""
        path = self.path(instant.time, instant.action, COMPLETED)
        decode = rolled_back if instant.action == "rollback" else restored
        return decode(self.storage.read(path), path)

    def planned_by(self, instant: Instant) -> tuple[str, ...]:
        """The instants that a pending rollback or restore is to take back; none before its plan."""
        path = self.path(instant.time, instant.action, REQUESTED)
        data = self.storage.read(path)
        if not data:
            return ()
        if instant.action == "rollback":
            return (decode_plan(data, path).time,)
        return tuple(time for time, _ in decode_restore_plan(data, path).instants)

    def replaced_file_ids(self) -> dict[tuple[str, str], str]:
        """(partition path, file id) -> time of the completed replace commit that took it out."""
        replaced: dict[tuple[str, str], str] = {}
        for instant in self.completed({"replacecommit"}):
            for partition, file_ids in self.commit(instant).replaced.items():
                replaced.update(((partition, file_id), instant.time) for file_id in file_ids)
        return replaced

    def cleans(self) -> tuple[Clean, ...]:
        """What the completed cleans deleted, the oldest first."""
        found = []
        for instant in self.completed({"clean"}):
            path = self.path(instant.time, instant.action, COMPLETED)
            found.append(decode_clean(self.storage.read(path), path))
        return tuple(found)

    @property
    def folder(self) -> str:
        """The timeline's folder relative to the storage's root."""
        return _folder(self.base)

    def path(self, time: str, action: str, state: str) -> str:
        """The path of an instant's file relative to the storage's root."""
        return f"{self.folder}/{instant_file(time, action, state)}"

    def begin(self, time: str, action: str) -> None:
        """Put the requested file of an instant."""
        self._put(time, action, REQUESTED, b"")

    def start(self, time: str, action: str) -> None:
        """Put the inflight file of an instant."""
        self._put(time, action, INFLIGHT, b"")

    def ensure_started(self, time: str, action: str, content: bytes) -> None:
        """Put the inflight file of an action that may have been started before."""
        with contextlib.suppress(CommitConflictError):
            self._put(time, action, INFLIGHT, content)

    def complete(self, time: str, action: str, content: bytes) -> None:
        """Put the completed file of an instant: the moment at which it becomes visible."""
        self._put(time, action, COMPLETED, content)

    def plan(self, time: str, action: str, content: bytes) -> None:
        """Put the requested file of an action that carries a plan."""
        self._put(time, action, REQUESTED, content)

    def remove(self, time: str, action: str) -> None:
        """Delete the files of an instant, the furthest state first."""
        for state in (COMPLETED, INFLIGHT, REQUESTED):
            self.storage.delete(self.path(time, action, state))

    def _put(self, time: str, action: str, state: str, content: bytes) -> None:
        path = self.path(time, action, state)
        try:
            requested = state == REQUESTED and not self.base
            if state == COMPLETED or content or requested:
                # A plan is on the disk before anybody acts on it, and an instant before its files:
                # without it nothing would lead to them after a power cut.
                self.storage.commit(path, content)
            else:
                self.storage.put(path, content)
        except FileExistsError as error:
            raise CommitConflictError(f"instant {path} exists: another writer won") from error


def _instants(storage: Storage, base: str) -> tuple[Instant, ...]:
    """Each instant that a timeline folder lists, in its furthest state, ordered by time."""
    furthest: dict[tuple[str, str], Instant] = {}
    for status in storage.list(_folder(base)):
        instant = parse_instant(status.name)
        if instant is None:
            continue
        key = (instant.time, _COMPLETES_AS.get(instant.action, instant.action))
        known = furthest.get(key)
        if known is None or _RANK[instant.state] > _RANK[known.state]:
            furthest[key] = instant
    return tuple(sorted(furthest.values(), key=lambda instant: (instant.time, instant.action)))


def _folder(base: str) -> str:
    return f"{base}/{HOODIE}" if base else HOODIE


def zone_of(timezone: str) -> tzinfo | None:
    """The zone of instant times: UTC, or None for the process's own (`LOCAL`)."""
    return UTC if timezone == "UTC" else None


def next_instant(clock: Clock, zone: tzinfo | None, *timelines: Timeline) -> str:
    """An instant not before the clock, and one millisecond after the latest known at least.

    An instant that was taken back is known, too, while its writer may still put files of it.
    """
    now = format_instant(clock.millis(), zone)
    known = [t.instants[-1].time[:17] for t in timelines if t.instants]
    known += [s.name[:17] for t in timelines[:1] for s in t.storage.list(FENCED)]
    latest = max(known, default="")
    if now > latest:
        return now
    return format_instant(instant_millis(latest, zone) + 1, zone)
