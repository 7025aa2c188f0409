"""Rows on storage between the steps of a large write.

A spool file is some Arrow streams, one behind the other. It is among the instant's markers and
goes with them. Two attempts of a task leave two files; the answer of one of them is heard.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.layout.naming import TEMP
from keymark.table.storage.storage import Storage
from keymark.table.write.batch import Batch

# While they are dealt out, rows are there as they came, prepared, in parts and as a whole file.
ROW_COPIES = 6

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
# The columns of a spooled batch that come before those of its rows.
_KEYED = ("key", "partition", "deletes")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows in a spool file.

    Attributes:
        path: of the file.
        offset: where their stream begins.
        length: its bytes.
        rows: how many there are.
        size: the bytes that they take in memory.
    """

    path: str
    offset: int
    length: int
    rows: int
    size: int

    def read(self, storage: Storage) -> pa.Table:
        """The rows.

        Raises:
            CorruptFileError: they are not what was put.
        """
        try:
            data = storage.open(self.path).read(self.offset, self.length)
            return pa.ipc.open_stream(data).read_all()
        except (pa.ArrowException, FileNotFoundError) as error:
            raise CorruptFileError(self.path, self.offset, f"no spooled rows: {error}") from error


def put_stretches(storage: Storage, instant: str, tables: Iterable[pa.Table]) -> list[Stretch]:
    """Put a spool file with a stretch for each table."""
    path = f"{TEMP}/{instant}/.keymark/{uuid.uuid4().hex}.rows"
    parts: list[pa.Buffer] = []
    stretches: list[Stretch] = []
    offset = 0
    for table in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as stream:
            stream.write_table(table)
        data = sink.getvalue()
        stretches.append(Stretch(path, offset, data.size, table.num_rows, table.nbytes))
        parts.append(data)
        offset += data.size
    if parts:
        storage.put(path, b"".join(parts))
    return stretches


def put_dealt(
    storage: Storage, instant: str, table: pa.Table, numbers: npt.NDArray[np.int64], count: int
) -> tuple[Stretch | None, ...]:
    """Put a spool file with a stretch for each of `count` numbers, None where it has no rows.

    Rows of one number stay in their order. `numbers` says the number of each row.
    """
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(count + 1)).tolist()
    table = table.take(pa.array(order))
    filled = [number for number in range(count) if bounds[number] < bounds[number + 1]]
    pieces = (table.slice(bounds[n], bounds[n + 1] - bounds[n]) for n in filled)
    dealt: list[Stretch | None] = [None] * count
    for number, stretch in zip(filled, put_stretches(storage, instant, pieces), strict=True):
        dealt[number] = stretch
    return tuple(dealt)


def table_of(batch: Batch, **more: npt.NDArray[np.generic]) -> pa.Table:
    """A batch as one table: its keys, paths and flags, further columns, its rows."""
    arrays = [batch.keys, batch.partitions.cast(pa.string()), pa.array(batch.deletes)]
    arrays += [pa.array(values) for values in more.values()]
    names = [*_KEYED, *more]
    if batch.rows is not None:
        arrays += batch.rows.columns
        names += batch.rows.column_names
    return pa.Table.from_arrays(arrays, names)


def batch_of(table: pa.Table, schema: pa.Schema | None, *, more: int = 0) -> Batch:
    """The batch of a table, which has some further columns before those of its rows.

    Args:
        table: as `table_of` makes it.
        schema: of the rows; None where there are keys alone.
        more: how many further columns there are.
    """
    keys, partitions, deletes = (table.column(n).combine_chunks() for n in range(len(_KEYED)))
    columns = table.columns[len(_KEYED) + more :]
    return Batch(
        keys=keys,
        partitions=partitions,
        deletes=deletes.to_numpy(zero_copy_only=False),
        rows=None if schema is None else pa.Table.from_arrays(columns, schema=schema),
    )
