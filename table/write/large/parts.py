"""A part of a large batch: one row a key, found in the index, sorted by the way that rows go.

A part is as large as the batch makes it, so it is taken in slices that memory holds. Each slice
is one piece of work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import DuplicateKeyError, TableError
from keymark.table.index.dealing import context_of_task
from keymark.table.index.dedup import last_of_each
from keymark.table.index.protocol import LOCATION_SCHEMA, Index, IndexContext, spec_of
from keymark.table.properties.options import BATCH_COLLECT, DUP_POLICY
from keymark.table.write.batch import Batch, combine
from keymark.table.write.large.prepare import SpooledRows
from keymark.table.write.large.slices import SLICE_COPIES, slices_of_parts
from keymark.table.write.large.spool import Stretch, batch_of, put_stretches, table_of
from keymark.table.write.large.tagging import tags_by_spark
from keymark.table.write.placement import moving_rows
from keymark.table.write.transaction import WriteTransaction

_KEYS_BYTES_MIN = 1 << 20


class KeyRule(Enum):
    """What becomes of rows whose keys are known, or repeated in the batch."""

    MERGE = "merge"
    """One row a key, merged with the stored one: upsert and delete."""
    NEW = "new"
    """One row a key, left out where the key is known: insert."""
    APPEND = "append"
    """Every row is added, and no key is looked up."""


class Way(IntEnum):
    """Where rows go."""

    STAY = 0
    """To the file group that the index names."""
    MOVE = 1
    """Out of that file group, into one of another partition path."""
    NEW = 2
    """Into a file group that has not their keys yet."""
    NOWHERE = 3
    """Deletes of keys that are not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOnWay:
    """Rows of a slice that go the same way.

    Attributes:
        way: that they go.
        partition: path of the file group that the index names; None for new rows.
        file_id: of that file group.
        to: the path to which they move, or in which they are new; None for those that stay.
        bucket: in which they are new, where buckets own the layout.
        rows: where they are.
        kept: whether each is kept; None for all.
    """

    way: Way
    partition: str | None
    file_id: str | None
    to: str | None
    bucket: int
    rows: Stretch
    kept: npt.NDArray[np.bool_] | None = None

    @property
    def count(self) -> int:
        """How many are kept."""
        return self.rows.rows if self.kept is None else int(self.kept.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedPart:
    """What a slice of a part holds.

    Attributes:
        ways: its rows, by where they go.
        incoming: how many distinct keys, or with KeyRule.APPEND rows, there are.
        repeated: how many rows were left out for another one of their key.
        known: how many keys were left out because they are in the table.
    """

    ways: tuple[RowsOnWay, ...]
    incoming: int
    repeated: int
    known: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWork:
    """A slice of a part; a task does one after the other.

    Attributes:
        context: the table as the index sees it in a task.
        rule: for known keys.
        moves: whether keys move to another partition path.
        schema: of the rows; None where there are keys alone.
        by_bucket: whether the index puts keys into buckets.
        stretches: of the slice, in the order of their rows.
        tags: the index's answer, where it was asked beforehand.
    """

    context: IndexContext
    index: Index
    instant: str
    rule: KeyRule
    moves: bool
    schema: pa.Schema | None
    by_bucket: bool
    stretches: tuple[Stretch, ...]
    tags: Stretch | None = None

    @property
    def weight(self) -> int:
        """Bytes of its rows."""
        return sum(stretch.size for stretch in self.stretches)


def sorted_parts(tx: WriteTransaction, rows: SpooledRows, rule: KeyRule) -> list[SortedPart]:
    """Combine the rows of all parts, find their keys, sort them by the way that they go."""
    works = _works(tx, rows, rule)
    if rule is not KeyRule.APPEND and not spec_of(tx.index.name).tags_in_tasks:
        works = _tagged(tx, works)
    parts = tx.writer.runner.run(sort_part, works, weights=[work.weight for work in works])
    slices = (stretch.path for work in works for stretch in work.stretches)
    for path in sorted({*rows.paths(), *slices}):
        tx.storage.delete(path)
    return parts


def refuse_known(parts: Sequence[SortedPart], policy: str) -> None:
    """Refuse an insert of keys that are there.

    Raises:
        DuplicateKeyError: the policy is `fail`, and keys are in the table or repeated.
    """
    known, repeated = sum(p.known for p in parts), sum(p.repeated for p in parts)
    if policy == "fail" and (known or repeated):
        raise DuplicateKeyError(
            f"insert of keys that exist: {known} in the table, {repeated} repeated in the input; "
            f"upsert them, or set {DUP_POLICY} to drop or none"
        )


def _works(tx: WriteTransaction, rows: SpooledRows, rule: KeyRule) -> list[PartWork]:
    """The slices of all parts."""
    context = context_of_task(tx.context)
    return [
        PartWork(
            context=context,
            index=tx.index,
            instant=tx.instant,
            rule=rule,
            moves=tx.writer.moves,
            schema=rows.schema,
            by_bucket=rows.dealing.bucket_index is not None,
            stretches=stretches,
        )
        for stretches in slices_of_parts(tx, rows)
    ]


def _tagged(tx: WriteTransaction, works: Sequence[PartWork]) -> list[PartWork]:
    """Ask the index for all keys in Spark, or here for some at a time; answers wait on storage."""
    keys = tx.writer.runner.run(spool_keys, works, weights=[work.weight for work in works])
    try:
        tags = tags_by_spark(tx, keys)
    except TableError:
        raise
    except Exception:
        # Asking here names the file that Spark stumbled over, if there is one.
        _tags_by_turns(tx, works, keys)
        raise
    if tags is None:
        tags = _tags_by_turns(tx, works, keys)
    return [replace(work, tags=answer) for work, answer in zip(works, tags, strict=True)]


def _tags_by_turns(
    tx: WriteTransaction, works: Sequence[PartWork], keys: Sequence[Stretch]
) -> list[Stretch]:
    """Ask the index here for some keys at a time."""
    storage = tx.storage
    most = max(_KEYS_BYTES_MIN, tx.options.integer(BATCH_COLLECT) // SLICE_COPIES)
    tags: list[Stretch] = []
    while len(tags) < len(works):
        first = end = len(tags)
        size = 0
        while end < len(works) and (end == first or size + keys[end].size <= most):
            size += keys[end].size
            end += 1
        asked = pa.concat_tables([stretch.read(storage) for stretch in keys[first:end]])
        keys_asked, partitions = (column.combine_chunks() for column in asked.columns)
        found = _find(works[first], keys_asked, partitions, tx.context)
        starts = np.cumsum([0, *(stretch.rows for stretch in keys[first:end])]).tolist()
        answers = [
            found.slice(start, stretch.rows)
            for start, stretch in zip(starts, keys[first:end], strict=False)
        ]
        tags += put_stretches(storage, tx.instant, answers)
    return tags


def spool_keys(work: PartWork) -> Stretch:
    """Put the distinct keys of a slice with their partition paths; a task of a runner's."""
    batch = _combined(work).batch
    keys = pa.table({"key": batch.keys, "partition": batch.partitions.cast(pa.string())})
    return put_stretches(work.context.storage, work.instant, [keys])[0]


def sort_part(work: PartWork) -> SortedPart:
    """Combine, tag and sort the rows of a slice; a task that a runner distributes."""
    combined = _combined(work)
    batch, tags = combined.batch, _tags(work, combined.batch)
    known = pc.is_valid(tags["file_id"]).to_numpy(zero_copy_only=False)
    left_out = known if work.rule is KeyRule.NEW else np.zeros(len(batch), bool)
    moved = moving_rows(batch, tags) if work.moves else np.zeros(len(batch), bool)
    ways = np.select(
        [left_out | (~known & batch.deletes), ~known, moved],
        [Way.NOWHERE, Way.NEW, Way.MOVE],
        Way.STAY,
    )
    return SortedPart(
        ways=_spooled_by_way(work, combined, tags, ways),
        incoming=combined.incoming,
        repeated=combined.repeated,
        known=int(left_out.sum()),
    )


@dataclass(frozen=True, slots=True)
class _Combined:
    """Rows of a slice of which each counts.

    Attributes:
        batch: the rows.
        named: whether the index is to name the place of each: of rows with one key the last.
        incoming: distinct keys, or all rows where none is left out for another one.
        repeated: rows that were.
    """

    batch: Batch
    named: npt.NDArray[np.bool_]
    incoming: int
    repeated: int


def _combined(work: PartWork) -> _Combined:
    """Read a slice and combine its rows."""
    tables = [stretch.read(work.context.storage) for stretch in work.stretches]
    rows = batch_of(pa.concat_tables(tables).combine_chunks(), work.schema, more=1)
    if work.rule is KeyRule.APPEND:
        batch = rows.take(np.flatnonzero(~rows.deletes))
        named = np.zeros(len(batch), bool)
        named[last_of_each(batch.keys)] = True
        return _Combined(batch, named, len(rows), 0)
    batch = combine(rows, work.context.config, is_global=work.index.is_global)
    return _Combined(batch, np.ones(len(batch), bool), len(batch), len(rows) - len(batch))


def _tags(work: PartWork, batch: Batch) -> pa.Table:
    """The index's answer for a combined batch."""
    if work.rule is KeyRule.APPEND:
        nothing = [pa.nulls(len(batch), item.type) for item in LOCATION_SCHEMA]
        return pa.table(nothing, schema=LOCATION_SCHEMA)
    if work.tags is not None:
        return work.tags.read(work.context.storage)
    return _find(work, batch.keys, batch.partitions, work.context)


def _find(work: PartWork, keys: pa.Array, partitions: pa.Array, context: IndexContext) -> pa.Table:
    """Ask the index, by tagging or, where rows of known keys are left out, exactly."""
    if work.rule is KeyRule.NEW:
        return work.index.lookup(keys, context, partitions)
    return work.index.tag(keys, partitions, context)


def _spooled_by_way(
    work: PartWork, combined: _Combined, tags: pa.Table, ways: npt.NDArray[np.int64]
) -> tuple[RowsOnWay, ...]:
    """Put the rows of each way behind each other into one spool file."""
    batch, context = combined.batch, work.context
    tagged, own = pa.array(ways <= Way.MOVE), pa.array((ways == Way.MOVE) | (ways == Way.NEW))
    nothing = pa.scalar(None, pa.string())
    buckets = np.zeros(len(batch), np.int64)
    if work.by_bucket:
        wanted = work.index.buckets(batch.keys, context.config, context.options)
        buckets = np.where(ways == Way.NEW, wanted, 0).astype(np.int64)
    named = {
        "partition": pc.if_else(tagged, tags["partition_path"], nothing).combine_chunks(),
        "file_id": pc.if_else(tagged, tags["file_id"], nothing).combine_chunks(),
        "to": pc.if_else(own, batch.partitions.cast(pa.string()), nothing),
    }
    codes = ways * (int(buckets.max(initial=0)) + 1) + buckets
    for column in named.values():
        encoded = column.dictionary_encode()
        numbers = pc.fill_null(encoded.indices.cast(pa.int64()), len(encoded.dictionary))
        codes = codes * (len(encoded.dictionary) + 1) + numbers.to_numpy()
    codes[ways == Way.NOWHERE] = -1
    order = np.argsort(codes, kind="stable")
    order = order[np.searchsorted(codes[order], 0) :]
    if not len(order):
        return ()
    firsts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ends = [*firsts[1:].tolist(), len(order)]
    rows = table_of(batch.take(order), named=combined.named[order])
    starts = firsts.tolist()
    pieces = [rows.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
    put = put_stretches(context.storage, work.instant, pieces)
    return tuple(
        RowsOnWay(
            way=Way(ways[row]),
            bucket=int(buckets[row]),
            rows=stretch,
            **{name: column[row].as_py() for name, column in named.items()},
        )
        for row, stretch in zip(order[firsts].tolist(), put, strict=True)
    )
