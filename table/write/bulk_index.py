"""The record index's part of a bulk insert: one task per shard, from key files to a log block."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from keymark.table.errors import DuplicateKeyError
from keymark.table.index.dedup import sorted_last
from keymark.table.index.external import EntryChanges, KeyPart
from keymark.table.index.key_file import KeyFile
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.reader import Shard
from keymark.table.metadata.records import encode_locations
from keymark.table.metadata.writer import DeltaCommit, GroupUpdate
from keymark.table.properties.options import DUP_POLICY
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import DeltaStat
from keymark.table.timeline.instant_name import instant_millis


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardBuild:
    """The new keys of one shard, where they are, and what to do about known ones.

    `locations[t]` are the values of the files of the task whose keys are in `key_files[t]`.
    `update` is the shard's log file with no keys in it yet.
    """

    shard: Shard
    number: int
    key_files: tuple[KeyFile, ...]
    locations: tuple[pa.Array, ...]
    update: GroupUpdate
    refuse_known: bool


@dataclass(frozen=True, slots=True)
class BulkKeys:
    """The index changes of a bulk insert: its keys, in one key file a task.

    Attributes:
        parts: of each task its keys, and the places of its files.
        refuse_known: whether a key must be in the record index at most once.
    """

    parts: tuple[KeyPart, ...]
    refuse_known: bool

    def log(self, delta: DeltaCommit, state: TableState, runner: TaskRunner) -> list[DeltaStat]:
        """One task a shard, from key files to a log file."""
        if not self.parts:
            return []
        assert state.metadata is not None
        millis = instant_millis(delta.instant, state.config.zone)
        key_files = tuple(part.keys for part in self.parts)
        locations = tuple(
            encode_locations(
                [partition for partition, _ in part.places],
                [file_id for _, file_id in part.places],
                [millis] * len(part.places),
            )
            for part in self.parts
        )
        nothing, no_values = pa.array([], pa.string()), pa.array([], pa.binary())
        builds = [
            ShardBuild(
                shard=shard,
                number=number,
                key_files=key_files,
                locations=locations,
                update=delta.group(RECORD_INDEX, number, nothing, no_values),
                refuse_known=self.refuse_known,
            )
            for number, shard in enumerate(state.metadata.shards(RECORD_INDEX))
        ]
        weights = [sum(f.stretches[build.number][1] for f in key_files) for build in builds]
        stats = runner.run(build_shard, builds, weights=weights)
        return [stat for stat in stats if stat is not None]

    def entries(self, storage: Storage, instant: str) -> EntryChanges:
        """The keys are on storage already."""
        del storage, instant
        return EntryChanges(self.parts, pa.array([], pa.string()))


def build_shard(build: ShardBuild) -> DeltaStat | None:
    """Sort a shard's new keys, refuse known ones, put the log file; None without new keys."""
    storage = build.update.storage
    keys, values = [], []
    for file, locations in zip(build.key_files, build.locations, strict=True):
        table = file.read(storage, build.number).combine_chunks()
        keys.append(pa.concat_arrays(table["key"].chunks or [pa.array([], pa.string())]))
        values.append(locations.take(table["file"].combine_chunks()))
    all_keys = pa.concat_arrays(keys)
    if not len(all_keys):
        return None
    chunks = [c for a in values for c in (a.chunks if isinstance(a, pa.ChunkedArray) else [a])]
    # Where uniqueness was given up by name the index keeps the later row's place.
    distinct, positions = sorted_last(all_keys)
    if build.refuse_known:
        repeated = len(all_keys) - len(distinct)
        known = len(build.shard.lookup(distinct)[0]) if not repeated else 0
        if repeated or known:
            raise DuplicateKeyError(
                f"bulk_insert of keys that exist: in shard {build.number} {known} in the table, "
                f"{repeated} repeated in the input; upsert them, or set {DUP_POLICY} to none"
            )
    return replace(
        build.update, keys=distinct, values=pa.concat_arrays(chunks).take(positions)
    ).write()
