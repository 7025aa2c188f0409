"""The steps of an upsert, insert or delete: each takes values and gives values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import DuplicateKeyError
from keymark.table.index.dedup import last_of_each, without
from keymark.table.layout.naming import bucket_of
from keymark.table.properties.options import DUP_POLICY
from keymark.table.rows.keys import NamedKeys
from keymark.table.write.assign import FileSizing, assign, assign_buckets
from keymark.table.write.batch import Batch, combine
from keymark.table.write.file_group import (
    FileGroupResult,
    FileGroupWrite,
    Op,
    Outcome,
)
from keymark.table.write.index_changes import KeyChanges
from keymark.table.write.large.prepare import (
    Preparation,
    SpooledRows,
    incoming_keys,
    incoming_rows,
)
from keymark.table.write.large.spool import table_of
from keymark.table.write.placement import (
    FileGroupRows,
    RowAssignments,
    append_rows,
    assign_rows,
    by_file_group,
    moving_rows,
    rows_without_group,
)
from keymark.table.write.transaction import Counts, WriteTransaction
from keymark.table.write.write_group import stored_ordering, write_file_group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOTHING = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class WrittenGroups:
    """What was written.

    Attributes:
        groups: the file groups, with the assignments of each.
        results: what came of each group.
        outcomes: of each assignment its Outcome.
    """

    groups: list[FileGroupRows]
    results: list[FileGroupResult]
    outcomes: npt.NDArray[np.uint8]


def keyed_rows(
    tx: WriteTransaction, rows: DataFrame | pa.Table, *, new: bool = False
) -> Batch | SpooledRows:
    """Incoming rows in the table's schema, keyed and checked; on storage where they are many.

    Where the table has no key fields, `new` rows get generated keys, and others name theirs.
    """
    with tx.phase("prepare"):
        return incoming_rows(tx, rows, Preparation.of(tx, new=new))


def keys_to_delete(tx: WriteTransaction, keys: NamedKeys) -> Batch | SpooledRows:
    """Keys that are to go, on storage where they are many."""
    with tx.phase("prepare"):
        return incoming_keys(tx, keys)


def one_row_a_key(tx: WriteTransaction, incoming: Batch) -> Batch:
    """Incoming rows combined: the last of each key, or the one with the greatest ordering value."""
    with tx.phase("prepare"):
        return combine(incoming, tx.config, is_global=tx.index.is_global)


def tag(tx: WriteTransaction, batch: Batch) -> pa.Table:
    """The index's answer for the keys of a combined batch."""
    with tx.phase("tag"):
        return tx.index.tag(batch.keys, batch.partitions, tx.context)


def without_known(
    tx: WriteTransaction, batch: Batch, policy: str, *, repeated: int
) -> tuple[Batch, pa.Table]:
    """The rows of a combined batch whose keys are not in the table, and their (empty) tags.

    Raises:
        DuplicateKeyError: the policy is `fail`, and keys are there, or `repeated` in the input.
    """
    with tx.phase("tag"):
        tags = tx.index.lookup(batch.keys, tx.context, batch.partitions)
    known = pc.is_valid(tags["file_id"]).to_numpy(zero_copy_only=False)
    if policy == "fail" and (repeated or known.any()):
        raise DuplicateKeyError(
            f"insert of keys that exist: {int(known.sum())} in the table, {repeated} repeated in "
            f"the input; upsert them, or set {DUP_POLICY} to drop or none"
        )
    fresh = np.flatnonzero(~known)
    return batch.take(fresh), tags.take(pa.array(fresh))


def place(tx: WriteTransaction, batch: Batch, tags: pa.Table, *, exact: bool) -> RowAssignments:
    """Give every row of a combined, tagged batch its file group.

    A row that would move its key is left out where the stored row is newer.

    Args:
        tx: the write.
        batch: the rows.
        tags: partition_path and file_id per row, null where not tagged.
        exact: whether a tag says that the key is there.
    """
    with tx.phase("place"):
        moved = np.zeros(len(batch), bool)
        if tx.writer.moves:
            moved = moving_rows(batch, tags)
            stale = _stale_moves(tx, batch, tags, moved)
            if stale.any():
                kept = np.flatnonzero(~stale)
                batch, tags, moved = batch.take(kept), tags.take(pa.array(kept)), moved[kept]
        new = batch.take(rows_without_group(batch, tags, moved))
        return assign_rows(batch, tags, moved, new_ids=_new_groups(tx, new), exact=exact)


def place_as_new(tx: WriteTransaction, batch: Batch) -> RowAssignments:
    """Give every row a file group as one of a new key, whatever keys the table holds."""
    with tx.phase("place"):
        return append_rows(batch, _new_groups(tx, batch))


