"""Writing the metadata table: initialisation on an empty table, and the delta commit of a write.

A delta commit has the instant of the data commit that it belongs to and is completed before it, so
that a crash between the two leaves blocks which no reader counts.
Source: HoodieBackedTableMetadataWriter of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CommitConflictError
from keymark.table.format.bloom.filter import BloomFilter
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.hfile.file_info import IDENTITY, identity
from keymark.table.format.hfile.writer import HFileWriter, write_hfile
from keymark.table.format.log.block import BlockType, HeaderKey
from keymark.table.format.log.deletes import encode_deletes
from keymark.table.format.log.reader import read_blocks
from keymark.table.format.log.writer import block_ends, empty_delete_block
from keymark.table.layout.model import BaseFile, FileSlice, LogFile, WriteStat
from keymark.table.layout.naming import (
    METADATA,
    PARTITION_METADATA,
    PROPERTIES,
    parse_base_file,
    parse_log_file,
)
from keymark.table.metadata.bloom import bloom_tombstones
from keymark.table.metadata.column_stats import column_stats_tombstones
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS, FILES, file_id, supported
from keymark.table.metadata.reader import MetadataTable, is_initial
from keymark.table.metadata.records import (
    ALL_PARTITIONS,
    SCHEMA,
    encode_files,
    partition_identifier,
)
from keymark.table.properties.config import checksum, encode_properties
from keymark.table.storage.spool import Content, Spool, pieces
from keymark.table.storage.storage import RangeReader, Storage
from keymark.table.timeline.commit_metadata import DeltaStat, encode_commit
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.timeline.timeline import COMMIT_ACTIONS, Timeline

PARTITION_LIST, FILE_LIST = 1, 2
_BOOTSTRAP = "00000000000000"
# Digits of an instant that the data has, too; those of the metadata table alone are longer.
_OWN_DIGITS = 17
_INIT_TOKEN = "0-0-0"  # noqa: S105  a write token, no secret
_NO_KEYS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUpdate:
    """What a delta commit does to one file group: one log file. Runs on its own, anywhere.

    Attributes:
        keys: string or binary, sorted by bytes, unique.
        values: one per key.
        deletes: record keys taken away.
        threads: how many compress the blocks of its HFile.
        place: the folder that the log file is put into, at its path in the metadata table.
    """

    storage: Storage
    slice: FileSlice
    partition: str
    instant: str
    block_size: int
    keys: pa.Array
    values: pa.Array
    deletes: Sequence[str] = ()
    threads: int = 1
    place: str = METADATA

    def write(self) -> DeltaStat:
        """Put the next log file of the slice: puts first, then deletes."""
        log = Spool("a log file")
        if len(self.keys):
            content = write_hfile(
                self.keys,
                self.values,
                schema=SCHEMA,
                block_size=self.block_size,
                file_info=self.file_info,
                threads=self.threads,
            )
            self.add_block(log, BlockType.HFILE_DATA, content)
        if self.deletes:
            content = encode_deletes(self.deletes, self.partition)
            self.add_block(log, BlockType.DELETE, content)
        return self.put(log.content(), len(self.keys) + len(self.deletes))

    def write_cells(
        self, hfile: HFileWriter, memory: int, deletes: pa.Array = _NO_KEYS
    ) -> DeltaStat:
        """Put the next log file of the slice: the cells that a writer holds, then deletes.

        `memory` bytes of the file are in memory. The update's own keys are left out.
        """
        log = Spool("a log file", memory)
        if hfile.entry_count:
            self.add_block(log, BlockType.HFILE_DATA, hfile.close(file_info=self.file_info))
        if len(deletes):
            self.add_block(log, BlockType.DELETE, encode_deletes(deletes, self.partition))
        return self.put(log.content(), hfile.entry_count + len(deletes))

    @property
    def file_info(self) -> dict[str, bytes]:
        """What an HFile of the log file says about where it belongs."""
        return {IDENTITY: identity(self.slice.file_id, self.instant)}

    def add_block(self, log: Spool, kind: BlockType, content: Content) -> None:
        """Add a block of this update's instant to a log file."""
        headers = {HeaderKey.INSTANT_TIME: self.instant, HeaderKey.SCHEMA: SCHEMA}
        head, foot = block_ends(kind, headers, len(content))
        log.write(head)
        for piece in pieces(content):
            log.write(piece)
        log.write(foot)

    def put(self, data: Content, records: int) -> DeltaStat:
        """Put the next log file of the slice, with the number of its records."""
        log = self._next_log(len(data))
        put_again(self.storage, f"{self.place}/{log.path}", data)
        base = self.slice.base_file
        return DeltaStat(
            file_id=self.slice.file_id,
            path=log.path,
            partition_path=self.partition,
            base_instant_time=self.slice.base_instant_time,
            base_file=base.name if base else "",
            log_files=(*(known.name for known in self.slice.log_files), log.name),
            log_version=log.version,
            records=records,
            size=len(data),
        )

    def _next_log(self, size: int) -> LogFile:
        version = max((log.version for log in self.slice.log_files), default=0) + 1
        number = int(self.slice.file_id.split("-")[-2])
        return LogFile(
            partition_path=self.partition,
            file_id=self.slice.file_id,
            base_instant_time=self.slice.base_instant_time,
            version=version,
            write_token=f"{number}-0-0",
            size=size,
        )


