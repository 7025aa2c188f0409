"""The records of `column_stats` and `bloom_filters` compared with the footers that they describe.

A record of a file that Keymark wrote is, byte for byte, what its footer says, and there must be
one for every current file. A compaction by Hudi 0.15 wraps decimals as bytes, which changes no
value (seen in its tables). Hudi leaves some records out, and its ranges of some columns are known
to be too narrow (see `table/read/skipping.py`): of its files only those differences count that a
reader would believe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from keymark.table.format.avro.records import AvroCursor, encode_bytes, encode_long, encode_text
from keymark.table.format.hashes.hashing import column_id
from keymark.table.format.parquet.base_file import read_footer
from keymark.table.format.schema import META_COLUMNS
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.bloom import bloom_records, decode_bloom
from keymark.table.metadata.column_ranges import decode_ranges
from keymark.table.metadata.column_stats import Wrapper, column_stats_records, stat_schema
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS
from keymark.table.metadata.shard import Shard, split_by_shard
from keymark.table.read.arrow import open_base
from keymark.table.read.skipping import reliable_ranges
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.table_state import TableState, stored_schema
from keymark.table.storage.storage import Storage

# Files whose filters are in memory at once: one of Hudi's default size takes 431 KB.
_FILES_AT_ONCE = 64
_FOOTER_WEIGHT = 1 << 18
_KEYMARK = "parquet-cpp-arrow"
_COLUMN_ID_LENGTH = len(column_id(""))


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterCheckTask:
    """A base file whose records are made from its footer.

    Attributes:
        storage: the table's storage.
        file: the base file.
        schema: the columns with statistics; None for none.
        filters: whether the record of its bloom filter is wanted.
    """

    storage: Storage
    file: BaseFile
    schema: pa.Schema | None
    filters: bool


@dataclass(frozen=True, slots=True)
class FooterRecords:
    """The records that a footer gives: keys and values; whether Keymark wrote the file."""

    stats: tuple[list[str], list[bytes]]
    filters: tuple[list[str], list[bytes]]
    is_ours: bool


def footer_records(work: FooterCheckTask) -> FooterRecords:
    """Make the records of one base file; a task for a runner."""
    file = work.file
    footer = read_footer(open_base(work.storage, file))
    stats: tuple[list[str], list[bytes]] = ([], [])
    filters: tuple[list[str], list[bytes]] = ([], [])
    if work.schema is not None:
        stats = column_stats_records(file.partition_path, file.name, footer.metadata, work.schema)
    if work.filters:
        filters = bloom_records(file.partition_path, file.name, footer, file.instant_time)
    is_ours = footer.metadata.created_by.startswith(_KEYMARK)
    return FooterRecords(stats, filters, is_ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDifferences:
    """Records that differ from their footers.

    Attributes:
        column_stats, bloom_filters: how many.
        paths: of the base files that they describe.
    """

    column_stats: int
    bloom_filters: int
    paths: tuple[str, ...]


def compare_records(
    state: TableState, files: Sequence[BaseFile], runner: TaskRunner
) -> RecordDifferences:
    """Compare the records of files that are there with their footers.

    Args:
        state: the table.
        files: listed base files. Records may be missing for files that are not current.
        runner: where footers are read.

    Raises:
        CorruptFileError: a footer or a file of the metadata table is damaged.
    """
    used = set(state.config.metadata_partitions) & {COLUMN_STATS, BLOOM_FILTERS}
    if state.metadata is None or not used:
        return RecordDifferences(column_stats=0, bloom_filters=0, paths=())
    shards = {name: state.metadata.shards(name) for name in used}
    schema = None
    if COLUMN_STATS in used:
        schema = stat_schema(stored_schema(state), state.config.stat_columns)
    current = {file.path for file in state.snapshot.files}
    wrong_stats: list[str] = []
    wrong_filters: list[str] = []
    for start in range(0, len(files), _FILES_AT_ONCE):
        works = [
            FooterCheckTask(
                storage=state.storage, file=file, schema=schema, filters=BLOOM_FILTERS in used
            )
            for file in files[start : start + _FILES_AT_ONCE]
        ]
        records = runner.run(footer_records, works, weights=[_FOOTER_WEIGHT] * len(works))
        if COLUMN_STATS in used:
            stats = [made.stats for made in records]
            for record in _differing(shards[COLUMN_STATS], stats):
                file, made = works[record.file].file, records[record.file]
                if _stats_are_wrong(
                    record,
                    file,
                    schema,
                    is_ours=made.is_ours,
                    is_current=file.path in current,
                ):
                    wrong_stats.append(file.path)
        if BLOOM_FILTERS in used:
            filters = [made.filters for made in records]
            for record in _differing(shards[BLOOM_FILTERS], filters):
                file, made = works[record.file].file, records[record.file]
                if _filter_is_wrong(
                    record, file, must_be_there=made.is_ours and file.path in current
                ):
                    wrong_filters.append(file.path)
    return RecordDifferences(
        column_stats=len(wrong_stats),
        bloom_filters=len(wrong_filters),
        paths=tuple(dict.fromkeys([*wrong_stats, *wrong_filters])),
    )


@dataclass(frozen=True, slots=True)
class _Record:
    """A record that is not what a footer says.

    Attributes:
        file: number of the footer's file.
        key: of the record.
        wanted: what the footer says.
        found: what the metadata table holds; None for nothing.
    """

    file: int
    key: str
    wanted: bytes
    found: bytes | None


def _differing(
    shards: Sequence[Shard], made: Sequence[tuple[list[str], list[bytes]]]
) -> list[_Record]:
    """Look up the records of many files at once; those that differ."""
    keys = [(file, key) for file, (names, _) in enumerate(made) for key in names]
    values = [value for _, records in made for value in records]
    wanted = pa.array([key for _, key in keys], pa.string())
    found: list[bytes | None] = [None] * len(wanted)
    for shard, mine in zip(shards, split_by_shard(wanted, len(shards)), strict=True):
        if len(mine):
            hits, records = shard.lookup(wanted.take(pa.array(mine)))
            for row, record in zip(mine[hits].tolist(), records.to_pylist(), strict=True):
                found[row] = record
    return [
        _Record(file, key, value, known)
        for (file, key), value, known in zip(keys, values, found, strict=True)
        if known != value and (known is None or _content(known, key) != _content(value, key))
    ]


def _content(record: bytes, name: str) -> bytes:
    """An Avro record without its five meta fields, which a compaction of Hudi's fills in."""
    cursor = AvroCursor(record, name)
    for _ in META_COLUMNS:
        if cursor.branch(2):
            cursor.binary()
    return cursor.take(cursor.remaining)


