"""The record index compared with the data, key by key, where their digests differ.

    base files -> keys by shard, in a local file -> sorted -> side by side with the shard's cells

Base files are read once, whatever the number of shards. Of keys, as many are in memory as a task
may hold; a check writes to the local disk, since it changes nothing of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.hashes.digest import location_words
from keymark.table.format.hashes.hashing import shards
from keymark.table.format.kernels.scatter import partition_keys
from keymark.table.index.build.ordered import OrderedKeys
from keymark.table.index.build.scan import record_keys
from keymark.table.index.build.shard import LocationWords
from keymark.table.index.build.spill import Stretch, encode_spill, find_stretch, spilled_keys
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.merge import side_by_side
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.shard import Shard
from keymark.table.state.table_state import TableState
from keymark.table.storage.spool import LocalFile

# Keys are in memory as they were read, dealt out to shards, and encoded.
_KEY_COPIES = 6

Words = npt.NDArray[np.uint64]


@dataclass(slots=True)
class Differences:
    """Counts of keys in shards that differ.

    Attributes:
        keys: distinct ones in the data.
        missing, extra, wrong: as `CheckResult` describes them.
        repeated: rows of the data whose key another row has, less one for each key.
    """

    keys: int = 0
    missing: int = 0
    extra: int = 0
    wrong: int = 0
    repeated: int = 0


def count_differences(
    state: TableState, files: Sequence[BaseFile], differing: tuple[int, ...], memory: int
) -> Differences:
    """Compare the shards that differ with the data, key by key.

    Args:
        state: a table with a record index.
        files: the base files of the snapshot that are there.
        differing: numbers of the shards.
        memory: bytes of keys that are held at once.

    Raises:
        CorruptFileError: a file is damaged.
        StorageError: the local disk is full.
    """
    counts = Differences()
    if not differing:
        return counts
    assert state.metadata is not None
    groups = state.metadata.shards(RECORD_INDEX)
    # If a key is in several places, the last one counts, which is the least by its text.
    ordered = sorted(files, key=lambda f: f"{f.partition_path}\n{f.file_id}", reverse=True)
    words = location_words([f.partition_path for f in ordered], [f.file_id for f in ordered])
    spills = _spill(state, ordered, words, _Chosen(len(groups), differing, memory))
    for number in differing:
        stretches = [find_stretch(spill, number, len(groups)) for spill in spills]
        keys = OrderedKeys(sources=stretches, read=spilled_keys, memory=memory)
        _compare(keys, words, groups[number], counts)
        counts.repeated += keys.repeated
    return counts


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The shards that are looked at, and the bytes of keys that are held at once."""

    groups: int
    differing: tuple[int, ...]
    memory: int

    def of(self, keys: pa.Array) -> pa.Array:
        """The keys of these shards."""
        return keys.filter(pa.array(np.isin(shards(keys, self.groups), self.differing)))


@dataclass(frozen=True, slots=True)
class _Spill:
    """A stretch of the local file that is read as a file of its own."""

    file: LocalFile
    start: int
    size: int

    @property
    def name(self) -> str:
        """What it is, for errors."""
        return self.file.name

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of a range, cut at the end."""
        return self.file.read(self.start + offset, min(length, self.size - offset))


def _spill(
    state: TableState, files: Sequence[BaseFile], words: Words, chosen: _Chosen
) -> list[_Spill]:
    """The keys of base files, by shard, in stretches of the local disk."""
    local, spills = LocalFile("a check"), []
    pending: list[tuple[pa.Array, int]] = []
    stored, held = StoredKeys.of(state.config), 0
    for number, file in enumerate(files):
        for keys in record_keys(state.storage, file, stored):
            pending.append((chosen.of(keys), number))
            held += pending[-1][0].nbytes
            if held * _KEY_COPIES >= chosen.memory:
                spills.append(_put(local, pending, words, chosen.groups))
                pending, held = [], 0
    spills.append(_put(local, pending, words, chosen.groups))
    return spills


def _put(
    local: LocalFile, pending: Sequence[tuple[pa.Array, int]], words: Words, groups: int
) -> _Spill:
    start = local.size
    return _Spill(local, start, local.append(encode_spill(partition_keys(pending, words, groups))))


def _compare(keys: OrderedKeys[Stretch], words: Words, shard: Shard, counts: Differences) -> None:
    """Count how the data's keys of a shard differ from the shard's cells."""
    locations = LocationWords(shard.slice.file_id)
    for data, cells in side_by_side(keys.cells(), shard.batches()):
        owner = shards(cells.keys.cast(pa.string()), shard.groups)
        mine = pa.array(owner == shard.number)
        counts.wrong += len(cells.keys) - (pc.sum(mine).as_py() or 0)
        known, values = cells.keys.filter(mine), cells.values.filter(mine)
        place = pc.index_in(data.keys, value_set=known)
        found = place.drop_null().to_numpy()
        counts.keys += len(data.keys)
        counts.missing += place.null_count
        counts.extra += len(known) - len(found)
        if len(found):
            codes, stored = locations.of(values)
            wanted = words[data.values.filter(place.is_valid()).to_numpy()]
            counts.wrong += int((stored[codes[found]] != wanted).any(axis=1).sum())
