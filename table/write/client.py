"""The driver's side of upsert, insert and delete: tag, place, write, index, commit.

    batch -> tag (index) -> place (moves, new rows) -> one FileGroupWrite per group -> runner
          -> delta commit of the metadata table -> commit

Every write holds the table's lock from beginning to end. A failure takes back what it did; what a
dead process left is taken back by the next write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import DuplicateKeyError, InputError
from keymark.table.index.dedup import last_of_each
from keymark.table.index.protocol import load_index
from keymark.table.layout.model import BaseFile, CommitResult
from keymark.table.layout.naming import bucket_of
from keymark.table.metadata.writer import DeltaCommit
from keymark.table.properties.options import DUP_POLICY
from keymark.table.rows.arrow import arrow_schema
from keymark.table.write.assign import FileSizing, assign, assign_buckets
from keymark.table.write.batch import Batch, combine
from keymark.table.write.commit import IndexUpdate, commit, entry_changes, update_record_index
from keymark.table.write.file_group import (
    FileGroupResult,
    FileGroupWrite,
    Op,
    Outcome,
    stored_ordering,
    write_file_group,
)
from keymark.table.write.placement import Entries, NewGroups, Placement, append, moving_rows, place
from keymark.table.write.writer import Attempt, Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOTHING = pa.array([], pa.string())


def upsert(writer: Writer, rows: DataFrame | pa.Table) -> CommitResult:
    """Insert rows with new keys, merge the others with their stored rows."""

    def work(attempt: Attempt) -> CommitResult:
        batch = attempt.batch(rows)
        batch = combine(batch, attempt.config, is_global=attempt.index.is_global)
        return _write(attempt, batch, attempt.tag(batch))

    return writer.attempt("UPSERT", arrow_schema(rows), work)


def insert(writer: Writer, rows: DataFrame | pa.Table) -> CommitResult:
    """Add rows; hoodie.datasource.insert.dup.policy decides about keys that exist."""
    policy = writer.options.text(DUP_POLICY)

    def work(attempt: Attempt) -> CommitResult:
        batch = attempt.batch(rows, new=True)
        # A key that was generated a moment ago is nowhere else.
        if policy == "none" or attempt.config.generates_keys:
            puts = np.flatnonzero(~batch.deletes)
            attempt.unchanged += len(batch) - len(puts)
            batch = batch.take(puts)
            return _apply(attempt, batch, append(batch, _new_groups(attempt)))
        batch, tags = _without_known(attempt, batch, policy)
        return _write(attempt, batch, tags)

    return writer.attempt("INSERT", arrow_schema(rows), work)


def delete(writer: Writer, keys: pa.Array, partitions: pa.Array | None) -> CommitResult:
    """Take keys away; a partition-local index needs their partition paths."""
    if partitions is None and not load_index(writer.index).is_global:
        raise InputError(
            f"delete on a table with the {writer.index} index needs the partition columns"
        )

    def work(attempt: Attempt) -> CommitResult:
        paths = pa.nulls(len(keys), pa.string()) if partitions is None else partitions
        batch = Batch(keys=keys, partitions=paths, deletes=np.ones(len(keys), bool), rows=None)
        batch = combine(batch, attempt.config, is_global=attempt.index.is_global)
        return _write(attempt, batch, attempt.tag(batch))

    return writer.attempt("DELETE", None, work)


def delete_found(writer: Writer, found: pa.Table) -> CommitResult:
    """Take keys away where a search of the files found them, whatever the index says of them.

    Args:
        writer: the table.
        found: key, partition_path, file_id: string, distinct rows; a key may be in
            several places.
    """
    count = found.num_rows

    def work(attempt: Attempt) -> CommitResult:
        batch = Batch(
            keys=found["key"].combine_chunks(),
            partitions=found["partition_path"].combine_chunks(),
            deletes=np.ones(count, bool),
            rows=None,
        )
        still = np.zeros(count, bool)
        placement = place(batch, found, still, exact=False, new_groups=_new_groups(attempt))
        return _apply(attempt, batch, placement)

    return writer.attempt("DELETE", None, work)


def _without_known(attempt: Attempt, batch: Batch, policy: str) -> tuple[Batch, pa.Table]:
    """Refuse or drop the rows whose keys are in the table or twice in the batch."""
    single = combine(batch, attempt.config, is_global=attempt.index.is_global)
    tags = attempt.locate(single)
    known = pc.is_valid(tags["file_id"]).to_numpy(zero_copy_only=False)
    repeated = len(batch) - len(single)
    if policy == "fail" and (repeated or known.any()):
        raise DuplicateKeyError(
            f"insert of keys that exist: {int(known.sum())} in the table, {repeated} repeated in "
            f"the input; upsert them, or set {DUP_POLICY} to drop or none"
        )
    attempt.unchanged += int(known.sum())
    fresh = np.flatnonzero(~known)
    return single.take(fresh), tags.take(pa.array(fresh))


def _write(attempt: Attempt, batch: Batch, tags: pa.Table) -> CommitResult:
    """Place a combined, tagged batch, and apply it."""
    moved = np.zeros(len(batch), bool)
    if attempt.writer.moves:
        moved = moving_rows(batch, tags)
        stale = _stale_moves(attempt, batch, tags, moved)
        if stale.any():
            kept = np.flatnonzero(~stale)
            batch, tags, moved = batch.take(kept), tags.take(pa.array(kept)), moved[kept]
            attempt.unchanged += int(stale.sum())
    exact = attempt.index.is_exact
    placement = place(batch, tags, moved, exact=exact, new_groups=_new_groups(attempt))
    return _apply(attempt, batch, placement)


def _new_groups(attempt: Attempt) -> NewGroups:
    def choose(partitions: pa.Array, keys: pa.Array) -> list[str]:
        buckets = attempt.index.buckets(keys, attempt.config, attempt.options)
        ids, files = attempt.target.ids, attempt.state.snapshot.files
        if buckets is not None:
            known = {(f.partition_path, bucket_of(f.file_id)): f.file_id for f in files}
            return assign_buckets(partitions, buckets, known, ids)
        record = attempt.average_record_bytes()
        return assign(partitions, files, FileSizing.of(attempt.options, record=record), ids)

    return choose


def _stale_moves(
    attempt: Attempt, batch: Batch, tags: pa.Table, moved: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Of the moving rows those whose stored row is newer, where event time decides."""
    stale = np.zeros(len(batch), bool)
    ordering = attempt.target.ordering
    rows = np.flatnonzero(moved)
    if ordering is None or not len(rows):
        return stale
    chosen = pa.array(rows)
    wanted = batch.take(rows)
    entries = Entries(
        rows=rows,
        partitions=tags["partition_path"].combine_chunks().take(chosen),
        file_ids=tags["file_id"].combine_chunks().take(chosen),
        ops=None,
        tagged=None,
    )
    incoming = wanted.ordering(attempt.config)
    bases = attempt.state.snapshot.by_location()
    for partition, file_id, members in entries.groups():
        base = bases[partition, file_id]
        keys = wanted.keys.take(pa.array(members))
        before = stored_ordering(attempt.target, base, keys)
        after = incoming.take(pa.array(members)).cast(before.type)
        newer = pc.fill_null(pc.greater(before, after), fill_value=False)
        stale[rows[members]] = newer.to_numpy(zero_copy_only=False)
    return stale