def _stats_are_wrong(
    record: _Record, file: BaseFile, schema: pa.Schema, *, is_ours: bool, is_current: bool
) -> bool:
    """Whether a record of column statistics is one that must not be there."""
    column = {column_id(name): name for name in schema.names}[record.key[:_COLUMN_ID_LENGTH]]
    stored = decode_ranges(pa.array([record.found or b""], pa.binary()), column, [file])
    if not stored.found[0]:
        # Readers open a file without a record. Only a current file must have one.
        return is_ours and is_current
    if is_ours:
        content = _content(record.found or b"", record.key)
        return content != _decimals_as_bytes(record, file.name, column)
    right = decode_ranges(pa.array([record.wanted], pa.binary()), column, [file])
    # Of Hudi's records only those count that make a reader leave out a file with a match. No reader
    # compares bytes.
    for wrapper in set(Wrapper) - {Wrapper.BYTES}:
        _, low, high = reliable_ranges(stored, wrapper, schema.field(column).type)
        _, lowest, highest = right.ends(wrapper)
        if len(low) and len(lowest) and (low[0] > lowest[0] or high[0] < highest[0]):
            return True
    return False


def _decimals_as_bytes(record: _Record, file_name: str, column: str) -> bytes:
    """The content of the wanted record after Hudi's compaction: its decimals wrapped as bytes."""
    content = _content(record.wanted, record.key)
    head, names, ends = content.partition(
        encode_text(file_name) + encode_long(1) + encode_text(column)
    )
    cursor = AvroCursor(ends, record.key)
    wrapped = b""
    for _ in ("low", "high"):
        if cursor.long() != Wrapper.DECIMAL:
            return content
        wrapped += encode_long(Wrapper.BYTES) + encode_bytes(cursor.binary())
    return head + names + wrapped + cursor.take(cursor.remaining)


def _filter_is_wrong(record: _Record, file: BaseFile, *, must_be_there: bool) -> bool:
    """Whether a record of a bloom filter is one that must not be there."""
    found = None if record.found is None else decode_bloom(record.found, file.path)
    if found is None:
        return must_be_there
    return found != decode_bloom(record.wanted, file.path)
