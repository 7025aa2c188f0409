"""Some rows of a base file, by their numbers.

    column k    page 0: rows 0 ..            page 1: rows 26214 ..
    column v    page 0: rows 0 ..
    row 30000                                ^ page 1 of k, page 0 of v

Pages are the least that can be inflated. The pages of each column that hold a row are read; columns
that end their pages at the same rows are read together.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import read_columns
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.file_body import FileBody
from keymark.table.format.parquet.paged_file import PagedFile
from keymark.table.storage.storage import RangeReader, bytes_of_file

_Numbers = npt.NDArray[np.int64]


def chosen_rows(
    file: RangeReader,
    metadata: pq.FileMetaData,
    rows: _Numbers,
    columns: Collection[str] | None = None,
) -> pa.Table:
    """Some rows of a file of ours, with the types that it stores.

    Args:
        file: the file.
        metadata: of its footer; it has checksums.
        rows: numbers of rows, ascending; at least one.
        columns: names of top-level columns, of which those are read that it has; None for all.

    Returns:
        The rows; columns may come in another order.

    Raises:
        CorruptFileError: the file is damaged.
    """
    return rows_and_pages(file, metadata, rows, columns)[0]


def rows_and_pages(
    file: RangeReader,
    metadata: pq.FileMetaData,
    rows: _Numbers,
    columns: Collection[str] | None = None,
) -> tuple[pa.Table, int]:
    """The same, and how many pages were read for it; a column that is read whole counts as one."""
    checksums = Checksums.of(metadata.metadata)
    if checksums is None:
        raise CorruptFileError(file.name, 0, "it has no checksums")
    group = metadata.row_group(0)
    leaves = [group.column(number).path_in_schema for number in range(group.num_columns)]
    names = dict.fromkeys(leaf.partition(".")[0] for leaf in leaves)
    wanted = [name for name in names if columns is None or name in columns]
    ends = np.cumsum([metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)])
    groups = set(np.searchsorted(ends, rows, side="right").tolist())
    found: dict[str, pa.ChunkedArray] = {}
    count = 0
    with bytes_of_file(file) as data:
        body = FileBody.of(data, file.name)
        for members, paged in PagedFile.alike(
            body, checksums, leaves, columns=wanted, groups=groups
        ):
            stored, pages = _rows_of(paged, members, rows)
            found.update(zip(members, stored.columns, strict=True))
            count += pages
    rest = [name for name in wanted if name not in found]
    if rest:
        taken = read_columns(file, metadata, rest).take(pa.array(rows))
        found.update(zip(taken.column_names, taken.columns, strict=True))
    return pa.table(found), count + len(rest)


def _rows_of(paged: PagedFile, columns: list[str], rows: _Numbers) -> tuple[pa.Table, int]:
    """Some rows of columns that end their pages alike, and how many pages they were on."""
    places = np.searchsorted(paged.starts, rows, side="right") - 1
    pages = np.unique(places)
    sizes = np.diff(paged.starts)[pages]
    # Where each of the pages starts in what is read.
    starts = np.cumsum(sizes) - sizes
    local = rows - paged.starts[places] + starts[np.searchsorted(pages, places)]
    stored = paged.read(pages.tolist(), columns)
    if stored.num_rows != sizes.sum():
        detail = f"pages of {', '.join(columns)} with {stored.num_rows} of {sizes.sum()} rows"
        raise CorruptFileError(paged.name, 0, detail)
    return stored.take(pa.array(local)), len(pages) * len(columns)
