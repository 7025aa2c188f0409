"""Merging runs, so that there are few of them and chains stay short.

    run 1   f_t1, before ""     a b c
    run 2   f_t2, before t1     + d    - a
    run 3   f_t3, before t2     + a    - d    + e
    merged  f_t3, before ""     a b c e

Links that follow each other in a chain become one. What no chain of a current base file needs is
left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.layout.model import BaseFile
from keymark.table.storage.storage import Storage
from keymark.table.values.cover import Chains
from keymark.table.values.hash_runs import merge_hash_runs
from keymark.table.values.indexed import Indexed
from keymark.table.values.runs import (
    CoveredFile,
    FilesOfRun,
    Run,
    entry_schema,
    files_of_entries,
    groups_of_files,
    put_run,
    read_rows,
)

# Runs that wait for others to be merged with, and how many are merged at once. A run that was
# merged waits until others are as large, so that an entry is written about once each time that
# runs grow by this factor.
_VALUE_RUNS_MAX = 8
_HASH_RUNS_MAX = 16
_MERGED_AT_ONCE = 9
# Larger runs are no longer merged, and not counted: a merge has all entries of runs of values in
# memory, and some stores take a file from memory.
_LARGEST_ENTRIES = 1 << 19
_LARGEST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Merge:
    """Runs that become one.

    Attributes:
        storage: of the table.
        indexed: what they are of.
        runs: those to be merged.
        files: the base files that the merged run covers.
        places: by run, for each of its files its place among these; -1 for one that no chain needs.
    """

    storage: Storage
    indexed: Indexed
    runs: tuple[FilesOfRun, ...]
    files: tuple[CoveredFile, ...]
    places: tuple[npt.NDArray[np.int64], ...]

    @property
    def weight(self) -> int:
        """Bytes of work, for a runner."""
        return sum(run.size for run in self.runs)


def due_merges(runs: Sequence[FilesOfRun], *, hashed: bool) -> list[list[int]]:
    """Numbers of runs that are to become one each, so that few are left: the smallest.

    Args:
        runs: all runs.
        hashed: whether they are of hashes.
    """
    most, largest = _VALUE_RUNS_MAX, _LARGEST_ENTRIES
    sizes = [run.entries for run in runs]
    if hashed:
        most, largest = _HASH_RUNS_MAX, _LARGEST_BYTES
        sizes = [run.size for run in runs]
    waiting = [(size, [number]) for number, size in enumerate(sizes) if size < largest]
    heapq.heapify(waiting)
    merged = []
    while len(waiting) > most:
        parts = [heapq.heappop(waiting) for _ in range(min(_MERGED_AT_ONCE, len(waiting)))]
        size, members = sum(size for size, _ in parts), [n for _, each in parts for n in each]
        if size < largest:
            heapq.heappush(waiting, (size, members))
        else:
            merged.append(members)
    return merged + [members for _, members in waiting if len(members) > 1]


def merge_of(
    storage: Storage,
    indexed: Indexed,
    runs: Sequence[FilesOfRun],
    *,
    chosen: Sequence[int],
    files: Sequence[BaseFile],
) -> Merge:
    """The merge of some runs.

    Args:
        storage: of the table.
        indexed: what the runs are of.
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
    return Merge(storage, indexed, members, tuple(covered), tuple(places.values()))


def merge_runs(work: Merge) -> None:
    """Put the run that others become; a task for a runner.

    Nothing is put where it would cover no base file.

    Raises:
        CorruptFileError: a run is damaged.
    """
    if not work.files:
        return
    if work.indexed.hashed:
        merge_hash_runs(work.storage, work.runs, work.places, work.files)
        return
    kind = work.indexed.kind
    schema = entry_schema(kind)
    parts = [schema.empty_table()]
    for run, places in zip(work.runs, work.places, strict=True):
        assert isinstance(run, Run)
        if groups := groups_of_files(run, np.flatnonzero(places >= 0)):
            entries = read_rows(work.storage, run, kind, groups)
            moved = places[files_of_entries(run, entries)]
            entries = entries.set_column(1, schema.field("file"), pa.array(moved, pa.int32()))
            parts.append(entries.filter(pa.array(moved >= 0)))
    put_run(work.storage, work.indexed, work.files, _net(pa.concat_tables(parts)))


def _net(entries: pa.Table) -> pa.Table:
    """What the entries of links that follow each other come to.

    A value comes to a file and goes from it in turns. What did both is as it was before.
    """
    steps = pc.if_else(entries["gone"], -1, 1)
    grouped = entries.set_column(2, "step", steps).group_by(["value", "file"])
    summed = grouped.aggregate([("step", "sum")])
    summed = summed.filter(pc.not_equal(summed["step_sum"], 0))
    gone = pc.less(summed["step_sum"], 0)
    return pa.table([summed["value"], summed["file"], gone], schema=entries.schema)
