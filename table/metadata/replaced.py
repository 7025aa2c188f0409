"""File groups of the metadata table that a re-sharding to fewer took out, until they are cleaned.

    .hoodie/metadata/.hoodie/<T>.replacecommit    names them: partitionToReplaceFileIds

Their files stay for readers that began before T. Hudi leaves such a group out by its name alone,
whatever files it has, as long as T is on the active timeline. A group that gets the name later, in
a re-sharding to more or in a build of the index by Hudi, would be left out as well. So T is written
anew without the name once the files are deleted. Here a file group is replaced only up to T.
Source: AbstractTableFileSystemView.resetFileGroupsReplaced, isFileGroupReplaced of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keymark.table.layout.model import Instant
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.partitions import supported
from keymark.table.metadata.reader import slice_of
from keymark.table.timeline.commit_metadata import encode_replaced
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedGroup:
    """A file group that was taken out and has files left.

    Attributes:
        partition: of the metadata table.
        file_id: its name.
        replaced: the instant that took it out.
        files: names of its files.
    """

    partition: str
    file_id: str
    replaced: str
    files: tuple[str, ...]


def replaced_groups(metadata: Timeline) -> tuple[ReplacedGroup, ...]:
    """The file groups that replace commits took out and that are not cleaned yet."""
    return tuple(
        ReplacedGroup(
            partition=partition, file_id=file_id, replaced=instant.time, files=tuple(files)
        )
        for instant in metadata.completed({"replacecommit"})
        for partition, groups in _files_left(metadata, instant).items()
        for file_id, files in groups.items()
        if files
    )


def forget_cleaned(metadata: Timeline) -> None:
    """Write replace commits anew without the file groups whose files are gone."""
    for instant in metadata.completed({"replacecommit"}):
        left = {
            partition: tuple(file_id for file_id, files in groups.items() if files)
            for partition, groups in _files_left(metadata, instant).items()
        }
        named = metadata.commit(instant).replaced
        if any(left[partition] != named[partition] for partition in left):
            path = metadata.path(instant.time, instant.action, COMPLETED)
            data = metadata.storage.read(path)
            # This syncs the deletions first: after a power cut no group may be back.
            metadata.storage.replace(path, encode_replaced(data, {**named, **left}))


def _files_left(metadata: Timeline, instant: Instant) -> Mapping[str, Mapping[str, list[str]]]:
    """Partition -> file id that a replace commit took out -> its files up to that instant."""
    found: dict[str, dict[str, list[str]]] = {}
    for partition, file_ids in metadata.commit(instant).replaced.items():
        if not file_ids or not supported(partition):
            continue
        groups = found.setdefault(partition, {file_id: [] for file_id in file_ids})
        for status in metadata.storage.list(f"{METADATA}/{partition}"):
            owner = slice_of(partition, status.name)
            if owner is not None and owner[0] in groups and owner[1] <= instant.time:
                groups[owner[0]].append(status.name)
    return found
