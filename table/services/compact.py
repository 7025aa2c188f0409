"""Compaction of the metadata table: logs merged into base files, one task per file group.

    <X>001.compaction.requested      the plan; X is the latest delta commit
    <X>001.compaction.inflight
    <file id>_<token>_<X>001.hfile   one per group that has something to merge
    <X>001.commit                    from here on these are the groups' latest slices

Only blocks that count are merged, so an instant that is stuck elsewhere holds nothing up. A group
without blocks keeps its slice. What a dead compaction left is taken back, and planned anew. Base
files carry no bloom filter: point lookups of Hudi do not ask for it. Source:
HoodieBackedTableMetadataWriter.compactIfNecessary of Hudi 0.15.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from table.errors import UnsupportedTableError
from table.format.hashing import file_id_hash, partition_id
from table.format.hfile.writer import HFileWriter
from table.format.log.block import BlockType
from table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS, FILES
from table.metadata.reader import MetadataTable, Shard, merged_files
from table.metadata.records import (
    ALL_PARTITIONS,
    PARTITION_LIST,
    SCHEMA,
    encode_files,
    partition_identifier,
)
from table.metadata.records import FILES as FILE_LIST
from table.model import BaseFile, FileSlice, WriteStat
from table.naming import METADATA, parse_base_file, parse_log_file
from table.storage import Storage
from table.timeline.commit_metadata import encode_commit
from table.timeline.compaction_plan import (
    CompactionOperation,
    encode_compaction_plan,
    slice_metrics,
)
from table.timeline.timeline import Timeline
from table.view import Listing
from table.write.runner import TaskRunner

_SUFFIX = "001"
_OF_FILES = (COLUMN_STATS, BLOOM_FILTERS)
# The end of the key of a record that describes a file: hashes of its partition and its name.
_FILE_KEY_LENGTH = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCompaction:
    """One file group to be merged into a base file. Runs on its own, anywhere.

    `live_files` (pa.Array of string) are the ends of the keys that describe a file which the table
    still has; None where records describe no files.
    """

    shard: Shard
    partition: str
    instant: str
    block_size: int
    live_files: Any

    def write(self) -> WriteStat:
        """Put the base file: live cells in key order, a block at a time."""
        writer = HFileWriter(SCHEMA, self.block_size)
        first, last, count = b"", b"", 0
        for keys, values in self._cells():
            if not len(keys):
                continue
            first = first if count else keys[0].as_py()
            last = keys[-1].as_py()
            count += len(keys)
            writer.add(keys, values)
        data = writer.finish(file_info={"minRecordKey": first, "maxRecordKey": last})
        base = self._base_file(len(data))
        self.shard.storage.put(f"{METADATA}/{base.path}", data)
        return WriteStat(
            file_id=base.file_id,
            path=base.path,
            partition_path=self.partition,
            prev_commit=self.shard.slice.base_instant_time,
            num_writes=count,
            num_inserts=0,
            num_updates=count,
            num_deletes=0,
            size=base.size,
        )

    def _base_file(self, size: int) -> BaseFile:
        return BaseFile(
            partition_path=self.partition,
            file_id=self.shard.slice.file_id,
            write_token=f"0-0-{secrets.randbelow(1 << 31)}",
            instant_time=self.instant,
            size=size,
            extension="hfile",
        )

    def _cells(self) -> Iterator[tuple[Any, Any]]:
        if self.partition == FILES:
            yield _files_cells(self.shard)
            return
        for keys, values in self.shard.batches():
            if self.live_files is None:
                yield keys, values
                continue
            ends = pc.utf8_slice_codeunits(keys.cast(pa.string()), -_FILE_KEY_LENGTH)
            live = pc.is_in(ends, value_set=self.live_files)
            yield keys.filter(live), values.filter(live)


def _files_cells(shard: Shard) -> tuple[Any, Any]:
    """The merged records of the `files` partition, without the files and partitions that went."""
    records = {}
    for key, entries in sorted(merged_files(shard).items(), key=lambda item: item[0].encode()):
        kind = PARTITION_LIST if key == ALL_PARTITIONS else FILE_LIST
        live = {name: entry for name, entry in entries.items() if not entry[1]}
        records[key] = encode_files(live, record_type=kind)
    keys = pa.array([key.encode() for key in records], pa.binary())
    return keys, pa.array(records.values(), pa.binary())


def compact_group(work: GroupCompaction) -> WriteStat:
    """The task that a runner distributes."""
    return work.write()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """Compacts the metadata table of one reading of the table, under the lease."""

    metadata: MetadataTable
    partitions: Sequence[str]
    listing: Listing
    block_size: int
    runner: TaskRunner

    def due(self, commits: int) -> bool:
        """Whether so many delta commits were completed since the latest compaction."""
        timeline = self.metadata.timeline
        last = max((i.time for i in timeline.completed({"commit"})), default="")
        since = [i for i in timeline.completed({"deltacommit"}) if i.time > last]
        return len(since) >= commits

    def run(self) -> str | None:
        """Compact every group that has blocks; the compaction's instant, None if none has any."""
        timeline = self.metadata.timeline
        latest = max((i.time for i in timeline.completed({"deltacommit"})), default=None)
        if latest is None:
            return None
        instant = latest + _SUFFIX
        works = [work for partition in self.partitions for work in self._works(partition, instant)]
        if not works or any(i.time == instant for i in timeline.instants):
            return None
        plan = encode_compaction_plan([_operation(work) for work in works])
        timeline.plan(instant, "compaction", plan)
        timeline.start(instant, "compaction")
        weights = [_bytes(work.shard.slice) for work in works]
        stats = self.runner.run(compact_group, works, weights=weights)
        content = encode_commit(stats, schema=SCHEMA, operation="COMPACT", compacted=True)
        timeline.complete(instant, "commit", content)
        return instant

    def _works(self, partition: str, instant: str) -> list[GroupCompaction]:
        live = _live_files(self.listing) if partition in _OF_FILES else None
        return [
            GroupCompaction(
                shard=shard,
                partition=partition,
                instant=instant,
                block_size=self.block_size,
                live_files=live,
            )
            for shard in self.metadata.shards(partition)
            if _has_blocks(shard)
        ]


