"""What a writer that lost the table may still put, where there are no locks.

    .hoodie/.keymark/fenced/<T>    instant T was taken back while its writer may have been alive

Such a writer changes one more file at most (storage/fence.py). A file of T that appears after T was
taken back belongs to no commit. Each write of the following days looks where it could be, and
deletes it. Until then readers leave files of these instants out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from keymark.table.layout.naming import FENCED, PARTITION_METADATA
from keymark.table.metadata.writer import late_files_of_metadata
from keymark.table.storage.fence import FencedStorage
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline

# A machine that slept for longer is not expected to wake up.
_KEPT_MILLIS = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class FencedInstant:
    """An instant that was taken back.

    Attributes:
        time: the instant.
        since: when it was taken back, in epoch milliseconds.
        paths: the base files that its markers named.
    """

    time: str
    since: int
    paths: tuple[str, ...]


def note_fenced(storage: Storage, time: str, paths: Iterable[str]) -> None:
    """Remember an instant before it is taken back; nothing on storage that keeps its writer out."""
    if not isinstance(storage, FencedStorage):
        return
    known = {path for note in fenced_instants(storage) if note.time == time for path in note.paths}
    document = {"since": storage.clock.millis(), "paths": sorted(known | set(paths))}
    storage.replace(f"{FENCED}/{time}", json.dumps(document).encode())


def fenced_times(storage: Storage) -> frozenset[str]:
    """The instants that are remembered; none of them was ever completed."""
    return frozenset(status.name for status in storage.list(FENCED))


def fenced_instants(storage: Storage) -> list[FencedInstant]:
    """What is remembered; a damaged note always counts as one without paths."""
    found = []
    for status in storage.list(FENCED):
        try:
            document = json.loads(storage.read(status.path))
            since, paths = int(document["since"]), tuple(map(str, document["paths"]))
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError, RecursionError):
            since, paths = 1 << 62, ()
        found.append(FencedInstant(status.name, since, paths))
    return found


def sweep_late(storage: Storage, timeline: Timeline) -> None:
    """Delete what appeared since of instants that were taken back. Call it under the lease."""
    notes = fenced_instants(storage) if isinstance(storage, FencedStorage) else []
    if not notes:
        return
    completed = {instant.time for instant in timeline.completed()}
    times = {note.time for note in notes} - completed
    for note in notes:
        if note.time in times:
            _sweep_note(storage, note)
    for path in late_files_of_metadata(storage, times):
        storage.delete(path)
    assert isinstance(storage, FencedStorage)
    now = storage.clock.millis()
    for note in notes:
        if note.time in completed or note.since + _KEPT_MILLIS < now:
            storage.delete(f"{FENCED}/{note.time}")


def _sweep_note(storage: Storage, note: FencedInstant) -> None:
    wanted = set(note.paths)
    for partition in sorted({path.rpartition("/")[0] for path in wanted}):
        there = [status.path for status in storage.list(partition)]
        for path in wanted & set(there):
            storage.delete(path)
        others = [path for path in there if path not in wanted]
        own = f"{partition}/{PARTITION_METADATA}" if partition else PARTITION_METADATA
        # Files that were put into the partition since may rest on it.
        if others == [own] and f"commitTime={note.time}\n".encode() in storage.read(own):
            storage.delete(own)
