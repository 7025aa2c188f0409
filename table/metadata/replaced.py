"""What a re-sharding to fewer file groups of the metadata table took out.

    .hoodie/metadata/.hoodie/<T>.replacecommit    names it: partitionToReplaceFileIds

Hudi leaves such a file group out by its name alone, whatever files it has, as long as T is on the
active timeline. A group that gets the name later, in a re-sharding to more or in a build of the
index by Hudi, would be left out as well, and keys be looked for in the wrong ones. So the files go
right after the switch, and T is written anew without the names. All older slices of the partition
go: who read the timeline before T and lists files afterwards must find no group, rather than some.
Source: AbstractTableFileSystemView.resetFileGroupsReplaced, isFileGroupReplaced of Hudi 0.15.
"""

from __future__ import annotations

from keymark.table.layout.naming import METADATA
from keymark.table.metadata.partitions import supported
from keymark.table.metadata.reader import slice_of
from keymark.table.timeline.commit_metadata import encode_replaced
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.timeline.timeline import Timeline


def settle_replaced(metadata: Timeline) -> None:
    """Delete what replace commits of the metadata table took out, and the names of it.

    Call it under the lease.
    """
    storage = metadata.storage
    for instant in metadata.completed({"replacecommit"}):
        named = metadata.commit(instant).replaced
        partitions = [name for name, file_ids in named.items() if file_ids and supported(name)]
        for partition in partitions:
            for status in storage.list(f"{METADATA}/{partition}"):
                owner = slice_of(partition, status.name)
                if owner is not None and owner[1] < instant.time:
                    storage.delete(status.path)
        if partitions:
            path = metadata.path(instant.time, instant.action, COMPLETED)
            left = {**named, **dict.fromkeys(partitions, ())}
            # This syncs the deletions first: after a power cut no group may be back.
            storage.replace(path, encode_replaced(storage.read(path), left))
