"""What is left of a table and of the keys in it, file by file.

A file does not change once it is there: it is searched once, while the table's lease is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from table.bootstrap.target import Progress, Steps
from table.naming import METADATA, parse_base_file, parse_log_file
from table.services.evidence import (
    Evidence,
    FileSearch,
    KeySet,
    is_base_file,
    search_file,
    union,
)
from table.storage import FileStatus, Storage
from table.timeline.instant_name import COMPLETED
from table.timeline.savepoint_metadata import decode_savepoint
from table.write.runner import TaskRunner
from table.write.transaction import TableState

Places = Mapping[str, frozenset[int]]
"""Path of a base file -> the keys (rows of the key set) that it holds as record keys"""


@dataclass(slots=True, kw_only=True)
class Proof:
    """What every file that is left was found to hold.

    Attributes:
        storage: the table's.
        runner: where files are searched.
        asked: the keys.
        progress: told how many files were searched.
        state: the table as it is now; whoever changes it reads it anew.
        evidence: by path.
    """

    storage: Storage
    runner: TaskRunner
    asked: KeySet
    progress: Progress
    state: TableState
    evidence: dict[str, Evidence] = field(default_factory=dict)

    def look(self, wanted: Callable[[FileStatus], bool]) -> None:
        """Search the wanted files that were not searched yet; forget those that are gone."""
        there = {status.path: status for status in self.storage.walk("")}
        for path in self.evidence.keys() - there.keys():
            del self.evidence[path]
        new = [s for path, s in there.items() if path not in self.evidence and wanted(s)]
        works = [FileSearch(self.storage, s.path, self.asked, self.state.config) for s in new]
        steps = Steps(self.runner, self.progress, "files")
        for found in steps.run(search_file, works, weights=[status.size for status in new]):
            self.evidence[found.path] = found

    @property
    def kept(self) -> frozenset[str]:
        """The base files that stay: those of the current rows, and of savepoints."""
        saved = savepoint_paths(self.state).values()
        current = frozenset(file.path for file in self.state.snapshot.files)
        return current.union(*saved)

    @property
    def exempt(self) -> frozenset[int]:
        """Keys that occur in values of rows that stay: those belong to other keys."""
        kept = self.kept
        return union(found.values for path, found in self.evidence.items() if path in kept)

    def outdated(self) -> list[str]:
        """Base files that hold a key in any way and are not needed."""
        kept, exempt = self.kept, self.exempt
        return [
            path
            for path, found in self.evidence.items()
            if is_base_file(path) and path not in kept and found.beside(exempt)
        ]

    def undeleted(self) -> Places:
        """Current files with rows of a key."""
        kept = self.kept
        return {path: e.keys for path, e in self.evidence.items() if e.keys and path in kept}

    def groups(self) -> dict[tuple[str, str], set[str]]:
        """Partition and file id of groups of the metadata table -> their files with a key."""
        exempt = self.exempt
        found: dict[tuple[str, str], set[str]] = {}
        for path, evidence in self.evidence.items():
            partition, _, name = path.removeprefix(f"{METADATA}/").rpartition("/")
            of = parse_base_file(partition, name, 0) or parse_log_file(partition, name, 0)
            if path.startswith(f"{METADATA}/") and of is not None and evidence.beside(exempt):
                found.setdefault((partition, of.file_id), set()).add(path)
        return found

    def left(self) -> list[str]:
        """Files that hold a key."""
        exempt = self.exempt
        return [path for path, found in self.evidence.items() if found.beside(exempt)]


def base_files(state: TableState) -> list[FileStatus]:
    """All base files of the data on storage, listed or not."""
    return [status for status in state.storage.walk("") if is_base_file(status.path)]


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
