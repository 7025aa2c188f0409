"""The record index compared with the data, key by key, where their digests differ.

This runs in passes over a hash of the keys, so that memory holds a bounded part of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.format.hashes.hashing import java_hashes, shards
from keymark.table.format.parquet.base_file import read_metadata
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.reader import Shard
from keymark.table.metadata.records import decode_locations
from keymark.table.read.arrow import open_base
from keymark.table.state.table_state import TableState

_KEYS_PER_PASS = 4_000_000

Numbers = npt.NDArray[np.int64]


def count_differences(
    state: TableState, files: Sequence[BaseFile], differing: tuple[int, ...], rows: int
) -> Numbers:
    """Compare the shards that differ with the data, key by key.

    Args:
        state: a table with a record index.
        files: the base files of the snapshot that are there.
        differing: numbers of the shards.
        rows: of the data, that belong to these shards.

    Returns:
        keys, missing, extra, wrong, duplicate, as `CheckResult` describes them.
    """
    assert state.metadata is not None
    groups = state.metadata.shards(RECORD_INDEX)
    counts = np.zeros(5, np.int64)
    if not differing:
        return counts
    passes = max(1, -(-rows // _KEYS_PER_PASS))
    for part in range(passes):
        chosen = _Pass(part, passes, len(groups), differing)
        data = _data_locations(state, files, chosen)
        index, misplaced = _index_locations(groups, chosen)
        counts += _compare(data, index) + np.array([0, 0, 0, misplaced, 0])
    return counts


@dataclass(frozen=True, slots=True)
class _Pass:
    """Which keys one pass looks at: a part of those whose shard differs."""

    part: int
    passes: int
    groups: int
    differing: tuple[int, ...]

    def of(self, keys: pa.Array) -> pa.Array:
        """Whether keys belong to the pass (bool)."""
        mine = java_hashes(keys).astype(np.int64) % self.passes == self.part
        return pa.array(mine & np.isin(shards(keys, self.groups), self.differing))


def _data_locations(state: TableState, files: Sequence[BaseFile], chosen: _Pass) -> pa.Table:
    """(key, location) of the data's keys of a pass."""
    tables, stored = [], StoredKeys.of(state.config)
    for file in files:
        source = open_base(state.storage, file)
        keys = stored.read(source, read_metadata(source))
        keys = keys.filter(chosen.of(keys))
        location = pa.repeat(pa.scalar(f"{file.partition_path}\n{file.file_id}"), len(keys))
        tables.append(pa.table({"key": keys, "location": location.dictionary_encode()}))
    return _concat(tables)


def _index_locations(groups: Sequence[Shard], chosen: _Pass) -> tuple[pa.Table, int]:
    """(key, location) of the index's keys of a pass, and how many lie in another's shard."""
    tables, misplaced = [], 0
    for number in chosen.differing:
        group = groups[number]
        for raw, values in group.batches():
            keys = raw.cast(pa.string())
            owner = shards(keys, len(groups))
            if chosen.part == 0:
                misplaced += int((owner != number).sum())
            mine = pc.and_(chosen.of(keys), pa.array(owner == number))
            found = decode_locations(values.filter(mine), group.slice.file_id)
            location = pc.binary_join_element_wise(
                found["partition_path"].cast(pa.string()), found["file_id"].cast(pa.string()), "\n"
            )
            tables.append(pa.table({"key": keys.filter(mine), "location": location}))
    return _concat(tables), misplaced


def _concat(tables: list[pa.Table]) -> pa.Table:
    schema = pa.schema([("key", pa.string()), ("location", pa.string())])
    return pa.concat_tables([t.cast(schema) for t in tables] or [schema.empty_table()])


def _compare(data: pa.Table, index: pa.Table) -> Numbers:
    """keys, missing, extra, wrong, duplicate."""
    counted = data.group_by("key").aggregate([("location", "min"), ("location", "count")])
    duplicate = pc.sum(pc.greater(counted["location_count"], 1)).as_py() or 0
    joined = counted.join(index, "key", join_type="full outer", right_suffix="_index")
    in_data = pc.is_valid(joined["location_min"])
    in_index = pc.is_valid(joined["location"])
    differs = pc.not_equal(joined["location_min"], joined["location"])
    wrong = pc.sum(pc.fill_null(differs, fill_value=False)).as_py() or 0
    missing = pc.sum(pc.and_not(in_data, in_index)).as_py() or 0
    extra = pc.sum(pc.and_not(in_index, in_data)).as_py() or 0
    return np.array([counted.num_rows, missing, extra, wrong, duplicate], np.int64)
