"""Compaction of the metadata table: logs merged into base files, one task per file group.

    <X>001.compaction.requested      the plan; X is the latest delta commit
    <X>001.compaction.inflight
    <file id>_<token>_<X>001.hfile   one per group that has something to merge
    <X>001.commit                    from here on these are the groups' latest slices

Only blocks that count are merged, so an instant that is stuck elsewhere holds nothing up. A group
without blocks keeps its slice. A group that nothing is left of gets no base file but is opened anew
by a log file with an empty delete block: Hudi 0.15 cannot scan an HFile without cells. What a dead
compaction left is taken back, and planned anew. Base files carry no bloom filter: point lookups of
Hudi do not ask for it. Source: HoodieBackedTableMetadataWriter.compactIfNecessary of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import UnsupportedTableError
from keymark.table.format.hashes.hashing import file_id_hash, partition_id
from keymark.table.format.hfile.file_info import IDENTITY, identity
from keymark.table.format.hfile.writer import HFileWriter
from keymark.table.format.log.block import BlockType
from keymark.table.format.log.writer import empty_delete_block
from keymark.table.layout.model import BaseFile, Instant, LogFile, WriteStat
from keymark.table.layout.naming import METADATA, content_token, parse_base_file, parse_log_file
from keymark.table.layout.view import Listing
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX
from keymark.table.metadata.reader import MetadataTable, merged_files
from keymark.table.metadata.records import (
    ALL_PARTITIONS,
    PARTITION_LIST,
    SCHEMA,
    encode_files,
    partition_identifier,
)
from keymark.table.metadata.records import FILES as FILE_LIST
from keymark.table.metadata.shard import Shard
from keymark.table.metadata.writer import put_again
from keymark.table.runtime.runner import TaskRunner, threads_by_weight
from keymark.table.state.late import note_fenced
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import DeltaStat, encode_commit
from keymark.table.timeline.compaction_plan import (
    CompactionOperation,
    encode_compaction_plan,
    slice_metrics,
)
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.timeline.timeline import Timeline

_SUFFIX = "001"
_INIT_TOKEN = "0-0-0"  # noqa: S105  a write token, no secret
_OF_FILES = (COLUMN_STATS, BLOOM_FILTERS)
# The end of the key of a record that describes a file: hashes of its partition and its name.
_FILE_KEY_LENGTH = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCompaction:
    """One file group to be merged into a base file. Runs on its own, anywhere.

    `live_files` are the ends of the keys that describe a file which the table still has; None where
    records describe no files. `erased` are record keys (binary) to leave out, whatever the group
    says about them; None for none. A quarter of `memory` is for the base file, more of it goes to
    the local disk. `threads` threads compress its blocks.
    """

    shard: Shard
    partition: str
    instant: str
    block_size: int
    live_files: pa.Array | None
    memory: int
    erased: pa.Array | None = None
    threads: int = 1

    def write(self) -> WriteStat | DeltaStat:
        """Put the base file: live cells in key order, a block at a time.

        Every attempt makes the same bytes under the same name, so that a task which Spark runs
        again leaves no second base file of the slice.
        """
        memory = self.memory // 4
        writer = HFileWriter(SCHEMA, self.block_size, memory=memory, threads=self.threads)
        first, last, count = b"", b"", 0
        for keys, values in self._cells():
            if not len(keys):
                continue
            first = first if count else keys[0].as_py()
            last = keys[-1].as_py()
            count += len(keys)
            writer.add(keys, values)
        if not count:
            return self._open_empty()
        named = identity(self.shard.slice.file_id, self.instant)
        ends = {"minRecordKey": first, "maxRecordKey": last}
        data = writer.close(file_info={**ends, IDENTITY: named})
        base = BaseFile(
            partition_path=self.partition,
            file_id=self.shard.slice.file_id,
            write_token=content_token(data),
            instant_time=self.instant,
            size=len(data),
            extension="hfile",
        )
        put_again(self.shard.storage, f"{METADATA}/{base.path}", data)
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

    def _open_empty(self) -> DeltaStat:
        """Put the log file that opens a slice without base file, as at initialisation."""
        block = empty_delete_block(self.instant)
        log = LogFile(
            partition_path=self.partition,
            file_id=self.shard.slice.file_id,
            base_instant_time=self.instant,
            version=1,
            write_token=_INIT_TOKEN,
            size=len(block),
        )
        put_again(self.shard.storage, f"{METADATA}/{log.path}", block)
        return DeltaStat(
            file_id=log.file_id,
            path=log.path,
            partition_path=self.partition,
            base_instant_time=self.instant,
            base_file="",
            log_files=(log.name,),
            log_version=log.version,
            records=0,
            size=log.size,
        )

    def _cells(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        if self.partition == FILES:
            yield _files_cells(self.shard)
            return
        for keys, values in self._batches():
            if self.live_files is None:
                yield keys, values
                continue
            ends = pc.utf8_slice_codeunits(keys.cast(pa.string()), -_FILE_KEY_LENGTH)
            live = pc.is_in(ends, value_set=self.live_files)
            yield keys.filter(live), values.filter(live)

    def _batches(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The live cells without those to be erased."""
        for keys, values in self.shard.batches():
            if self.erased is None:
                yield keys, values
                continue
            kept = pc.invert(pc.is_in(keys, value_set=self.erased))
            yield keys.filter(kept), values.filter(kept)


