"""What a survey finds of a table. Plain data: advice needs no table and no storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFacts:
    """One completed commit that changed rows, by its metadata; rows as Hudi counts them.

    Attributes:
        time: its instant.
        action: commit, deltacommit or replacecommit.
        operation: Hudi's name of it: UPSERT, BULK_INSERT, ...
        updated, inserted, deleted: rows of the batch.
        rows_written, bytes_written: of all files that it wrote, log files too.
        files: file groups that it wrote to.
        partitions: partition paths that it wrote to.
        seconds: from the request to the completion; None where the table's version does not keep
            the second.
        file_seconds: from opening to closing a file, summed over its files: time of tasks, which
            write files side by side, and not of the clock; None where the commit tells none.
    """

    time: str
    action: str
    operation: str
    updated: int
    inserted: int
    deleted: int
    rows_written: int
    bytes_written: int
    files: int
    partitions: int
    seconds: float | None
    file_seconds: float | None

    @property
    def batch(self) -> int:
        """Rows of the batch."""
        return self.updated + self.inserted + self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What ran beside the writes, within the active timeline.

    Attributes:
        instants: files of the active timeline count once an instant.
        cleans, compactions, clusterings, rollbacks: completed ones.
        writes_since_clean: writes after the latest completed clean; all where there is none.
        pending: time and action of what was begun and not completed.
    """

    instants: int
    cleans: int
    compactions: int
    clusterings: int
    rollbacks: int
    writes_since_clean: int
    pending: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The files of the latest snapshot, and those that it no longer needs. Sizes in bytes.

    Attributes:
        partitions: partition paths that have rows.
        groups: file groups.
        base_files, base_bytes: of the latest slices.
        log_files, log_bytes: of the latest slices, not yet compacted.
        sizes: smallest, median and largest base file.
        fewest_files: base files that would hold the same bytes at Hudi's largest size, partition
            path by partition path.
        largest_partition: share of the bytes in the partition path with most of them.
        buckets: whether file ids carry bucket numbers, as those of the bucket index do.
        old_files, old_bytes: slices that newer ones replaced.
        overdue_files, overdue_bytes: those of them that `overdue_after` commits made needless.
        overdue_after: commits.
    """

    partitions: int
    groups: int
    base_files: int
    base_bytes: int
    log_files: int
    log_bytes: int
    sizes: tuple[int, int, int]
    fewest_files: int
    largest_partition: float
    buckets: bool
    old_files: int
    old_bytes: int
    overdue_files: int
    overdue_bytes: int
    overdue_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterFacts:
    """The bloom filters of a sample of base files.

    Attributes:
        type_code: SIMPLE or DYNAMIC_V0.
        bytes: of a filter in the footer.
        rows: of the sampled file whose filter is fullest.
        false_positives: share of absent keys that this filter lets pass.
    """

    type_code: str
    bytes: int
    rows: int
    false_positives: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts:
    """One file group of the record index: bytes of its base file and of the logs on top of it."""

    file_group: str
    base_bytes: int
    log_bytes: int
    log_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndexFacts:
    """The record index in the metadata table.

    Attributes:
        shards: its file groups.
        partitioned: whether each partition path has shards of its own (Hudi 1.1 and later).
        key_bytes: of an entry in a base file, by a sample; None where there is no base file yet.
    """

    shards: tuple[ShardFacts, ...]
    partitioned: bool
    key_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """Record keys.

    Attributes:
        fields: of the table that make a key.
        mean_bytes: of the sampled files' smallest and largest keys; None where files tell none.
        shape: uuid4, uuid7, uuid, number, text, or unknown.
        ordered: whether key ranges of the sampled files are apart, as those of keys that grow with
            time; None where that is not known.
    """

    fields: tuple[str, ...]
    mean_bytes: float | None
    shape: str
    ordered: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSurvey:
    """What is known of a table.

    Attributes:
        path: as it was given.
        name: of the table.
        version: of the table, as hoodie.properties has it.
        merge_on_read: its type.
        properties: all of hoodie.properties.
        metadata_partitions: of the metadata table, in use.
        rows: of the latest base files, by commits and footers; log files are left out.
        row_bytes: of a row in a base file, the bloom filter left out.
        sampled_files: base files whose footers were read.
        files, keys, services: as they say.
        filters: of the sampled base files; None where they have none.
        record_index: None where there is none.
        writes: oldest first.
        problems: what could not be read, a line each. The rest holds without it.
    """

    path: str
    name: str
    version: int
    merge_on_read: bool
    properties: Mapping[str, str]
    metadata_partitions: tuple[str, ...]
    rows: int
    row_bytes: float
    sampled_files: int
    files: FileFacts
    keys: KeyFacts
    services: Services
    filters: FilterFacts | None
    record_index: RecordIndexFacts | None
    writes: tuple[WriteFacts, ...]
    problems: tuple[str, ...]
