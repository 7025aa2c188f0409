"""Writing the file groups of a large batch: each task reads the rows of one group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.index.external import KeyPart
from keymark.table.index.key_file import KeyFile, KeySink
from keymark.table.properties.options import TASK_MEMORY
from keymark.table.runtime.runner import pack
from keymark.table.write.batch import Batch
from keymark.table.write.bulk_index import BulkKeys
from keymark.table.write.file_group import (
    FileGroupResult,
    FileGroupWrite,
    Op,
    Outcome,
    WriteTarget,
)
from keymark.table.write.large.parts import KeyRule
from keymark.table.write.large.place import PlacedGroup, Share
from keymark.table.write.large.prepare import SpooledRows
from keymark.table.write.transaction import Counts, WriteTransaction
from keymark.table.write.write_group import write_file_group

# The fewest tasks, if there are as many file groups: cores are to be busy to the end.
_PACKS = 64
_NO_OUTCOMES = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackWork:
    """Some file groups that a task writes, one after the other.

    Attributes:
        schema: of the incoming rows; None where there are keys alone.
        exact: whether a tag says that the key is there.
        appends: whether rows are added whatever keys the file group holds.
        numbers: of the groups, of all that the commit writes.
        shards: of the record index; 0 without one.
        keeps_keys: whether an index wants to know the keys that come and go.
        memory: bytes that the keys may take.
    """

    target: WriteTarget
    schema: pa.Schema | None
    exact: bool
    appends: bool
    numbers: tuple[int, ...]
    groups: tuple[PlacedGroup, ...]
    shards: int
    keeps_keys: bool
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackResult:
    """What a write made of a pack: a result for each file group (no outcomes), key files, counts.

    `moved` counts the keys that left a file group, and `inserted` them as well.
    """

    results: tuple[FileGroupResult, ...]
    puts: tuple[KeyFile, ...]
    deletes: tuple[KeyFile, ...]
    places: tuple[tuple[str, str], ...]
    inserted: int
    updated: int
    deleted: int
    moved: int


@dataclass(frozen=True, slots=True)
class WrittenPacks:
    """All packs of a write; `is_global` says whether a key counts once in the table."""

    packs: Sequence[PackResult]
    memory: int
    is_global: bool

    @property
    def results(self) -> list[FileGroupResult]:
        """The result of every file group."""
        return [result for pack in self.packs for result in pack.results]

    def changes(self) -> BulkKeys:
        """New locations of inserted and moved keys; keys that are gone."""
        return BulkKeys(
            tuple(KeyPart(file, done.places) for done in self.packs for file in done.puts),
            refuse_known=False,
            memory=self.memory,
            deletes=tuple(file for done in self.packs for file in done.deletes),
            is_global=self.is_global,
        )

    def count(self, incoming: int) -> Counts:
        """What became of the incoming keys, by number."""
        moved = sum(done.moved for done in self.packs)
        inserted = sum(done.inserted for done in self.packs) - moved
        updated = sum(done.updated for done in self.packs)
        deleted = sum(done.deleted for done in self.packs)
        return Counts(
            inserted=inserted,
            updated=updated,
            deleted=deleted,
            moved=moved,
            unchanged=incoming - inserted - updated - deleted - moved,
        )


def write_groups(
    tx: WriteTransaction, incoming: SpooledRows, groups: Sequence[PlacedGroup], rule: KeyRule
) -> WrittenPacks:
    """Put the next slice of every file group."""
    memory, shards = tx.options.integer(TASK_MEMORY), tx.index_shards
    weights = [group.weight for group in groups]
    packs = pack(weights, max(_PACKS, sum(weights) // memory))
    works = [
        PackWork(
            target=tx.target,
            schema=incoming.schema,
            exact=tx.index.is_exact,
            appends=rule is KeyRule.APPEND,
            numbers=tuple(numbers),
            groups=tuple(groups[number] for number in numbers),
            shards=shards,
            keeps_keys=tx.keeps_keys,
            memory=memory,
        )
        for numbers in packs
    ]
    loads = [sum(weights[number] for number in numbers) for numbers in packs]
    tx.start()
    done = tx.writer.runner.run(write_pack, works, weights=loads)
    return WrittenPacks(done, memory, tx.index.is_global)


def write_pack(work: PackWork) -> PackResult:
    """Write file groups; a task that a runner distributes."""
    puts, deletes = _key_sink(work), _key_sink(work)
    results, counts = [], np.zeros(4, np.int64)
    for place, (number, group) in enumerate(zip(work.numbers, work.groups, strict=True)):
        batch, ops, named = _rows_of(work, group)
        write = FileGroupWrite(
            target=work.target,
            partition_path=group.partition,
            file_id=group.file_id,
            base=group.base,
            number=number,
            keys=batch.keys,
            ops=ops,
            tagged=np.concatenate([np.full(s.stop - s.start, s.tagged) for s in group.shares])
            & work.exact,
            rows=batch.rows,
        )
        result = write_file_group(write)
        inserted = result.outcomes == Outcome.INSERTED
        gone = (result.outcomes == Outcome.DELETED) & (ops == Op.DELETE)
        updated, moved = result.outcomes == Outcome.UPDATED, ops == Op.MOVE_OUT
        counts += [mask.sum() for mask in (inserted, updated, gone, moved)]
        if work.keeps_keys:
            puts.add(batch.keys.filter(pa.array(inserted & named)), place)
            deletes.add(batch.keys.filter(pa.array(gone)), place)
        # All values of a large batch would be more than one process holds: they are read again.
        results.append(replace(result, outcomes=_NO_OUTCOMES, values=()))
    inserts, updates, deleted, moves = counts.tolist()
    return PackResult(
        results=tuple(results),
        puts=puts.close(),
        deletes=deletes.close(),
        places=tuple((group.partition, group.file_id) for group in work.groups),
        inserted=inserts,
        updated=updates,
        deleted=deleted,
        moved=moves,
    )


def _key_sink(work: PackWork) -> KeySink:
    return KeySink(
        storage=work.target.storage,
        instant=work.target.instant,
        shards=work.shards,
        memory=work.memory // 2,
    )


def _rows_of(
    work: PackWork, group: PlacedGroup
) -> tuple[Batch, npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """The rows of a file group, what each asks, and whether the index is to name its place."""
    batches, ops, named = [], [], []
    for share in group.shares:
        batch, chosen = share.read(work.target.storage, work.schema)
        batches.append(batch)
        ops.append(_ops(work, share, batch))
        named.append(chosen.to_numpy(zero_copy_only=False))
    rows = [batch.rows for batch in batches if batch.rows is not None]
    joined = Batch(
        keys=pa.concat_arrays([batch.keys for batch in batches]),
        partitions=pa.concat_arrays([batch.partitions for batch in batches]),
        deletes=np.concatenate([batch.deletes for batch in batches]),
        rows=pa.concat_tables(rows).combine_chunks() if rows else None,
    )
    return joined, np.concatenate(ops), np.concatenate(named)


def _ops(work: PackWork, share: Share, batch: Batch) -> npt.NDArray[np.uint8]:
    """What each row of a share asks of the file group."""
    if share.leaving:
        return np.full(len(batch), Op.MOVE_OUT, np.uint8)
    if work.appends:
        return np.full(len(batch), Op.APPEND, np.uint8)
    return np.where(batch.deletes, Op.DELETE, Op.PUT).astype(np.uint8)
