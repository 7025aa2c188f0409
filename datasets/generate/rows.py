"""Rows of a generated dataset as Arrow tables, without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.datasets.columns.kind import Values
from keymark.datasets.generate.digest import RowsDigest, check_columns
from keymark.datasets.specs.spec import DatasetSpec

_CHUNK_ROWS = 65_536
_CHUNK_BYTES = 32 << 20
_FIXED_BYTES_PER_VALUE = 30

_Numbers = npt.NDArray[np.int64]


def make_rows(
    spec: DatasetSpec,
    numbers: _Numbers,
    versions: _Numbers,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return rows by number and version, with the named columns or all.

    Args:
        spec: the dataset.
        numbers: row numbers.
        versions: the round of each row's last change.
        columns: names, in the order wanted.
    """
    kinds = dict(spec.flat_columns())
    names = list(kinds) if columns is None else list(columns)
    check_columns(names, list(kinds))
    shape = spec.shape
    return pa.table(
        {
            name: kinds[name].arrow(
                Values(shape=shape, name=name, numbers=numbers, versions=versions)
            )
            for name in names
        }
    )


Chunk = tuple[_Numbers, _Numbers]


def chunk_rows(spec: DatasetSpec) -> int:
    """Rows to make at once, so that a chunk of any dataset takes a few dozen megabytes."""
    columns = sum(1 for _ in spec.flat_columns())
    per_row = _FIXED_BYTES_PER_VALUE * columns + spec.row_bytes
    return max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // int(per_row)))


def digest_rows(
    spec: DatasetSpec, chunks: Iterable[Callable[[], Chunk]], columns: Sequence[str]
) -> Iterator[RowsDigest]:
    """Yield the digest of each chunk of rows, computed on all cores, in order.

    Args:
        spec: the dataset.
        chunks: functions that return the (numbers, versions) of a chunk.
        columns: the columns that count.
    """

    def one(chunk: Callable[[], Chunk]) -> RowsDigest:
        return RowsDigest.of(make_rows(spec, *chunk(), columns), columns)

    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        pending = []
        for chunk in chunks:
            pending.append(pool.submit(one, chunk))
            if len(pending) > 2 * workers:
                yield pending.pop(0).result()
        for future in pending:
            yield future.result()
