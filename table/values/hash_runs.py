"""Runs of hashes: compact index files that say which base files may hold a record key.

    .hoodie/.keymark/hashes/<name>.compact     a run: hashes of the keys of some base files

The name of each file group in it is JSON: [partition path, name of a base file, name of the slice
before or ""]. As in a run of values (`runs.py`), a file without a slice before it has the hashes of
all its keys in the run; any other those of the keys that came since that slice. Keys that went are
not noted: a run says where a key may be, and its readers look there. With the hash is the
stretch of rows in which the key was when it came; rows before it that are deleted move it.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.compact.reader import Candidates, CompactFile
from keymark.table.format.compact.writer import (
    COMPACT,
    STRETCH_BITS,
    UNKNOWN_STRETCH,
    CompactWriter,
    Words,
    place_bits,
    write_file,
)
from keymark.table.layout.naming import HASH_RUNS
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.records import location_codes
from keymark.table.state.table_state import TableState
from keymark.table.storage.spool import Spool
from keymark.table.storage.storage import FileStatus, Storage
from keymark.table.values.indexed import Indexed
from keymark.table.values.runs import CoveredFile, FilesOfRun, load_all, load_runs

# A run in memory before it is put; a larger one is in a local file.
_MEMORY = 64 << 20

KeysOfRun = tuple[pa.Array, npt.NDArray[np.int32], npt.NDArray[np.int64] | None]
"""Keys, for each the place of its file among those of a run, and its row there, if it is known."""

_Write = Callable[[Callable[[bytes], object]], int]
"""Hands bytes to what it is given, and tells how many entries they are."""


def runs_of(storage: Storage, indexed: Indexed) -> Sequence[FilesOfRun]:
    """The runs of what is indexed.

    Raises:
        CorruptFileError: a run is damaged.
    """
    return load_hash_runs(storage) if indexed.hashed else load_runs(storage, indexed.folder)


def load_hash_runs(storage: Storage) -> list[FilesOfRun]:
    """The runs of hashes.

    Raises:
        CorruptFileError: a run is damaged.
    """
    return load_all(storage, HASH_RUNS, COMPACT, _load)


def _load(storage: Storage, status: FileStatus) -> FilesOfRun:
    path = status.path
    with CompactFile.open(storage.open(path)) as file:
        entries, names = file.entries, file.groups
    try:
        listed = json.loads(f"[{','.join(names)}]")
        files = tuple(CoveredFile(*map(str, entry)) for entry in listed)
    except (TypeError, ValueError, RecursionError) as error:
        raise CorruptFileError(path, 0, f"not a run of an index: {error!r}") from error
    if len(files) != len(names):
        raise CorruptFileError(path, 0, f"{len(files)} base files under {len(names)} names")
    return FilesOfRun(path, files, entries, status.size)


def put_hash_run(
    storage: Storage, files: Sequence[CoveredFile], keys: Iterable[KeysOfRun]
) -> FilesOfRun:
    """Put a run.

    Args:
        storage: of the table.
        files: the base files that it covers.
        keys: keys of theirs.
    """
    writer = CompactWriter([_name(file) for file in files])
    for some, places, rows in keys:
        writer.add(some, places, rows)
    return _put(storage, files, writer.finish)


def indexed_keys(state: TableState) -> Iterator[KeysOfRun]:
    """The keys of a table's record index, for a run of all base files of the snapshot.

    Raises:
        CorruptFileError: the index is damaged, or names a file group that is not there.
    """
    assert state.metadata is not None
    files = state.snapshot.files
    known = {(file.partition_path, file.file_id): place for place, file in enumerate(files)}
    for shard in state.metadata.shards(RECORD_INDEX):
        name = shard.slice.file_id
        for keys, values in shard.batches():
            codes, found = location_codes(values, name)
            named = zip(*(found[c].to_pylist() for c in ("partition_path", "file_id")), strict=True)
            places = np.array([known.get(location, -1) for location in named], np.int32)
            if (places < 0).any():
                raise CorruptFileError(name, 0, "it names a file group that is not there")
            yield keys, places[codes], None


def merge_hash_runs(
    storage: Storage,
    runs: Sequence[FilesOfRun],
    places: Sequence[npt.NDArray[np.int64]],
    files: Sequence[CoveredFile],
) -> None:
    """Put the run that others become, a part of their hashes at a time.

    Args:
        storage: of the table.
        runs: the runs.
        places: by run, for each of its files its place among `files`; -1 for one that is left out.
        files: the base files that the merged run covers.

    Raises:
        CorruptFileError: a run is damaged.
    """
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(CompactFile.open(storage.open(run.path))) for run in runs]
        bits = max(place_bits(len(files)), *(file.bits for file in opened))
        low = np.uint64(bits)

        def part(number: int) -> Words:
            found = []
            for file, moved in zip(opened, places, strict=True):
                words, before = file.part(number)
                new = moved[before >> STRETCH_BITS]
                kept = new >= 0
                after = new[kept] << STRETCH_BITS | before[kept] & UNKNOWN_STRETCH
                found.append(words[kept] >> low << low | after.astype(np.uint64))
            return np.unique(np.concatenate(found))

        names = [_name(file) for file in files]
        _put(storage, files, lambda append: write_file(append, names, bits, part))


def _name(file: CoveredFile) -> str:
    return json.dumps([file.partition_path, file.name, file.before])


def _put(storage: Storage, files: Sequence[CoveredFile], write: _Write) -> FilesOfRun:
    spool = Spool("a run of an index", _MEMORY)
    entries = write(spool.write)
    path = f"{HASH_RUNS}/{secrets.token_hex(16)}{COMPACT}"
    storage.put(path, spool.content())
    return FilesOfRun(path, tuple(files), entries, spool.tell())


@dataclass(frozen=True, slots=True)
class HashSearch:
    """Hashes that are looked for in a run."""

    storage: Storage
    path: str
    hashes: Words


def find_hashes(work: HashSearch) -> Candidates:
    """The files of a run that may hold keys of these hashes; a task for a runner.

    Raises:
        CorruptFileError: the run is damaged.
        FileNotFoundError: a writer deleted it.
    """
    with CompactFile.open(work.storage.open(work.path)) as file:
        return file.find(work.hashes)
