"""Runs of hashes: compact index files that say which base files may hold a record key.

    .hoodie/.keymark/hashes/<name>.compact     a run: hashes of the keys of some base files

The name of each file group in it is JSON: [partition path, name of a base file, name of the slice
before or ""]. As in a run of values (`runs.py`), a file without a slice before it has the hashes of
all its keys in the run; any other those of the keys that came since that slice. Keys that went are
not noted: a run says where a key may be, and whoever relies on it looks there.

Runs are merged when there are many. Links that follow each other in a chain become one.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.compact.reader import Candidates, CompactFile
from keymark.table.format.compact.writer import (
    COMPACT,
    CompactWriter,
    Words,
    group_bits,
    write_file,
)
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import HASH_RUNS
from keymark.table.storage.spool import Spool
from keymark.table.storage.storage import Storage
from keymark.table.values.cover import Chains
from keymark.table.values.indexed import Indexed
from keymark.table.values.runs import CoveredFile, FilesOfRun, Run, load_all, load_runs

# A run in memory before it is put; a larger one is in a local file.
_MEMORY = 64 << 20
# Runs that there may be, and how many are merged at once. A run that was merged waits until others
# are as large, so that an entry is written about once each time that runs grow by this factor.
_RUNS_MAX = 16
_MERGED_AT_ONCE = 9
# Larger runs are merged no more, and not counted: some stores take a file from memory.
_LARGEST = 256 << 20


@dataclass(frozen=True, slots=True)
class HashRun(FilesOfRun):
    """A run of hashes: how many, and its bytes."""

    entries: int
    size: int


def runs_of(storage: Storage, indexed: Indexed) -> Sequence[Run | HashRun]:
    """The runs of what is indexed.

    Raises:
        CorruptFileError: a run is damaged.
    """
    return load_hash_runs(storage) if indexed.hashed else load_runs(storage, indexed.folder)


def load_hash_runs(storage: Storage) -> list[HashRun]:
    """The runs of hashes.

    Raises:
        CorruptFileError: a run is damaged.
    """
    return load_all(storage, HASH_RUNS, COMPACT, _load)


def _load(storage: Storage, path: str) -> HashRun:
    with CompactFile.open(storage.open(path)) as file:
        entries, names = file.entries, file.groups
        size = file.source.size
    try:
        listed = json.loads(f"[{','.join(names)}]")
        files = tuple(CoveredFile(*map(str, entry)) for entry in listed)
    except (TypeError, ValueError) as error:
        raise CorruptFileError(path, 0, f"not a run of an index: {error!r}") from error
    if len(files) != len(names):
        raise CorruptFileError(path, 0, f"{len(files)} base files under {len(names)} names")
    return HashRun(path, files, entries, size)


def put_hash_run(
    storage: Storage, files: Sequence[CoveredFile], keys: Iterable[tuple[int, pa.Array]]
) -> None:
    """Put a run.

    Args:
        storage: of the table.
        files: the base files that it tells of.
        keys: places of files and keys of theirs.
    """
    writer = CompactWriter([_name(file) for file in files])
    for place, some in keys:
        writer.add(some, np.full(len(some), place, np.int32))
    spool = Spool("a run of an index", _MEMORY)
    writer.finish(spool.write)
    _put(storage, spool)


def _name(file: CoveredFile) -> str:
    return json.dumps([file.partition_path, file.name, file.before])


def _put(storage: Storage, spool: Spool) -> None:
    storage.put(f"{HASH_RUNS}/{secrets.token_hex(16)}{COMPACT}", spool.content())


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


@dataclass(frozen=True, slots=True)
class Merge:
    """Runs that become one.

    Attributes:
        storage: of the table.
        runs: those to be merged.
        files: the base files that the merged run tells of.
        places: by run, for each of its files its place among these; -1 for one that no chain needs.
    """

    storage: Storage
    runs: tuple[HashRun, ...]
    files: tuple[CoveredFile, ...]
    places: tuple[npt.NDArray[np.int64], ...]

    @property
    def weight(self) -> int:
        """Bytes of work, for a runner."""
        return sum(run.size for run in self.runs)


def due_merges(runs: Sequence[HashRun]) -> list[list[int]]:
    """Numbers of runs that are to become one each, so that few are left: the smallest."""
    waiting = [(run.size, [number]) for number, run in enumerate(runs) if run.size < _LARGEST]
    heapq.heapify(waiting)
    merged = []
    while len(waiting) > _RUNS_MAX:
        parts = [heapq.heappop(waiting) for _ in range(min(_MERGED_AT_ONCE, len(waiting)))]
        size, members = sum(size for size, _ in parts), [n for _, each in parts for n in each]
        if size < _LARGEST:
            heapq.heappush(waiting, (size, members))
        else:
            merged.append(members)
    return merged + [members for _, members in waiting if len(members) > 1]


def merge_of(
    storage: Storage, runs: Sequence[HashRun], chosen: Sequence[int], files: Sequence[BaseFile]
) -> Merge:
    """The merge of some runs.

    Args:
        storage: of the table.
        runs: all runs.
        chosen: the numbers of those to be merged.
        files: the base files whose chains are kept.
    """
    chains = Chains.of(runs)
    covered: list[CoveredFile] = []
    places = {number: np.full(len(runs[number].files), -1) for number in chosen}
    for file in files:
        follows = False
        for link in chains.of_file(file.partition_path, file.name):
            if link.run not in places:
                follows = False
                continue
            name = runs[link.run].files[link.file].name
            if follows:
                covered[-1] = replace(covered[-1], name=name)
            else:
                covered.append(CoveredFile(file.partition_path, name, link.before))
            places[link.run][link.file] = len(covered) - 1
            follows = True
    members = tuple(runs[number] for number in chosen)
    return Merge(storage, members, tuple(covered), tuple(places.values()))


def merge_runs(work: Merge) -> None:
    """Put the run that others become, a part of their hashes at a time; a task for a runner.

    Nothing is put where it would tell of no base file.

    Raises:
        CorruptFileError: a run is damaged.
    """
    if not work.files:
        return
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(CompactFile.open(work.storage.open(run.path))) for run in work.runs
        ]
        bits = max(group_bits(len(work.files)), *(file.bits for file in opened))
        low = np.uint64(bits)

        def part(number: int) -> Words:
            found = []
            for file, places in zip(opened, work.places, strict=True):
                words, groups = file.part(number)
                new = places[groups]
                kept = new >= 0
                found.append(words[kept] >> low << low | new[kept].astype(np.uint64))
            return np.unique(np.concatenate(found))

        spool = Spool("a run of an index", _MEMORY)
        write_file(spool.write, [_name(file) for file in work.files], bits, part)
    _put(work.storage, spool)
