"""What is torn in a table: files of its newest instants that are empty, cut or gone.

A power cut, or a store that lost objects, takes the newest files; what is older stays whole.
Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from keymark.table.errors import CorruptFileError, TableError
from keymark.table.format.parquet.base_file import read_metadata
from keymark.table.layout.model import BaseFile, Instant
from keymark.table.layout.naming import HOODIE, parse_base_file
from keymark.table.layout.view import snapshot
from keymark.table.storage.storage import Storage
from keymark.table.timeline.clean_metadata import decode_clean, decode_clean_plan
from keymark.table.timeline.instant_name import COMPLETED, REQUESTED
from keymark.table.timeline.savepoint_metadata import decode_savepoint
from keymark.table.timeline.timeline import Timeline

COMMITS = ("commit", "replacecommit")


@dataclass(frozen=True, slots=True)
class Torn:
    """A file that is not what its table says, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is whole of a table's data and what is not.

    Attributes:
        target: the last commit up to which all is whole; "" for the empty table before the first.
        commits: the completed commits after it, the oldest first.
        others: other instants that cannot be read: cleans, rollbacks, savepoints and so on; and
            those after the target that are of no use without the commits that go.
        torn: the files that are torn.
        slices: older base files that commits up to the target name, and that are torn or gone
            without a clean: partition path -> names.
    """

    target: str
    commits: tuple[Instant, ...]
    others: tuple[Instant, ...]
    torn: tuple[Torn, ...]
    slices: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Looker:
    """Looks at each file once."""

    storage: Storage
    stored: dict[str, int]
    found: dict[str, str] = field(default_factory=dict)
    looked: set[str] = field(default_factory=set)

    def is_whole(self, path: str, size: int | None) -> bool:
        """Whether a base file is there, with its size if that is known, and has a footer."""
        if path not in self.looked:
            self.looked.add(path)
            reason = self._fault(path, size)
            if reason:
                self.found[path] = reason
        return path not in self.found

    def _fault(self, path: str, size: int | None) -> str:
        if path not in self.stored:
            return "the file is gone"
        if size is not None and self.stored[path] != size:
            return f"it has {self.stored[path]} bytes, and its commit wrote {size}"
        try:
            read_metadata(self.storage.open(path))
        except (TableError, FileNotFoundError) as error:
            return str(error)
        return ""


def survey(storage: Storage, target: str | None = None) -> Survey:
    """Find the last commit up to which a table is whole.

    Args:
        storage: the table's storage.
        target: the commit that an earlier survey found, whose recovery continues.

    Raises:
        CorruptFileError: no commit is whole, and earlier ones are archived.
    """
    timeline = Timeline.load(storage)
    stored = {
        status.path: status.size
        for status in storage.walk("")
        if not status.path.startswith(f"{HOODIE}/")
    }
    looker = _Looker(storage, stored)
    unread = _unreadable(timeline)
    others = [instant for instant in unread if instant.action not in COMMITS]
    taken = _taken_back(timeline, others)
    commits = timeline.completed(COMMITS)
    readable = []
    for commit in commits:
        if commit in unread or commit.time in taken:
            break
        readable.append(commit)
    kept = readable if target is None else [c for c in readable if c.time <= target]
    while not _is_whole(timeline, kept, looker):
        if not kept:
            path = min(looker.found, default=HOODIE)
            raise CorruptFileError(path, 0, "no commit of the active timeline is whole any more")
        kept.pop()
    if not kept and commits and _is_not_the_first(timeline, stored, commits):
        # To give up every commit would lose rows that are there.
        path = min(
            looker.found, default=timeline.path(commits[0].time, commits[0].action, COMPLETED)
        )
        raise CorruptFileError(
            path,
            0,
            "no commit is whole: files that earlier ones need were cleaned, or their instants are "
            "archived; nothing was changed",
        )
    gone = tuple(commit for commit in commits if commit not in kept)
    last = kept[-1].time if kept else ""
    # Where a recovery continues, commits may have been moved aside already.
    later = _of_no_use(timeline, last, commits_go=bool(gone) or target is not None)
    others += [instant for instant in later if instant not in others]
    torn = [Torn(timeline.path(i.time, i.action, i.state), why) for i, why in unread.items()]
    torn += [Torn(path, why) for path, why in looker.found.items()]
    return Survey(
        target=last,
        commits=gone,
        others=tuple(others),
        torn=tuple(torn),
        slices=_torn_slices(timeline, kept, others, looker),
    )


def _unreadable(timeline: Timeline) -> dict[Instant, str]:
    """The instants whose file cannot be read, and why."""
    found = {}
    for instant in timeline.instants:
        try:
            _read(timeline, instant)
        except TableError as error:
            found[instant] = str(error)
    return found


def _read(timeline: Timeline, instant: Instant) -> None:
    """Read what an instant says, if anything reads that later."""
    path = timeline.path(instant.time, instant.action, instant.state)
    if not instant.completed:
        if instant.action in ("rollback", "restore"):
            timeline.planned_by(instant)
        if instant.action == "clean":
            plan = timeline.path(instant.time, "clean", REQUESTED)
            data = timeline.storage.read(plan)
            if data:
                decode_clean_plan(data, plan)
        return
    if instant.action in COMMITS:
        timeline.commit(instant)
    elif instant.action == "clean":
        decode_clean(timeline.storage.read(path), path)
    elif instant.action == "savepoint":
        decode_savepoint(timeline.storage.read(path), path)
    elif instant.action in ("rollback", "restore"):
        timeline.taken_back_by(instant)
    elif not timeline.storage.read(path):
        raise CorruptFileError(path, 0, "the file is empty")


def _of_no_use(timeline: Timeline, last: str, *, commits_go: bool) -> list[Instant]:
    """Savepoints after the last commit that stays, and pending cleans where later commits go.

    What such a clean was to delete may be current again. What it has deleted is found missing.
    """
    late = [instant for instant in timeline.instants if instant.time > last]
    found = [instant for instant in late if instant.action == "savepoint"]
    if commits_go:
        found += [i for i in late if i.action == "clean" and not i.completed]
    return found


def _taken_back(timeline: Timeline, unread: Sequence[Instant]) -> set[str]:
    """The commits that torn rollbacks had taken back: they must not come back."""
    taken: set[str] = set()
    for instant in unread:
        if instant.action in ("rollback", "restore") and instant.completed:
            try:
                taken.update(timeline.planned_by(instant))
            except (TableError, FileNotFoundError):
                continue
    return taken


def _is_whole(timeline: Timeline, kept: Sequence[Instant], looker: _Looker) -> bool:
    """Whether the snapshot at the last of some commits has all its files."""
    sizes: dict[str, int] = {}
    for commit in kept:
        sizes.update((path, size) for _, path, size in timeline.commit(commit).files)
    start = kept[0].time if kept else "~"
    listing: dict[str, dict[str, int]] = {}
    for path, size in (looker.stored | sizes).items():
        partition, _, name = path.rpartition("/")
        file = parse_base_file(partition, name, 1)
        if file is not None and (path in sizes or (kept and file.instant_time < start)):
            # The size does not matter to a snapshot, so long as there is one.
            listing.setdefault(partition, {})[name] = max(size, 1)
    others = {c for c in timeline.completed(COMMITS) if c not in kept}
    shown = replace(timeline, instants=tuple(i for i in timeline.instants if i not in others))
    current = snapshot(listing, shown).files
    # All of them are looked at, so that all that is torn is named.
    faults = [f for f in current if not looker.is_whole(f.path, sizes.get(f.path))]
    return not faults


def _is_not_the_first(
    timeline: Timeline, stored: Mapping[str, int], commits: Sequence[Instant]
) -> bool:
    """Whether the table had rows that no commit of the active timeline can bring back."""
    if any(instant.action == "clean" for instant in timeline.instants):
        return True
    files = (parse_base_file("", path.rpartition("/")[2], 1) for path in stored)
    older = any(file is not None and file.instant_time < commits[0].time for file in files)
    folders = (f"{HOODIE}/archived", f"{HOODIE}/history")
    return older and any(timeline.storage.list(folder) for folder in folders)


def _torn_slices(
    timeline: Timeline, kept: Sequence[Instant], others: Sequence[Instant], looker: _Looker
) -> dict[str, tuple[str, ...]]:
    """Older base files that commits name, that are torn or gone, and that no clean names."""
    cleaned: set[tuple[str, str]] = set()
    for instant in timeline.completed({"clean"}):
        if instant not in others:
            path = timeline.path(instant.time, "clean", COMPLETED)
            clean = decode_clean(timeline.storage.read(path), path)
            cleaned |= {(p, name) for p, names in clean.files.items() for name in names}
    found: dict[str, tuple[str, ...]] = {}
    for commit in kept:
        for _, path, size in timeline.commit(commit).files:
            partition, _, name = path.rpartition("/")
            file: BaseFile | None = parse_base_file(partition, name, size)
            if file is None or (partition, name) in cleaned or looker.is_whole(path, size):
                continue
            if name not in found.get(partition, ()):
                found[partition] = (*found.get(partition, ()), name)
    return found
