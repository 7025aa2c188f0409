"""Stored and incoming rows of a file group, merged into those of its next slice.

    base rows + incoming rows (put, delete)  ->  rows of the new slice, an outcome per incoming row

Source: HoodieMergeHandle of Hudi 0.15.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN, PARTITION_COLUMN
from keymark.table.format.schema import with_meta
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.write.file_group import FileGroupWrite, Op, Outcome, meta_columns


@dataclass(frozen=True, slots=True)
class Merge:
    """What becomes of the rows of a file group.

    Attributes:
        source: for each row of the new slice its row in (stored ++ incoming): first the stored rows
            that stay or are replaced, in their order, then those that are inserted.
        kept: of each stored row whether its key stays.
        outcomes: of each incoming row its Outcome.
    """

    source: npt.NDArray[np.int64]
    kept: npt.NDArray[np.bool_]
    outcomes: npt.NDArray[np.uint8]

    @property
    def changes_nothing(self) -> bool:
        """Whether the slice before continues."""
        return bool((self.outcomes == Outcome.UNCHANGED).all())

    @property
    def keeps_keys(self) -> bool:
        """Whether no key of the slice before is gone."""
        return not (self.outcomes == Outcome.DELETED).any()

    @property
    def changed(self) -> npt.NDArray[np.bool_]:
        """Whether each stored row is replaced or gone."""
        changed = np.ones(len(self.kept), bool)
        changed[self.source[self.source < len(self.kept)]] = False
        return changed


def merge_rows(work: FileGroupWrite, stored: pa.Table, stored_keys: pa.Array) -> Merge:
    """Merge the incoming rows of a file group with the stored ones.

    Args:
        work: the file group.
        stored: its rows, with at least the ordering column where event time decides.
        stored_keys: their keys.

    Raises:
        CorruptFileError: the index places keys here that the file does not hold.
    """
    matched, rows = _matches(work, stored_keys)
    stale = _stale(work, stored, matched, rows)
    apply = matched[~stale]
    incoming = rows[~stale]
    outcomes = np.full(len(work.keys), Outcome.UNCHANGED, np.uint8)
    found = np.zeros(len(work.keys), bool)
    found[rows] = True
    _check_tags(work, found)
    added = (work.ops == Op.PUT) | (work.ops == Op.APPEND)
    outcomes[added & ~found] = Outcome.INSERTED
    puts = work.ops[incoming] == Op.PUT
    outcomes[incoming[puts]] = Outcome.UPDATED
    outcomes[incoming[~puts]] = Outcome.DELETED
    count = len(stored_keys)
    source = np.arange(count, dtype=np.int64)
    source[apply[puts]] = count + incoming[puts]
    kept = np.ones(count, bool)
    kept[apply[~puts]] = False
    inserted = count + np.flatnonzero(outcomes == Outcome.INSERTED)
    return Merge(np.concatenate([source[kept], inserted]), kept, outcomes)


def with_stored_keys(work: FileGroupWrite, stored: pa.Table, keys: pa.Array) -> pa.Table:
    """Stored rows for the new slice; with their keys where the table stores keys."""
    if not (work.target.stores_meta and work.target.keys.virtual):
        return stored
    paths = pa.repeat(pa.scalar(work.partition_path), stored.num_rows)
    for name, values in ((KEY_COLUMN, keys), (PARTITION_COLUMN, paths)):
        stored = stored.set_column(stored.schema.get_field_index(name), name, values)
    return stored


def _matches(
    work: FileGroupWrite, stored_keys: pa.Array
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32 | np.int64]]:
    """Stored rows that an incoming row meets, and the incoming row of each."""
    if (work.ops == Op.APPEND).any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    hits = pc.fill_null(pc.index_in(stored_keys, value_set=work.keys), -1).to_numpy()
    matched = np.flatnonzero(hits >= 0)
    return matched, hits[matched]


def _check_tags(work: FileGroupWrite, found: npt.NDArray[np.bool_]) -> None:
    lost = work.tagged & ~found
    if lost.any():
        assert work.base is not None
        detail = f"the index places {int(lost.sum())} key(s) here that the file does not hold"
        raise CorruptFileError(work.base.path, 0, detail)


def _stale(
    work: FileGroupWrite,
    stored: pa.Table,
    matched: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int32 | np.int64],
) -> Any:
    """Matches whose stored row is newer, where event time decides."""
    ordering = work.target.ordering
    none = np.zeros(len(matched), bool)
    if ordering is None or work.rows is None or not len(matched):
        return none
    before = stored[ordering].combine_chunks().take(pa.array(matched))
    after = work.rows[ordering].combine_chunks().take(pa.array(rows))
    newer = pc.fill_null(pc.greater(before, after.cast(before.type)), fill_value=False)
    moved_out = work.ops[rows] == Op.MOVE_OUT
    return newer.to_numpy(zero_copy_only=False) & ~moved_out


def with_new_meta(
    work: FileGroupWrite, rows: pa.Table | None, keys: pa.Array, file_name: str
) -> pa.Table:
    """Incoming rows with the meta columns of this write; null where there are keys alone."""
    schema = with_meta(work.target.schema)
    if rows is None:
        rows = pa.table(
            [pa.nulls(len(keys), f.type) for f in work.target.schema], schema=work.target.schema
        )
    meta = meta_columns(work.target, work.number, keys, work.partition_path, file_name)
    return pa.table([*meta, *rows.columns], schema=schema)


def compose(
    stored: pa.Table, incoming: pa.Table, source: npt.NDArray[np.int64], file_name: str
) -> pa.Table:
    """The rows of the new slice, all of them with its file name."""
    indices = pa.array(source)
    columns = []
    for name in stored.column_names:
        if name == FILE_NAME_COLUMN:
            columns.append(pa.repeat(pa.scalar(file_name), len(source)))
            continue
        chunks = [*stored[name].chunks, *incoming[name].chunks]
        columns.append(pa.concat_arrays(chunks).take(indices))
    return pa.table(columns, schema=stored.schema)
