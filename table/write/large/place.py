"""Which file groups the rows of a large batch go to: counted on the driver, without the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import bucket_file_id, bucket_of
from keymark.table.storage.storage import Storage
from keymark.table.write.assign import FileSizing, fill
from keymark.table.write.batch import Batch
from keymark.table.write.file_group import WriteTarget
from keymark.table.write.large.parts import RowsOnWay, SortedPart, Way
from keymark.table.write.large.prepare import SpooledRows
from keymark.table.write.large.spool import batch_of
from keymark.table.write.transaction import WriteTransaction
from keymark.table.write.write_group import stored_ordering


@dataclass(frozen=True, slots=True)
class Share:
    """Rows on a way that one file group gets.

    Attributes:
        rows: all that go this way.
        leaving: whether their keys leave the file group, because they move.
        start: number of the first, of those that are kept.
        stop: number after the last.
    """

    rows: RowsOnWay
    leaving: bool
    start: int
    stop: int

    @property
    def tagged(self) -> bool:
        """Whether the index names this file group for them."""
        return self.leaving or self.rows.way is Way.STAY

    @property
    def size(self) -> int:
        """Bytes that they take in memory, about."""
        rows = self.rows.rows
        return rows.size * (self.stop - self.start) // max(1, rows.rows)

    def read(self, storage: Storage, schema: pa.Schema | None) -> tuple[Batch, pa.Array]:
        """The rows, and whether the index is to name the place of each."""
        table = self.rows.rows.read(storage)
        if self.rows.kept is not None:
            table = table.filter(pa.array(self.rows.kept))
        table = table.slice(self.start, self.stop - self.start).combine_chunks()
        return batch_of(table, schema, more=1), table.column(3).combine_chunks()


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A file group and the rows that it gets; `base` is its slice so far, None opens it."""

    partition: str
    file_id: str
    base: BaseFile | None
    shares: tuple[Share, ...]

    @property
    def weight(self) -> int:
        """Bytes of work to write its next slice."""
        return (self.base.size if self.base else 0) + sum(share.size for share in self.shares)


def without_stale_moves(
    tx: WriteTransaction, incoming: SpooledRows, parts: Sequence[SortedPart]
) -> list[SortedPart]:
    """Leave out the rows that would move their key and are older than its stored row."""
    schema = incoming.schema
    if tx.target.ordering is None or schema is None:
        return list(parts)
    moving: dict[tuple[str, str], list[RowsOnWay]] = {}
    for rows in (rows for part in parts for rows in part.ways if rows.way is Way.MOVE):
        assert rows.partition is not None
        assert rows.file_id is not None
        moving.setdefault((rows.partition, rows.file_id), []).append(rows)
    bases = tx.state.snapshot.by_location()
    checks = [
        MoveCheck(tx.target, schema, bases[place], tuple(rows)) for place, rows in moving.items()
    ]
    weights = [check.base.size + sum(rows.rows.size for rows in check.rows) for check in checks]
    found = tx.writer.runner.run(kept_moves, checks, weights=weights)
    kept = {
        (rows.rows.path, rows.rows.offset): mask
        for check, masks in zip(checks, found, strict=True)
        for rows, mask in zip(check.rows, masks, strict=True)
    }
    return [
        replace(
            part,
            ways=tuple(
                replace(rows, kept=kept.get((rows.rows.path, rows.rows.offset)))
                for rows in part.ways
            ),
        )
        for part in parts
    ]


@dataclass(frozen=True, slots=True)
class MoveCheck:
    """Rows that would move keys out of a base file."""

    target: WriteTarget
    schema: pa.Schema
    base: BaseFile
    rows: tuple[RowsOnWay, ...]


def kept_moves(check: MoveCheck) -> list[npt.NDArray[np.bool_]]:
    """Whether each row is not older than the stored one; a task of a runner's."""
    assert check.target.ordering is not None
    batches = [
        batch_of(rows.rows.read(check.target.storage), check.schema, more=1) for rows in check.rows
    ]
    before = stored_ordering(
        check.target, check.base, pa.concat_arrays([batch.keys for batch in batches])
    )
    incoming = [batch.rows[check.target.ordering] for batch in batches if batch.rows is not None]
    after = pa.concat_arrays([chunk for column in incoming for chunk in column.chunks])
    newer = pc.fill_null(pc.greater(before, after.cast(before.type)), fill_value=False)
    ends = np.cumsum([len(batch) for batch in batches])
    return np.split(~newer.to_numpy(zero_copy_only=False), ends[:-1])


def placed_groups(
    tx: WriteTransaction, incoming: SpooledRows, parts: Sequence[SortedPart]
) -> list[PlacedGroup]:
    """Give all rows their file groups, ordered by partition path and file id."""
    shares: dict[tuple[str, str], list[Share]] = {}
    new: dict[str, list[RowsOnWay]] = {}
    for rows in (rows for part in parts for rows in part.ways if rows.count):
        if rows.way is not Way.NEW:
            assert rows.partition is not None
            assert rows.file_id is not None
            share = Share(rows, rows.way is Way.MOVE, 0, rows.count)
            shares.setdefault((rows.partition, rows.file_id), []).append(share)
        if rows.way is not Way.STAY:
            assert rows.to is not None
            new.setdefault(rows.to, []).append(rows)
    by_bucket = incoming.dealing.bucket_index is not None
    opened = _by_bucket(tx, new) if by_bucket else _by_size(tx, new, incoming.row_bytes)
    for place, share in opened:
        shares.setdefault(place, []).append(share)
    bases = tx.state.snapshot.by_location()
    return [PlacedGroup(*place, bases.get(place), tuple(shares[place])) for place in sorted(shares)]


def _by_bucket(
    tx: WriteTransaction, new: Mapping[str, Sequence[RowsOnWay]]
) -> Iterator[tuple[tuple[str, str], Share]]:
    """Each bucket's rows to its group, opened where there is none."""
    known = {(f.partition_path, bucket_of(f.file_id)): f.file_id for f in tx.state.snapshot.files}
    for path, listed in new.items():
        for rows in listed:
            place = path, rows.bucket
            if place not in known:
                known[place] = bucket_file_id(rows.bucket, tx.target.ids.uuid(*place))
            yield (path, known[place]), Share(rows, leaving=False, start=0, stop=rows.count)


def _by_size(
    tx: WriteTransaction, new: Mapping[str, Sequence[RowsOnWay]], row_bytes: float
) -> Iterator[tuple[tuple[str, str], Share]]:
    """The rows of a partition path, one behind the other, to small files and to new groups.

    A row takes `row_bytes` in memory.
    """
    record = tx.state.average_record_bytes()
    sizing = FileSizing.of(tx.options, record=record, held=row_bytes)
    small: dict[str, list[BaseFile]] = {}
    for file in tx.state.snapshot.files:
        small.setdefault(file.partition_path, []).append(file)
    for path, listed in new.items():
        # The listed rows count on from one to the next; new files may begin amid any of them.
        ends = np.cumsum([rows.count for rows in listed]).tolist()
        first = at = 0
        for file_id, count in fill(path, ends[-1], small.get(path, ()), sizing, tx.target.ids):
            last = first + count
            while first < last:
                rows, start = listed[at], ends[at] - listed[at].count
                stop = min(last, ends[at])
                share = Share(rows, leaving=False, start=first - start, stop=stop - start)
                yield (path, file_id), share
                first, at = stop, at + (stop == ends[at])