def put_again(storage: Storage, path: str, data: Content) -> None:
    """Put what a task makes that may run twice: Spark runs one again whose worker is lost.

    What the first run put counts, if it is the same byte by byte.

    Raises:
        CommitConflictError: it is not; another writer works on the same instant.
    """
    try:
        storage.put(path, data)
    except FileExistsError as error:
        if not _holds(storage.open(path), data):
            raise CommitConflictError(
                f"{path} exists with another content: another writer took the instant"
            ) from error


def _holds(file: RangeReader, data: Content) -> bool:
    """Whether a file has this content."""
    offset = 0
    for piece in pieces(data):
        if file.read(offset, len(piece)) != piece:
            return False
        offset += len(piece)
    return file.size == offset


def write_group(update: GroupUpdate) -> DeltaStat:
    """The task that a runner distributes."""
    return update.write()


@dataclass(slots=True)
class DeltaCommit:
    """One delta commit of the metadata table, from requested to completed."""

    metadata: MetadataTable
    instant: str
    block_size: int
    stats: list[DeltaStat] = field(default_factory=list)
    _slices: dict[str, tuple[FileSlice, ...]] = field(default_factory=dict)

    def slices(self, partition: str) -> tuple[FileSlice, ...]:
        """The file groups of a partition, listed once."""
        if partition not in self._slices:
            self._slices[partition] = self.metadata.slices(partition)
        return self._slices[partition]

    def begin(self) -> None:
        """Put the requested and inflight files."""
        self.metadata.timeline.begin(self.instant, "deltacommit")
        self.metadata.timeline.start(self.instant, "deltacommit")

    def group(
        self,
        partition: str,
        number: int,
        keys: pa.Array,
        values: pa.Array,
        deletes: Sequence[str] = (),
    ) -> GroupUpdate:
        """The update of one file group; `number` counts the groups in the order of file ids."""
        return GroupUpdate(
            storage=self.metadata.storage,
            slice=self.slices(partition)[number],
            partition=partition,
            instant=self.instant,
            block_size=self.block_size,
            keys=keys,
            values=values,
            deletes=deletes,
        )

    def put_files(self, written: Sequence[BaseFile]) -> None:
        """Tell the `files` partition of new base files."""
        by_partition: dict[str, dict[str, tuple[int, bool]]] = {}
        for file in written:
            identifier = file.partition_path or "."
            by_partition.setdefault(identifier, {})[file.name] = (file.size, False)
        touched = dict.fromkeys(by_partition, (0, False))
        records = {ALL_PARTITIONS: encode_files(touched, record_type=PARTITION_LIST)}
        for identifier, names in by_partition.items():
            records[identifier] = encode_files(names, record_type=FILE_LIST)
        self.put_records(FILES, records)

    def drop_files(
        self,
        files: Sequence[BaseFile],
        partitions: Sequence[str],
        columns: Sequence[str],
        *,
        again: Mapping[str, Mapping[str, bytes]] = MappingProxyType({}),
    ) -> None:
        """Take deleted base files out of the listing and of what describes files.

        Args:
            files: the files.
            partitions: the metadata partitions that the table has.
            columns: its columns, meta columns included.
            again: partition -> key -> records of files that are current again.
        """
        by_partition: dict[str, dict[str, tuple[int, bool]]] = {}
        described: dict[str, dict[str, bytes]] = {COLUMN_STATS: {}, BLOOM_FILTERS: {}}
        for file in files:
            path, name = file.partition_path, file.name
            by_partition.setdefault(partition_identifier(path), {})[name] = (0, True)
            keys, values = column_stats_tombstones(path, name, columns)
            described[COLUMN_STATS].update(zip(keys, values, strict=True))
            keys, values = bloom_tombstones(path, name, self.instant)
            described[BLOOM_FILTERS].update(zip(keys, values, strict=True))
        records = {
            identifier: encode_files(names, record_type=FILE_LIST)
            for identifier, names in by_partition.items()
        }
        self.put_records(FILES, records)
        for partition, tombstones in described.items():
            if partition in partitions:
                self.put_records(partition, {**tombstones, **again.get(partition, {})})

    def put_records(self, partition: str, records: Mapping[str, bytes]) -> None:
        """Put small records by key, each into the file group that its hash gives."""
        keys = pa.array(records.keys(), pa.string())
        values = pa.array(records.values(), pa.binary())
        owner = shards(keys, len(self.slices(partition)))
        for number in sorted(set(owner.tolist())):
            mine = pa.array(owner == number)
            group_keys, group_values = keys.filter(mine), values.filter(mine)
            order = pc.sort_indices(group_keys)
            update = self.group(partition, number, group_keys.take(order), group_values.take(order))
            self.stats.append(update.write())

    def completion(self) -> tuple[str, bytes]:
        """The file that completes the delta commit, path and content.

        Its blocks count once the data commit is completed, too.
        """
        content = encode_commit(self.stats, schema=SCHEMA, operation="UPSERT_PREPPED")
        return self.metadata.timeline.path(self.instant, "deltacommit", COMPLETED), content

    def complete(self) -> None:
        """Complete the delta commit of an instant that needs no other."""
        _, content = self.completion()
        self.metadata.timeline.complete(self.instant, "deltacommit", content)


