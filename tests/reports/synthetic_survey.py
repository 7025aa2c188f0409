"""Surveys of tables that nobody has: a healthy one, and others by `dataclasses.replace`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from keymark.table.survey.model import (
    FileFacts,
    FilterFacts,
    KeyFacts,
    RecordIndexFacts,
    Services,
    ShardFacts,
    TableSurvey,
    WriteFacts,
)

MIB = 1 << 20
ROWS = 10_000_000


def write(number, **changes):
    moment = datetime(2026, 1, 1) + timedelta(hours=number)  # noqa: DTZ001 - instants have no zone
    made = WriteFacts(
        time=f"{moment:%Y%m%d%H%M%S}000",
        action="commit",
        operation="UPSERT",
        updated=5_000,
        inserted=5_000,
        deleted=0,
        rows_written=200_000,
        bytes_written=20 * MIB,
        files=4,
        partitions=2,
        seconds=60.0,
        file_seconds=90.0,
    )
    return replace(made, **changes)


def shards(count, *, size=50 * MIB, logs=3):
    return tuple(
        ShardFacts(
            file_group=f"record-index-{n:04d}-0", base_bytes=size, log_bytes=MIB, log_files=logs
        )
        for n in range(count)
    )


def record_index(count=10, **changes):
    made = RecordIndexFacts(shards=shards(count), partitioned=False, key_bytes=50.0)
    return replace(made, **changes)


def healthy(**changes):
    """10,000,000 rows with a record index, cleaned and compacted."""
    made = TableSurvey(
        path="/lake/trips",
        name="trips",
        version=9,
        merge_on_read=False,
        properties={"hoodie.table.name": "trips"},
        metadata_partitions=("files", "record_index"),
        rows=ROWS,
        row_bytes=100.0,
        sampled_files=5,
        files=FileFacts(
            partitions=10,
            groups=20,
            base_files=20,
            base_bytes=20 * 50 * MIB,
            log_files=0,
            log_bytes=0,
            sizes=(40 * MIB, 50 * MIB, 60 * MIB),
            fewest_files=10,
            largest_partition=0.1,
            buckets=False,
            old_files=40,
            old_bytes=40 * 50 * MIB,
            overdue_files=0,
            overdue_bytes=0,
            overdue_after=20,
        ),
        keys=KeyFacts(fields=("id",), mean_bytes=36.0, shape="uuid4", ordered=False),
        services=Services(
            instants=60,
            cleans=25,
            compactions=0,
            clusterings=0,
            rollbacks=0,
            writes_since_clean=1,
            pending=(),
        ),
        filters=FilterFacts(
            type_code="DYNAMIC_V0", bytes=431_000, rows=500_000, false_positives=1e-9
        ),
        record_index=record_index(),
        writes=tuple(write(number) for number in range(24)),
        problems=(),
    )
    return replace(made, **changes)


def files(**changes):
    return replace(healthy().files, **changes)