def _apply(attempt: Attempt, batch: Batch, placement: Placement) -> CommitResult:
    """Write the file groups, bring the indexes up to date, commit."""
    entries = placement.entries
    groups = entries.groups()
    tasks = _tasks(attempt, batch, entries, groups)
    with attempt.phase("write"):
        attempt.start()
        weights = [(t.base.size if t.base else 0) + len(t.keys) * 100 for t in tasks]
        results = attempt.writer.runner.run(write_file_group, tasks, weights=weights)
    outcomes = np.empty(len(entries.rows), np.uint8)
    for (_, _, members), result in zip(groups, results, strict=True):
        outcomes[members] = result.outcomes

    update = _index_update(batch, entries, outcomes, groups)

    def update_index(delta: DeltaCommit) -> None:
        update_record_index(delta, attempt.state, update, attempt.writer.runner)

    commit(attempt, results, update_index, lambda: entry_changes(attempt, update))
    return _count(attempt, batch, placement, outcomes, results)


def _tasks(
    attempt: Attempt,
    batch: Batch,
    entries: Entries,
    groups: list[tuple[str, str, npt.NDArray[np.int64]]],
) -> list[FileGroupWrite]:
    bases = attempt.state.snapshot.by_location()
    tasks = []
    for number, (partition, file_id, members) in enumerate(groups):
        rows = pa.array(entries.rows[members])
        tasks.append(
            FileGroupWrite(
                target=attempt.target,
                partition_path=partition,
                file_id=file_id,
                base=bases.get((partition, file_id)),
                number=number,
                keys=batch.keys.take(rows),
                ops=entries.ops[members],
                tagged=entries.tagged[members],
                rows=None if batch.rows is None else batch.rows.take(rows),
            )
        )
    return tasks


def _index_update(
    batch: Batch,
    entries: Entries,
    outcomes: npt.NDArray[np.uint8],
    groups: list[tuple[str, str, npt.NDArray[np.int64]]],
) -> IndexUpdate:
    """New locations of inserted and moved keys; keys that are gone."""
    codes = np.empty(len(entries.rows), np.int64)
    for number, (_, _, members) in enumerate(groups):
        codes[members] = number
    put = np.flatnonzero(outcomes == Outcome.INSERTED)
    if (entries.ops == Op.APPEND).any():
        put = put[last_of_each(batch.keys.take(pa.array(entries.rows[put])))]
    gone = np.flatnonzero((outcomes == Outcome.DELETED) & (entries.ops == Op.DELETE))
    return IndexUpdate(
        keys=batch.keys.take(pa.array(entries.rows[put])),
        codes=codes[put],
        locations=[(partition, file_id) for partition, file_id, _ in groups],
        deletes=batch.keys.take(pa.array(entries.rows[gone])) if len(gone) else _NOTHING,
    )


def _count(
    attempt: Attempt,
    batch: Batch,
    placement: Placement,
    outcomes: npt.NDArray[np.uint8],
    results: list[FileGroupResult],
) -> CommitResult:
    """Distinct incoming keys by what became of them; a moved key counts once."""
    entries = placement.entries
    moved = int(placement.moved.sum())
    inserted = int((outcomes == Outcome.INSERTED).sum()) - moved
    updated = int((outcomes == Outcome.UPDATED).sum())
    deleted = int(((outcomes == Outcome.DELETED) & (entries.ops == Op.DELETE)).sum())
    files: list[BaseFile] = [r.file for r in results if r.file is not None]
    return attempt.result(
        inserted=inserted,
        updated=updated,
        deleted=deleted,
        moved=moved,
        unchanged=len(batch) - inserted - updated - deleted - moved + attempt.unchanged,
        files_written=len(files),
    )
