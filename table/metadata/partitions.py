"""Partitions of the metadata table and their file groups.

The file groups of a partition are numbered by the order of their file ids; a key belongs to the
group that its Java hash gives. Source: MetadataPartitionType, HoodieTableMetadataUtil of Hudi 0.15.
"""

from __future__ import annotations

import math

FILES, RECORD_INDEX = "files", "record_index"
COLUMN_STATS, BLOOM_FILTERS = "column_stats", "bloom_filters"
_PREFIXES = {
    FILES: "files-",
    RECORD_INDEX: "record-index-",
    COLUMN_STATS: "col-stats-",
    BLOOM_FILTERS: "bloom-filters-",
}
_RECORD_BYTES = 48  # Hudi's constant for the size of one mapping


PARTITIONS = tuple(_PREFIXES)


def file_id(partition: str, number: int) -> str:
    """The file id of a partition's n-th file group."""
    return f"{_PREFIXES[partition]}{number:04d}-0"


def supported(partition: str) -> bool:
    """Whether Keymark can keep that partition up to date."""
    return partition in _PREFIXES


def record_index_groups(
    records: int, *, minimum: int, maximum: int, group_bytes: int, growth: float
) -> int:
    """Hudi's estimate of the number of file groups that a record index needs."""
    if minimum == maximum and minimum != 0:
        return minimum
    wanted = math.ceil(records * growth) // max(1, group_bytes // _RECORD_BYTES)
    return max(minimum, min(maximum, wanted))
