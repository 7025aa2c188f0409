"""Work that was begun and is not completed: what a check must not take for damage.

A writer or a service that dies, or whose disk is full, leaves work for the next write. Until then
the table is right, but some comparisons find differences. `PendingWork` says exactly which: the
files that a pending clean deletes, and the commits that a completed rollback or restore took back
and whose files are still to be deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from keymark.table.layout.model import BaseFile, Instant
from keymark.table.layout.naming import BUILD, ENTRIES, HOODIE, METADATA, PROPERTIES_BACKUP, TEMP
from keymark.table.metadata.reader import is_initial
from keymark.table.metadata.reshard_plan import RESHARDING, load_plan
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import FileStatus
from keymark.table.timeline.clean_metadata import decode_clean_plan
from keymark.table.timeline.instant_name import REQUESTED
from keymark.table.timeline.timeline import Timeline

_NEXT = "the next write"
_COMMITS = ("commit", "replacecommit")


@dataclass(frozen=True, slots=True)
class PendingWork:
    """What was begun and is not completed.

    Attributes:
        lines: one for each piece of work: what it is, and what completes it.
        to_delete: paths of the base files that pending cleans delete. The table lists them and
            they may be gone.
        taken_back: instants of commits that completed rollbacks and restores took back. The table
            does not list their files, which may still be there.
    """

    lines: tuple[str, ...]
    to_delete: frozenset[str]
    taken_back: frozenset[str]


def pending_work(
    state: TableState, stored: Sequence[FileStatus], bases: Sequence[BaseFile]
) -> PendingWork:
    """Find the pending work of a table.

    Args:
        state: the table.
        stored: all files on its storage.
        bases: those of them that are base files of the data.

    Raises:
        CorruptFileError: the plan of a pending action is damaged.
    """
    plans = {i.time: _clean_paths(state.timeline, i) for i in _pending(state, "clean")}
    current = {file.path for file in state.snapshot.files}
    to_delete = frozenset(path for paths in plans.values() for path in paths) - current
    taken_back, rollback_lines = _rollbacks(state, bases)
    present = {file.path for file in bases}
    clean_lines = [
        f"clean {time} was begun and not completed: {len(present.intersection(paths))} of "
        f"{len(paths)} files are still to be deleted; {_NEXT} finishes it"
        for time, paths in plans.items()
    ]
    lines = [
        *clean_lines,
        *rollback_lines,
        *_unfinished(state, bases),
        *_unfinished_in_metadata(state),
        *_left_files(state, stored),
        *_orphans(state, bases),
    ]
    return PendingWork(tuple(lines), to_delete, taken_back)


def _pending(state: TableState, action: str) -> list[Instant]:
    return [instant for instant in state.timeline.pending() if instant.action == action]


def _clean_paths(timeline: Timeline, clean: Instant) -> tuple[str, ...]:
    """The paths, relative to the table, that a pending clean is to delete."""
    path = timeline.path(clean.time, "clean", REQUESTED)
    data = timeline.storage.read(path)
    if not data:
        return ()
    planned = decode_clean_plan(data, path).files
    return tuple(
        f"{partition}/{name}" if partition else name
        for partition, paths in planned.items()
        for name in (each.rpartition("/")[2] for each in paths)
    )


def _rollbacks(state: TableState, bases: Sequence[BaseFile]) -> tuple[frozenset[str], list[str]]:
    """The commits that were taken back and are still there, and what to say about them."""
    completed = {i.time for i in state.timeline.completed(_COMMITS)}
    files = Counter(file.instant_time for file in bases)
    taken: set[str] = set()
    lines = []
    for instant in state.timeline.completed({"rollback", "restore"}):
        left = sorted(completed.intersection(state.timeline.taken_back_by(instant)))
        taken.update(left)
        if left:
            count = sum(files[time] for time in left)
            lines.append(
                f"{instant.action} {instant.time} took {_counted(len(left), 'commit')} back: "
                f"{_counted(count, 'file')} of {', '.join(left)} are still to be deleted; {_NEXT} "
                "does that"
            )
    return frozenset(taken), lines


def _unfinished(state: TableState, bases: Sequence[BaseFile]) -> list[str]:
    """The other actions on the data's timeline that were begun and not completed."""
    files = Counter(file.instant_time for file in bases)
    config, lines = state.config, []
    for instant in state.timeline.pending():
        begun = f"{instant.action} {instant.time} was begun and not completed"
        if instant.action == "commit":
            count = _counted(files[instant.time], "file")
            lines.append(f"{begun}: {count} of it are there; {_NEXT} takes it back")
        elif instant.action in ("rollback", "restore", "savepoint"):
            lines.append(f"{begun}: {_NEXT} takes it back")
        elif instant.action == "indexing" and config.building:
            lines.append(
                f"{begun}: {', '.join(config.building)} is being built; `table index run` finishes "
                "it, `table index abort` gives it up"
            )
        elif instant.action == "indexing":
            lines.append(f"{begun}: {_NEXT} settles it")
        elif instant.action != "clean":
            lines.append(f"{begun}: Apache Hudi must finish it")
    return lines


