"""The record index: a lookup of each key in the shard of the metadata table that its hash names.

A lookup of M keys in n shards is n lookups of M/n sorted keys; each decodes only the blocks that
can hold one. Where a shard has more of the keys than a core's share, ranges of them are looked up
side by side. Source: SparkMetadataTableRecordIndex of Hudi 0.15, RFC-8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.indexes.record.cost import INFLATION, WORK_PER_KEY_BYTE
from keymark.indexes.record.spec import SPEC
from keymark.indexes.shared.hash_candidates import rows_that_may_be_there
from keymark.indexes.shared.lookup_index import LookupIndex
from keymark.indexes.spec import IndexSpec
from keymark.table.errors import IndexUnavailableError
from keymark.table.index.protocol import LOCATION_SCHEMA, IndexContext
from keymark.table.layout.model import FileSlice
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.reader import Shard, split_by_shard
from keymark.table.metadata.records import location_codes
from keymark.table.properties.options import INDEX_FALLBACK
from keymark.table.runtime.runner import shares
from keymark.table.timeline.instant_name import format_instant

_HASHED_MIN = 10_000
"""Of fewer keys the shards are asked at once: the footers of all runs would be read for them."""
_RANGE_KEYS_MIN = 10_000
"""Fewer keys take no longer than to open a shard once more."""


@dataclass(frozen=True, slots=True)
class ShardLookup:
    """Sorted keys of one shard."""

    shard: Shard
    keys: pa.Array


@dataclass(frozen=True, slots=True)
class ShardAnswer:
    """Positions of the keys found, the location (row of `locations`) of each; blocks decoded."""

    positions: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]
    locations: pa.Table
    blocks_decoded: int


def lookup_shard(work: ShardLookup) -> ShardAnswer:
    """Look keys up in one shard; the task that a runner distributes."""
    # Ranges of one shard may be looked up side by side.
    shard = replace(work.shard, readers=[])
    positions, values = shard.lookup(work.keys)
    codes, locations = location_codes(values, shard.slice.file_id)
    return ShardAnswer(positions, codes, locations, shard.blocks_decoded)


class RecordIndex(LookupIndex):
    """Global and exact; needs the table's record_index partition."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name
    is_global: ClassVar[bool] = True

    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Locate keys by their shards; many of them only where hashes of keys allow that."""
        del partitions
        rows = rows_that_may_be_there(keys, context) if len(keys) >= _HASHED_MIN else None
        if rows is None:
            return self._look_up(keys, context)
        place = np.full(len(keys), -1, np.int64)
        place[rows] = np.arange(len(rows))
        found = self._look_up(keys.take(pa.array(rows)), context)
        return found.take(pa.array(place, mask=place < 0))

    def _look_up(self, keys: pa.Array, context: IndexContext) -> pa.Table:
        """The same of all keys, by their shards."""
        if context.metadata is None or RECORD_INDEX not in context.config.metadata_partitions:
            building = RECORD_INDEX in context.config.building
            command = f"keymark table index {'run' if building else 'build'}"
            raise IndexUnavailableError(
                f"the record index of {context.storage.root} is "
                f"{'still being built' if building else 'not built'}: "
                f"`{command} {context.storage.root} record_index` builds it, or name a fallback by "
                f"option {INDEX_FALLBACK}"
            )
        shards = context.metadata.shards(RECORD_INDEX, context.cache)
        rows = split_by_shard(keys, len(shards))
        asked = [number for number in range(len(shards)) if len(rows[number])]
        if _floods([shards[n].slice for n in asked], len(keys), context):
            shards = tuple(replace(shard, cache=None) for shard in shards)
        cores = context.runner.cores
        ranges = [
            (shards[n], part)
            for n in asked
            for part in np.array_split(rows[n], _pieces(len(rows[n]), len(keys), cores))
        ]
        tasks = [ShardLookup(shard, keys.take(pa.array(part))) for shard, part in ranges]
        weights = [WORK_PER_KEY_BYTE * task.keys.nbytes for task in tasks]
        answers = context.runner.run(lookup_shard, tasks, weights=weights)
        context.stats.shards_read += len(asked)
        context.stats.blocks_decoded += sum(answer.blocks_decoded for answer in answers)
        found = [part[a.positions] for (_, part), a in zip(ranges, answers, strict=True)]
        return _assemble(len(keys), found, answers, context)


def _pieces(keys: int, all_keys: int, cores: int) -> int:
    """Into how many ranges the sorted keys of a shard are cut, one for each core's share of all.

    Each range opens the shard by itself, and decodes the blocks that hold its keys.
    """
    return max(1, min(shares(keys, all_keys, cores), keys // _RANGE_KEYS_MIN))


def _floods(slices: Sequence[FileSlice], keys: int, context: IndexContext) -> bool:
    """Whether a lookup decodes more bytes than the cache holds.

    It would drive the blocks of other lookups out, and find nothing of its own the next time. Keys
    are spread at random: of B blocks, M of them touch B*(1 - e^(-M/B)).
    """
    stored = sum((s.base_file.size if s.base_file else 0) for s in slices)
    stored += sum(log.size for s in slices for log in s.log_files)
    if context.cache is None or not stored:
        return False
    block = context.options.integer("hoodie.hfile.block.size")
    blocks = INFLATION * stored / block
    return -math.expm1(-keys / blocks) * blocks * block > context.cache.capacity


def _assemble(
    count: int, rows: list[npt.NDArray[np.int64]], answers: list[ShardAnswer], context: IndexContext
) -> pa.Table:
    """The answers of the shards in the order of the keys asked, null where not found."""
    place = np.full(count, -1, np.int64)
    start = 0
    for members, answer in zip(rows, answers, strict=True):
        place[members] = answer.codes + start
        start += answer.locations.num_rows
    if not start:
        return pa.table([pa.nulls(count, f.type) for f in LOCATION_SCHEMA], schema=LOCATION_SCHEMA)
    found = pa.concat_tables([answer.locations for answer in answers])
    zone = context.config.zone
    times = [format_instant(millis, zone) for millis in found["instant_ms"].to_pylist()]
    known = pa.table(
        [found["partition_path"], found["file_id"], pa.array(times)], schema=LOCATION_SCHEMA
    )
    return known.combine_chunks().take(pa.array(place, mask=place < 0))
