"""A shard: one file group of a metadata partition, and which blocks of it count.

A block counts when its instant is completed in the metadata table **and** in the data table; the
metadata table's own instants (initialisation, compaction, rollback) count by their suffix. Within a
file slice newer blocks win. Source: HoodieTableMetadataUtil.getValidInstantTimestamps and
AbstractHoodieLogRecordReader of Hudi 0.15.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.hfile.cache import BlockCache
from keymark.table.format.hfile.reader import HFileReader, Owner
from keymark.table.format.hfile.strings import concat
from keymark.table.format.kernels.order import key_order
from keymark.table.format.log.block import ROLLBACK_COMMAND, BlockType, HeaderKey, LogBlock
from keymark.table.format.log.deletes import decode_deletes
from keymark.table.format.log.reader import read_blocks
from keymark.table.layout.model import FileSlice, LogFile
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.merge import merged
from keymark.table.storage.storage import RangeReader, Storage
from keymark.table.timeline.timeline import Timeline

_OPENED = 32
"""Shards that stay open between lookups; each has a file descriptor for each of its files."""
_SUFFIXED = re.compile(r"^\d{17}(00[1-6]|0[1-9]\d|[1-9]\d\d)$")
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


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """What completed commits say about a file: its size in bytes, and which of them wrote to it."""

    size: int
    instants: frozenset[str]


@dataclass(frozen=True, slots=True)
class OpenedShards:
    """Some shards of one reading of a table that lookups have opened, for the next lookups.

    What a shard read of its files, log blocks and the ends of HFiles, holds as long as the reading
    does. A lookup takes a shard out while it uses it, because its readers serve one at a time.
    """

    _idle: OrderedDict[tuple[str, bool], Shard] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def using(self, shard: Shard) -> Iterator[Shard]:
        """That shard, opened by an earlier lookup or not; one that failed is not kept."""
        place = shard.slice.file_id, shard.cache is None
        with self._lock:
            found = self._idle.pop(place, None)
        found = found or replace(shard, readers=[])
        yield found
        with self._lock:
            self._idle[place] = found
            while len(self._idle) > _OPENED:
                self._idle.popitem(last=False)


@dataclass(frozen=True)
class Shard:
    """One file group of a metadata partition, merged from its latest file slice.

    Attributes:
        groups: how many file groups the partition has.
        cache: what keeps the blocks that lookups decode, where anything does.
        readers: the HFiles opened so far.
        only: instants of the log blocks that count; None for all that are valid.
        opened: what keeps shards open between lookups, where anything does.
    """

    storage: Storage
    slice: FileSlice
    validity: Validity
    recorded: Mapping[str, CommittedFile]
    groups: int = 1
    cache: BlockCache | None = None
    readers: list[HFileReader] = field(default_factory=list)
    only: frozenset[str] | None = None
    opened: OpenedShards | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to a task: what was read of files stays here, where they are open."""
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**state, "readers": [], "opened": None}

    def in_use(self) -> contextlib.AbstractContextManager[Shard]:
        """This shard for a lookup of its own, with what earlier ones have read of it."""
        return (self.opened or OpenedShards()).using(self)

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

    def cuts(self, keys: pa.Array, parts: int) -> list[int]:
        """Where sorted keys are cut into lookups that read as many blocks of its largest HFile."""
        files = [source for source in self.sources if isinstance(source, HFileReader)]
        if not files:
            return []
        return max(files, key=lambda file: file.entry_count).cuts(keys, parts)

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


def split_by_shard(keys: pa.Array, count: int) -> list[npt.NDArray[np.int64]]:
    """Row numbers of `keys` by shard, each ordered by key bytes."""
    order = key_order(keys)
    # A stable sort of 16-bit numbers is a radix sort.
    owner = shards(keys, count)[order].astype(np.uint16)
    by_shard = np.argsort(owner, kind="stable")
    order, owner = order[by_shard], owner[by_shard]
    bounds = np.searchsorted(owner, np.arange(count + 1))
    return [order[bounds[i] : bounds[i + 1]] for i in range(count)]
