"""The record index of each partition: a lookup of each key in the runs of its partition path.

    runs      which base files hold a key, one partition path after the other (table/values)
    asked     keys -> the blocks (row groups) of the runs that are of their partition paths
    the rest  base files that no run covers, as after a write of Hudi's: their keys are read

A key is looked for in one partition path. Asked without it, it is looked for in all of them. A run
that is damaged, or that a writer replaced meanwhile, costs the reading of files and no answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keymark.indexes.partitioned_record.spec import SPEC
from keymark.indexes.shared.damage import warn_of_damage
from keymark.indexes.shared.frame_join import join_keys
from keymark.indexes.shared.key_scan import file_weight, first_of_each, locations, search_files
from keymark.indexes.shared.lookup_index import LookupIndex
from keymark.indexes.shared.scope import Scope, scopes
from keymark.indexes.spec import IndexSpec
from keymark.table.errors import CorruptFileError
from keymark.table.index.protocol import IndexContext
from keymark.table.layout.naming import KEY_RUNS
from keymark.table.properties.config import KEY_COLUMN
from keymark.table.read.predicate import Comparison, Operator
from keymark.table.runtime.runner import quiet_worker
from keymark.table.storage.storage import Storage
from keymark.table.values.comparing import groups_to_read
from keymark.table.values.cover import Cover, no_entries, present
from keymark.table.values.indexed import record_keys
from keymark.table.values.runs import Run, ask_again, groups_of_files, load_runs, read_rows
from keymark.table.values.verify import CoveredFiles, covered_files, indexed_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Half a million entries: a task of some tens of milliseconds.
_BLOCKS_PER_TASK = 8
# Fewer keys are compared with the ends of each block one by one.
_KEYS_COMPARED = 100
_KIND = pa.string()

_Numbers = npt.NDArray[np.int64]
_NOTHING: _Numbers = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RunSearch:
    """Keys that some blocks of a run may have entries of."""

    storage: Storage
    run: Run
    blocks: tuple[int, ...]
    keys: pa.Array

    @property
    def weight(self) -> int:
        """Bytes of work, for a runner: those of the blocks on storage."""
        groups = [self.run.metadata.row_group(block) for block in self.blocks]
        return sum(g.column(n).total_compressed_size for g in groups for n in range(g.num_columns))


def entries_of_keys(work: RunSearch) -> pa.Table:
    """The entries of the keys; a task for a runner.

    Raises:
        CorruptFileError: the run is damaged.
        FileNotFoundError: a writer deleted it.
    """
    entries = read_rows(work.storage, work.run, _KIND, work.blocks)
    return entries.filter(pc.is_in(entries["value"], value_set=work.keys))


class PartitionedRecordIndex(LookupIndex):
    """Partition-local and exact; what its runs do not cover, it reads."""

    spec: ClassVar[IndexSpec] = SPEC
    name: ClassVar[str] = SPEC.name

    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Locate keys by the runs, and by files that these do not cover."""
        asked = scopes(len(keys), context.snapshot, partitions)
        try:
            found = ask_again(partial(_search_runs, keys, asked, context))
        except CorruptFileError as error:
            warn_of_damage(self.name, error, context)
            found = None
        rows, numbers, left = found or (_NOTHING, _NOTHING, asked)
        context.stats.files_read += sum(len(scope.files) for scope in left)
        more_rows, more_numbers = search_files(keys, left, context)
        rows, numbers = np.concatenate([rows, more_rows]), np.concatenate([numbers, more_numbers])
        return locations(first_of_each(len(keys), rows, numbers), context)

    def tag_frame(self, keys: DataFrame, context: IndexContext) -> DataFrame | None:
        """Locate the keys of a large batch; see table.index.protocol.FrameIndex."""
        files = context.snapshot.files
        if not context.runner.distributes(sum(map(file_weight, files))):
            return None
        paths = {row.partition for row in keys.select("partition").distinct().collect()}
        numbers = [number for number, file in enumerate(files) if file.partition_path in paths]
        if not numbers:
            return None
        works = _works_of_files(numbers, context)
        tasks = context.spark().range(0, len(works), 1, len(works))
        read = _ReadKeys(works, {files[number].path: number for number in numbers})
        stored = tasks.mapInArrow(read, "key string, partition string, file int")
        return join_keys(stored, keys, numbers, context, on=["key", "partition"])


def _search_runs(
    keys: pa.Array, asked: Sequence[Scope], context: IndexContext
) -> tuple[_Numbers, _Numbers, list[Scope]]:
    """Row of the key and number of the file for each match, and what is left to be searched.

    Raises:
        CorruptFileError: a run is damaged.
        FileNotFoundError: a writer deleted one meanwhile.
    """
    if not asked:
        return _NOTHING, _NOTHING, []
    files = np.concatenate([np.arange(scope.files.start, scope.files.stop) for scope in asked])
    runs = load_runs(context.storage, KEY_RUNS)
    cover = Cover.of([context.snapshot.files[number] for number in files.tolist()], runs)
    searches = [
        (number, RunSearch(context.storage, run, blocks, keys))
        for number, run in enumerate(runs)
        for blocks in _blocks(run, cover.files_of(number), keys)
    ]
    works = [work for _, work in searches]
    entries = context.runner.run(entries_of_keys, works, weights=[work.weight for work in works])
    context.stats.shards_read += len({number for number, _ in searches})
    context.stats.blocks_decoded += sum(len(work.blocks) for work in works)
    parts = [no_entries(_KIND)]
    for (number, _), part in zip(searches, entries, strict=True):
        parts.append(cover.placed(number, part))
    held = present(pa.concat_tables(parts))
    places = files[held["group"].to_numpy()]
    rows, numbers = _matches(keys, asked, held["value"].combine_chunks(), places)
    return rows, numbers, _uncovered(asked, files[cover.uncovered])


