"""Whether the record index holds what the data holds: by digests, and by the keys that changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError
from keymark.table.format.hashes.digest import Digest, digest_entries, location_words, total
from keymark.table.format.hashes.hashing import string_buffers
from keymark.table.format.kernels.scatter import partition_keys
from keymark.table.index.build.changes import key_changes
from keymark.table.index.build.scan import record_keys
from keymark.table.index.build.shard import LocationWords
from keymark.table.index.dedup import without
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.layout.view import Snapshot
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.records import location_codes
from keymark.table.metadata.shard import Shard, split_by_shard
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.write.index_changes import KeyChanges

_NOTHING = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A base file whose keys are to be summed by shard."""

    storage: Storage
    file: BaseFile
    shards: int
    keys: StoredKeys


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Two slices of a file group; None where there is none."""

    storage: Storage
    old: BaseFile | None
    new: BaseFile | None
    keys: StoredKeys


@dataclass(frozen=True, slots=True)
class ShardQuestion:
    """Keys (sorted, distinct) asked of one shard."""

    shard: Shard
    keys: pa.Array


def compare_digests(state: TableState, runner: TaskRunner, progress: Progress) -> Digest:
    """The digest that index and data have in common.

    Raises:
        CorruptFileError: they differ; the first shard that does is named.
    """
    index, data = index_digests(state, runner, progress), data_digests(state, runner, progress)
    for number, (found, wanted) in enumerate(zip(index, data, strict=True)):
        if found != wanted:
            raise CorruptFileError(
                f"{RECORD_INDEX} shard {number}",
                0,
                f"{found.count} keys of digest {found.hex}, the data has {wanted.count} of digest "
                f"{wanted.hex}",
            )
    return total(data)


def index_digests(state: TableState, runner: TaskRunner, progress: Progress) -> list[Digest]:
    """The digest of each shard's live entries."""
    assert state.metadata is not None
    shards = state.metadata.shards(RECORD_INDEX)
    weights = [_slice_bytes(shard) for shard in shards]
    return ProgressRunner(runner, progress, "shards").run(shard_digest, shards, weights=weights)


def data_digests(state: TableState, runner: TaskRunner, progress: Progress) -> list[Digest]:
    """The digest of the data's keys by the shard that each belongs to."""
    assert state.metadata is not None
    count = len(state.metadata.slices(RECORD_INDEX))
    keys = StoredKeys.of(state.config)
    files = [FileDigest(state.storage, file, count, keys) for file in state.snapshot.files]
    weights = [item.file.size for item in files]
    found = ProgressRunner(runner, progress, "files").run(file_digests, files, weights=weights)
    return [total([digests[number] for digests in found]) for number in range(count)]


def shard_digest(shard: Shard) -> Digest:
    """Sum a shard's live entries; a task for a runner."""
    found, locations = Digest(), LocationWords(shard.slice.file_id)
    for keys, values in shard.batches():
        codes, words = locations.of(values)
        offsets, text = string_buffers(keys)
        starts, lengths = offsets[:-1], np.diff(offsets)
        found = found.plus(digest_entries(text, starts, lengths, codes=codes, words=words))
    return found


def file_digests(work: FileDigest) -> list[Digest]:
    """Sum a base file's keys by shard; a task for a runner."""
    words = location_words([work.file.partition_path], [work.file.file_id])
    found = [Digest()] * work.shards
    for keys in record_keys(work.storage, work.file, work.keys):
        sums = partition_keys([(keys, 0)], words, work.shards).sums
        parts = zip(sums.rows.tolist(), sums.low.tolist(), sums.high.tolist(), strict=True)
        found = [known.plus(Digest(*part)) for known, part in zip(found, parts, strict=True)]
    return found


def changed_keys(work: GroupChange) -> tuple[pa.Array, pa.Array]:
    """Keys that came with the newer slice, and keys that went; a task for a runner."""
    return key_changes(work.storage, work.old, work.new, work.keys)


def net_changes(state: TableState, old: Snapshot, new: Snapshot, runner: TaskRunner) -> KeyChanges:
    """What of the index changes from one snapshot to another: new places, and keys that went."""
    keys = StoredKeys.of(state.config)
    before, after = old.by_location(), new.by_location()
    places = [p for p in sorted(before.keys() | after.keys()) if before.get(p) != after.get(p)]
    works = [GroupChange(state.storage, before.get(p), after.get(p), keys) for p in places]
    weights = [sum(f.size for f in (w.old, w.new) if f is not None) for w in works]
    changes = runner.run(changed_keys, works, weights=weights)
    puts = pa.concat_arrays([_NOTHING, *(added for added, _ in changes)])
    gone = pc.unique(pa.concat_arrays([_NOTHING, *(removed for _, removed in changes)]))
    return KeyChanges(
        keys=puts,
        codes=np.repeat(np.arange(len(places)), [len(added) for added, _ in changes]),
        locations=places,
        deletes=without(gone, puts),
    )


def index_fixes(old: Snapshot, state: TableState, runner: TaskRunner) -> KeyChanges:
    """The changes since a snapshot that the index does not have."""
    changes = net_changes(state, old, state.snapshot, runner)
    wanted = [f"{partition}\n{file_id}" for partition, file_id in changes.locations]
    right = pa.array(wanted, pa.string()).take(pa.array(changes.codes, pa.int64()))
    wrong = pc.fill_null(pc.not_equal(_answers(state, changes.keys, runner), right), True)  # noqa: FBT003
    left = pc.is_valid(_answers(state, changes.deletes, runner))
    return KeyChanges(
        keys=changes.keys.filter(wrong),
        codes=changes.codes[wrong.to_numpy(zero_copy_only=False)],
        locations=changes.locations,
        deletes=changes.deletes.filter(left),
    )


def _answers(state: TableState, keys: pa.Array, runner: TaskRunner) -> pa.Array:
    """Where the index says that keys are; null where it has none."""
    assert state.metadata is not None
    shards = state.metadata.shards(RECORD_INDEX)
    rows = split_by_shard(keys, len(shards))
    asked = [number for number in range(len(shards)) if len(rows[number])]
    works = [ShardQuestion(shards[n], keys.take(pa.array(rows[n]))) for n in asked]
    found = runner.run(ask_shard, works, weights=[work.keys.nbytes for work in works])
    places: npt.NDArray[np.object_] = np.full(len(keys), None, object)
    for number, (positions, answers) in zip(asked, found, strict=True):
        places[rows[number][positions]] = answers
    return pa.array(places, pa.string())


def ask_shard(work: ShardQuestion) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.object_]]:
    """Positions of the keys that are there, and their places; a task for a runner."""
    positions, values = work.shard.lookup(work.keys)
    codes, places = location_codes(values, work.shard.slice.file_id)
    pairs = zip(places["partition_path"].to_pylist(), places["file_id"].to_pylist(), strict=True)
    texts = np.array([f"{partition}\n{file_id}" for partition, file_id in pairs], object)
    return positions, texts[codes] if len(codes) else np.empty(0, object)


def _slice_bytes(shard: Shard) -> int:
    base: Sequence[int] = [shard.slice.base_file.size] if shard.slice.base_file else []
    return sum(base) + sum(log.size for log in shard.slice.log_files)