def _files_cells(shard: Shard) -> tuple[pa.Array, pa.Array]:
    """The merged records of the `files` partition, without the files and partitions that went."""
    records = {}
    for key, entries in sorted(merged_files(shard).items(), key=lambda item: item[0].encode()):
        kind = PARTITION_LIST if key == ALL_PARTITIONS else FILE_LIST
        live = {name: entry for name, entry in entries.items() if not entry[1]}
        records[key] = encode_files(live, record_type=kind)
    keys = pa.array([key.encode() for key in records], pa.binary())
    return keys, pa.array(records.values(), pa.binary())


def compact_group(work: GroupCompaction) -> WriteStat | DeltaStat:
    """The task that a runner distributes."""
    return work.write()


@dataclass(frozen=True, slots=True)
class Chosen:
    """File groups to compact whether they have blocks or not, and what to leave out of them.

    Attributes:
        groups: file ids by partition.
        erased: record keys (binary) that go from the record index.
    """

    groups: Mapping[str, Collection[str]]
    erased: pa.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """Compacts the metadata table of one reading of the table, under the lease."""

    metadata: MetadataTable
    partitions: Sequence[str]
    listing: Listing
    block_size: int
    memory: int
    runner: TaskRunner
    lease: Lease

    def due(self, commits: int) -> bool:
        """Whether that many delta commits were completed since the latest compaction."""
        timeline = self.metadata.timeline
        last = max((i.time for i in timeline.completed({"commit"})), default="")
        since = [i for i in timeline.completed({"deltacommit"}) if i.time > last]
        return len(since) >= commits

    def run(self, chosen: Chosen | None = None) -> str | None:
        """Compact the groups with blocks, and the chosen ones; the instant, None if there is none.

        None is left out: Hudi archives instants up to the latest compaction of the metadata table,
        and reads no block of an archived instant (TimelineArchiverV1, getValidInstantTimestamps).
        """
        timeline = self.metadata.timeline
        latest = max((i.time for i in timeline.completed({"deltacommit"})), default=None)
        if latest is None:
            return None
        instant = latest + _SUFFIX
        works = [
            work
            for partition in self.partitions
            for work in self._works(partition, instant, chosen)
        ]
        if not works or any(i.time == instant for i in timeline.instants):
            return None
        plan = encode_compaction_plan([_operation(work) for work in works])
        timeline.plan(instant, "compaction", plan)
        timeline.start(instant, "compaction")
        weights = [work.shard.slice.size for work in works]
        threads = threads_by_weight(weights, self.runner.threads_each(1), least=self.block_size)
        shared = [replace(work, threads=count) for work, count in zip(works, threads, strict=True)]
        stats = self.runner.run(compact_group, shared, weights=weights)
        content = encode_commit(stats, schema=SCHEMA, operation="COMPACT", compacted=True)
        # A writer that took the table meanwhile has taken this compaction back.
        self.lease.publish([(timeline.path(instant, "commit", COMPLETED), content)])
        return instant

    def _works(self, partition: str, instant: str, chosen: Chosen | None) -> list[GroupCompaction]:
        live = _live_files(self.listing) if partition in _OF_FILES else None
        return [
            GroupCompaction(
                shard=shard,
                partition=partition,
                instant=instant,
                block_size=self.block_size,
                live_files=live,
                memory=self.memory,
                erased=chosen.erased if chosen and partition == RECORD_INDEX else None,
            )
            for shard in self.metadata.shards(partition)
            if (chosen and shard.slice.file_id in chosen.groups.get(partition, ()))
            or _has_blocks(shard)
        ]


def _live_files(listing: Listing) -> pa.Array:
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
    for instant in pending_compactions(timeline):
        note_fenced(storage, instant.time, ())
        files = files_of_compaction(storage, instant)
        if files is None:
            raise UnsupportedTableError(
                f"a {instant.action} of instant {instant.time} is pending in the metadata table, "
                "and something was written on top of it: finish it with Apache Hudi, or let "
                "`table recover PATH` build the metadata table anew"
            )
        for path in files:
            storage.delete(path)
        timeline.remove(instant.time, instant.action)


def pending_compactions(timeline: Timeline) -> list[Instant]:
    """The compactions of the metadata table that were begun and not completed."""
    return [i for i in timeline.pending() if i.action in ("compaction", "logcompaction")]


def files_of_compaction(storage: Storage, instant: Instant) -> list[str] | None:
    """The files of a pending compaction; None if something was written on top of it."""
    if instant.action == "logcompaction":
        return None
    mine = []
    for status in storage.walk(METADATA):
        partition, _, name = status.path.removeprefix(f"{METADATA}/").rpartition("/")
        base, log = parse_base_file(partition, name, 0), parse_log_file(partition, name, 0)
        if log is not None and log.base_instant_time == instant.time:
            if storage.read(status.path) != empty_delete_block(instant.time):
                return None
            mine.append(status.path)
        elif base is not None and base.instant_time == instant.time:
            mine.append(status.path)
    return mine
