"""The rules of `advise`: each looks at a survey and says what to change, with its number.

A rule fires at a number that stands here with its source, and never on what a healthy table of any
size shows. docs/advise.md lists them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from keymark.harness.store.units import Unit
from keymark.indexes.workload import SHARD_BYTES
from keymark.reports.advise.situation import Situation
from keymark.reports.render.format_values import amount
from keymark.table.survey.model import RecordIndexFacts, ShardFacts, TableSurvey

HUDI_SHARDS = 10
"""`hoodie.metadata.record.index.min.filegroup.count`: Hudi makes no index with fewer."""
PUBLISHED_KEYS = 2_000_000
"""Keys a shard of the published experiment: 2,000,000,000 in 1,000 file groups."""
SHARD_KEYS = 5 * PUBLISHED_KEYS
"""From which there are too few shards, whatever their bytes."""
GROWTH = 2.0
"""`hoodie.metadata.record.index.growth.factor`: how many times as many keys have room."""
FEW_KEYS = 100_000
"""Keys a shard up to which fewer shards than Hudi's own cost nothing: some 5 MB."""
SKEW = 2.0
"""Largest shard by the median: Hudi deals keys by a hash, so that shards are alike."""
SMALL_FILES = 8.0
"""Files by the fewest that would do, from which clustering pays."""
SMALL_FILES_LEAST = 40
OVERDUE_SHARE = 0.2
"""Bytes of overdue files by those of the snapshot."""
LOGS_SHARE = 0.5
"""Bytes of log files by those of base files: `hoodie.compaction` is behind."""
LOGS_WRITES = 20
"""Delta commits without a compaction: `hoodie.compact.inline.max.delta.commits` is 5."""
INDEX_LOGS = 30
"""Log files on a shard: the metadata table is compacted after 10 delta commits."""
STUCK_AFTER = 10
"""Writes completed after an instant that is still pending."""
LONG_TIMELINE = 150
"""Writes in the active timeline: `hoodie.keep.max.commits` is 30."""