def _live_files(listing: Listing) -> Any:
    ends = [
        partition_id(partition_identifier(partition)) + file_id_hash(name)
        for partition, names in listing.items()
        for name in names
    ]
    return pa.array(ends, pa.string())


def _has_blocks(shard: Shard) -> bool:
    """Whether a block changes anything; the empty one that opens a group does not."""
    return any(
        block.type is not BlockType.DELETE or block.instant_time != shard.slice.base_instant_time
        for block in shard.blocks
    )


def _bytes(item: FileSlice) -> int:
    base = item.base_file.size if item.base_file else 0
    return base + sum(log.size for log in item.log_files)


def _operation(work: GroupCompaction) -> CompactionOperation:
    item = work.shard.slice
    base_bytes = item.base_file.size if item.base_file else 0
    return CompactionOperation(
        partition_path=work.partition,
        file_id=item.file_id,
        base_instant_time=item.base_instant_time,
        base_file=item.base_file.name if item.base_file else None,
        log_files=tuple(log.name for log in item.log_files),
        metrics=slice_metrics(base_bytes, [log.size for log in item.log_files]),
    )


def take_back_compactions(storage: Storage) -> None:
    """Take compactions of the metadata table back that were begun and not completed.

    Raises:
        UnsupportedTableError: a log file was written on top of one, which only Hudi does.
    """
    timeline = Timeline.load(storage, METADATA)
    for instant in timeline.pending():
        if instant.action not in ("compaction", "logcompaction"):
            continue
        bases = []
        for status in storage.walk(METADATA):
            partition, _, name = status.path.removeprefix(f"{METADATA}/").rpartition("/")
            base, log = parse_base_file(partition, name, 0), parse_log_file(partition, name, 0)
            on_top = log is not None and log.base_instant_time == instant.time
            if on_top or instant.action == "logcompaction":
                raise UnsupportedTableError(
                    f"a {instant.action} of instant {instant.time} is pending in the metadata "
                    "table: finish it with Apache Hudi first"
                )
            if base is not None and base.instant_time == instant.time:
                bases.append(status.path)
        for path in bases:
            storage.delete(path)
        timeline.remove(instant.time, instant.action)
