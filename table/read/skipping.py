"""Which base files can hold a row that passes a condition, by the column statistics.

A file is left out only if its record is there and excludes every row. What Hudi writes is not
always true of the file, and so a record excludes nothing where

- a text column has nulls: the rows of a row group whose texts are too long for Parquet's statistics
  count as nulls (ParquetUtils.readRangeFromParquetMetadata);
- an end of a range of texts is one that UTF-16 and UTF-8 order differently, or no UTF-8: row groups
  are merged by Java's order;
- a range of floats or doubles holds zero: a row group with NaN counts as 0 to 0 (parquet-java drops
  its statistics). NaN is above all numbers and in no range;
- a day is before the Gregorian calendar, or a time before 1978: older files may count by another
  calendar, or in milliseconds, and Spark converts those when it reads.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError, TableWarning
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.layout.model import BaseFile
from keymark.table.metadata.column_ranges import ColumnRanges, file_keys, read_ranges
from keymark.table.metadata.column_stats import Wrapper
from keymark.table.metadata.partitions import COLUMN_STATS
from keymark.table.metadata.shard import Shard
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.read.predicate import (
    AllOf,
    Comparison,
    Condition,
    Operator,
    tested_columns,
)
from keymark.table.state.table_state import TableState

_UNSURE_LOW = re.compile("[\ufffd\U00010000-\U0010ffff]")
_UNSURE_HIGH = re.compile("[\ue000-\uffff]")
_FIRST_DAY = -141_000
# Later than year 9999 in milliseconds.
_FIRST_MICROSECOND = 260_000_000_000_000
_FLOATS = (Wrapper.FLOAT, Wrapper.DOUBLE)
# How Hudi wraps the values of a type, and whether every row group counts its nulls: of others,
# nothing but nulls may stand for no statistics. Whole numbers may have been narrower once.
_KINDS: tuple[tuple[Callable[[pa.DataType], bool], tuple[Wrapper, ...], bool], ...] = (
    (pa.types.is_string, (Wrapper.STRING,), False),
    (pa.types.is_integer, (Wrapper.INT, Wrapper.LONG), True),
    (pa.types.is_boolean, (Wrapper.BOOLEAN,), True),
    (pa.types.is_date32, (Wrapper.DATE,), True),
    (pa.types.is_float32, (Wrapper.FLOAT,), True),
    (pa.types.is_float64, (Wrapper.DOUBLE,), True),
    (pa.types.is_decimal128, (Wrapper.DECIMAL,), False),
    (pa.types.is_timestamp, (Wrapper.LONG,), False),
)
# Rows that are NaN pass none of these; whole numbers and days are never left out of statistics.
_BOUNDED = (Operator.IN, Operator.BELOW, Operator.AT_MOST)


@dataclass(slots=True)
class ReadStats:
    """Base files of a read: of the snapshot, left by the record keys, left by the statistics."""

    files_total: int = 0
    files_by_keys: int = 0
    files_read: int = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """What is sure of one column, an entry per file.

    `rows` are the files with a range, from `low` to `high` both included; `has_null` and
    `has_value` are True where that cannot be excluded.
    """

    rows: npt.NDArray[np.int64]
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    has_null: npt.NDArray[np.bool_]
    has_value: npt.NDArray[np.bool_]
    ordered: bool


@dataclass(slots=True)
class _Statistics:
    """The statistics of a snapshot's files, column by column as they are asked for."""

    schema: pa.Schema
    files: Sequence[BaseFile]
    shards: Sequence[Shard]
    keys: Sequence[str] = ()
    found: Any = None
    _known: dict[str, _Known] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = file_keys(self.files)
        self.found = np.zeros(len(self.files), bool)

    def column(self, name: str) -> _Known:
        """What is known of a column."""
        if name not in self._known:
            self._known[name] = _known(self._read(name), self.schema.field(name).type)
        return self._known[name]

    def _read(self, name: str) -> ColumnRanges:
        ranges = read_ranges(self.shards, name, self.files, self.keys)
        self.found |= ranges.found
        return ranges

    def count_missing(self) -> int:
        """Files without a record, even for the record key's column: others may be newer.

        Where no file has one and yet others do, statistics are kept of other columns only.
        """
        if not self.found.all():
            self._read(KEY_COLUMN)
        if self.found.any() or not any(map(_holds_records, self.shards)):
            return int((~self.found).sum())
        return 0


def _holds_records(shard: Shard) -> bool:
    return any(isinstance(s, HFileReader) and s.entry_count > 0 for s in shard.sources)


