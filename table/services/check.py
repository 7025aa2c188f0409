"""The exact check: the metadata table against the data.

Each shard's digest is compared with that of the data's keys that belong there; where they differ,
key by key, in passes over a hash of the keys, so that memory holds a bounded part of the table.
Reading a shard checks its blocks: checksums, key order, that each block holds the keys that its
index says. The `files` partition is compared with the files on storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table.bootstrap.target import Progress
from table.errors import UnsupportedTableError
from table.format.digest import total
from table.format.hashing import java_hashes, shards
from table.format.parquet import read_metadata
from table.keygen.stored import StoredKeys
from table.metadata.partitions import RECORD_INDEX
from table.metadata.reader import Shard
from table.metadata.records import decode_locations
from table.naming import HOODIE, parse_base_file
from table.read.arrow import open_base
from table.services.exactness import data_digests, index_digests
from table.write.left_behind import left_behind
from table.write.runner import TaskRunner
from table.write.transaction import TableState

_KEYS_PER_PASS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Counts of keys: in the data, and of each kind of difference.

    `missing` from the index, `extra` in the index only, `wrong` file group (or in a shard that
    their hash does not name), `duplicate` in more than one place of the data. `shards` are the
    numbers of the shards that differ, `digest` is that of all keys and their places in the data.
    `left_behind` is the commit of Apache Hudi after which the index lacks keys (virtual keys).
    `files_missing` are listed in the metadata table and not on storage with that size,
    `files_unlisted` committed and on storage, but not listed.
    """

    keys: int
    missing: int
    extra: int
    wrong: int
    duplicate: int
    shards: tuple[int, ...] = ()
    digest: str = ""
    files_missing: int = 0
    files_unlisted: int = 0
    left_behind: str | None = None

    @property
    def ok(self) -> bool:
        """No difference."""
        keys = self.missing or self.extra or self.wrong or self.duplicate
        return not (keys or self.shards or self.files_missing or self.files_unlisted)


def check_index(state: TableState, runner: TaskRunner, progress: Progress) -> CheckResult:
    """Compare index and data exactly; UnsupportedTableError without a record index."""
    if state.metadata is None or RECORD_INDEX not in state.config.metadata_partitions:
        raise UnsupportedTableError("the table has no record index to check")
    files_missing, files_unlisted = _compare_files(state)
    index = index_digests(state, runner, progress)
    data = data_digests(state, runner, progress)
    pairs = enumerate(zip(index, data, strict=True))
    differing = tuple(number for number, (found, wanted) in pairs if found != wanted)
    same = sum(data[n].count for n in range(len(data)) if n not in differing)
    rows = sum(data[n].count for n in differing)
    counts = _exact_counts(state, state.metadata.shards(RECORD_INDEX), differing, rows)
    keys, missing, extra, wrong, duplicate = counts.tolist()
    return CheckResult(
        keys=same + keys,
        missing=missing,
        extra=extra,
        wrong=wrong,
        duplicate=duplicate,
        shards=differing,
        digest=total(data).hex,
        files_missing=files_missing,
        files_unlisted=files_unlisted,
        left_behind=left_behind(state),
    )


def _compare_files(state: TableState) -> tuple[int, int]:
    """How many files are listed and not there, and there and not listed."""
    stored: dict[tuple[str, str], int] = {}
    times: dict[tuple[str, str], str] = {}
    for status in state.storage.walk(""):
        folder, _, name = status.path.rpartition("/")
        file = parse_base_file(folder, name, status.size)
        if file is not None and not status.path.startswith(f"{HOODIE}/"):
            stored[folder, name] = status.size
            times[folder, name] = file.instant_time
    listed = {(p, name): size for p, names in state.listing.items() for name, size in names.items()}
    missing = sum(stored.get(place) != size for place, size in listed.items())
    visible = state.timeline.visible(set(times.values()))
    unlisted = sum(times[place] in visible for place in stored.keys() - listed.keys())
    return missing, unlisted


def _exact_counts(
    state: TableState, groups: Sequence[Shard], differing: tuple[int, ...], rows: int
) -> Any:
    """keys, missing, extra, wrong, duplicate of the shards that differ (int64)."""
    counts = np.zeros(5, np.int64)
    if not differing:
        return counts
    passes = max(1, -(-rows // _KEYS_PER_PASS))
    for part in range(passes):
        chosen = _Pass(part, passes, len(groups), differing)
        data = _data_locations(state, chosen)
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

    def of(self, keys: Any) -> Any:
        """Whether keys belong to the pass (pa.Array of bool)."""
        mine = java_hashes(keys).astype(np.int64) % self.passes == self.part
        return pa.array(mine & np.isin(shards(keys, self.groups), self.differing))


def _data_locations(state: TableState, chosen: _Pass) -> Any:
    """(key, location) of the data's keys of a pass."""
    tables, stored = [], StoredKeys.of(state.config)
    for file in state.snapshot.files:
        source = open_base(state.storage, file)
        keys = stored.read(source, read_metadata(source))
        keys = keys.filter(chosen.of(keys))
        location = pa.repeat(pa.scalar(f"{file.partition_path}\n{file.file_id}"), len(keys))
        tables.append(pa.table({"key": keys, "location": location.dictionary_encode()}))
    return _concat(tables)


def _index_locations(groups: Sequence[Shard], chosen: _Pass) -> tuple[Any, int]:
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


def _concat(tables: list[Any]) -> Any:
    schema = pa.schema([("key", pa.string()), ("location", pa.string())])
    return pa.concat_tables([t.cast(schema) for t in tables] or [schema.empty_table()])


def _compare(data: Any, index: Any) -> Any:
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
