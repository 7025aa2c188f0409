"""One listing of a whole table, and the file slices that it shows.

A slice is a base file with the log files on top of it. The log files of table version 6 are named
by the instant of their base file, those of version 8 and later by their own. Such a write may have
begun before a compaction was planned, and ended after: then its log file is on top of what the
compaction made.
Source: HoodieFileGroup.getBaseInstantTime, AbstractTableFileSystemView of Hudi 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from keymark.table.layout.naming import HOODIE, METADATA
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.storage.storage import Obstacle, Storage

_BASE = re.compile(r"(.+)_\d+-\d+-\d+_(\d+)\.(?:parquet|hfile)")
_LOG = re.compile(r"\.(.+)_(\d+)\.log\.(\d+)(?:_\d+-\d+-\d+)?")
_INDEX = f"{METADATA}/{RECORD_INDEX}"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A base file or log file by its name: instant, path, bytes; of a log file its number."""

    instant: str
    path: str
    size: int
    number: int = 0


@dataclass(slots=True)
class FileGroup:
    """All files of a file group, in no order."""

    bases: list[ListedFile] = field(default_factory=list)
    logs: list[ListedFile] = field(default_factory=list)


Groups = dict[tuple[str, str], FileGroup]
"""By partition path and file id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a table's folder holds.

    Attributes:
        groups: of the data.
        shards: of the record index; the partition path is that of the metadata table.
        hidden: all other files below `.hoodie`, by path.
        obstacles: places that could not be looked into.
    """

    groups: Groups
    shards: Groups
    hidden: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The latest slice of a file group, and what came before it.

    Attributes:
        base: None where there are log files alone.
        logs: on top of it, the oldest first.
        old: replaced files, each with the instant of the base file that replaced it.
    """

    base: ListedFile | None
    logs: tuple[ListedFile, ...]
    old: tuple[tuple[ListedFile, str], ...]


def list_table(storage: Storage) -> Listing:
    """List everything in a table's folder: on an object store a request for 1,000 files."""
    groups: Groups = {}
    shards: Groups = {}
    hidden: list[str] = []
    obstacles: list[Obstacle] = []
    for found in storage.survey(""):
        if isinstance(found, Obstacle):
            obstacles.append(found)
            continue
        parent, _, name = found.path.rpartition("/")
        if parent == _INDEX:
            _add(shards, RECORD_INDEX, name, found.path, found.size)
        elif found.path.startswith(f"{HOODIE}/"):
            hidden.append(found.path)
        else:
            _add(groups, parent, name, found.path, found.size)
    return Listing(groups=groups, shards=shards, hidden=tuple(hidden), obstacles=tuple(obstacles))


def _add(groups: Groups, partition: str, name: str, path: str, size: int) -> None:
    """Add a file to its group; other files, such as partition metadata, are passed over."""
    if match := _BASE.fullmatch(name):
        group = groups.setdefault((partition, match[1]), FileGroup())
        group.bases.append(ListedFile(match[2], path, size))
    elif match := _LOG.fullmatch(name):
        group = groups.setdefault((partition, match[1]), FileGroup())
        group.logs.append(ListedFile(match[2], path, size, int(match[3])))


@dataclass(frozen=True, slots=True)
class LogWrites:
    """The writes of log files, where these have the instants of their own writes.

    Attributes:
        visible: whether the write of an instant was completed.
        completions: when writes were completed, by instant, as far as the timeline tells.
    """

    visible: Callable[[str], bool]
    completions: Mapping[str, str]

    def ended(self, logs: Iterable[ListedFile]) -> dict[ListedFile, str]:
        """The log files of completed writes, each with when it ended; of an archived one begun."""
        done = (log for log in logs if self.visible(log.instant))
        return {log: self.completions.get(log.instant, log.instant) for log in done}


def latest(
    group: FileGroup, visible: Callable[[str], bool], writes: LogWrites | None = None
) -> Slice | None:
    """The latest slice of a group; None where no write of it was completed.

    Args:
        group: its files.
        visible: whether the write of an instant was completed.
        writes: as `slices` has it.
    """
    bases = sorted((f for f in group.bases if visible(f.instant)), key=lambda f: f.instant)
    newest = bases[-1] if bases else None
    since = newest.instant if newest else ""
    ended = {log: log.instant for log in group.logs} if writes is None else writes.ended(group.logs)
    logs = [log for log, time in ended.items() if time >= since]
    if newest is None and not logs:
        return None
    replaced = zip(bases[:-1], (after.instant for after in bases[1:]), strict=True)
    old = [*replaced, *((log, since) for log, time in ended.items() if time < since)]
    logs.sort(key=lambda log: (log.instant, log.number))
    return Slice(base=newest, logs=tuple(logs), old=tuple(old))


def slices(
    groups: Groups,
    visible: Callable[[str], bool],
    replaced: Iterable[tuple[str, str]] = (),
    writes: LogWrites | None = None,
) -> Iterator[tuple[tuple[str, str], Slice]]:
    """Partition path and file id of each live file group, with its latest slice.

    Args:
        groups: of a table.
        visible: whether the write of an instant was completed.
        replaced: groups that a replacecommit took out.
        writes: of log files; None where they have the instant of their base file, all of them.
    """
    gone = frozenset(replaced)
    for place, group in groups.items():
        found = None if place in gone else latest(group, visible, writes)
        if found is not None:
            yield place, found
