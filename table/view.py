"""From a listing and a timeline to the base files that a reader sees.

A base file is visible when its instant is completed or lies before the active timeline; per file
group the largest visible instant counts; file groups that a completed replace commit took out are
gone. Source: AbstractTableFileSystemView of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from table.errors import CorruptFileError
from table.model import BaseFile
from table.naming import parse_base_file
from table.timeline.timeline import Timeline

Listing = Mapping[str, Mapping[str, int]]
"""partition path -> file name -> size in bytes"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The base files of one moment, ordered by partition path and file id."""

    files: tuple[BaseFile, ...]
    as_of: str | None = None

    def by_location(self) -> dict[tuple[str, str], BaseFile]:
        """(partition path, file id) -> base file."""
        return {(file.partition_path, file.file_id): file for file in self.files}

    def partition_paths(self) -> tuple[str, ...]:
        """The partition paths that hold files, sorted."""
        return tuple(sorted({file.partition_path for file in self.files}))


def snapshot(listing: Listing, timeline: Timeline, as_of: str | None = None) -> Snapshot:
    """The latest visible base file of each file group, at an instant or now."""
    found = [file for file in _base_files(listing) if as_of is None or file.instant_time <= as_of]
    visible = timeline.visible({file.instant_time for file in found})
    replaced = timeline.replaced_file_ids()
    latest: dict[tuple[str, str], BaseFile] = {}
    for file in found:
        location = (file.partition_path, file.file_id)
        gone = replaced.get(location)
        if file.instant_time not in visible:
            continue
        if gone is not None and (as_of is None or gone <= as_of):
            continue
        known = latest.get(location)
        if known is None or file.instant_time > known.instant_time:
            latest[location] = file
    ordered = sorted(latest.values(), key=lambda file: (file.partition_path, file.file_id))
    return Snapshot(tuple(ordered), as_of)


def _base_files(listing: Listing) -> Iterable[BaseFile]:
    for partition, names in listing.items():
        for name, size in names.items():
            file = parse_base_file(partition, name, size)
            if file is None:
                continue
            if size <= 0:
                raise CorruptFileError(file.path, 0, "a base file has no bytes")
            yield file
