"""How a write changes the values of a file group, found while its rows are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.layout.model import BaseFile
from keymark.table.values.indexed import Indexed


@dataclass(frozen=True, slots=True)
class ValueChange:
    """The values that came to a file group with its next slice, and those that went.

    `column` is the name of what is indexed.
    """

    column: str
    file: BaseFile
    before: BaseFile
    came: pa.Array
    gone: pa.Array


def value_changes(
    indexed: Sequence[Indexed],
    before: tuple[BaseFile, pa.Table],
    file: tuple[BaseFile, pa.Table],
    source: npt.NDArray[np.int64],
) -> tuple[ValueChange, ...]:
    """The changes of indexed values between two slices of a file group.

    Only rows that changed are looked for among the others: few of many.

    Args:
        indexed: what is indexed.
        before: a slice and its rows.
        file: the next slice and its rows.
        source: for each row of the next slice its row in the slice before; beyond those it is new.
    """
    if not indexed:
        return ()
    (old, stored), (new, rows) = before, file
    is_new = source >= stored.num_rows
    went = np.ones(stored.num_rows, bool)
    went[source[~is_new]] = False
    found = []
    for each in indexed:
        old_values, new_values = each.of_rows(stored, old.path), each.of_rows(rows, new.path)
        came = pc.unique(new_values.filter(pa.array(is_new)))
        gone = pc.unique(old_values.filter(pa.array(went)))
        found.append(
            ValueChange(
                column=each.column,
                file=new,
                before=old,
                came=_without(came, old_values),
                gone=_without(gone, new_values),
            )
        )
    return tuple(found)


def _without(few: pa.Array, many: pa.Array) -> pa.Array:
    """The values that are not among many others, which are not hashed."""
    there = pc.unique(many.filter(pc.is_in(many, value_set=few)))
    return few.filter(pc.invert(pc.is_in(few, value_set=there)))
