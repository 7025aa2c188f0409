"""Runs: the files of an index of values, and which base files they cover.

    <folder of what is indexed>/<name>.parquet     a run: values of some base files

    value   of the type of what is indexed; sorted, nulls last; record keys by partition path first
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keymark.table.errors import CorruptFileError
from keymark.table.format.parquet.base_file import read_columns, read_metadata
from keymark.table.format.parquet.file_body import FileBody
from keymark.table.storage.storage import FileStatus, Storage
from keymark.table.values.indexed import Indexed

ROW_GROUP = 1 << 16
"""Rows of a run that are read at once."""
_FILES = b"keymark.files"
_END = ".parquet"
# A writer deletes runs after it put what replaces them: another look finds that.
_LOOKS = 3

R = TypeVar("R", bound="FilesOfRun")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class CoveredFile:
    """A base file that a run covers; `before` is the name of the slice before, "" for none."""

    partition_path: str
    name: str
    before: str = ""

    @property
    def instant_time(self) -> str:
        """The instant in its name."""
        return self.name.rpartition("_")[2].partition(".")[0]


@dataclass(frozen=True, slots=True)
class FilesOfRun:
    """A run of any kind.

    Attributes:
        path: of its file.
        files: the base files that it covers.
        entries: how many it has.
        size: bytes of its file.
    """

    path: str
    files: tuple[CoveredFile, ...]
    entries: int
    size: int


@dataclass(frozen=True, slots=True)
class Run(FilesOfRun):
    """A run of values, with its footer."""

    metadata: pq.FileMetaData


def load_runs(storage: Storage, folder: str) -> list[Run]:
    """The runs in a folder.

    Raises:
        CorruptFileError: a run is damaged.
    """
    return load_all(storage, folder, _END, _load_run)


def load_all(
    storage: Storage, folder: str, end: str, load: Callable[[Storage, FileStatus], R]
) -> list[R]:
    """The runs of any kind in a folder.

    Where writers delete a run at each look, those that are gone are left out: no chain goes through
    them, so that fewer base files are covered.

    Args:
        storage: of the table.
        folder: where the runs are.
        end: of their names. Hadoop puts checksums beside files that it copies: no runs.
        load: reads one.

    Raises:
        CorruptFileError: a run is damaged.
    """
    for _ in range(_LOOKS - 1):
        with contextlib.suppress(FileNotFoundError):
            return [load(storage, status) for status in _runs_in(storage, folder, end)]
    found = []
    for status in _runs_in(storage, folder, end):
        with contextlib.suppress(FileNotFoundError):
            found.append(load(storage, status))
    return found


def _runs_in(storage: Storage, folder: str, end: str) -> list[FileStatus]:
    return [status for status in storage.list(folder) if status.name.endswith(end)]


def ask_again(ask: Callable[[], A]) -> A | None:
    """What runs answer, loaded and asked anew where a writer deleted one of them meanwhile.

    Args:
        ask: loads the runs and asks them; FileNotFoundError where one is gone.

    Returns:
        The answer; None where a run was gone each time.
    """
    for _ in range(_LOOKS):
        with contextlib.suppress(FileNotFoundError):
            return ask()
    return None


def _load_run(storage: Storage, status: FileStatus) -> Run:
    path = status.path
    metadata = read_metadata(storage.open(path))
    try:
        listed = json.loads((metadata.metadata or {})[_FILES])
        files = tuple(CoveredFile(*map(str, entry)) for entry in listed)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CorruptFileError(path, 0, f"not a run of an index: {error!r}") from error
    return Run(path, files, metadata.num_rows, status.size, metadata)


def entries_of(changes: Iterable[tuple[pa.Array, pa.Array]], kind: pa.DataType) -> pa.Table:
    """The entries of a run.

    Args:
        changes: for each of its files the values that came and those that are gone.
        kind: the type of the values.

    Returns:
        Columns value, file and gone.
    """
    parts = [values for change in changes for values in change]
    counts = [len(values) for values in parts]
    # Two parts a file: what came, what is gone.
    places = np.repeat(np.arange(len(parts)) // 2, counts)
    gone = np.repeat(np.arange(len(parts)) % 2 == 1, counts)
    columns = [pa.chunked_array(parts, kind), pa.array(places, pa.int32()), pa.array(gone)]
    return pa.table(columns, schema=entry_schema(kind))


def put_run(
    storage: Storage, indexed: Indexed, files: Sequence[CoveredFile], entries: pa.Table
) -> FilesOfRun:
    """Put a run.

    Args:
        storage: of the table.
        indexed: what is indexed.
        files: the base files that it covers, ordered by partition path.
        entries: columns value, file and gone, in any order of rows.
    """
    path = f"{indexed.folder}/{secrets.token_hex(16)}{_END}"
    sorted_by, sort_keys = entries, [("value", "ascending", "at_end")]
    if indexed.by_partition:
        paths = pa.array([file.partition_path for file in files], pa.string())
        ranks = pc.rank(paths, tiebreaker="dense")
        sorted_by = entries.append_column("partition", ranks.take(entries["file"]))
        sort_keys = [("partition", "ascending", "at_end"), *sort_keys]
    order = pc.sort_indices(sorted_by, sort_keys)
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
    body = FileBody.of(sink.getvalue(), path)
    data = body.closed({_FILES: json.dumps(listed).encode()}, path)
    storage.put(path, data)
    return FilesOfRun(path, tuple(files), entries.num_rows, len(data))


def read_rows(
    storage: Storage, run: Run, kind: pa.DataType, groups: Sequence[int] | None = None
) -> pa.Table:
    """The entries of a run, or of some of its row groups.

    Raises:
        CorruptFileError: the run is damaged, or not of values of that type.
        FileNotFoundError: a writer deleted it.
    """
    table = read_columns(storage.open(run.path), run.metadata, None, groups)
    try:
        return table.cast(entry_schema(kind))
    except (pa.ArrowException, ValueError) as error:
        raise CorruptFileError(run.path, 0, f"not a run of {kind} values: {error}") from error


def files_of_entries(run: FilesOfRun, entries: pa.Table) -> npt.NDArray[np.int32]:
    """The base file of each entry of a run, by its place among the run's.

    Raises:
        CorruptFileError: the run covers no such file.
    """
    places: npt.NDArray[np.int32] = entries["file"].to_numpy()
    if len(places) and not 0 <= places.min() <= places.max() < len(run.files):
        detail = f"entries of another file than its {len(run.files)}"
        raise CorruptFileError(run.path, 0, detail)
    return places


def groups_of_files(run: Run, files: npt.NDArray[np.int64]) -> list[int]:
    """The row groups of a run that may have entries of some of its files, by their statistics.

    Args:
        run: the run.
        files: places of files in the run, ascending.
    """
    found = []
    for group in range(run.metadata.num_row_groups):
        places = run.metadata.row_group(group).column(1).statistics
        if places is not None and places.has_min_max:
            first, end = np.searchsorted(files, places.min), np.searchsorted(files, places.max + 1)
            if first == end:
                continue
        found.append(group)
    return found


def entry_schema(kind: pa.DataType) -> pa.Schema:
    """The columns of a run."""
    return pa.schema([("value", kind), ("file", pa.int32()), ("gone", pa.bool_())])
