"""The record index's part of a bulk insert: one task per shard, from key files to a log block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from keymark.table.errors import DuplicateKeyError
from keymark.table.index.dedup import sorted_last
from keymark.table.index.key_file import KeyFile
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.reader import Shard
from keymark.table.metadata.records import encode_locations
from keymark.table.metadata.writer import DeltaCommit, GroupUpdate
from keymark.table.properties.options import DUP_POLICY
from keymark.table.timeline.commit_metadata import DeltaStat
from keymark.table.timeline.instant_name import instant_millis
from keymark.table.write.writer import Attempt


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


def update_index_in_bulk(
    attempt: Attempt, delta: DeltaCommit, parts: Sequence[tuple[KeyFile, list[tuple[str, str]]]]
) -> list[DeltaStat]:
    """Put the log file of every shard.

    Args:
        attempt: the write.
        delta: the metadata table's delta commit.
        parts: of each task its key file, and (partition path, file id) of its files.
    """
    millis = instant_millis(attempt.instant, attempt.config.zone)
    values = tuple(
        encode_locations([p for p, _ in files], [f for _, f in files], [millis] * len(files))
        for _, files in parts
    )
    key_files = tuple(file for file, _ in parts)
    nothing, no_values = pa.array([], pa.string()), pa.array([], pa.binary())
    assert attempt.state.metadata is not None
    builds = [
        ShardBuild(
            shard=shard,
            number=number,
            key_files=key_files,
            locations=values,
            update=delta.group(RECORD_INDEX, number, nothing, no_values),
            refuse_known=attempt.options.text(DUP_POLICY) == "fail",
        )
        for number, shard in enumerate(attempt.state.metadata.shards(RECORD_INDEX))
    ]
    weights = [sum(f.stretches[build.number][1] for f in key_files) for build in builds]
    stats = attempt.writer.runner.run(build_shard, builds, weights=weights)
    return [stat for stat in stats if stat is not None]


def build_shard(build: ShardBuild) -> DeltaStat | None:
    """Sort a shard's new keys, refuse known ones, put the log file; None without new keys."""
    storage = build.update.storage
    keys, values = [], []
    for file, locations in zip(build.key_files, build.locations, strict=True):
        table = file.read(storage, build.number).combine_chunks()
        keys.append(pa.concat_arrays(table["key"].chunks or [pa.array([], pa.string())]))
        values.append(locations.take(table["file"].combine_chunks()))
    all_keys, all_values = pa.concat_arrays(keys), _flat(values)
    if not len(all_keys):
        return None
    # Where uniqueness was given up by name the index keeps the later row's place.
    distinct, positions = sorted_last(all_keys)
    if build.refuse_known:
        _refuse(build, distinct, len(all_keys) - len(distinct))
    return replace(build.update, keys=distinct, values=all_values.take(positions)).write()


def _refuse(build: ShardBuild, keys: pa.Array, repeated: int) -> None:
    known = len(build.shard.lookup(keys)[0]) if not repeated else 0
    if repeated or known:
        raise DuplicateKeyError(
            f"bulk_insert of keys that exist: in shard {build.number} {known} in the table, "
            f"{repeated} repeated in the input; upsert them, or set {DUP_POLICY} to none"
        )


def _flat(arrays: list[pa.Array | pa.ChunkedArray]) -> pa.Array:
    chunks = [c for a in arrays for c in (a.chunks if isinstance(a, pa.ChunkedArray) else [a])]
    return pa.concat_arrays(chunks)