class Urgency(StrEnum):
    """When to act."""

    NOW = "now"
    WATCH = "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One piece of advice.

    Attributes:
        kind: its rule.
        urgency: when to act.
        what: what is the case, with its number.
        why: what follows from it, with its source.
        do: what to set or to run.
    """

    kind: str
    urgency: Urgency
    what: str
    why: str
    do: str


Rule = Callable[[TableSurvey, Situation], Finding | None]


def few_shards(survey: TableSurvey, _: Situation) -> Finding | None:
    """A record index with fewer file groups than its keys need."""
    index = survey.record_index
    if index is None or not survey.rows:
        return None
    count = len(index.shards)
    largest = max(map(_size, index.shards))
    keys = survey.rows / count
    few = not index.partitioned and count < HUDI_SHARDS and keys > FEW_KEYS
    if largest <= SHARD_BYTES and keys <= SHARD_KEYS and not few:
        return None
    least = "" if index.partitioned else f"makes {HUDI_SHARDS} at least and "
    return Finding(
        kind="few_shards",
        urgency=Urgency.NOW,
        what=f"the record index has {count:,} file groups, {keys:,.0f} keys and up to "
        f"{_bytes(largest)} each",
        why="a lookup has one task a file group, and an update writes to every one that gets a "
        f"key; Hudi {least}lets none grow past {_bytes(SHARD_BYTES)}",
        do=f"build the index anew: one write with {_options(index)}.enable=false, then true with "
        f"{_more_shards(survey, index)}",
    )


def _options(index: RecordIndexFacts) -> str:
    """What the names of the options begin with that make a record index."""
    return f"hoodie.metadata.record.{'level.' * index.partitioned}index"


def _more_shards(survey: TableSurvey, index: RecordIndexFacts) -> str:
    """The options that give a record index room; those of a partitioned one are of each path."""
    count, options = len(index.shards), _options(index)
    if index.partitioned:
        paths = max(survey.files.partitions, 1)
        wanted = max(count // paths + 1, math.ceil(survey.rows / paths / PUBLISHED_KEYS))
        return ", ".join(f"{options}.{end}.filegroup.count={wanted}" for end in ("min", "max"))
    stored = sum(map(_size, index.shards))
    by_keys, by_bytes = survey.rows / PUBLISHED_KEYS, GROWTH * stored / SHARD_BYTES
    wanted = max(HUDI_SHARDS, count + 1, math.ceil(by_keys), math.ceil(by_bytes))
    return f"{options}.min.filegroup.count={wanted}"


def skewed_shard(survey: TableSurvey, _: Situation) -> Finding | None:
    """A shard of the global record index that is much larger than the others."""
    index = survey.record_index
    if index is None or index.partitioned or len(index.shards) < 2:
        return None
    sizes = sorted(map(_size, index.shards))
    middle, largest = median(sizes), sizes[-1]
    if largest <= SKEW * middle:
        return None
    worst = max(index.shards, key=_size).file_group
    return Finding(
        kind="skewed_shard",
        urgency=Urgency.NOW,
        what=f"file group {worst} of the record index has {_bytes(largest)}, the median "
        f"{_bytes(middle)}",
        why="one task of each lookup and update does most of the work; Hudi assigns keys to file "
        "groups by their hash, so many keys must have hashes that fall together",
        do="look at the keys: `keymark data profile PATH` shows how they spread over file groups",
    )


def small_files(survey: TableSurvey, _: Situation) -> Finding | None:
    """Many more base files than the rows need."""
    files = survey.files
    spare = files.base_files - files.fewest_files
    if spare < SMALL_FILES_LEAST or files.base_files < SMALL_FILES * files.fewest_files:
        return None
    return Finding(
        kind="small_files",
        urgency=Urgency.NOW,
        what=f"{files.base_files:,} base files, the median of {_bytes(files.sizes[1])}, "
        f"hold what {files.fewest_files:,} would",
        why="every file costs its footer, its bloom filter and an entry in each listing; Hudi's "
        "largest file is 120 MiB (hoodie.parquet.max.file.size)",
        do="run clustering once (hoodie.clustering.inline=true, "
        "hoodie.clustering.inline.max.commits=1), and write bulk inserts in fewer tasks "
        "(hoodie.bulkinsert.shuffle.parallelism)",
    )


def cleaning_lags(survey: TableSurvey, _: Situation) -> Finding | None:
    """Replaced files that no reader of the last commits needs."""
    files = survey.files
    if files.overdue_bytes <= OVERDUE_SHARE * max(files.base_bytes, 1):
        return None
    ran = f"{survey.services.cleans:,} cleans" if survey.services.cleans else "no clean"
    return Finding(
        kind="cleaning_lags",
        urgency=Urgency.NOW,
        what=f"{files.overdue_files:,} files with {_bytes(files.overdue_bytes)} were "
        f"replaced more than {files.overdue_after} commits ago; the snapshot has "
        f"{_bytes(files.base_bytes)}",
        why=f"the active timeline has {ran}; Hudi keeps what 10 commits need "
        "(hoodie.cleaner.commits.retained)",
        do="set hoodie.clean.automatic=true, unless old versions are kept on purpose",
    )


def small_filter(survey: TableSurvey, at: Situation) -> Finding | None:
    """Bloom filters with more keys than they were made for."""
    filters, place = survey.filters, at.at
    asks = at.index is None or at.index.reads_filters
    if filters is None or place is None or not asks:
        return None
    files_asked = place.files / (place.partitions if at.keys_stay else 1)
    for_nothing = place.batch * filters.false_positives
    if for_nothing < 1:
        return None
    return Finding(
        kind="small_filter",
        urgency=Urgency.NOW if at.index else Urgency.WATCH,
        what=f"a filter with {filters.rows:,} keys lets {filters.false_positives:.2g} of absent "
        f"keys pass: {for_nothing:,.0f} of a batch of {place.batch:,.0f}, in each of "
        f"{files_asked:,.0f} files",
        why="each of these files is read for nothing; Hudi's filters are made for 60,000 keys "
        "(hoodie.index.bloom.num_entries)",
        do="set hoodie.bloom.index.filter.type=SIMPLE, "
        f"hoodie.index.bloom.num_entries={filters.rows}, "
        "or hoodie.bloom.index.filter.dynamic.max.entries; files get it as they are rewritten",
    )


def index_missing(survey: TableSurvey, at: Situation) -> Finding | None:
    """An index that the writer's options name and the table does not have."""
    index = at.index
    wanted = index.partition_in(survey.version) if index else None
    if index is None or wanted is None or wanted in survey.metadata_partitions:
        return None
    return Finding(
        kind="index_missing",
        urgency=Urgency.NOW,
        what=f"the options name {index.name}, and the metadata table has no {wanted}",
        why="Hudi then finds records by reading the keys of all files, with a warning in its log "
        "(SparkMetadataTableRecordIndex)",
        do=", ".join(f"{name}={value}" for name, value in index.hudi_options.items())
        or f"build {wanted}",
    )


