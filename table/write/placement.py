"""Where each row of a tagged batch goes: one entry per (row, file group) that it touches.

tagged, same partition            put or delete in its file group
tagged, another partition         delete:  in the old file group
  (global index)                  put, moves off: in the old file group, whose partition it keeps
                                  put, moves on:  out of the old group, into a group of the new
not tagged                        put: a small file, a new group, or its bucket's group
                                  delete: nothing to do
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.write.batch import Batch
from keymark.table.write.file_group import Op

NewGroups = Callable[[pa.Array, pa.Array], list[str]]
"""(partition paths, keys) of new rows -> file id of each"""


@dataclass(frozen=True, slots=True)
class Entries:
    """Parallel arrays: row of the batch, partition path, file id, Op, and whether it was tagged."""

    rows: npt.NDArray[np.int64]
    partitions: pa.Array
    file_ids: pa.Array
    ops: Any
    tagged: Any

    def groups(self) -> list[tuple[str, str, npt.NDArray[np.int64]]]:
        """(partition path, file id, entry numbers) of each file group, ordered by both."""
        if not len(self.rows):
            return []
        location = pc.binary_join_element_wise(self.partitions, self.file_ids, "\n")
        encoded = location.dictionary_encode()
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
        found = []
        for number, text in enumerate(encoded.dictionary.to_pylist()):
            partition, _, file_id = text.rpartition("\n")
            found.append((partition, file_id, order[bounds[number] : bounds[number + 1]]))
        return sorted(found, key=lambda group: group[:2])


@dataclass(frozen=True, slots=True)
class Placement:
    """The entries of a batch, and the rows that move to another partition."""

    entries: Entries
    moved: npt.NDArray[np.bool_]


def moving_rows(batch: Batch, tags: pa.Table) -> Any:
    """Rows (bool) that are put and tagged in another partition than their own."""
    differs = pc.not_equal(tags["partition_path"].combine_chunks(), batch.partitions)
    return pc.fill_null(differs, fill_value=False).to_numpy(zero_copy_only=False) & ~batch.deletes


def place(
    batch: Batch,
    tags: pa.Table,
    moved: npt.NDArray[np.bool_],
    *,
    exact: bool,
    new_groups: NewGroups,
) -> Placement:
    """Give every row its file group.

    Args:
        batch: combined rows.
        tags: partition_path and file_id per row, null where not tagged.
        moved: whether each row leaves its file group for its own partition.
        exact: whether a tag says that the key is there.
        new_groups: places the rows that have no group.
    """
    known = pc.is_valid(tags["file_id"]).to_numpy(zero_copy_only=False)
    stay = np.flatnonzero(known & ~moved)
    out = np.flatnonzero(moved)
    fresh = np.flatnonzero((~known & ~batch.deletes) | moved)
    fresh_partitions = batch.partitions.take(pa.array(fresh))
    fresh_ids = new_groups(fresh_partitions, batch.keys.take(pa.array(fresh)))
    at = pa.array(np.concatenate([stay, out]))
    entries = Entries(
        rows=np.concatenate([stay, out, fresh]),
        partitions=_concat(tags["partition_path"].take(at), fresh_partitions),
        file_ids=_concat(tags["file_id"].take(at), pa.array(fresh_ids, pa.string())),
        ops=np.concatenate(
            [
                np.where(batch.deletes[stay], Op.DELETE, Op.PUT),
                np.full(len(out), Op.MOVE_OUT),
                np.full(len(fresh), Op.PUT),
            ]
        ).astype(np.uint8),
        tagged=np.concatenate([np.full(len(stay) + len(out), exact), np.zeros(len(fresh), bool)]),
    )
    return Placement(entries, moved)


def append(batch: Batch, new_groups: NewGroups) -> Placement:
    """Every row is new, whatever keys the table holds: an insert that was not tagged."""
    count = len(batch)
    entries = Entries(
        rows=np.arange(count),
        partitions=batch.partitions,
        file_ids=pa.array(new_groups(batch.partitions, batch.keys), pa.string()),
        ops=np.full(count, Op.APPEND, np.uint8),
        tagged=np.zeros(count, bool),
    )
    return Placement(entries, np.zeros(count, bool))


def _concat(*arrays: pa.Array | pa.ChunkedArray) -> pa.Array:
    chunks = [c for a in arrays for c in (a.chunks if isinstance(a, pa.ChunkedArray) else [a])]
    return pa.concat_arrays([chunk.cast(pa.string()) for chunk in chunks])
