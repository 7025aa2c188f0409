"""How a write changes the values of a file group, found while its rows are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.index.dedup import without
from keymark.table.layout.model import BaseFile
from keymark.table.values.indexed import Indexed


@dataclass(frozen=True, slots=True)
class ValueChange:
    """The values that came to a file group with its next slice, and those that went.

    `column` is the name of what is indexed. Without a slice before, all values of the file came.
    `rows` are the rows of the values that came, in the next slice, where they are indexed by hash.
    """

    column: str
    file: BaseFile
    before: BaseFile | None
    came: pa.Array
    gone: pa.Array
    rows: npt.NDArray[np.int64] | None = None


def first_values(
    indexed: Sequence[Indexed], file: BaseFile, rows: pa.Table
) -> tuple[ValueChange, ...]:
    """The indexed values of the first slice of a file group."""
    found = []
    for each in indexed:
        values = pc.unique(each.of_rows(rows, file.path))
        places = np.arange(len(values)) if each.hashed else None
        nothing = values.slice(0, 0)
        found.append(ValueChange(each.column, file, None, came=values, gone=nothing, rows=places))
    return tuple(found)


def unchanged_values(
    indexed: Sequence[Indexed], before: BaseFile, file: BaseFile
) -> tuple[ValueChange, ...]:
    """That a slice has the indexed values of the one before."""
    return tuple(
        ValueChange(each.column, file, before, came=nothing, gone=nothing)
        for each in indexed
        for nothing in [pa.array([], each.kind)]
    )


def value_changes(
    indexed: Sequence[Indexed],
    before: tuple[BaseFile, pa.Table],
    file: tuple[BaseFile, pa.Table],
    source: npt.NDArray[np.int64],
) -> tuple[ValueChange, ...]:
    """The changes of indexed values between two slices of a file group.

    Args:
        indexed: what is indexed.
        before: a slice and its rows.
        file: the next slice, and the rows of the batch.
        source: for each row of the next slice its row in (rows of the slice before ++ batch).

    Raises:
        CorruptFileError: a row of the slice before has no record key.
    """
    if not indexed:
        return ()
    (old, stored), (new, batch) = before, file
    is_new = source >= stored.num_rows
    columns = list({name: None for each in indexed for name in each.columns})
    added = batch.select(columns).take(pa.array(source[is_new] - stored.num_rows))
    leaves = np.ones(stored.num_rows, bool)
    leaves[source[~is_new]] = False
    found = []
    for each in indexed:
        values = each.of_rows(added, new.path), each.of_rows(stored, old.path)
        came, gone = _came_and_gone(*values, pa.array(leaves))
        rows = None
        if each.hashed:
            rows = np.flatnonzero(is_new)[pc.index_in(came, value_set=values[0]).to_numpy()]
        found.append(ValueChange(each.column, new, old, came=came, gone=gone, rows=rows))
    return tuple(found)


def _came_and_gone(
    added: pa.Array, stored: pa.Array, leaves: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """The distinct values that a file did not have before, and those that it no longer has.

    The rows that stay are many. They are only asked which of the few values in question they hold.

    Args:
        added: values of rows that come.
        stored: values of the rows before.
        leaves: of each of those whether it goes.
    """
    came, gone = pc.unique(added), pc.unique(stored.filter(leaves))
    came, gone = without(came, gone), without(gone, came)
    few = pa.concat_arrays([came, gone])
    if len(few):
        stays = pc.and_not(pc.is_in(stored, value_set=few), leaves)
        kept = stored.filter(stays)
        came, gone = without(came, kept), without(gone, kept)
    return came, gone
