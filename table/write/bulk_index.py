"""Index changes whose keys are on storage: one task per shard, from key files to a log file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np
import pyarrow as pa

from keymark.table.errors import CorruptFileError, DuplicateKeyError
from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.format.hfile.strings import from_arrow
from keymark.table.format.hfile.writer import HFileWriter, check_lengths
from keymark.table.format.kernels.pieces import Spilled
from keymark.table.index.build.ordered import OrderedKeys
from keymark.table.index.dedup import without
from keymark.table.index.external import EntryChanges, KeyPart
from keymark.table.index.key_file import KeyFile
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.records import SCHEMA, encode_locations
from keymark.table.metadata.shard import Shard
from keymark.table.metadata.writer import DeltaCommit, GroupUpdate
from keymark.table.properties.options import DUP_POLICY
from keymark.table.runtime.runner import TaskRunner, threads_by_weight
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import DeltaStat
from keymark.table.timeline.instant_name import instant_millis

_ASKED_AT_ONCE = 1 << 17


@dataclass(frozen=True, slots=True)
class KeyStretch:
    """The keys of one shard in a key file.

    Attributes:
        storage: of the file.
        file: the key file.
        number: of the shard.
        first: what the file's location numbers are counted from.
    """

    storage: Storage
    file: KeyFile
    number: int
    first: int

    @property
    def held(self) -> int:
        """Bytes that its keys take in memory; 0 where there are none."""
        return self.file.stretches[self.number][1]

    def read(self) -> pa.Table:
        """Its keys, with the number of the file of each.

        Raises:
            CorruptFileError: the key file is damaged.
        """
        try:
            return self.file.read(self.storage, self.number)
        except pa.ArrowInvalid as error:
            self.fail(str(error))

    def fail(self, detail: str) -> NoReturn:
        """Say what is wrong with it."""
        raise CorruptFileError(self.file.path, self.file.stretches[self.number][0], detail)


def stretch_keys(stretch: KeyStretch) -> Spilled:
    """The keys of a stretch with their locations.

    Raises:
        CorruptFileError: the key file is damaged.
        InputError: a key is longer than an index can hold.
    """
    table = stretch.read()
    keys = table["key"].combine_chunks()
    check_lengths(from_arrow(keys, "key"))
    offsets, text = string_buffers(keys)
    codes = (table["file"].to_numpy() + stretch.first).astype(np.int32)
    lengths = np.diff(offsets).astype(np.uint16)
    for made in (codes, lengths):
        # As what is read from files: kernels are compiled anew for writable arrays.
        made.flags.writeable = False
    return Spilled(codes, lengths, text[offsets[0] : offsets[-1]])


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardBuild:
    """The new keys of one shard, where they are, and what to do about known ones.

    Attributes:
        shard: as it was before.
        number: of the shard.
        stretches: of its keys.
        deletes: of keys that are gone.
        values: of the locations, by number.
        update: the shard's log file with no keys in it yet.
        refuse_known: whether a key must be there at most once.
        memory: bytes of keys that may be held, and of the log file.
        is_global: whether a key counts once in the table. Where it counts once per partition path,
            one that is gone may be new in another: then it has an entry.
    """

    shard: Shard
    number: int
    stretches: tuple[KeyStretch, ...]
    deletes: tuple[KeyStretch, ...] = ()
    values: pa.Array
    update: GroupUpdate
    refuse_known: bool
    memory: int
    is_global: bool = True


@dataclass(frozen=True, slots=True)
class BulkKeys:
    """The index changes of a bulk insert or of a large batch: keys in the key files of its tasks.

    Attributes:
        parts: of each task its keys, and the places of its files.
        deletes: keys that are gone.
        refuse_known: whether a key must be in the record index at most once.
        memory: bytes that each task may hold.
        is_global: whether a key counts once in the table, or once per partition path.
    """

    parts: tuple[KeyPart, ...]
    refuse_known: bool
    memory: int
    deletes: tuple[KeyFile, ...] = ()
    is_global: bool = True

    def log(self, delta: DeltaCommit, state: TableState, runner: TaskRunner) -> list[DeltaStat]:
        """One task a shard, from key files to a log file."""
        if not self.parts and not self.deletes:
            return []
        assert state.metadata is not None
        millis = instant_millis(delta.instant, state.config.zone)
        places = list(dict.fromkeys(place for part in self.parts for place in part.places))
        values = encode_locations(
            [partition for partition, _ in places],
            [file_id for _, file_id in places],
            [millis] * len(places),
        )
        number_of = {place: number for number, place in enumerate(places)}
        nothing, no_values = pa.array([], pa.string()), pa.array([], pa.binary())
        builds = [
            ShardBuild(
                shard=shard,
                number=number,
                stretches=tuple(
                    KeyStretch(state.storage, part.keys, number, number_of[part.places[0]])
                    for part in self.parts
                ),
                deletes=tuple(KeyStretch(state.storage, file, number, 0) for file in self.deletes),
                values=values,
                update=delta.group(RECORD_INDEX, number, nothing, no_values),
                refuse_known=self.refuse_known,
                memory=self.memory,
                is_global=self.is_global,
            )
            for number, shard in enumerate(state.metadata.shards(RECORD_INDEX))
        ]
        weights = [sum(s.held for s in (*build.stretches, *build.deletes)) for build in builds]
        threads = threads_by_weight(weights, runner.threads_each(1), least=delta.block_size)
        shared = [
            replace(build, update=replace(build.update, threads=count))
            for build, count in zip(builds, threads, strict=True)
        ]
        stats = runner.run(build_shard, shared, weights=weights)
        return [stat for stat in stats if stat is not None]

    def entries(self, storage: Storage, instant: str) -> EntryChanges:
        """The keys are on storage; those that are gone are read, to wait in one file."""
        del instant
        gone = [
            file.read(storage, number)["key"].combine_chunks()
            for file in self.deletes
            for number in range(len(file.stretches))
        ]
        return EntryChanges(self.parts, pa.concat_arrays([pa.array([], pa.string()), *gone]))


def build_shard(build: ShardBuild) -> DeltaStat | None:
    """Sort a shard's new keys, refuse known ones, put the log file; None without changes."""
    # Where uniqueness was given up by name the index keeps the later row's place.
    keys = OrderedKeys(sources=build.stretches, read=stretch_keys, memory=build.memory)
    update, most = build.update, build.memory // 4
    file = HFileWriter(SCHEMA, update.block_size, memory=most, threads=update.threads)
    known = _KnownKeys(build.shard if build.refuse_known else None)
    gone = pa.array([], pa.string()) if build.is_global else _gone_keys(build)
    for array, order, codes in keys.batches():
        ascending = array.take(pa.array(order))
        file.add(ascending, build.values.take(pa.array(codes[order])))
        known.take(ascending)
        if len(gone):
            gone = without(gone, ascending)
    known.look_up()
    if build.refuse_known and (keys.repeated or known.found):
        raise DuplicateKeyError(
            f"bulk_insert of keys that exist: in shard {build.number} {known.found} in the table, "
            f"{keys.repeated} repeated in the input; upsert them, or set {DUP_POLICY} to none"
        )
    if build.is_global:
        # None of them comes: they need not be held before.
        gone = _gone_keys(build)
    if not file.entry_count and not len(gone):
        return None
    return update.write_cells(file, most, gone)


def _gone_keys(build: ShardBuild) -> pa.Array:
    """The keys that leave a shard."""
    found = [stretch.read()["key"].combine_chunks() for stretch in build.deletes]
    return pa.concat_arrays([pa.array([], pa.string()), *found])


@dataclass(slots=True)
class _KnownKeys:
    """How many ascending keys a shard has already; None asks nothing.

    Keys are looked up many at a time, so that few blocks of the shard are read twice.
    """

    shard: Shard | None
    found: int = 0
    pending: list[pa.Array] = field(default_factory=list)
    rows: int = 0

    def take(self, keys: pa.Array) -> None:
        """Add keys above all before."""
        if self.shard is not None and self.shard.sources:
            self.pending.append(keys)
            self.rows += len(keys)
            if self.rows >= _ASKED_AT_ONCE:
                self.look_up()

    def look_up(self) -> None:
        """Count what is pending."""
        if self.shard is not None and self.pending:
            self.found += len(self.shard.lookup(pa.concat_arrays(self.pending))[0])
        self.pending, self.rows = [], 0