def take_back_delta(storage: Storage, instant: str) -> None:
    """Delete what a delta commit wrote whose data instant is not completed: instants and logs."""
    timeline = Timeline.load(storage, METADATA)
    # A completed instant must not name files that are gone already.
    storage.delete(timeline.path(instant, "deltacommit", COMPLETED))
    for path in _log_files(storage, timeline, {instant}):
        storage.delete(f"{METADATA}/{path}")
    timeline.remove(instant, "deltacommit")


def take_back_orphans(storage: Storage, data: Timeline) -> None:
    """Take delta commits back that were begun for an instant of which the data knows nothing.

    A writer that lost the table can begin one after its instant was taken back.

    Args:
        storage: the table's.
        data: the timeline of the data.
    """
    known = {instant.time for instant in data.instants}
    for instant in Timeline.load(storage, METADATA).pending():
        # In a table without commits those of builds and re-shardings are as long.
        own = len(instant.time) == _OWN_DIGITS and not is_initial(instant.time)
        if instant.action == "deltacommit" and own and instant.time not in known:
            take_back_delta(storage, instant.time)


def late_files_of_metadata(storage: Storage, times: Collection[str]) -> list[str]:
    """Files of the metadata table that only instants made which were taken back."""
    timeline = Timeline.load(storage, METADATA)
    completed = {instant.time for instant in timeline.completed()}
    found = []
    for status in storage.walk(METADATA):
        partition, _, name = status.path.removeprefix(f"{METADATA}/").rpartition("/")
        base = parse_base_file(partition, name, status.size)
        if base is not None and base.instant_time in times and base.instant_time not in completed:
            found.append(status.path)
    logs = _log_files(storage, timeline, times)
    return found + [f"{METADATA}/{path}" for path in logs]


def _log_files(storage: Storage, metadata: Timeline, times: Collection[str]) -> Iterator[str]:
    """Log files of the metadata table that only those instants wrote, none that others count on."""
    kept = {
        path
        for instant in metadata.completed(COMMIT_ACTIONS)
        if instant.time not in times
        for _, path, _ in metadata.commit(instant).files
    }
    for status in storage.walk(METADATA):
        partition, _, name = status.path.removeprefix(f"{METADATA}/").rpartition("/")
        log = parse_log_file(partition, name, status.size)
        if log is None or log.path in kept or not supported(partition):
            continue
        blocks = read_blocks(storage.open(status.path), complete=False)
        # A torn first block can only be the dead writer's: nothing completed names the file.
        if all(block.instant_time in times for block in blocks):
            yield log.path