def _blocks(run: Run, files: _Numbers, keys: pa.Array) -> Iterator[tuple[int, ...]]:
    """The blocks of a run that may have entries of keys for some of its files, a task's each."""
    found = set(groups_of_files(run, files))
    if len(keys) <= _KEYS_COMPARED:
        tests = [Comparison(KEY_COLUMN, Operator.IN, tuple(keys.to_pylist()))]
    else:
        ends = pc.min_max(keys)
        tests = [
            Comparison(KEY_COLUMN, Operator.AT_LEAST, (ends["min"].as_py(),)),
            Comparison(KEY_COLUMN, Operator.AT_MOST, (ends["max"].as_py(),)),
        ]
    for test in tests if found else ():
        found &= set(groups_to_read(run.metadata, test, _KIND))
    blocks = sorted(found)
    for start in range(0, len(blocks), _BLOCKS_PER_TASK):
        yield tuple(blocks[start : start + _BLOCKS_PER_TASK])


def _matches(
    keys: pa.Array, asked: Sequence[Scope], values: pa.Array, places: _Numbers
) -> tuple[_Numbers, _Numbers]:
    """Row of the key and number of the file for each match.

    Args:
        keys: all that are asked.
        asked: which of them are asked in which files.
        values: keys that files hold.
        places: the number of the file of each of the values.
    """
    order = np.argsort(places, kind="stable")
    places = places[order]
    rows, numbers = [_NOTHING], [_NOTHING]
    for scope in asked:
        start, end = np.searchsorted(places, [scope.files.start, scope.files.stop])
        held = values.take(pa.array(order[start:end]))
        hits = pc.index_in(held, value_set=keys.take(pa.array(scope.rows)))
        rows.append(scope.rows[hits.drop_null().to_numpy()])
        numbers.append(places[start:end][pc.is_valid(hits).to_numpy(zero_copy_only=False)])
    return np.concatenate(rows), np.concatenate(numbers)


def _uncovered(asked: Sequence[Scope], files: _Numbers) -> list[Scope]:
    """What is left to be searched: the files that no run covers, each with the keys asked of it."""
    found = []
    for scope in asked:
        start, end = np.searchsorted(files, [scope.files.start, scope.files.stop])
        found += [Scope(scope.rows, range(n, n + 1)) for n in files[start:end].tolist()]
    return found


def _works_of_files(numbers: Sequence[int], context: IndexContext) -> tuple[CoveredFiles, ...]:
    """The files whose keys are to be read: by the runs that cover them, and each of the others."""
    indexed = record_keys(context.config, SPEC.key_runs)
    files = [context.snapshot.files[number] for number in numbers]
    try:
        works = covered_files(context.storage, indexed, files)
    except CorruptFileError as error:
        warn_of_damage(SPEC.name, error, context)
        works = []
    covered = {file.path for work in works for file in work.files}
    others = [file for file in files if file.path not in covered]
    works += [CoveredFiles(context.storage, indexed, (file,), ()) for file in others]
    return tuple(works)


@dataclass(frozen=True, slots=True)
class _ReadKeys:
    """Reads the keys of files for Spark: pieces of work come in by number.

    Attributes:
        works: the pieces of work.
        numbers: of files in the snapshot, by path.
    """

    works: tuple[CoveredFiles, ...]
    numbers: Mapping[str, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quiet_worker()
        for place in (place for batch in batches for place in batch.column(0).to_pylist()):
            work = self.works[place]
            held = _keys_of_files(work)
            paths = pa.array([file.partition_path for file in work.files], pa.string())
            numbers = pa.array([self.numbers[file.path] for file in work.files], pa.int32())
            group = held["group"]
            columns = [held["value"], paths.take(group), numbers.take(group)]
            rows = pa.table(columns, names=["key", "partition", "file"])
            yield from rows.to_batches(max_chunksize=1 << 16)


def _keys_of_files(work: CoveredFiles) -> pa.Table:
    """The keys of files: group, the number of the file among them, and value."""
    if work.runs:
        # Instead of a run that is damaged or gone, the files are read.
        with contextlib.suppress(CorruptFileError, FileNotFoundError):
            return indexed_values(work)
    parts = [no_entries(_KIND).select(["group", "value"])]
    for number, file in enumerate(work.files):
        keys = work.indexed.distinct(work.storage, file)
        groups = pa.repeat(pa.scalar(number, pa.int64()), len(keys))
        parts.append(pa.table([groups, keys], schema=parts[0].schema))
    return pa.concat_tables(parts)