def _unfinished_in_metadata(state: TableState) -> list[str]:
    """Actions on the metadata table's timeline that no action of the data accounts for."""
    if state.metadata is None:
        return []
    own = {instant.time for instant in state.timeline.pending()}
    plan = load_plan(state.storage)
    lines = []
    for instant in state.metadata.timeline.pending():
        if instant.time in own:
            continue
        begun = f"{instant.action} {instant.time} of the metadata table was begun and not completed"
        if instant.action == "clean":
            lines.append(f"{begun}: {_NEXT} finishes it")
        elif plan is not None and instant.time == plan.instant:
            lines.append(
                f"{begun}: the record index is being re-sharded to {plan.after} file groups; "
                "`table index reshard` continues it, or gives it up with --abort"
            )
        elif instant.action in ("deltacommit", "replacecommit") and is_initial(instant.time):
            lines.append(f"{begun}: it opens or fills a partition; {_NEXT} takes it back")
        else:
            lines.append(f"{begun}: {_NEXT} takes it back")
    return lines


def _left_files(state: TableState, stored: Iterable[FileStatus]) -> list[str]:
    """Files beside the timelines that nothing in use refers to."""
    counts: dict[str, int] = Counter()
    completed = {instant.time for instant in state.timeline.completed()}
    maintained = set(state.config.maintained)
    for status in stored:
        parts = status.path.split("/")
        if status.path.startswith(f"{TEMP}/") and parts[2] in completed:
            counts[f"markers of instant {parts[2]}, which is completed"] += 1
        elif status.path.startswith(f"{BUILD}/") and parts[3] not in (*maintained, RESHARDING):
            counts[f"files of a build of {parts[3]} that is not going on"] += 1
        elif status.path.startswith(f"{METADATA}/"):
            if parts[2] not in (HOODIE, *maintained) or not maintained:
                name = parts[2] if maintained else "the metadata table"
                counts[f"files of {name}, which is not in use"] += 1
        elif status.path.startswith(f"{ENTRIES}/"):
            counts[f"entries of instant {parts[3]} in an index outside of the table"] += 1
        elif status.path == PROPERTIES_BACKUP:
            counts["backup of hoodie.properties"] += 1
    return [f"{what} ({_counted(n, 'file')}): {_NEXT} settles that" for what, n in counts.items()]


def _orphans(state: TableState, bases: Sequence[BaseFile]) -> list[str]:
    """Base files of instants that no timeline names, which readers leave out."""
    # A writer may have begun since the timeline was read.
    known = {instant.time for instant in state.timeline.again().instants}
    visible = state.timeline.visible({file.instant_time for file in bases})
    files = Counter(file.instant_time for file in bases if file.instant_time not in known | visible)
    return [
        f"{_counted(count, 'file')} of instant {time}, which was never completed: readers leave "
        "them out"
        for time, count in sorted(files.items())
    ]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
