"""Base files of instants that were never completed: readers must not see them.

Such a file is there while its writer works, until a dead writer's files are swept, and where a
writer that lost the table puts one late. Once the timeline has moved past its instant, other
readers count it as archived. So nothing of the kind may be left when instants are archived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import HOODIE, parse_base_file
from keymark.table.layout.view import Listing
from keymark.table.properties.config import archive_folder
from keymark.table.state.late import fenced_times
from keymark.table.storage.storage import Storage
from keymark.table.timeline.archived import archive_number, decode_archive
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.timeline.timeline import Timeline


def completed_in_archive(timeline: Timeline) -> frozenset[str]:
    """The instants that the archive of a timeline holds as completed."""
    found: set[str] = set()
    for status in timeline.storage.list(archive_folder(timeline)):
        if archive_number(status.name) is not None:
            entries = decode_archive(timeline.storage.open(status.path))
            found.update(entry.time for entry in entries if entry.state == COMPLETED)
    return frozenset(found)


def may_be_archived(time: str, timeline: Timeline) -> bool:
    """Whether an instant that the timeline does not hold was completed, as far as one can tell."""
    start = min((instant.time for instant in timeline.instants), default="")
    if time >= start:
        return False
    archived = completed_in_archive(timeline)
    return time in archived or time < min(archived, default="~")


def stored_files(storage: Storage) -> Iterator[BaseFile]:
    """The base files of the data on storage, whatever names them."""
    for status in storage.walk(""):
        partition, _, name = status.path.rpartition("/")
        file = parse_base_file(partition, name, status.size)
        if file is not None and not status.path.startswith(f"{HOODIE}/"):
            yield file


def uncommitted_files(
    files: Iterable[BaseFile], timeline: Timeline, listing: Listing | None
) -> tuple[BaseFile, ...]:
    """The base files on storage that belong to no commit and that no writer is writing.

    Args:
        files: base files on storage.
        timeline: of the data.
        listing: the `files` partition; None for a table without it.

    Returns:
        Files whose instant was taken back, or is in neither the timeline nor its archive. Where
        the archive does not reach back so far that is unknown, and the file is left out.
    """
    known = {instant.time for instant in timeline.instants}
    latest, fenced = max(known, default=""), fenced_times(timeline.storage)
    found = [
        file
        for file in files
        if file.instant_time not in known
        and (file.instant_time < latest or file.instant_time in fenced)
        and (listing is None or file.name not in listing.get(file.partition_path, {}))
    ]
    if not found:
        return ()
    start = min(timeline.commit_times(), default="")
    archived = completed_in_archive(timeline)
    first = min(archived, default="~")
    return tuple(
        file
        for file in found
        if file.instant_time in fenced
        or file.instant_time > start
        or (file.instant_time > first and file.instant_time not in archived)
    )
