"""Reading the metadata table: which blocks count, listings, and lookups of many keys.

A block counts when its instant is completed in the metadata table **and** in the data table; the
metadata table's own instants (initialisation, compaction, rollback) count by their suffix. Within a
file slice newer blocks win. Source: HoodieTableMetadataUtil.getValidInstantTimestamps and
AbstractHoodieLogRecordReader of Hudi 0.15.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError, SnapshotExpiredError
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.hfile.cache import BlockCache
from keymark.table.format.hfile.reader import HFileReader, Owner
from keymark.table.format.hfile.strings import concat
from keymark.table.format.kernels.order import key_order
from keymark.table.format.log.block import ROLLBACK_COMMAND, BlockType, HeaderKey, LogBlock
from keymark.table.format.log.deletes import decode_deletes
from keymark.table.format.log.reader import read_blocks
from keymark.table.layout.model import BaseFile, FileSlice, LogFile
from keymark.table.layout.naming import (
    METADATA,
    check_name,
    check_relative,
    parse_base_file,
    parse_log_file,
)
from keymark.table.metadata.merge import merged
from keymark.table.metadata.partitions import FILES, file_id
from keymark.table.metadata.records import ALL_PARTITIONS, decode_files
from keymark.table.storage.storage import RangeReader, Storage
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.timeline.timeline import COMMIT_ACTIONS, Timeline

_SUFFIXED = re.compile(r"^\d{17}(00[1-6]|0[1-9]\d|[1-9]\d\d)$")
_INITIAL = re.compile(r"^(\d{17}|0{14})(0[1-9]\d|[1-9]\d\d)$")
_BOOTSTRAP = "0" * 14


@dataclass(frozen=True)
class Validity:
    """Which instants' blocks of the metadata table count."""

    metadata: Timeline
    data: Timeline

    @cached_property
    def _committed(self) -> frozenset[str]:
        return self.metadata.commit_times()

    @cached_property
    def _valid(self) -> frozenset[str]:
        valid = {instant.time for instant in self.data.completed()}
        for instant in self.metadata.completed():
            own = instant.action in ("rollback", "restore")
            special = _SUFFIXED.match(instant.time) or instant.time.startswith(_BOOTSTRAP)
            if own or special or instant.action == "commit":
                valid.add(instant.time)
        return frozenset(valid | self.data.rolled_back())

    @cached_property
    def latest(self) -> str:
        """The largest completed instant of the metadata table."""
        return max((i.time for i in self.metadata.completed()), default="")

    def counts(self, time: str) -> bool:
        """Whether a block of that instant holds committed records."""
        start = min(self._committed, default="")
        return time in self._valid and (time in self._committed or time < start)

    def opened(self, time: str) -> bool:
        """Whether a file slice of that base instant exists for readers."""
        return time in self._committed or time < min(self._committed, default="")


def is_initial(time: str) -> bool:
    """Whether an instant of the metadata table is one that made a partition: `<instant>010` on."""
    return _INITIAL.match(time) is not None


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """What completed commits say of a file: its size in bytes, and which of them wrote to it."""

    size: int
    instants: frozenset[str]


