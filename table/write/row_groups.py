"""Which row groups of a base file a merge leaves as they are, and what the others become.

    file before    group 0    group 1 (a row updated)    group 2 (full)
    next file      group 0    group 1'                   group 2           group 3' (inserted rows)

Where rows are updated and none are deleted, a row group keeps its keys, and of its columns only
those whose values changed are written. Inserted rows join the last row group while it has room.
Copying pays where at least half of the row groups stay; a file whose rows change more widely is
written whole, with row groups as large as the options allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.format.parquet.base_file import BaseFileFooter
from keymark.table.format.parquet.footer_check import FILE_NAME_COLUMN
from keymark.table.format.parquet.next_file import RowGroup
from keymark.table.format.schema import with_meta
from keymark.table.write.file_group import WriteTarget
from keymark.table.write.merge import Merge

# A footer describes each column chunk: it must not grow with the file.
_MOST_GROUPS = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """The row groups of a file that copies some of the file before.

    `read` are the row groups of the file before that are not copied; sources are rows of (rows of
    those ++ incoming rows).

    Attributes:
        groups: in their order.
        read: their numbers.
        new: the source of each row of the new row groups.
        updated: the source of each row of the row groups that keep their keys.
        stored: the row before each of those: its source if it is not updated.
    """

    groups: tuple[RowGroup, ...]
    read: tuple[int, ...]
    new: npt.NDArray[np.int64]
    updated: npt.NDArray[np.int64]
    stored: npt.NDArray[np.int64]


def can_copy(footer: BaseFileFooter, target: WriteTarget) -> bool:
    """Whether row groups of a file may be copied.

    It must be a file of ours, whose checksums prove what is copied, with the columns of the table,
    with stored keys and without an empty row group.
    """
    metadata = footer.metadata
    count = metadata.num_row_groups
    if not target.group_rows or count < 2 or footer.checksums is None:
        return False
    if target.keys.virtual or not target.stores_meta:
        return False
    stored = metadata.schema.to_arrow_schema().remove_metadata()
    return stored.equals(with_meta(target.schema).remove_metadata()) and all(
        metadata.row_group(number).num_rows for number in range(count)
    )


def group_starts(metadata: pq.FileMetaData) -> npt.NDArray[np.int64]:
    """The first row of each row group, and the number of rows."""
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    return np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])


def group_size(merge: Merge, least: int) -> int | None:
    """Rows of a row group in a file that is written whole; None for as few row groups as may be.

    Small ones where this batch would have left half of them alone: the next may be like it.

    Args:
        merge: of all rows.
        least: rows of a small row group in a file of few (keymark.parquet.group.rows); 0 for none.
    """
    rows = len(merge.kept)
    if not least or rows < 2 * least:
        return None
    size = max(least, -(-rows // _MOST_GROUPS))
    starts = np.append(np.arange(0, rows, size), rows)
    return size if 2 * len(_touched(merge, starts, size)) <= len(starts) - 1 else None


def layout_of(merge: Merge, starts: npt.NDArray[np.int64], least: int) -> Layout | None:
    """The row groups of the next file; None where too few of them would be copied.

    Args:
        merge: of all rows.
        starts: of the row groups of the file before (`group_starts`).
        least: rows of a row group with room for no more, if the file has no larger one.
    """
    count = len(starts) - 1
    full = max(least, int(np.diff(starts).max()))
    touched = _touched(merge, starts, full)
    if 2 * len(touched) > count:
        return None
    # A kept row's place in `source` is the number of kept rows before it.
    places = np.append(0, np.cumsum(merge.kept))[starts]
    is_touched = np.isin(np.arange(count), touched)
    # Inserted rows join the last row group if that is written anyway.
    joined = is_touched[-1] and int(places[-1]) < len(merge.source)
    nothing = np.empty(0, np.int64)
    groups: list[RowGroup] = []
    new, updated, stored = [nothing], [nothing], [nothing]
    for number in range(count - 1 if joined else count):
        rows = int(starts[number + 1] - starts[number])
        part = merge.source[places[number] : places[number + 1]]
        if not is_touched[number]:
            groups.append(RowGroup(rows, number, is_copied=True))
        elif len(part) == rows:
            groups.append(RowGroup(rows, number))
            updated.append(part)
            stored.append(np.arange(starts[number], starts[number + 1]))
        elif len(part):
            groups.append(RowGroup(len(part)))
            new.append(part)
    tail = merge.source[places[-2 if joined else -1] :]
    groups += [RowGroup(min(full, len(tail) - at)) for at in range(0, len(tail), full)]
    return Layout(
        groups=tuple(groups),
        read=tuple(touched.tolist()),
        new=_local(np.concatenate([*new, tail]), touched, starts),
        updated=_local(np.concatenate(updated), touched, starts),
        stored=_local(np.concatenate(stored), touched, starts),
    )


def changed_columns(stored: pa.Table, incoming: pa.Table, layout: Layout) -> list[str]:
    """The columns in which updated row groups differ from those before, and that of file names.

    Args:
        stored: rows of the row groups that are read. A column that it lacks does not differ.
        incoming: rows of the batch.
        layout: of the next file.
    """
    rows = np.flatnonzero(layout.updated >= stored.num_rows)
    before = stored.take(pa.array(layout.stored[rows]))
    after = incoming.take(pa.array(layout.updated[rows] - stored.num_rows))
    return [
        name
        for name in stored.column_names
        if name == FILE_NAME_COLUMN or not _same(before[name], after[name])
    ]


def _same(before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    """Whether values are the same bit by bit; False where Arrow does not tell.

    To Arrow a negative zero equals zero.
    """
    kind = before.type
    told = not (pa.types.is_floating(kind) or pa.types.is_nested(kind))
    return told and bool(before.equals(after))


def _touched(merge: Merge, starts: npt.NDArray[np.int64], full: int) -> npt.NDArray[np.int64]:
    """The numbers of the row groups that change; the last one where inserted rows join it."""
    changes = np.add.reduceat(merge.changed, starts[:-1], dtype=np.int64)
    inserts = len(merge.source) > np.count_nonzero(merge.kept)
    if inserts and starts[-1] - starts[-2] < full:
        changes[-1] += 1
    return np.flatnonzero(changes)


def _local(
    source: npt.NDArray[np.int64],
    touched: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Rows of (stored ++ incoming) as rows of (rows of the touched groups ++ incoming)."""
    rows = [np.arange(starts[number], starts[number + 1]) for number in touched]
    read = np.concatenate([np.empty(0, np.int64), *rows])
    local = np.zeros(int(starts[-1]), np.int64)
    local[read] = np.arange(len(read))
    stored = source < starts[-1]
    found: npt.NDArray[np.int64] = source - starts[-1] + len(read)
    found[stored] = local[source[stored]]
    return found