def _new_groups(tx: WriteTransaction, new: Batch) -> list[str]:
    """The file id of each row that has no file group yet: its bucket's, a small file's, a new."""
    buckets = tx.index.buckets(new.keys, tx.config, tx.options)
    files = tx.state.snapshot.files
    if buckets is not None:
        known = {(f.partition_path, bucket_of(f.file_id)): f.file_id for f in files}
        return assign_buckets(new.partitions, buckets, known, tx.target.ids)
    record, held = tx.state.average_record_bytes(), table_of(new).nbytes / max(1, len(new))
    sizing = FileSizing.of(tx.options, record=record, held=held)
    return assign(new.partitions, files, sizing, tx.target.ids)


def _stale_moves(
    tx: WriteTransaction, batch: Batch, tags: pa.Table, moved: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Moving rows whose stored row is newer, where event time decides."""
    stale = np.zeros(len(batch), bool)
    rows = np.flatnonzero(moved)
    if tx.target.ordering is None or not len(rows):
        return stale
    wanted = batch.take(rows)
    incoming = wanted.ordering(tx.config)
    bases = tx.state.snapshot.by_location()
    places = tags.select(["partition_path", "file_id"]).take(pa.array(rows)).combine_chunks()
    columns = [column.combine_chunks() for column in places.columns]
    for partition, file_id, members in by_file_group(*columns):
        base = bases[partition, file_id]
        chosen = pa.array(members)
        before = stored_ordering(tx.target, base, wanted.keys.take(chosen))
        after = incoming.take(chosen).cast(before.type)
        newer = pc.fill_null(pc.greater(before, after), fill_value=False)
        stale[rows[members]] = newer.to_numpy(zero_copy_only=False)
    return stale


def write_files(
    tx: WriteTransaction, placed: RowAssignments, *, whole: bool = False
) -> WrittenGroups:
    """Put the next slice of every file group that a row was given to.

    Where rows change; with `whole` in any case, and nothing is copied of the slices before.
    """
    with tx.phase("place"):
        target = replace(tx.target, whole=whole)
        batch, bases = placed.batch, tx.state.snapshot.by_location()
        groups, tasks = placed.groups(), []
        for number, (partition, file_id, members) in enumerate(groups):
            rows = pa.array(placed.rows[members])
            tasks.append(
                FileGroupWrite(
                    target=target,
                    partition_path=partition,
                    file_id=file_id,
                    base=bases.get((partition, file_id)),
                    number=number,
                    keys=batch.keys.take(rows),
                    ops=placed.ops[members],
                    tagged=placed.tagged[members],
                    rows=None if batch.rows is None else batch.rows.take(rows),
                )
            )
        weights = [(task.base.size if task.base else 0) + len(task.keys) * 100 for task in tasks]
    with tx.phase("write"):
        tx.start()
        results = tx.writer.runner.run(write_file_group, tasks, weights=weights)
    outcomes = np.empty(len(placed.rows), np.uint8)
    for (_, _, members), result in zip(groups, results, strict=True):
        outcomes[members] = result.outcomes
    return WrittenGroups(groups, results, outcomes)


def index_changes(placed: RowAssignments, written: WrittenGroups, *, is_global: bool) -> KeyChanges:
    """New locations of inserted and moved keys; keys that are gone.

    Args:
        placed: the rows.
        written: what came of them.
        is_global: whether a key counts once in the table, or once per partition path.
    """
    keys, outcomes = placed.batch.keys, written.outcomes
    codes = np.empty(len(placed.rows), np.int64)
    for number, (_, _, members) in enumerate(written.groups):
        codes[members] = number
    put = np.flatnonzero(outcomes == Outcome.INSERTED)
    if not is_global or (placed.ops == Op.APPEND).any():
        # A record index names one of the rows of a key.
        put = put[last_of_each(keys.take(pa.array(placed.rows[put])))]
    gone = np.flatnonzero((outcomes == Outcome.DELETED) & (placed.ops == Op.DELETE))
    came = keys.take(pa.array(placed.rows[put]))
    went = keys.take(pa.array(placed.rows[gone])) if len(gone) else _NOTHING
    return KeyChanges(
        keys=came,
        codes=codes[put],
        locations=[(partition, file_id) for partition, file_id, _ in written.groups],
        # A key that goes from one partition path may be new in another.
        deletes=went if is_global else without(went, came),
    )


def count(placed: RowAssignments, written: WrittenGroups, *, incoming: int) -> Counts:
    """What became of the distinct incoming keys, by number."""
    outcomes = written.outcomes
    moved = int((placed.ops == Op.MOVE_OUT).sum())
    inserted = int((outcomes == Outcome.INSERTED).sum()) - moved
    updated = int((outcomes == Outcome.UPDATED).sum())
    deleted = int(((outcomes == Outcome.DELETED) & (placed.ops == Op.DELETE)).sum())
    return Counts(
        inserted=inserted,
        updated=updated,
        deleted=deleted,
        moved=moved,
        unchanged=incoming - inserted - updated - deleted - moved,
    )
