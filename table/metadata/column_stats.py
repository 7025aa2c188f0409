"""Records of the `column_stats` partition, out of base file footers.

Each column's range comes from the statistics of its row groups, wrapped by its Parquet type as
Hudi's commit path does it: timestamps are plain longs, decimals have scale 15
(ParquetUtils.readRangeFromParquetMetadata, HoodieMetadataPayload.createColumnStatsRecords).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.errors import UnsupportedTableError
from keymark.table.format.avro.records import encode_bytes, encode_long, encode_text
from keymark.table.format.hashes.hashing import column_id, file_id_hash, partition_id
from keymark.table.metadata.records import COLUMN_STATS, encode_record, partition_identifier


class Wrapper(IntEnum):
    """Branches of the union that a range's ends are wrapped in."""

    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11


DECIMAL_SCALE = 15
_DECIMAL_DIGITS = 30
_FLOATS = (Wrapper.FLOAT, Wrapper.DOUBLE)
_ABSENT = encode_long(0)
_DELETED = -1
# Writers leave the statistics of long texts out; Hudi takes a missing range for all nulls and
# would skip the file, so the widest range stands in. No text is longer than Parquet's limit for
# statistics and yet sorts after that many of the last character.
_STATISTICS_BYTES = 4096
_LAST_TEXT = "\U0010ffff" * (_STATISTICS_BYTES // 4)
_WIDEST: dict[int, tuple[Any, Any]] = {
    Wrapper.FLOAT: (-math.inf, math.nan),
    Wrapper.DOUBLE: (-math.inf, math.nan),
    Wrapper.BYTES: (b"", b"\xff" * _STATISTICS_BYTES),
    Wrapper.STRING: ("", _LAST_TEXT),
}

_BRANCHES = {
    "BOOLEAN": Wrapper.BOOLEAN,
    "INT32": Wrapper.INT,
    "INT64": Wrapper.LONG,
    "FLOAT": Wrapper.FLOAT,
    "DOUBLE": Wrapper.DOUBLE,
    "BYTE_ARRAY": Wrapper.BYTES,
    "FIXED_LEN_BYTE_ARRAY": Wrapper.BYTES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """Lowest and highest value of a column, None if all are null, and its counts."""

    low: Any
    high: Any
    nulls: int
    values: int
    compressed: int
    uncompressed: int


def column_stats_records(
    partition_path: str, file_name: str, metadata: pq.FileMetaData, schema: pa.Schema
) -> tuple[list[str], list[bytes]]:
    """The records of one base file.

    Args:
        partition_path: empty for a table without partitions.
        file_name: the base file's name, without its path.
        metadata: of its footer.
        schema: of the indexed columns, meta columns included. Nested columns never have a record.

    Returns:
        Keys and values, in the order of the columns.

    Raises:
        UnsupportedTableError: a decimal that does not fit 30 digits with 15 after the point.
    """
    keys, values = [], []
    indexed = set(schema.names)
    for i in range(metadata.num_columns):
        column = metadata.schema.column(i)
        # A leaf of a nested column has a longer path.
        if column.path != column.name or column.name not in indexed:
            continue
        if column.max_repetition_level or column.physical_type not in _BRANCHES:
            continue
        branch = _branch(column)
        found = _range(column, branch, metadata, i)
        low, high = (_wrap(branch, value) for value in (found.low, found.high))
        counts = (found.values, found.nulls, found.compressed, found.uncompressed)
        keys.append(_key(partition_path, file_name, column.name))
        values.append(_record(file_name, column.name, low + high, counts))
    return keys, values


def stat_schema(schema: pa.Schema, listed: Sequence[str]) -> pa.Schema:
    """The columns of a schema to describe; all if none are listed.

    Source: hoodie.metadata.index.column.stats.column.list.
    """
    return pa.schema([f for f in schema if f.name in listed]) if listed else schema


def column_stats_tombstones(
    partition_path: str, file_name: str, columns: Sequence[str]
) -> tuple[list[str], list[bytes]]:
    """Records that take back those of a deleted base file.

    Their keys are those of the file's records; Hudi 0.15 cuts the file name short here and so
    never hits them.

    Args:
        partition_path: empty for a table without partitions.
        file_name: the deleted base file's name, without its path.
        columns: names of its top-level columns, meta columns included.
    """
    keys = [_key(partition_path, file_name, column) for column in columns]
    counts = (_DELETED,) * 4
    values = [_record(file_name, column, _ABSENT * 2, counts) for column in columns]
    return keys, values


def file_key(partition_path: str, file_name: str) -> str:
    """What follows the column's id in the key of a record: the base file."""
    return partition_id(partition_identifier(partition_path)) + file_id_hash(file_name)


def _key(partition_path: str, file_name: str, column: str) -> str:
    return column_id(column) + file_key(partition_path, file_name)


def _record(file_name: str, column: str, ends: bytes, counts: tuple[int, ...]) -> bytes:
    present = encode_long(1)
    payload = (
        present
        + encode_text(file_name)
        + present
        + encode_text(column)
        + ends
        + b"".join(present + encode_long(count) for count in counts)
        + bytes([counts[0] == _DELETED])
    )
    return encode_record(COLUMN_STATS, payload)


def _branch(column: pq.ColumnSchema) -> int:
    """The wrapper of a Parquet column."""
    logical = column.logical_type.type
    if logical == "DECIMAL":
        return Wrapper.DECIMAL
    if logical == "DATE":
        return Wrapper.DATE
    if logical in ("STRING", "ENUM"):
        return Wrapper.STRING
    return _BRANCHES[column.physical_type]


def _range(column: pq.ColumnSchema, branch: int, metadata: pq.FileMetaData, index: int) -> _Range:
    """The column's range and counts over all row groups.

    Nulls that no statistics count, as beside NaN, are given as one of at least two values: readers
    then leave the file out for neither IS NULL nor IS NOT NULL.
    """
    chunks = [metadata.row_group(g).column(index) for g in range(metadata.num_row_groups)]
    ends: list[Any] = []
    nulls, values = 0, sum(chunk.num_values for chunk in chunks)
    complete = counted = True
    for chunk in chunks:
        stats = chunk.statistics
        if stats is not None and stats.has_min_max:
            found = _ends(column, branch, stats)
            complete = complete and bool(found)
            ends += found
        elif stats is None or not stats.has_null_count or stats.null_count < chunk.num_values:
            complete = False
        if stats is not None and stats.has_null_count:
            nulls += stats.null_count
        else:
            counted = False
    if not counted and column.max_definition_level:
        nulls, values = max(nulls, 1), max(values, nulls + 1, 2)
    low, high = (min(ends), max(ends)) if ends else (None, None)
    if not complete:
        low, high = _WIDEST.get(branch, (None, None))
    if branch in _FLOATS:
        # Zeros of either sign are equal: the range holds both, as Parquet asks of its readers.
        low, high = -0.0 if low == 0 else low, 0.0 if high == 0 else high
    return _Range(
        low=low,
        high=high,
        nulls=nulls,
        values=values,
        compressed=sum(chunk.total_compressed_size for chunk in chunks),
        uncompressed=sum(chunk.total_uncompressed_size for chunk in chunks),
    )


def _ends(column: pq.ColumnSchema, branch: int, stats: pq.Statistics) -> list[Any]:
    """Lowest and highest value of a chunk; empty where they tell no range.

    parquet-java writes NaN as the highest value, other writers cut texts inside a character.
    """
    try:
        ends = [_value(column, branch, raw) for raw in (stats.min_raw, stats.max_raw)]
    except UnicodeDecodeError:
        return []
    unordered = branch in _FLOATS and any(math.isnan(end) for end in ends)
    return [] if unordered else ends


def _value(column: pq.ColumnSchema, branch: int, raw: Any) -> Any:
    """A value that compares as the column's values do, out of its physical form."""
    if branch == Wrapper.STRING:
        # In the order of UTF-8 bytes, which is that of code points.
        return raw.decode()
    if branch != Wrapper.DECIMAL:
        return raw
    unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
    scale = column.scale
    scaled = unscaled * 10 ** max(0, DECIMAL_SCALE - scale)
    if scale > DECIMAL_SCALE or abs(scaled) >= 10**_DECIMAL_DIGITS:
        raise UnsupportedTableError(
            f"column {column.name!r} holds decimals that column statistics cannot:"
            f" more than {_DECIMAL_DIGITS} digits with {DECIMAL_SCALE} after the point"
        )
    return scaled


def _wrap(branch: int, value: Any) -> bytes:
    """A value in its wrapper, or null."""
    if value is None:
        return _ABSENT
    encoded: bytes
    if branch == Wrapper.BOOLEAN:
        encoded = bytes([value])
    elif branch == Wrapper.FLOAT:
        encoded = struct.pack("<f", value)
    elif branch == Wrapper.DOUBLE:
        encoded = struct.pack("<d", value)
    elif branch == Wrapper.BYTES:
        encoded = encode_bytes(value)
    elif branch == Wrapper.STRING:
        encoded = encode_text(value)
    elif branch == Wrapper.DECIMAL:
        # As few bytes as Java's BigInteger.toByteArray takes.
        width = (value + (value < 0)).bit_length() // 8 + 1
        encoded = encode_bytes(value.to_bytes(width, "big", signed=True))
    else:
        encoded = encode_long(value)
    return encode_long(branch) + encoded
