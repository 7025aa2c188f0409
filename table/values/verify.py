"""Comparing an index of values with the base files that it covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from keymark.table.errors import SnapshotExpiredError
from keymark.table.format.compact.writer import hashes_of
from keymark.table.layout.model import BaseFile
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.values.cover import Chains, Cover, no_entries, present
from keymark.table.values.hash_runs import HashSearch, find_hashes, load_hash_runs
from keymark.table.values.indexed import Indexed
from keymark.table.values.runs import Run, ask_again, groups_of_files, load_runs, read_rows


@dataclass(frozen=True, slots=True)
class CoveredFiles:
    """Base files whose chains begin in one run; `runs` are all that their chains go through."""

    storage: Storage
    indexed: Indexed
    files: tuple[BaseFile, ...]
    runs: tuple[Run, ...]

    @property
    def weight(self) -> int:
        """Bytes of work, for a runner."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class WrongFile:
    """A base file of which an index has not exactly the values.

    Attributes:
        path: of the file.
        missing: how many of its values the index lacks.
        extra: how many the index has and the file has not.
    """

    path: str
    missing: int
    extra: int


def wrong_files(
    state: TableState, indexed: Indexed, files: Sequence[BaseFile], runner: TaskRunner
) -> list[WrongFile]:
    """The base files whose values an index does not have exactly.

    Files that no run covers are read anyway: they are not wrong. Runs of hashes may say more than
    is there: a file is wrong where they lack a key.

    Raises:
        CorruptFileError: a run or a base file is damaged.
        SnapshotExpiredError: writers deleted runs each time that they were read.
    """
    compare = _compare_hashes if indexed.hashed else _compare_values
    found = ask_again(partial(compare, state.storage, indexed, files, runner))
    if found is None:
        raise SnapshotExpiredError(
            f"{indexed.folder}: writers replaced runs during each comparison: check the table "
            "while nobody writes"
        )
    return found


def _compare_hashes(
    storage: Storage, indexed: Indexed, files: Sequence[BaseFile], runner: TaskRunner
) -> list[WrongFile]:
    works = hashed_files(storage, indexed, files)
    missing = runner.run(count_missing, works, weights=[work.file.size for work in works])
    return [
        WrongFile(work.file.path, count, 0)
        for work, count in zip(works, missing, strict=True)
        if count
    ]


def _compare_values(
    storage: Storage, indexed: Indexed, files: Sequence[BaseFile], runner: TaskRunner
) -> list[WrongFile]:
    works = covered_files(storage, indexed, files)
    weights = [work.weight for work in works]
    found = runner.run(compare_values, works, weights=weights, packed=False)
    return [wrong for part in found for wrong in part]


def covered_files(
    storage: Storage, indexed: Indexed, files: Sequence[BaseFile]
) -> list[CoveredFiles]:
    """The base files that runs cover, by the run in which their chains begin.

    That bounds what a task holds in memory.
    """
    runs = load_runs(storage, indexed.folder)
    chains = Chains.of(runs)
    begun: dict[int, list[BaseFile]] = {}
    through: dict[int, set[int]] = {}
    for file in files:
        chain = chains.of_file(file.partition_path, file.name)
        if chain:
            begun.setdefault(chain[0].run, []).append(file)
            through.setdefault(chain[0].run, set()).update(link.run for link in chain)
    return [
        CoveredFiles(
            storage=storage,
            indexed=indexed,
            files=tuple(members),
            runs=tuple(runs[number] for number in sorted(through[first])),
        )
        for first, members in begun.items()
    ]


def indexed_values(work: CoveredFiles) -> pa.Table:
    """The values that an index has of covered files: group, the number of the file, and value."""
    kind = work.indexed.kind
    cover = Cover.of(work.files, work.runs)
    entries = [no_entries(kind)]
    for number, run in enumerate(work.runs):
        if groups := groups_of_files(run, cover.files_of(number)):
            rows = read_rows(work.storage, run, kind, groups)
            entries.append(cover.placed(number, rows))
    return present(pa.concat_tables(entries))


def compare_values(work: CoveredFiles) -> list[WrongFile]:
    """The files that differ; a task for a runner."""
    indexed = indexed_values(work)
    stored = [indexed.schema.empty_table()]
    for number, file in enumerate(work.files):
        values = work.indexed.distinct(work.storage, file)
        groups = pa.repeat(pa.scalar(number, pa.int64()), len(values))
        stored.append(pa.table([groups, values], schema=indexed.schema))
    # A pair of file and value is once among those indexed and once among those stored.
    pairs = pa.concat_tables([indexed, *stored])
    sides = np.ones(pairs.num_rows, np.int64)
    sides[indexed.num_rows :] = 2
    sums = pairs.append_column("sides", pa.array(sides)).group_by(["group", "value"])
    sums = sums.aggregate([("sides", "sum")])
    group, side = sums["group"].to_numpy(), sums["sides_sum"].to_numpy()
    extra, missing = (
        np.bincount(group[side == number], minlength=len(work.files)) for number in (1, 2)
    )
    return [
        WrongFile(file.path, int(missing[number]), int(extra[number]))
        for number, file in enumerate(work.files)
        if missing[number] or extra[number]
    ]


@dataclass(frozen=True, slots=True)
class HashedFile:
    """A base file that runs of hashes cover.

    `links` are the paths of the runs of its chain, each with its place among the run's files.
    """

    storage: Storage
    indexed: Indexed
    file: BaseFile
    links: tuple[tuple[str, int], ...]


def hashed_files(storage: Storage, indexed: Indexed, files: Sequence[BaseFile]) -> list[HashedFile]:
    """The base files that runs of hashes cover."""
    runs = load_hash_runs(storage)
    chains = Chains.of(runs)
    found = []
    for file in files:
        chain = chains.of_file(file.partition_path, file.name)
        if chain:
            links = tuple((runs[link.run].path, link.file) for link in chain)
            found.append(HashedFile(storage, indexed, file, links))
    return found


def count_missing(work: HashedFile) -> int:
    """How many keys of a file its runs lack; a task for a runner."""
    hashes = hashes_of(work.indexed.distinct(work.storage, work.file))
    missing = np.ones(len(hashes), bool)
    for path, place in work.links:
        found = find_hashes(HashSearch(work.storage, path, hashes))
        missing[found.rows[found.groups == place]] = False
    return int(missing.sum())
