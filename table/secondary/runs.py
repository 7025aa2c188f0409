"""The files of a secondary index, and which base files they tell of.

    .hoodie/.keymark/secondary/<column>/<name>.parquet     a run: values of some base files

    value   of the column's type; sorted, nulls last
    file    int32: the base file, by its place in the footer's entry `keymark.files`
    gone    bool: the file lacks this value, which the slice before had

    keymark.files   JSON: [[partition path, name, name of the slice before or ""], ...]

A file without a slice before it has all its distinct values in the run; any other the values by
which it differs from that slice. Base files never change and their names are never used again: a
run stays true whatever is committed, rolled back or restored after it.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import read_columns, read_metadata
from keymark.table.format.parquet.parquet_gzip import with_checksums
from keymark.table.layout.naming import SECONDARY
from keymark.table.storage.storage import Storage

ROW_GROUP = 1 << 16
"""Rows of a run that are read at once."""
_FILES = b"keymark.files"


@dataclass(frozen=True, slots=True)
class CoveredFile:
    """A base file that a run tells of; `before` is the name of the slice before, "" for none."""

    partition_path: str
    name: str
    before: str = ""

    @property
    def instant_time(self) -> str:
        """The instant in its name."""
        return self.name.rpartition("_")[2].partition(".")[0]


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its path, its footer, and the base files that it tells of."""

    path: str
    metadata: pq.FileMetaData
    files: tuple[CoveredFile, ...]


def folder_of(column: str) -> str:
    """Where the runs of a column are."""
    return f"{SECONDARY}/{quote(column, safe='')}"


def load_runs(storage: Storage, column: str) -> list[Run]:
    """The runs of a column.

    Raises:
        CorruptFileError: a run is damaged.
    """
    found = []
    for status in storage.list(folder_of(column)):
        # A writer may have deleted it by now.
        with contextlib.suppress(FileNotFoundError):
            found.append(_load_run(storage, status.path))
    return found


def _load_run(storage: Storage, path: str) -> Run:
    source = storage.open(path)
    metadata = read_metadata(source)
    try:
        listed = json.loads((metadata.metadata or {})[_FILES])
        files = tuple(CoveredFile(*map(str, entry)) for entry in listed)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(path, 0, f"not a run of a secondary index: {error!r}") from error
    return Run(path, metadata, files)


def put_run(storage: Storage, column: str, files: Sequence[CoveredFile], entries: pa.Table) -> None:
    """Put a run.

    Args:
        storage: of the table.
        column: the column.
        files: the base files that it tells of.
        entries: columns value, file and gone, in any order of rows.
    """
    path = f"{folder_of(column)}/{secrets.token_hex(16)}.parquet"
    order = pc.sort_indices(entries, [("value", "ascending", "at_end")])
    listed = [[file.partition_path, file.name, file.before] for file in files]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        entries.schema,
        compression="zstd",
        use_dictionary=["file"],
        store_schema=False,
        coerce_timestamps="us",
        version="2.6",
    ) as writer:
        writer.write_table(entries.take(order), row_group_size=ROW_GROUP)
        writer.add_key_value_metadata({_FILES: json.dumps(listed).encode()})
    storage.put(path, with_checksums(sink.getvalue().to_pybytes(), path))


def read_rows(
    storage: Storage, run: Run, kind: pa.DataType, groups: Sequence[int] | None = None
) -> pa.Table:
    """The entries of a run, or of some of its row groups.

    Raises:
        CorruptFileError: the run is damaged, or not of a column of that type.
        FileNotFoundError: a writer deleted it.
    """
    table = read_columns(storage.open(run.path), run.metadata, None, groups)
    try:
        return table.cast(entry_schema(kind))
    except (pa.ArrowException, ValueError) as error:
        raise CorruptFileError(run.path, 0, f"not a run of {kind} values: {error}") from error


def entry_schema(kind: pa.DataType) -> pa.Schema:
    """The columns of a run."""
    return pa.schema([("value", kind), ("file", pa.int32()), ("gone", pa.bool_())])
