"""The exact check: the record index against the keys of the data, key by key.

Keys are compared in passes over a hash of theirs, so that memory holds a bounded part of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table.errors import UnsupportedTableError
from table.format.hashing import java_hashes, shards
from table.format.parquet import read_base_file, read_footer
from table.metadata.partitions import RECORD_INDEX
from table.metadata.reader import Shard
from table.metadata.records import decode_locations
from table.read.arrow import open_base
from table.write.file_group import KEY_COLUMN
from table.write.transaction import TableState

_KEYS_PER_PASS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Counts of keys: in the data, and of each kind of difference.

    `missing` from the index, `extra` in the index only, `wrong` file group (or in a shard that
    their hash does not name), `duplicate` in more than one place of the data.
    """

    keys: int
    missing: int
    extra: int
    wrong: int
    duplicate: int

    @property
    def ok(self) -> bool:
        """No difference."""
        return not (self.missing or self.extra or self.wrong or self.duplicate)


def check_index(state: TableState) -> CheckResult:
    """Compare index and data exactly; UnsupportedTableError without a record index."""
    if state.metadata is None or RECORD_INDEX not in state.config.metadata_partitions:
        raise UnsupportedTableError("the table has no record index to check")
    groups = state.metadata.shards(RECORD_INDEX)
    rows = sum(
        read_footer(open_base(state.storage, file)).num_rows for file in state.snapshot.files
    )
    passes = max(1, -(-rows // _KEYS_PER_PASS))
    counts = np.zeros(5, np.int64)
    for part in range(passes):
        data = _data_locations(state, part, passes)
        index, misplaced = _index_locations(groups, part, passes)
        counts += _compare(data, index) + np.array([0, 0, 0, misplaced, 0])
    keys, missing, extra, wrong, duplicate = counts.tolist()
    return CheckResult(keys=keys, missing=missing, extra=extra, wrong=wrong, duplicate=duplicate)


def _part(keys: Any, part: int, passes: int) -> Any:
    """Whether keys belong to a pass (pa.Array of bool)."""
    return pa.array(java_hashes(keys).astype(np.int64) % passes == part)


def _data_locations(state: TableState, part: int, passes: int) -> Any:
    """(key, location) of the data's keys of a pass."""
    tables = []
    for file in state.snapshot.files:
        stored = read_base_file(open_base(state.storage, file), [KEY_COLUMN])
        keys = stored[KEY_COLUMN].combine_chunks()
        keys = keys.filter(_part(keys, part, passes))
        location = pa.repeat(pa.scalar(f"{file.partition_path}\n{file.file_id}"), len(keys))
        tables.append(pa.table({"key": keys, "location": location.dictionary_encode()}))
    return _concat(tables)


def _index_locations(groups: tuple[Shard, ...], part: int, passes: int) -> tuple[Any, int]:
    """(key, location) of the index's keys of a pass, and how many lie in another's shard."""
    tables, misplaced = [], 0
    for number, group in enumerate(groups):
        keys, values = group.scan()
        keys = keys.cast(pa.string())
        if part == 0:
            misplaced += int((shards(keys, len(groups)) != number).sum())
        chosen = _part(keys, part, passes)
        found = decode_locations(values.filter(chosen), group.slice.file_id)
        location = pc.binary_join_element_wise(
            found["partition_path"].cast(pa.string()), found["file_id"].cast(pa.string()), "\n"
        )
        tables.append(pa.table({"key": keys.filter(chosen), "location": location}))
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
