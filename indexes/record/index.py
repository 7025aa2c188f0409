"""The record index: a lookup of each key in the shard of the metadata table that its hash names.

A lookup of M keys in n shards is n lookups of M/n sorted keys; each decodes only the blocks that
can hold one. Where a shard has more of these blocks than a core's share, ranges of its keys, cut
between blocks, are looked up side by side. Source: SparkMetadataTableRecordIndex of Hudi 0.15,
RFC-8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.indexes.record.cost import BLOCK_SIZE, INFLATION, WORK_PER_KEY_BYTE
from keymark.indexes.record.spec import SPEC
from keymark.indexes.shared.hash_candidates import rows_that_may_be_there
from keymark.indexes.shared.lookup_index import LookupIndex
from keymark.indexes.spec import IndexSpec
from keymark.indexes.workload import touched
from keymark.table.errors import IndexUnavailableError
from keymark.table.index.protocol import LOCATION_SCHEMA, IndexContext
from keymark.table.layout.model import FileSlice
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.records import location_codes
from keymark.table.metadata.shard import Shard, split_by_shard
from keymark.table.properties.options import INDEX_FALLBACK
from keymark.table.runtime.runner import shares
from keymark.table.timeline.instant_name import format_instant

_HASHED_MIN = 10_000
"""Fewer keys than this are looked up in the shards at once: reading the footers of all runs first
would take longer."""
_RANGE_BYTES_MIN = 4 << 20
"""Bytes of blocks that are worth a task: fewer are decoded while a shard is opened once more."""


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
    with work.shard.in_use() as shard:
        before = shard.blocks_decoded
        positions, values = shard.lookup(work.keys)
        codes, locations = location_codes(values, shard.slice.file_id)
        return ShardAnswer(positions, codes, locations, shard.blocks_decoded - before)


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
        shards = context.metadata.opened_shards(RECORD_INDEX, context.cache)
        rows = split_by_shard(keys, len(shards))
        asked = [number for number in range(len(shards)) if len(rows[number])]
        work = {n: _decoded(shards[n].slice, len(rows[n]), context) for n in asked}
        total = sum(work.values())
        if context.cache is not None and total > context.cache.capacity:
            # It would drive the blocks of other lookups out, and find none of its own next time.
            shards = tuple(replace(shard, cache=None) for shard in shards)
        # Few blocks are no ranges, however many cores there are: the session need not be asked.
        cores = context.runner.cores if total >= 2 * _RANGE_BYTES_MIN else 1
        cuts = {n: _cut(shards[n], keys, rows[n], _pieces(work[n], total, cores)) for n in asked}
        ranges = [(n, part) for n in asked for part in cuts[n]]
        tasks = [ShardLookup(shards[n], keys.take(pa.array(part))) for n, part in ranges]
        # The keys tell how much work all ranges are; each has the share of its blocks.
        heavy = WORK_PER_KEY_BYTE * keys.nbytes
        weights = [heavy * work[n] // (max(1, total) * len(cuts[n])) for n, _ in ranges]
        answers = context.runner.run(lookup_shard, tasks, weights=weights)
        context.stats.shards_read += len(asked)
        context.stats.blocks_decoded += sum(answer.blocks_decoded for answer in answers)
        found = [part[a.positions] for (_, part), a in zip(ranges, answers, strict=True)]
        return _assemble(len(keys), found, answers, context)


def _decoded(item: FileSlice, keys: int, context: IndexContext) -> int:
    """Bytes of blocks that a lookup of `keys` keys in a shard decodes.

    Keys are spread at random: of B blocks, M of them touch B*(1 - e^(-M/B)).
    """
    block = context.options.integer(BLOCK_SIZE)
    blocks = INFLATION * item.size / block
    return int(touched(blocks, keys) * block) if item.size else 0


def _pieces(work: int, total: int, cores: int) -> int:
    """Into how many ranges the keys of a shard are cut, one for each core's share of all blocks.

    Each range opens the shard anew.
    """
    return max(1, min(shares(work, total, cores), work // _RANGE_BYTES_MIN))


def _cut(
    shard: Shard, keys: pa.Array, rows: npt.NDArray[np.int64], pieces: int
) -> list[npt.NDArray[np.int64]]:
    """The rows of a shard's keys, sorted, in ranges that read as many blocks each."""
    if pieces < 2:
        return [rows]
    with shard.in_use() as opened:
        return np.split(rows, opened.cuts(keys.take(pa.array(rows)), pieces))


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
    # Few instants have written all files.
    instants = found["instant_ms"].combine_chunks().dictionary_encode()
    texts = [format_instant(millis, zone) for millis in instants.dictionary.to_pylist()]
    times = pa.array(texts).take(instants.indices)
    known = pa.table([found["partition_path"], found["file_id"], times], schema=LOCATION_SCHEMA)
    return known.combine_chunks().take(pa.array(place, mask=place < 0))
