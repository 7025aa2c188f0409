"""Base files in memory, for tests of what reads one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from keymark.table.storage.storage import BytesReader


def reader_of(data: bytes) -> BytesReader:
    """A base file under the path that its first row names: under another one it is refused."""
    columns = ("_hoodie_partition_path", "_hoodie_file_name")
    table = pq.read_table(pa.BufferReader(data))
    if not table.num_rows or not set(columns) <= set(table.column_names):
        return BytesReader(name="f", data=data)
    names = [table[name][0].as_py() for name in columns]
    return BytesReader(name="/".join(name for name in names if name) or "f", data=data)