def skip_files(
    state: TableState,
    files: tuple[BaseFile, ...],
    condition: Condition,
    *,
    schema: pa.Schema,
    warned: set[str],
) -> tuple[BaseFile, ...]:
    """Leave out the files that cannot hold a row that passes.

    Statistics are of files, which never change: they hold for older snapshots, too.

    Args:
        state: the table, now or as of an instant.
        files: base files of its snapshot.
        condition: what a row must pass.
        schema: of the table, meta columns included.
        warned: what the table's handle has warned of; a fault of the statistics is warned of once.
    """
    kept = COLUMN_STATS in state.config.metadata_partitions
    if not files or not tested_columns(condition) or not kept or state.metadata is None:
        return files
    try:
        statistics = _Statistics(schema, files, state.metadata.shards(COLUMN_STATS))
        keep = _may_pass(condition, statistics, frozenset())
        missing = statistics.count_missing()
    except CorruptFileError as error:
        _warn(state, warned, f"{COLUMN_STATS} cannot be used, all files are read: {error}")
        return files
    if missing:
        _warn(
            state,
            warned,
            f"{missing} of {len(files)} files have no column statistics, as where Hudi 0.15 "
            "enabled them on a table with a metadata table, and are always read",
        )
    return tuple(file for file, can in zip(files, keep.tolist(), strict=True) if can)


def _warn(state: TableState, warned: set[str], fault: str) -> None:
    if COLUMN_STATS not in warned:
        warned.add(COLUMN_STATS)
        root, command = state.storage.root, "keymark table index"
        warnings.warn(
            f"{root}: {fault}; remedy: `{command} drop {root} {COLUMN_STATS}`, then "
            f"`{command} build {root} {COLUMN_STATS}`",
            TableWarning,
            stacklevel=6,
        )


def _may_pass(condition: Condition, statistics: _Statistics, bounded: frozenset[str]) -> Any:
    """Whether each file may hold a row that passes; `bounded` columns are known to be no NaN."""
    if isinstance(condition, Comparison):
        known = statistics.column(condition.column)
        return _may_compare(condition, known, nan=condition.column not in bounded)
    if isinstance(condition, AllOf):
        parts = [part for part in condition.parts if isinstance(part, Comparison)]
        bounded |= {part.column for part in parts if part.op in _BOUNDED}
    answers = [_may_pass(part, statistics, bounded) for part in condition.parts]
    join = np.logical_and if isinstance(condition, AllOf) else np.logical_or
    return join.reduce(answers)


def _may_compare(test: Comparison, known: _Known, *, nan: bool) -> npt.NDArray[np.bool_]:
    if test.op is Operator.NULL:
        return known.has_null
    may = known.has_value.copy()
    if test.op is not Operator.VALUE:
        unordered = nan and not known.ordered and test.op not in _BOUNDED
        if not unordered:
            may[known.rows] &= _meets(test, known.low, known.high)
    return may


def _meets(test: Comparison, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Any:
    """Whether the ranges hold a value that passes."""
    if test.op is Operator.IN:
        values = np.empty(len(test.values), low.dtype)
        values[:] = sorted(test.values)
        return np.searchsorted(values, low) < np.searchsorted(values, high, "right")
    # In an array of its own: a bare text would lose the NULs at its end.
    value = np.empty((), low.dtype)
    value[()] = test.values[0]
    if test.op is Operator.PREFIX:
        starts = np.array([text.startswith(test.values[0]) for text in low], bool)
        return starts | ((low <= value) & (high >= value)).astype(bool)
    if test.op in (Operator.BELOW, Operator.AT_MOST):
        return (low < value if test.op is Operator.BELOW else low <= value).astype(bool)
    return (high > value if test.op is Operator.ABOVE else high >= value).astype(bool)


def _known(ranges: ColumnRanges, kind: pa.DataType) -> _Known:
    """What the records of a column of that type make sure."""
    wrappers, counted = next((k[1:] for k in _KINDS if k[0](kind)), ((), False))
    parts = [reliable_ranges(ranges, wrapper, kind) for wrapper in wrappers] or [
        (np.empty(0, np.int64),) * 3
    ]
    rows, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    all_null = (ranges.nulls == ranges.values) & counted
    empty = ranges.found & ((ranges.values == 0) | (all_null & (ranges.values > 0)))
    floating = pa.types.is_floating(kind)
    # A column that holds NaN is written without statistics: its nulls were not counted.
    counts = np.full(len(ranges.found), not floating)
    counts[rows] = True
    return _Known(
        rows=rows,
        low=low,
        high=high,
        has_null=~ranges.found | (ranges.nulls != 0) | (not wrappers) | ~counts,
        has_value=~empty,
        ordered=not floating,
    )


def reliable_ranges(
    ranges: ColumnRanges, wrapper: Wrapper, kind: pa.DataType
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], npt.NDArray[Any]]:
    """Files, lowest and highest values of the ranges that can be relied upon."""
    rows, low, high = ranges.ends(wrapper)
    sure = (low <= high).astype(bool)
    if wrapper is Wrapper.STRING:
        unsure = [
            bool(_UNSURE_LOW.search(first) or _UNSURE_HIGH.search(last))
            for first, last in zip(low, high, strict=True)
        ]
        sure &= ~np.array(unsure, bool) & (ranges.nulls[rows] == 0)
    elif wrapper in _FLOATS:
        sure &= (low > 0) | (high < 0)
    elif wrapper is Wrapper.DATE:
        sure &= low >= _FIRST_DAY
    elif pa.types.is_timestamp(kind):
        sure &= low >= _FIRST_MICROSECOND
    return rows[sure], low[sure], high[sure]
