"""From a listing and a timeline to the base files that a reader sees.

A base file is visible when its instant is completed or is before the active timeline; per file
group the largest visible instant counts; file groups that a completed replace commit took out are
gone. Source: AbstractTableFileSystemView of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from keymark.table.errors import CorruptFileError, InputError, UnsupportedTableError
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import BOOTSTRAPPED, parse_base_file
from keymark.table.properties.config import archive_folder
from keymark.table.timeline.archived import archive_number, decode_archive
from keymark.table.timeline.clean_metadata import Clean, clean_of
from keymark.table.timeline.commit_metadata import REPLACED
from keymark.table.timeline.instant_name import COMPLETED, as_of_instant
from keymark.table.timeline.timeline import Timeline

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


def listed_files(listing: Listing) -> Iterator[BaseFile]:
    """The base files of a listing, committed or not; other files are passed over."""
    for partition, names in listing.items():
        for name, size in names.items():
            file = parse_base_file(partition, name, size)
            if file is not None:
                yield file


def snapshot(listing: Listing, timeline: Timeline, as_of: str | None = None) -> Snapshot:
    """The latest visible base file of each file group, at an instant or now.

    Raises:
        InputError: files that held rows at the instant are gone, or it is no longer known.
        UnsupportedTableError: files hold the meta columns alone, those of Hudi's bootstrap.
    """
    as_of = None if as_of is None else as_of_instant(as_of)
    found = []
    for file in listed_files(listing):
        if file.size <= 0:
            raise CorruptFileError(file.path, 0, "a base file has no bytes")
        if as_of is None or file.instant_time <= as_of:
            found.append(file)
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
    if bare := sum(file.instant_time == BOOTSTRAPPED for file in latest.values()):
        raise UnsupportedTableError(
            f"{bare} base files are of Hudi's bootstrap: they hold the meta columns alone, the "
            "others are in files outside of the table; let Hudi write the file groups anew, as by "
            "clustering"
        )
    if as_of is not None:
        _check_kept(latest, timeline, as_of)
    ordered = sorted(latest.values(), key=lambda file: (file.partition_path, file.file_id))
    return Snapshot(tuple(ordered), as_of)


def _check_kept(latest: Mapping[tuple[str, str], BaseFile], timeline: Timeline, as_of: str) -> None:
    """Refuse an instant that was cleaned: reading what is left of it would miss rows."""
    start = min(timeline.commit_times(), default="")
    if as_of < start and timeline.storage.list(archive_folder(timeline)):
        raise InputError(f"instants before {start} are archived: as of {as_of} cannot be read")
    cleans, replaced = _cleans(timeline, as_of)
    # A clean leaves all that readers need as of the earliest instant that it retains, and later.
    cleaned = [
        file
        for clean in cleans
        if as_of < clean.retains
        for partition, names in clean.files.items()
        for name in names
        if (file := parse_base_file(partition, name, 0)) and file.instant_time <= as_of
    ]
    visible = timeline.visible({file.instant_time for file in cleaned})
    gone = set()
    for file in cleaned:
        location = (file.partition_path, file.file_id)
        kept = latest.get(location)
        newer = kept is not None and kept.instant_time > file.instant_time
        if file.instant_time in visible and not newer and replaced.get(location, "~") > as_of:
            gone.add(location)
    if gone:
        raise InputError(f"rows as of {as_of} are gone: {len(gone)} of their files were cleaned")


def _cleans(timeline: Timeline, as_of: str) -> tuple[list[Clean], dict[tuple[str, str], str]]:
    """The cleans that can have deleted what an instant needs, and when file groups were replaced.

    Hudi archives cleans by their own number: where a savepoint or a pending write keeps commits on
    the timeline, cleans of that time are in the archive alone (HoodieTimelineArchiver,
    getCleanInstantsToArchive).
    """
    cleans, replaced = list(timeline.cleans()), timeline.replaced_file_ids()
    if not cleans or as_of >= cleans[0].retains:
        return cleans, replaced
    for status in timeline.storage.list(archive_folder(timeline)):
        if archive_number(status.name) is None:
            continue
        for entry in decode_archive(timeline.storage.open(status.path)):
            if entry.state != COMPLETED or entry.payload is None:
                continue
            if entry.action == "clean":
                cleans.append(clean_of(entry.payload))
            elif entry.action == "replacecommit":
                for partition, file_ids in (entry.payload[REPLACED] or {}).items():
                    for file_id in file_ids:
                        replaced.setdefault((partition, file_id), entry.time)
    return cleans, replaced
