"""Slices and commits into facts: files, shards, services."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from keymark.indexes.workload import MAX_FILE_BYTES
from keymark.table.layout.naming import bucket_of, is_bucket_file_id
from keymark.table.survey.instants import WRITES, SurveyInstant
from keymark.table.survey.listing import Groups, Slice, slices
from keymark.table.survey.model import FileFacts, Services, ShardFacts

OVERDUE_AFTER = 20
"""Commits after which a replaced file is overdue: twice `hoodie.cleaner.commits.retained`."""
_BUCKETS_MAX = 100_000
"""No bucket has a greater number. The UUID of a file id may start with eight digits by chance."""

_GLOBAL_SHARD = re.compile(r"record-index-\d{4,}-\d+")

Slices = Mapping[tuple[str, str], Slice]
"""By partition path and file id."""


def file_facts(found: Slices, writes: Sequence[SurveyInstant]) -> FileFacts:
    """The files of the latest snapshot.

    Args:
        found: the live file groups.
        writes: completed, oldest first.
    """
    bases = [each.base for each in found.values() if each.base]
    logs = [log for each in found.values() for log in each.logs]
    old = [pair for each in found.values() for pair in each.old]
    horizon = writes[-OVERDUE_AFTER].time if len(writes) >= OVERDUE_AFTER else ""
    overdue = [file for file, since in old if since <= horizon]
    sizes = sorted(base.size for base in bases) or [0]
    by_partition: Counter[str] = Counter()
    for (partition, _), each in found.items():
        by_partition[partition] += each.base.size if each.base else 0
    total = by_partition.total()
    return FileFacts(
        partitions=len(by_partition),
        groups=len(found),
        base_files=len(bases),
        base_bytes=total,
        log_files=len(logs),
        log_bytes=sum(log.size for log in logs),
        sizes=(sizes[0], int(median(sizes)), sizes[-1]),
        fewest_files=sum(max(1, math.ceil(b / MAX_FILE_BYTES)) for b in by_partition.values()),
        largest_partition=max(by_partition.values(), default=0) / total if total else 0.0,
        buckets=bool(found)
        and all(is_bucket_file_id(name) and bucket_of(name) < _BUCKETS_MAX for _, name in found),
        old_files=len(old),
        old_bytes=sum(file.size for file, _ in old),
        overdue_files=len(overdue),
        overdue_bytes=sum(file.size for file in overdue),
        overdue_after=OVERDUE_AFTER,
    )


def shard_facts(groups: Groups) -> tuple[ShardFacts, ...]:
    """The shards of the record index.

    The metadata table is listed without its timeline: what a writer in flight adds counts, too.
    """
    return tuple(
        ShardFacts(
            file_group=file_id,
            base_bytes=each.base.size if each.base else 0,
            log_bytes=sum(log.size for log in each.logs),
            log_files=len(each.logs),
        )
        for (_, file_id), each in sorted(slices(groups, lambda _: True))
    )


def is_partitioned(shards: Sequence[ShardFacts]) -> bool:
    """Whether shards carry the name of a partition path beside their number."""
    return any(not _GLOBAL_SHARD.fullmatch(shard.file_group) for shard in shards)


def services(instants: Sequence[SurveyInstant], *, clusterings: int) -> Services:
    """What ran beside the writes.

    Args:
        instants: of the active timeline, oldest first.
        clusterings: how many replacecommits are clusterings.
    """
    done = Counter(each.action for each in instants if each.completed)
    cleaned = max((i.time for i in instants if i.completed and i.action == "clean"), default="")
    return Services(
        instants=len(instants),
        cleans=done["clean"],
        compactions=sum(each.completed and each.compacts for each in instants),
        clusterings=clusterings,
        rollbacks=done["rollback"] + done["restore"],
        writes_since_clean=sum(
            each.completed and each.action in WRITES and each.time > cleaned for each in instants
        ),
        pending=tuple((each.time, each.action) for each in instants if not each.completed),
    )