def index_unused(survey: TableSurvey, at: Situation) -> Finding | None:
    """A record index that every write keeps up to date and that is never used."""
    index = at.index
    if survey.record_index is None or index is None or index.partition_in(survey.version):
        return None
    size = sum(map(_size, survey.record_index.shards))
    type_ = "RECORD_INDEX (since Hudi 1.1 GLOBAL_RECORD_LEVEL_INDEX)"
    if survey.record_index.partitioned:
        type_ = "RECORD_LEVEL_INDEX"
    return Finding(
        kind="index_unused",
        urgency=Urgency.NOW,
        what=f"the writer uses {index.name}, and the metadata table has a record index of "
        f"{_bytes(size)}",
        why="every write keeps it up to date and none uses it (hoodie.index.type)",
        do=f"set hoodie.index.type={type_}, or drop it "
        f"({_options(survey.record_index)}.enable=false)",
    )


def compaction_lags(survey: TableSurvey, _: Situation) -> Finding | None:
    """Log files that readers merge again and again."""
    files = survey.files
    if not survey.merge_on_read or survey.services.compactions:
        return None
    deltas = sum(write.action == "deltacommit" for write in survey.writes)
    if deltas < LOGS_WRITES or files.log_bytes <= LOGS_SHARE * max(files.base_bytes, 1):
        return None
    return Finding(
        kind="compaction_lags",
        urgency=Urgency.NOW,
        what=f"{files.log_files:,} log files with {_bytes(files.log_bytes)} wait beside base "
        f"files of {_bytes(files.base_bytes)}, after {deltas:,} delta commits",
        why="every snapshot read merges them; Hudi plans a compaction after 5 "
        "(hoodie.compact.inline.max.delta.commits)",
        do="set hoodie.compact.inline=true, or run the compactions that are planned",
    )


def index_logs_wait(survey: TableSurvey, _: Situation) -> Finding | None:
    """A record index whose log files were not compacted."""
    index = survey.record_index
    if index is None:
        return None
    logs = median(shard.log_files for shard in index.shards)
    if logs < INDEX_LOGS:
        return None
    return Finding(
        kind="index_logs_wait",
        urgency=Urgency.NOW,
        what=f"the median file group of the record index has {logs:,.0f} log files",
        why="each lookup reads all; Hudi compacts the metadata table after 10 delta commits "
        "(hoodie.metadata.compact.max.delta.commits), unless an instant is pending",
        do="finish or roll back what is pending, and let the next write compact",
    )


def stuck(survey: TableSurvey, _: Situation) -> Finding | None:
    """Instants that were begun, not ended, and passed by many writes."""
    times = [write.time for write in survey.writes]
    old = [
        (time, action)
        for time, action in survey.services.pending
        if sum(after > time for after in times) >= STUCK_AFTER
    ]
    if not old:
        return None
    time, action = old[0]
    return Finding(
        kind="stuck",
        urgency=Urgency.NOW,
        what=f"{len(old):,} instants are pending although {STUCK_AFTER} or more later writes are "
        f"completed; the first is {time}.{action}",
        why="the metadata table is not compacted and the timeline not archived past it",
        do="roll it back or run it (hudi-cli: commit rollback, compaction run)",
    )


def long_timeline(survey: TableSurvey, _: Situation) -> Finding | None:
    """An active timeline that was not archived."""
    if len(survey.writes) < LONG_TIMELINE:
        return None
    return Finding(
        kind="long_timeline",
        urgency=Urgency.WATCH,
        what=f"the active timeline has {len(survey.writes):,} writes",
        why="every reader and writer lists it; Hudi archives from 30 on (hoodie.keep.max.commits)",
        do="find out why archiving waits: cleaning is off, or a savepoint or a pending instant "
        "holds it back",
    )


RULES: tuple[Rule, ...] = (
    *(index_missing, index_unused, few_shards, skewed_shard, index_logs_wait, small_filter),
    *(small_files, cleaning_lags, compaction_lags, stuck, long_timeline),
)


def findings(survey: TableSurvey, at: Situation) -> tuple[Finding, ...]:
    """All that the rules find, what is urgent first."""
    found = [made for rule in RULES if (made := rule(survey, at)) is not None]
    return tuple(sorted(found, key=lambda each: each.urgency != Urgency.NOW))


def _size(shard: ShardFacts) -> int:
    return shard.base_bytes + shard.log_bytes


def _bytes(size: float) -> str:
    return amount(size, Unit.BYTES.value)
