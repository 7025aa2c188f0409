"""Where each row of a tagged batch goes: one entry per (row, file group) that it touches.

tagged, same partition            put or delete in its file group
tagged, another partition         delete:  in the old file group
  (global index)                  put, moves off: in the old file group, whose partition it keeps
                                  put, moves on:  out of the old group, into a group of the new
not tagged                        put: a small file, a new group, or its bucket's group
                                  delete: nothing to do
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.write.batch import Batch
from keymark.table.write.file_group import Op

FileGroupRows = tuple[str, str, npt.NDArray[np.int64]]
"""Partition path, file id, and the numbers of the rows (or assignments) of one file group."""


def by_file_group(partitions: pa.Array, file_ids: pa.Array) -> list[FileGroupRows]:
    """The numbers of the rows of each file group, ordered by partition path and file id."""
    if not len(partitions):
        return []
    encoded = pc.binary_join_element_wise(partitions, file_ids, "\n").dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    found = []
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        partition, _, file_id = text.rpartition("\n")
        found.append((partition, file_id, order[bounds[number] : bounds[number + 1]]))
    return sorted(found, key=lambda group: group[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAssignments:
    """Which file groups the rows of a batch touch, and how: parallel arrays, one item for each.

    Attributes:
        batch: the rows.
        rows: the number of the row in the batch; a row that moves is there twice.
        partitions: the partition path of the file group.
        file_ids: the file group.
        ops: what the row asks of it (Op).
        tagged: whether the index says that the key is there.
    """

    batch: Batch
    rows: npt.NDArray[np.int64]
    partitions: pa.Array
    file_ids: pa.Array
    ops: npt.NDArray[np.uint8]
    tagged: npt.NDArray[np.bool_]

    def groups(self) -> list[FileGroupRows]:
        """The assignments of each file group."""
        return by_file_group(self.partitions, self.file_ids)


def moving_rows(batch: Batch, tags: pa.Table) -> npt.NDArray[np.bool_]:
    """Rows that are put and tagged in another partition than their own."""
    differs = pc.not_equal(tags["partition_path"].combine_chunks(), batch.partitions)
    moving = pc.fill_null(differs, fill_value=False).to_numpy(zero_copy_only=False)
    return np.asarray(moving & ~batch.deletes, bool)


def rows_without_group(
    batch: Batch, tags: pa.Table, moved: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """The rows that are put where their key is not yet: new keys, and keys that move."""
    known = pc.is_valid(tags["file_id"]).to_numpy(zero_copy_only=False)
    return np.flatnonzero((~known & ~batch.deletes) | moved)


def assign_rows(
    batch: Batch,
    tags: pa.Table,
    moved: npt.NDArray[np.bool_],
    *,
    new_ids: Sequence[str],
    exact: bool,
) -> RowAssignments:
    """Give every row its file group.

    Args:
        batch: combined rows.
        tags: partition_path and file_id per row, null where not tagged.
        moved: whether each row leaves its file group for its own partition.
        new_ids: the file group of each of `rows_without_group`.
        exact: whether a tag says that the key is there.
    """
    known = pc.is_valid(tags["file_id"]).to_numpy(zero_copy_only=False)
    stay, out = np.flatnonzero(known & ~moved), np.flatnonzero(moved)
    new = rows_without_group(batch, tags, moved)
    at = pa.array(np.concatenate([stay, out]))
    ops = [
        np.where(batch.deletes[stay], Op.DELETE, Op.PUT),
        np.full(len(out), Op.MOVE_OUT),
        np.full(len(new), Op.PUT),
    ]
    return RowAssignments(
        batch=batch,
        rows=np.concatenate([stay, out, new]),
        partitions=_concat(tags["partition_path"].take(at), batch.partitions.take(pa.array(new))),
        file_ids=_concat(tags["file_id"].take(at), pa.array(new_ids, pa.string())),
        ops=np.concatenate(ops).astype(np.uint8),
        tagged=np.concatenate([np.full(len(stay) + len(out), exact), np.zeros(len(new), bool)]),
    )


def append_rows(batch: Batch, file_ids: Sequence[str]) -> RowAssignments:
    """Every row is new, whatever keys the table holds: an insert that was not tagged."""
    return RowAssignments(
        batch=batch,
        rows=np.arange(len(batch)),
        partitions=batch.partitions,
        file_ids=pa.array(file_ids, pa.string()),
        ops=np.full(len(batch), Op.APPEND, np.uint8),
        tagged=np.zeros(len(batch), bool),
    )


def _concat(*arrays: pa.Array | pa.ChunkedArray) -> pa.Array:
    chunks = [c for a in arrays for c in (a.chunks if isinstance(a, pa.ChunkedArray) else [a])]
    return pa.concat_arrays([chunk.cast(pa.string()) for chunk in chunks])
