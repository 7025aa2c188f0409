"""Key ranges and bloom filters of base files, from the metadata table.

    ranges     column_stats,  column _hoodie_record_key   read on the driver
    filters    bloom_filters                              one task per file group of the partition

A partition that the table does not keep answers for no file, and a record that is missing or
cannot be used for none of its own: the footers of those files are read instead. Source:
HoodieBloomIndex.loadColumnRangesFromMetaIndex, HoodieMetadataBloomIndexCheckFunction of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.indexes.bloom.key_ranges import Candidate, Range, Spans, keys_in, places_in
from keymark.table.errors import CorruptFileError, UnsupportedTableError
from keymark.table.format.bloom.text import BloomText
from keymark.table.index.protocol import IndexContext
from keymark.table.metadata.bloom import bloom_key, decode_bloom
from keymark.table.metadata.column_ranges import file_keys, read_ranges
from keymark.table.metadata.column_stats import Wrapper
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS
from keymark.table.metadata.shard import Shard, split_by_shard
from keymark.table.properties.config import KEY_COLUMN

_Numbers = npt.NDArray[np.int64]

# Decoding a filter of Hudi's default size takes as long as writing this many bytes.
_FILTER_WEIGHT = 1 << 18
# Filters held in memory at once by a task.
_FILTERS_AT_ONCE = 32
# What stands for a character that was cut in two; the key may have begun with less.
_REPLACEMENT = "\ufffd"


def ranges_in_metadata(numbers: Sequence[int], context: IndexContext) -> dict[int, Range]:
    """The ranges that column_stats knows, by the number of the file."""
    if context.metadata is None or COLUMN_STATS not in context.config.metadata_partitions:
        return {}
    files = [context.snapshot.files[number] for number in numbers]
    shards = context.metadata.shards(COLUMN_STATS, context.cache)
    ranges = read_ranges(shards, KEY_COLUMN, files, file_keys(files))
    ends = zip(*ranges.ends(Wrapper.STRING), strict=True)
    # A row group whose keys are too long for Parquet's statistics counts as nulls in Hudi's
    # records, and is in no range (ParquetUtils.readRangeFromParquetMetadata).
    return {
        numbers[row]: (low, high)
        for row, low, high in ends
        if _REPLACEMENT not in low and ranges.nulls[row] == 0
    }


@dataclass(frozen=True, slots=True)
class FilterProbe:
    """Sorted keys of records in one file group of bloom_filters.

    `files` are the files that they are of: path, sorted keys asked, candidates among these.
    """

    shard: Shard
    records: pa.Array
    files: tuple[tuple[str, pa.Array, Spans], ...]


def probe_filters(work: FilterProbe) -> list[_Numbers | None]:
    """For each file, the places that pass its filter; None where a file has no filter.

    A task that a runner distributes.
    """
    found: list[_Numbers | None] = [None] * len(work.files)
    for start in range(0, len(work.files), _FILTERS_AT_ONCE):
        hits, values = work.shard.lookup(work.records.slice(start, _FILTERS_AT_ONCE))
        for row, value in zip((hits + start).tolist(), values, strict=True):
            path, keys, spans = work.files[row]
            try:
                decoded = decode_bloom(value.as_py(), path)
                if decoded is not None:
                    bloom = BloomText.parse(decoded[1], decoded[0], path)
                    found[row] = places_in(spans)[bloom.contains(keys_in(keys, spans))]
            except (CorruptFileError, UnsupportedTableError):
                continue  # the footer of the file is asked instead
    return found


def filter_by_metadata(
    candidates: Sequence[Candidate], context: IndexContext
) -> tuple[list[tuple[Candidate, _Numbers]], list[Candidate]]:
    """Test candidates by the filters that bloom_filters knows.

    Returns:
        The files that are left with the places of the keys that passed; the files without filter.
    """
    if context.metadata is None or BLOOM_FILTERS not in context.config.metadata_partitions:
        return [], list(candidates)
    files = [context.snapshot.files[candidate.number] for candidate in candidates]
    records = pa.array([bloom_key(file.partition_path, file.name) for file in files], pa.string())
    shards = context.metadata.shards(BLOOM_FILTERS, context.cache)
    rows = [mine.tolist() for mine in split_by_shard(records, len(shards))]
    probes = [
        FilterProbe(
            shard,
            records.take(pa.array(mine)),
            tuple((files[n].path, candidates[n].asked.keys, candidates[n].spans) for n in mine),
        )
        for shard, mine in zip(shards, rows, strict=True)
        if mine
    ]
    weights = [_FILTER_WEIGHT * len(probe.files) for probe in probes]
    answers = context.runner.run(probe_filters, probes, weights=weights, packed=False)
    order = [n for mine in rows for n in mine]
    places_of = dict(zip(order, (places for answer in answers for places in answer), strict=True))
    context.stats.filters_from_metadata += sum(places is not None for places in places_of.values())
    passed = [(candidates[n], places) for n, places in places_of.items() if places is not None]
    missing = [candidates[n] for n, places in places_of.items() if places is None]
    return [item for item in passed if len(item[1])], missing
