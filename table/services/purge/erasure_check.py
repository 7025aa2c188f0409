"""What is left of a table and of the keys in it, file by file.

A file does not change once it is there: it is searched once, while the table's lease is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from keymark.table.errors import StorageError
from keymark.table.layout.naming import parse_base_file, parse_log_file
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner
from keymark.table.services.purge.key_matches import (
    FileSearch,
    KeyMatches,
    KeySet,
    is_base_file,
    metadata_partition,
    names_hold_keys,
    search_file,
    union,
)
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Obstacle, Storage
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.timeline.savepoint_metadata import decode_savepoint

Places = Mapping[str, frozenset[int]]
"""Path of a base file -> the keys (rows of the key set) that it holds as record keys"""


@dataclass(slots=True, kw_only=True)
class ErasureCheck:
    """What every file that is left was found to hold.

    Attributes:
        storage: the table's.
        runner: where files are searched.
        asked: the keys.
        progress: receives how many files were searched.
        state: the table as it is now; it is read anew after a change.
        matches: what was found, by path.
        obstacles: path of each place that could not be looked into -> why.
    """

    storage: Storage
    runner: TaskRunner
    asked: KeySet
    progress: Progress
    state: TableState
    matches: dict[str, KeyMatches] = field(default_factory=dict)
    obstacles: dict[str, str] = field(default_factory=dict)

    def look(self, wanted: Callable[[str], bool]) -> None:
        """Search the wanted paths that were not searched yet; forget those that are gone.

        Files are those that storage shows and those that the table lists: either may know of one
        that the other does not.
        """
        stored, self.obstacles = survey(self.storage)
        there = {**listed_files(self.state), **stored}
        for path in self.matches.keys() - there.keys():
            del self.matches[path]
        new = [path for path in there if path not in self.matches and wanted(path)]
        works = [FileSearch(self.storage, path, self.asked, self.state.config) for path in new]
        steps = ProgressRunner(self.runner, self.progress, "files")
        for found in steps.run(search_file, works, weights=[there[path] for path in new]):
            self.matches[found.path] = found

    @property
    def unsearched(self) -> dict[str, str]:
        """Path of each folder and file that could not be searched -> why."""
        unread = {path: found.unread for path, found in self.matches.items() if found.unread}
        return {**self.obstacles, **unread}

    def refuse_unread_rows(self) -> None:
        """StorageError if a file with current rows, or one of a savepoint, was not searched."""
        for path in sorted(self.kept & self.unsearched.keys()):
            raise StorageError(f"cannot read {path}: {self.unsearched[path]}")

    @property
    def kept(self) -> frozenset[str]:
        """The base files that stay: those of the current rows, and of savepoints."""
        saved = savepoint_paths(self.state).values()
        current = frozenset(file.path for file in self.state.snapshot.files)
        return current.union(*saved)

    @property
    def exempt(self) -> frozenset[int]:
        """Keys that occur in values of rows that stay, or in names of partitions.

        Those values belong to other keys. A partition keeps its name when its last row has gone;
        the name is a trace of a record only where it is made from a key column.
        """
        kept = self.kept
        values = union(found.values for path, found in self.matches.items() if path in kept)
        return values if names_hold_keys(self.state.config) else values | self.names

    @property
    def names(self) -> frozenset[int]:
        """Keys that occur in names of partitions."""
        return union(found.names for found in self.matches.values())

    def outdated(self) -> list[str]:
        """Base files that hold a key in any way and are not needed."""
        kept, exempt = self.kept, self.exempt
        return [
            path
            for path, found in self.matches.items()
            if is_base_file(path) and path not in kept and found.beside(exempt)
        ]

    def undeleted(self) -> Places:
        """Current files with rows of a key."""
        kept = self.kept
        return {path: e.keys for path, e in self.matches.items() if e.keys and path in kept}

    def traces(self) -> Places:
        """Current files with traces of keys that no row of theirs has.

        A base file whose pages were copied may have them: in dictionaries, and as the ends of
        ranges. They go where the file is written whole.
        """
        exempt, current = self.exempt, {file.path for file in self.state.snapshot.files}
        found = {
            path: (matches.marks | matches.bytes) - matches.keys - matches.names - exempt
            for path, matches in self.matches.items()
            if path in current
        }
        return {path: keys for path, keys in found.items() if keys}

    def groups(self) -> dict[tuple[str, str], set[str]]:
        """Partition and file id of groups of the metadata table -> their files with a key."""
        exempt = self.exempt
        found: dict[tuple[str, str], set[str]] = {}
        for path, matches in self.matches.items():
            partition, name = metadata_partition(path), path.rpartition("/")[2]
            if partition is not None and matches.beside(exempt):
                of = parse_base_file(partition, name, 0) or parse_log_file(partition, name, 0)
                assert of is not None
                found.setdefault((partition, of.file_id), set()).add(path)
        return found

    def left(self) -> list[str]:
        """Files that hold a key."""
        exempt = self.exempt
        return [path for path, found in self.matches.items() if found.beside(exempt)]


def survey(storage: Storage, folder: str = "") -> tuple[dict[str, int], dict[str, str]]:
    """Path of each file on storage -> its bytes; path of what cannot be looked into -> why."""
    files: dict[str, int] = {}
    obstacles: dict[str, str] = {}
    for found in storage.survey(folder):
        if isinstance(found, Obstacle):
            obstacles[found.path] = found.reason
        else:
            files[found.path] = found.size
    return files, obstacles


def listed_files(state: TableState) -> dict[str, int]:
    """Path of each base file that the table lists -> its bytes."""
    return {
        f"{partition}/{name}" if partition else name: size
        for partition, names in state.listing.items()
        for name, size in names.items()
    }


def savepoint_paths(state: TableState) -> dict[str, frozenset[str]]:
    """Instant of each savepoint -> the paths of the files that it keeps."""
    saved = {}
    for instant in state.timeline.completed({"savepoint"}):
        path = state.timeline.path(instant.time, "savepoint", COMPLETED)
        files = decode_savepoint(state.storage.read(path), path).files
        saved[instant.time] = frozenset(
            f"{partition}/{name}" if partition else name
            for partition, names in files.items()
            for name in names
        )
    return saved