def initialize(
    storage: Storage,
    table_name: str,
    groups: Mapping[str, int],
    *,
    latest: str = _BOOTSTRAP,
    listing: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> None:
    """Make a metadata table, with `files` first.

    Args:
        storage: the table's storage.
        table_name: the data table's name.
        groups: number of file groups of each further partition, which starts empty.
        latest: the latest completed instant of the data table.
        listing: its committed base files: partition path -> name -> size in bytes.
    """
    storage.put(f"{METADATA}/{PROPERTIES}", encode_properties(_properties(table_name)))
    timeline = Timeline(storage, METADATA, ())
    for number, (partition, count) in enumerate({FILES: 1, **groups}.items()):
        instant = f"{latest}{10 + number:03d}"
        timeline.begin(instant, "deltacommit")
        timeline.start(instant, "deltacommit")
        _open_groups(storage, partition, instant, count)
        stats = [_first_files_base(storage, instant, listing)] if partition == FILES else []
        content = encode_commit(stats, schema=SCHEMA, operation="BULK_INSERT")
        timeline.complete(instant, "deltacommit", content)


def _open_groups(storage: Storage, partition: str, instant: str, count: int) -> None:
    """Open every file group by an empty delete block."""
    folder = f"{METADATA}/{partition}"
    storage.put(f"{folder}/{PARTITION_METADATA}", partition_metadata(instant, partition))
    for number in range(count):
        log = LogFile(
            partition_path=partition,
            file_id=file_id(partition, number),
            base_instant_time=instant,
            version=1,
            write_token=_INIT_TOKEN,
            size=0,
        )
        storage.put(f"{METADATA}/{log.path}", empty_delete_block(instant))


def _first_files_base(
    storage: Storage, instant: str, listing: Mapping[str, Mapping[str, int]]
) -> WriteStat:
    """The base file of `files`: the partitions, and the files of each."""
    partitions = {partition_identifier(path): (0, False) for path in listing}
    records = {ALL_PARTITIONS: encode_files(partitions, record_type=PARTITION_LIST)}
    for path, names in listing.items():
        entries = {name: (size, False) for name, size in names.items()}
        records[partition_identifier(path)] = encode_files(entries, record_type=FILE_LIST)
    ordered = sorted(records, key=lambda key: key.encode())
    keys = pa.array(ordered, pa.string())
    values = pa.array([records[key] for key in ordered], pa.binary())
    bloom = BloomFilter.create(type_code="DYNAMIC_V0", entries=60000, fpp=1e-9, max_entries=100000)
    bloom.add(keys)
    info = {
        "bloomFilterTypeCode": b"DYNAMIC_V0",
        "maxRecordKey": ordered[-1].encode(),
        "minRecordKey": ordered[0].encode(),
        IDENTITY: identity(file_id(FILES, 0), instant),
    }
    data = write_hfile(keys, values, schema=SCHEMA, bloom=bloom.serialize(), file_info=info)
    base = BaseFile(
        partition_path=FILES,
        file_id=file_id(FILES, 0),
        write_token=_INIT_TOKEN,
        instant_time=instant,
        size=len(data),
        extension="hfile",
    )
    storage.put(f"{METADATA}/{base.path}", data)
    return WriteStat(
        file_id=base.file_id,
        path=base.path,
        partition_path=FILES,
        prev_commit="null",
        num_writes=len(ordered),
        num_inserts=len(ordered),
        num_updates=0,
        num_deletes=0,
        size=base.size,
    )


def partition_metadata(instant: str, partition_path: str) -> bytes:
    """Content of `.hoodie_partition_metadata`; the depth counts the path's components."""
    depth = len(partition_path.split("/")) if partition_path else 0
    return f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n".encode()


def _properties(table_name: str) -> dict[str, str]:
    """hoodie.properties of a metadata table (HoodieTableMetadataUtil, format note of Hudi 0.15)."""
    name = f"{table_name}_metadata"
    return {
        "hoodie.table.name": name,
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.populate.meta.fields": "false",
        "hoodie.table.keygenerator.class": (
            "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"
        ),
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "hoodie.archivelog.folder": "archived",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.checksum": checksum(name),
    }
