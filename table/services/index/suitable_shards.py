"""How many shards suit a record index, and when it has outgrown those that it has."""

from __future__ import annotations

import math
from collections.abc import Sequence

from keymark.table.format.hfile.reader import HFileReader
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.shard import Shard
from keymark.table.properties.options import RECORD_INDEX_GROUPS_MAX, Options
from keymark.table.services.index.indexing import group_sizing
from keymark.table.state.table_state import TableState

_GROUP_KEYS = 10_000_000
"""Five times the keys of a file group of the published experiment: 2,000,000,000 in 1,000."""
_KEYS_WORTH_A_TASK = 100_000


def outgrown(state: TableState, options: Options) -> bool:
    """Whether a shard of the record index, if there is one, has passed Hudi's largest size."""
    if state.metadata is None or RECORD_INDEX not in state.config.metadata_partitions:
        return False
    return state.metadata.largest_slice(RECORD_INDEX) > group_sizing(options).group_bytes


def suitable(shards: Sequence[Shard], options: Options, cores: int) -> int:
    """How many file groups suit an index: a multiple of those that it has.

    None is to be larger than Hudi's largest one after the table has grown by Hudi's factor, nor to
    hold more keys then than five times those of the published experiment. Beyond that there are as
    many as the writer has cores, if each has work to do.
    """
    sizing = group_sizing(options)
    size = sum(shard.slice.size for shard in shards)
    files = (source for shard in shards for source in shard.sources)
    entries = sum(file.entry_count for file in files if isinstance(file, HFileReader))
    wanted = max(
        math.ceil(size * sizing.growth / sizing.group_bytes),
        math.ceil(entries * sizing.growth / _GROUP_KEYS),
        min(cores, math.ceil(entries / _KEYS_WORTH_A_TASK)),
    )
    present = len(shards)
    return min(present * max(1, math.ceil(wanted / present)), RECORD_INDEX_GROUPS_MAX)
