"""Some rows of a base file, by their numbers.

    column k    page 0: rows 0 ..            page 1: rows 26214 ..
    column v    page 0: rows 0 ..
    row 30000                                ^ page 1 of k, page 0 of v

Pages are the least that can be inflated. Of each column those that hold a row are read; columns
that end their pages at the same rows are read together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import read_columns
from keymark.table.format.parquet.checksums import Checksums
from keymark.table.format.parquet.paged_file import PagedFile
from keymark.table.storage.storage import BytesReader

_Numbers = npt.NDArray[np.int64]


def chosen_rows(
    file: BytesReader, metadata: pq.FileMetaData, checksums: Checksums, rows: _Numbers
) -> pa.Table:
    """Some rows of a file of ours, with the types that it stores.

    Args:
        file: the file.
        metadata: of its footer.
        checksums: of its column chunks.
        rows: numbers of rows, ascending; at least one.

    Returns:
        The rows; columns may come in another order.

    Raises:
        CorruptFileError: the file is damaged.
    """
    group = metadata.row_group(0)
    leaves = [group.column(number).path_in_schema for number in range(group.num_columns)]
    found: dict[str, pa.ChunkedArray] = {}
    for columns, paged in PagedFile.alike(file, checksums, leaves):
        places = np.searchsorted(paged.starts, rows, side="right") - 1
        pages = np.unique(places)
        sizes = np.diff(paged.starts)[pages]
        # Where each of the pages starts in what is read.
        starts = np.cumsum(sizes) - sizes
        local = rows - paged.starts[places] + starts[np.searchsorted(pages, places)]
        stored = paged.read(pages.tolist(), columns)
        if stored.num_rows != sizes.sum():
            detail = f"pages of {', '.join(columns)} with {stored.num_rows} of {sizes.sum()} rows"
            raise CorruptFileError(file.name, 0, detail)
        taken = stored.take(pa.array(local))
        found.update(zip(columns, taken.columns, strict=True))
    rest = [name for leaf in leaves if (name := leaf.partition(".")[0]) not in found]
    if rest:
        taken = read_columns(file, metadata, list(dict.fromkeys(rest))).take(pa.array(rows))
        found.update(zip(taken.column_names, taken.columns, strict=True))
    return pa.table(found)