@dataclass(frozen=True)
class Shard:
    """One file group of a metadata partition, merged from its latest file slice.

    Attributes:
        groups: how many file groups the partition has.
        cache: what keeps the blocks that lookups decode, where anything does.
        readers: the HFiles opened so far.
        only: instants of the log blocks that count; None for all that are valid.
    """

    storage: Storage
    slice: FileSlice
    validity: Validity
    recorded: Mapping[str, CommittedFile]
    groups: int = 1
    cache: BlockCache | None = None
    readers: list[HFileReader] = field(default_factory=list)
    only: frozenset[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to a task: what was read of files stays here, where they are open."""
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "readers": []}

    @cached_property
    def blocks(self) -> tuple[LogBlock, ...]:
        """The log blocks that count, oldest first."""
        queued: list[LogBlock] = []
        for log in self.slice.log_files:
            for block in self._read(log):
                time = block.instant_time
                if time > self.validity.latest:
                    return tuple(queued)
                if block.type is BlockType.COMMAND:
                    _check_rollback(block)
                    target = block.headers.get(HeaderKey.TARGET_INSTANT_TIME)
                    queued = [b for b in queued if b.instant_time != target]
                elif self.validity.counts(time) and (self.only is None or time in self.only):
                    queued.append(block)
        return tuple(queued)

    def _read(self, log: LogFile) -> list[LogBlock]:
        recorded = self.recorded.get(log.path)
        if recorded is not None and log.size < recorded.size:
            raise CorruptFileError(log.path, log.size, f"a commit recorded {recorded.size} bytes")
        blocks = read_blocks(
            self.storage.open(f"{METADATA}/{log.path}"), complete=recorded is not None
        )
        if recorded is not None:
            # A damaged instant would make a reader pass over its block in silence.
            for time in recorded.instants - {block.instant_time for block in blocks}:
                raise CorruptFileError(log.path, 0, f"it has no block of instant {time}")
        return blocks

    @cached_property
    def sources(self) -> tuple[HFileReader | pa.Array, ...]:
        """Puts (HFiles) and deletes of the slice, newest first."""
        found: list[HFileReader | pa.Array] = []
        for block in reversed(self.blocks):
            if block.type is BlockType.HFILE_DATA:
                place = range(block.content_offset, block.content_offset + block.content_length)
                found.append(self._hfile(block.source, place, block.instant_time))
            elif block.type is BlockType.DELETE:
                found.append(self._deletes(block))
            else:
                detail = f"a block of type {block.type.name} has no place in the metadata table"
                raise CorruptFileError(block.source.name, block.content_offset, detail)
        base = self.slice.base_file
        if base is not None:
            source = self.storage.open(f"{METADATA}/{base.path}")
            recorded = self.recorded.get(base.path)
            if recorded is not None and source.size != recorded.size:
                detail = f"a file of {source.size} bytes, a commit recorded {recorded.size}"
                raise CorruptFileError(base.path, min(source.size, recorded.size), detail)
            found.append(self._hfile(source, range(source.size), base.instant_time))
        return tuple(found)

    def _deletes(self, block: LogBlock) -> pa.Array:
        keys = decode_deletes(block.content(), block.source.name)
        if self.groups > 1 and (shards(keys, self.groups) != self.number).any():
            detail = f"its keys do not belong to file group {self.slice.file_id}"
            raise CorruptFileError(block.source.name, block.content_offset, detail)
        return keys

    def _hfile(self, source: RangeReader, place: range, instant: str) -> HFileReader:
        """The HFile that an instant wrote; no two instants of a table have one name."""
        reader = HFileReader(
            source,
            offset=place.start,
            length=len(place),
            cache=self.cache,
            scope=f"{self.storage.root} {instant}",
            owner=Owner(self.slice.file_id, instant, self.number, self.groups),
        )
        self.readers.append(reader)
        return reader

    @property
    def number(self) -> int:
        """Which of the partition's file groups it is, counted from 0."""
        return int(self.slice.file_id.split("-")[-2])

    @property
    def blocks_decoded(self) -> int:
        """HFile data blocks decoded so far."""
        return sum(reader.blocks_decoded for reader in self.readers)

    def lookup(self, keys: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Find keys (sorted by bytes, unique).

        Returns:
            Positions in `keys` that are live, ascending, and their values (pa.binary).
        """
        undecided = np.arange(len(keys), dtype=np.int64)
        positions: list[npt.NDArray[np.int64]] = []
        values: list[pa.Array] = []
        for source in self.sources:
            if not len(undecided):
                break
            wanted = keys if len(undecided) == len(keys) else keys.take(pa.array(undecided))
            if isinstance(source, HFileReader):
                hits, found = source.lookup(wanted)
                positions.append(undecided[hits])
                values.append(found)
            else:
                deleted = pc.is_in(wanted.cast(pa.binary()), source.cast(pa.binary()))
                hits = np.flatnonzero(deleted.to_numpy(zero_copy_only=False))
            undecided = np.delete(undecided, hits)
        if not positions:
            return np.empty(0, np.int64), pa.array([], pa.binary())
        if len(positions) == 1:
            return positions[0], values[0]
        order = np.argsort(np.concatenate(positions), kind="stable")
        merged = pa.concat_arrays(values).take(pa.array(order))
        return np.concatenate(positions)[order], merged

    def batches(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """All live keys and values (pa.binary) by key, about a block of each file in memory."""
        return merged(self.sources)

    def scan(self) -> tuple[pa.Array, pa.Array]:
        """All live keys (pa.binary, sorted) and their values: the whole shard in memory."""
        nothing = pa.array([], pa.binary())
        keys, values = zip((nothing, nothing), *self.batches(), strict=True)
        return concat(list(keys)), concat(list(values))

    def history(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Every (key, value) or (key, None for a delete), oldest first."""
        for source in reversed(self.sources):
            for keys, values in _batches(source):
                yield from zip(keys.to_pylist(), values.to_pylist(), strict=True)


def _check_rollback(block: LogBlock) -> None:
    kind = block.headers.get(HeaderKey.COMMAND_BLOCK_TYPE)
    if kind != ROLLBACK_COMMAND:
        raise CorruptFileError(block.source.name, block.content_offset, f"unknown command {kind}")


def _batches(source: HFileReader | pa.Array) -> Iterator[tuple[pa.Array, pa.Array]]:
    if isinstance(source, HFileReader):
        yield from source.scan()
    else:
        yield source.cast(pa.binary()), pa.nulls(len(source), pa.binary())


@dataclass(frozen=True)
class MetadataTable:
    """The metadata table as of one reading of both timelines."""

    storage: Storage
    timeline: Timeline
    validity: Validity

    @classmethod
    def load(cls, storage: Storage, data: Timeline) -> MetadataTable:
        """Read the metadata table's timeline."""
        timeline = Timeline.load(storage, METADATA)
        return cls(storage, timeline, Validity(timeline, data))

    @cached_property
    def recorded(self) -> dict[str, CommittedFile]:
        """Path -> what the completed delta commits say of it, of every file that one names."""
        recorded: dict[str, CommittedFile] = {}
        for instant in self.timeline.completed(COMMIT_ACTIONS):
            for _, path, size in self.timeline.commit(instant).files:
                known = recorded.get(path, CommittedFile(0, frozenset()))
                instants = known.instants | {instant.time}
                recorded[path] = CommittedFile(max(size, known.size), instants)
        return recorded

    def shards(self, partition: str, cache: BlockCache | None = None) -> tuple[Shard, ...]:
        """The file groups of a partition in the order that key hashes count them.

        Args:
            partition: its name.
            cache: keeps what lookups in them decode.
        """
        slices = self.slices(partition)
        return tuple(
            Shard(self.storage, item, self.validity, self.recorded, len(slices), cache)
            for item in slices
        )

    def slice_files(self, partitions: Iterable[str]) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Partition -> file id -> base instant -> names of all files of that slice."""
        found: dict[str, dict[str, dict[str, list[str]]]] = {}
        for partition in partitions:
            for status in self.storage.list(f"{METADATA}/{partition}"):
                owner = slice_of(partition, status.name)
                if owner is not None:
                    group = found.setdefault(partition, {}).setdefault(owner[0], {})
                    group.setdefault(owner[1], []).append(status.name)
        return found

    def largest_slice(self, partition: str) -> int:
        """Bytes of the largest of the latest file slices of a partition, by one listing."""
        sizes: dict[tuple[str, str], int] = {}
        for status in self.storage.list(f"{METADATA}/{partition}"):
            owner = slice_of(partition, status.name)
            if owner is not None:
                sizes[owner] = sizes.get(owner, 0) + status.size
        # The latest slice of a file group comes last.
        return max({owner[0]: sizes[owner] for owner in sorted(sizes)}.values(), default=0)

    def slices(self, partition: str) -> tuple[FileSlice, ...]:
        """The latest file slice of each file group of a partition, ordered by file id.

        Raises:
            CorruptFileError: a group is missing, or a file that a completed commit names in one.
            SnapshotExpiredError: since the timeline was read there are fewer.
        """
        bases: dict[str, list[BaseFile]] = {}
        logs: dict[str, list[LogFile]] = {}
        start = self.dealt_out_anew(partition)
        times: set[str] = set()
        for status in self.storage.list(f"{METADATA}/{partition}"):
            base = parse_base_file(partition, status.name, status.size)
            log = parse_log_file(partition, status.name, status.size)
            if base is not None and base.instant_time >= start:
                bases.setdefault(base.file_id, []).append(base)
                times.add(base.instant_time)
            elif log is not None and log.base_instant_time >= start:
                logs.setdefault(log.file_id, []).append(log)
                times.add(log.base_instant_time)
        if not all(self.validity.opened(time) for time in times):
            self._refuse_outdated(partition, start)
        groups = (
            self._latest(name, bases.get(name, []), logs.get(name, []))
            for name in sorted(bases.keys() | logs.keys())
        )
        found = tuple(item for item in groups if item is not None)
        self._check_groups(partition, found)
        return found

    def _refuse_outdated(self, partition: str, start: str) -> None:
        """SnapshotExpiredError if a partition has been dealt out to fewer groups since `start`.

        Of the slices that this timeline knows some are deleted, then.
        """
        if replace(self, timeline=self.timeline.again()).dealt_out_anew(partition) != start:
            raise SnapshotExpiredError(
                f"{partition} was dealt out to fewer file groups while it was to be read: read it "
                "again"
            )

    def dealt_out_anew(self, partition: str) -> str:
        """When a partition was last dealt out to fewer file groups; "" if it never was.

        All that it has were opened then. Older slices are of those, or of groups that are gone.
        """
        return max(
            (
                instant.time
                for instant in self.timeline.completed({"replacecommit"})
                if partition in self.timeline.commit(instant).replaced
            ),
            default="",
        )

    def _check_in_step(self, since: str) -> None:
        """Each commit of the data that is newer than a base file must be a delta commit here."""
        for instant in self.validity.data.completed(("commit", "replacecommit")):
            if instant.time > since and not self.validity.opened(instant.time):
                path = self.timeline.path(instant.time, "deltacommit", COMPLETED)
                raise CorruptFileError(path, 0, "the table has this commit and the file is gone")

    def _check_groups(self, partition: str, found: tuple[FileSlice, ...]) -> None:
        """No group may be missing, nor a file of a latest slice that a completed commit names."""
        if not found:
            raise CorruptFileError(partition, 0, "no file group of this partition is there")
        for number, item in enumerate(found):
            if item.file_id != file_id(partition, number):
                # With one group less, keys would be looked for in the wrong groups.
                raise CorruptFileError(file_id(partition, number), 0, "the file group is gone")
        opened = {item.file_id: item.base_instant_time for item in found}
        # Before that the partition was another one, dropped since.
        start = min(opened.values())
        known = {log.path for item in found for log in item.log_files}
        known |= {item.base_file.path for item in found if item.base_file is not None}
        for path in self.recorded.keys() - known:
            folder, _, name = path.rpartition("/")
            owner = slice_of(partition, name) if folder == partition else None
            if owner is not None and owner[1] >= opened.get(owner[0], start):
                raise CorruptFileError(path, 0, "a commit names this file; it is missing")

    def _latest(self, file_id: str, bases: list[BaseFile], logs: list[LogFile]) -> FileSlice | None:
        """The latest slice of a file group; None where a re-sharding has not ended to make it."""
        times = {b.instant_time for b in bases} | {log.base_instant_time for log in logs}
        opened = [time for time in times if self.validity.opened(time)]
        if not opened:
            # It may have begun, or ended, since the timeline was read.
            if times <= {instant.time for instant in self.timeline.again().instants}:
                return None
            raise CorruptFileError(file_id, 0, "no commit opened this file group")
        time = max(opened)
        of_slice = [log for log in logs if log.base_instant_time == time]
        ordered = sorted(of_slice, key=lambda log: (log.version, log.write_token))
        of_time = [base for base in bases if base.instant_time == time]
        # Of two attempts the commit names one.
        of_time.sort(key=lambda base: base.path not in self.recorded)
        base = of_time[0] if of_time else None
        return FileSlice(
            file_id=file_id, base_instant_time=time, base_file=base, log_files=tuple(ordered)
        )

    def listing(self) -> dict[str, dict[str, int]]:
        """The `files` partition: partition path -> live file name -> size in bytes.

        Raises:
            CorruptFileError: a completed commit is missing from it, or a name in it leads away.
        """
        shard = self.shards(FILES)[0]
        self._check_in_step(shard.slice.base_instant_time)
        merged = merged_files(shard)
        partitions = merged.pop(ALL_PARTITIONS, {})
        listed: dict[str, dict[str, int]] = {}
        for identifier, (_, deleted) in partitions.items():
            if deleted:
                continue
            path = "" if identifier == "." else check_relative(identifier, METADATA)
            entries = merged.get(identifier, {})
            listed[path] = {
                check_name(name, METADATA): size
                for name, (size, gone) in entries.items()
                if not gone
            }
        return listed


def merged_files(shard: Shard) -> dict[str, dict[str, tuple[int, bool]]]:
    """The records of the `files` partition: key -> name -> size in bytes, and whether deleted."""
    merged: dict[str, dict[str, tuple[int, bool]]] = {}
    for key, value in shard.history():
        if value is None:
            merged.pop(key.decode(), None)
            continue
        entries = merged.setdefault(key.decode(), {})
        _merge_files(entries, decode_files(value, shard.slice.file_id))
    return merged


def slice_of(partition: str, name: str) -> tuple[str, str] | None:
    """File id and base instant of a file of a partition; None where the name is no such file's."""
    base, log = parse_base_file(partition, name, 0), parse_log_file(partition, name, 0)
    if base is not None:
        return base.file_id, base.instant_time
    return (log.file_id, log.base_instant_time) if log is not None else None


def _merge_files(
    entries: dict[str, tuple[int, bool]], update: Mapping[str, tuple[int, bool]]
) -> None:
    """Apply a newer files record: HoodieMetadataPayload.combineFileSystemMetadata."""
    for name, (size, deleted) in update.items():
        known = entries.get(name)
        if not deleted:
            entries[name] = (max(size, known[0] if known else 0), False)
        elif known is not None and not known[1]:
            del entries[name]
        else:
            entries[name] = (size, True)


def split_by_shard(keys: pa.Array, count: int) -> list[npt.NDArray[np.int64]]:
    """Row numbers of `keys` by shard, each ordered by key bytes."""
    order = key_order(keys)
    # A stable sort of 16-bit numbers is a radix sort.
    owner = shards(keys, count)[order].astype(np.uint16)
    by_shard = np.argsort(owner, kind="stable")
    order, owner = order[by_shard], owner[by_shard]
    bounds = np.searchsorted(owner, np.arange(count + 1))
    return [order[bounds[i] : bounds[i + 1]] for i in range(count)]
