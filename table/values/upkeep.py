"""Building indexes of values and keeping them up to date.

    a file whose slice before is covered     a run with the values by which it differs
    any other                                a run with all its values

Runs are part of the commit: those of its base files are put before it is visible. What a write
changed it knows from merging (`changes.py`), as one run; other files are read. After the commit it
takes in what others wrote meanwhile: until then readers open the files that are not covered. Runs
that no current file needs are deleted. Small runs are merged when they are many (`merges.py`). A
chain that has still grown long begins anew, and so does an index of many runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from keymark.indexes.spec import KeyRuns
from keymark.table.errors import CorruptFileError, InputError
from keymark.table.format.compact.writer import Words, hashes_of
from keymark.table.index.stale_index import stale_since
from keymark.table.layout.model import BaseFile
from keymark.table.layout.view import listed_files
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.properties.config import load_config, save_config
from keymark.table.properties.options import RECORD_HASHES, SECONDARY_COLUMNS
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner
from keymark.table.state.table_state import TableState, table_schema
from keymark.table.storage.lease import Lease
from keymark.table.values.changes import ValueChange
from keymark.table.values.cover import Chains
from keymark.table.values.hash_runs import (
    HashSearch,
    find_hashes,
    indexed_keys,
    load_hash_runs,
    put_hash_run,
    runs_of,
)
from keymark.table.values.indexed import Indexed, folder_of, indexed_column, record_keys
from keymark.table.values.merges import Merge, due_merges, merge_of, merge_runs
from keymark.table.values.run_tasks import (
    ROW_BYTES,
    ROWS_PER_RUN,
    FileChange,
    cover_files,
    covered,
    put_values,
    tasks_of,
)
from keymark.table.values.runs import FilesOfRun

# Links of a chain, which merges shorten.
_CHAIN_MAX = 64
# Runs beside those that an index built anew would have.
_RUNS_MAX = 32
# Damaged runs that are replaced one by one; an index with more of them is built anew.
_DAMAGED_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueIndexes:
    """The indexes of values of one table, under its lease: secondary ones, and of record keys.

    Attributes:
        lease: holds the table.
        runner: where base files are read.
        progress: receives how many runs are put.
    """

    lease: Lease
    runner: TaskRunner
    progress: Progress

    def build(self, column: str) -> None:
        """Build the secondary index of a column, anew if there is one.

        A table without rows has no columns yet: its first write builds the index.

        Raises:
            InputError: the table has no such column.
            UnsupportedTableError: its type cannot be indexed.
            CorruptFileError: a base file is damaged.
        """
        state = TableState.load(self.lease.storage)
        if table_schema(state.timeline):
            self._put_anew(state, indexed_column(state, column))
        columns = state.config.secondary_columns
        if column not in columns:
            self._declare(SECONDARY_COLUMNS, ",".join((*columns, column)))

    def build_keys(self, runs: KeyRuns) -> None:
        """Build the index of the record keys, anew if there is one.

        Hashes are made of the record index, where the table has one: that reads no base file.

        Args:
            runs: what its runs hold.

        Raises:
            CorruptFileError: a base file, or the record index, is damaged.
        """
        state = TableState.load(self.lease.storage)
        indexed = record_keys(state.config, runs)
        entered = RECORD_INDEX in state.config.metadata_partitions and stale_since(state) is None
        of_index = indexed.hashed and entered and bool(state.snapshot.files)
        self._put_anew(state, indexed, of_index=of_index)

    def build_beside(self) -> None:
        """Build hashes of the record keys beside the table's record index, and keep them from now.

        Raises:
            CorruptFileError: the record index is damaged.
        """
        self.build_keys("hashes")
        self._declare(RECORD_HASHES, "true")

    def drop_beside(self) -> None:
        """Give up what stands beside the table's record index, and delete it."""
        self._declare(RECORD_HASHES, "")
        self.drop_keys("hashes")

    def drop(self, column: str) -> None:
        """Give the secondary index of a column up and delete its files.

        Raises:
            InputError: there is none.
        """
        columns = load_config(self.lease.storage).secondary_columns
        if column not in columns:
            known = ", ".join(columns) or "none"
            raise InputError(f"no secondary index on {column!r}; there are indexes on: {known}")
        self._declare(SECONDARY_COLUMNS, ",".join(name for name in columns if name != column))
        self.lease.storage.delete_tree(folder_of(column))

    def drop_keys(self, runs: KeyRuns) -> None:
        """Delete the index of the record keys whose runs hold that."""
        config = load_config(self.lease.storage)
        self.lease.storage.delete_tree(record_keys(config, runs).folder)

    def take_in_columns(self, state: TableState, noted: Sequence[ValueChange] = ()) -> None:
        """Bring every secondary index up to date with a table's current base files.

        Args:
            state: the table, after the write.
            noted: changes that are known; others are read from the base files.

        Raises:
            InputError, UnsupportedTableError: an index is on a column that can have none.
            CorruptFileError: a base file is damaged.
        """
        # Before the first row, and after it was taken back, there are no columns.
        for column in state.config.secondary_columns if state.snapshot.files else ():
            self._take_in(state, indexed_column(state, column), noted)

    def take_in_keys(self, state: TableState, noted: Sequence[ValueChange] = ()) -> None:
        """Bring the index of the record keys up to date, as `take_in_columns` does others."""
        self._take_in(state, record_keys(state.config, state.config.key_runs), noted)

    def stage(
        self,
        state: TableState,
        indexed: Sequence[Indexed],
        files: Sequence[BaseFile],
        noted: Sequence[ValueChange],
    ) -> None:
        """Put the runs of a commit's base files, before it is visible.

        If it never is, they are not used, and a later write deletes them. Damage stops no
        write: files that get no run here get one after the commit.

        Args:
            state: the table before the commit.
            indexed: all that is indexed in its rows.
            files: the base files of the commit.
            noted: changes that are known; others are read from the base files.
        """
        ordered = sorted(files, key=lambda file: (file.partition_path, file.file_id))
        for each in indexed if files else ():
            with contextlib.suppress(CorruptFileError):
                chains = Chains.of(runs_of(state.storage, each))
                self._cover(state, each, ordered, chains=chains, noted=noted)

    def erase(self, keys: pa.Array) -> None:
        """Take keys that no current row has out of every index.

        Indexes of values are built anew. Of runs of hashes those are that hold a hash of the keys.
        """
        config = load_config(self.lease.storage)
        for column in config.secondary_columns:
            self.build(column)
        if config.key_runs == "keys":
            self.build_keys(config.key_runs)
        elif config.key_runs == "hashes":
            self._erase_hashes(hashes_of(keys))

    def _erase_hashes(self, hashes: Words) -> None:
        state = TableState.load(self.lease.storage)
        indexed = record_keys(state.config, "hashes")
        try:
            self._renew(state, indexed, hashes)
        except CorruptFileError:
            # The content of a damaged run is unknown.
            self._put_anew(state, indexed)

    def _renew(self, state: TableState, indexed: Indexed, hashes: Words) -> None:
        """Renew the runs that hold a hash, and what they say about the files that it leads to."""
        runs = load_hash_runs(state.storage)
        works = [HashSearch(state.storage, run.path, hashes) for run in runs]
        found = self.runner.run(find_hashes, works, weights=[run.size for run in runs])
        held = {n: set(each.groups.tolist()) for n, each in enumerate(found) if len(each.groups)}
        chains = Chains.of(runs)
        named: list[BaseFile] = []
        kept: list[BaseFile] = []
        for file in state.snapshot.files:
            links = chains.of_file(file.partition_path, file.name)
            leads = any(link.file in held.get(link.run, ()) for link in links)
            (named if leads else kept).append(file)
        self._put(state, indexed, [FileChange(file, None) for file in named])
        self._merge([merge_of(state.storage, indexed, runs, chosen=[n], files=kept) for n in held])

    def _take_in(self, state: TableState, indexed: Indexed, noted: Sequence[ValueChange]) -> None:
        """Cover what is not covered, and tidy up.

        A damaged run is deleted, and the files that it covered are covered again: a power cut tears
        runs that were put after the last commit.
        """
        for _ in range(_DAMAGED_MAX):
            try:
                self._cover_and_tidy(state, indexed, noted)
            except CorruptFileError as error:
                if not error.name.startswith(f"{indexed.folder}/"):
                    raise
                self._delete([error.name])
            else:
                return
        self._put_anew(state, indexed)

    def _cover_and_tidy(
        self, state: TableState, indexed: Indexed, noted: Sequence[ValueChange]
    ) -> None:
        runs = runs_of(state.storage, indexed)
        chains = Chains.of(runs)
        uncovered = [
            file
            for file in state.snapshot.files
            if not chains.of_file(file.partition_path, file.name)
        ]
        if not indexed.hashed and len(runs) > _RUNS_MAX + 2 * _runs_anew(state):
            self._put_anew(state, indexed)
            return
        new = self._cover(state, indexed, uncovered, chains=chains, noted=noted)
        self._tidy(state, indexed, runs, new)

    def _cover(
        self,
        state: TableState,
        indexed: Indexed,
        files: Sequence[BaseFile],
        *,
        chains: Chains,
        noted: Sequence[ValueChange],
    ) -> list[FilesOfRun]:
        """Put runs of files that are not covered: one of all that is noted, others of the rest."""
        known = {change.file.path: change for change in noted if change.column == indexed.column}
        in_notes: list[ValueChange] = []
        unknown: list[BaseFile] = []
        for file in files:
            change = known.get(file.path)
            if change is not None and _continues(change, chains):
                in_notes.append(change)
            else:
                unknown.append(file)
        new: list[FilesOfRun] = []
        if in_notes:
            values = ((change.came, change.gone, change.rows) for change in in_notes)
            new.append(put_values(state.storage, indexed, covered(in_notes), values))
        if unknown:
            new += self._put(state, indexed, _changes(state, unknown, chains))
        return new

    def _put_anew(self, state: TableState, indexed: Indexed, *, of_index: bool = False) -> None:
        """Put runs with all values of all current base files in place of those that are there.

        Args:
            state: the table.
            indexed: what is indexed.
            of_index: whether hashes are made of the record index, which reads no base file.
        """
        old = [status.path for status in state.storage.list(indexed.folder)]
        changes = [FileChange(file, None) for file in state.snapshot.files]
        if of_index:
            new = [put_hash_run(state.storage, covered(changes), indexed_keys(state))]
        else:
            new = self._put(state, indexed, changes)
        self._delete(old)
        if indexed.hashed:
            self._tidy(state, indexed, new, [])

    def _tidy(
        self,
        state: TableState,
        indexed: Indexed,
        runs: Sequence[FilesOfRun],
        new: Sequence[FilesOfRun],
    ) -> None:
        """Delete the runs that are not needed, and merge small ones, if they are many.

        Those that are new since the others were loaded are left as they are.
        """
        useless = set(_useless(state, [*runs, *new]))
        self._delete(sorted(useless))
        left = [run for run in runs if run.path not in useless]
        every, files = [*left, *new], state.snapshot.files
        self._merge(
            [
                merge_of(state.storage, indexed, every, chosen=members, files=files)
                for members in due_merges(left, hashed=indexed.hashed)
            ]
        )

    def _merge(self, merges: Sequence[Merge]) -> None:
        """Put merged runs, then delete those that they are made of."""
        if merges:
            weights = [merge.weight for merge in merges]
            steps = ProgressRunner(self.runner, self.progress, "merges")
            steps.run(merge_runs, merges, weights=weights)
            self._delete([run.path for merge in merges for run in merge.runs])

    def _put(
        self, state: TableState, indexed: Indexed, changes: Sequence[FileChange]
    ) -> list[FilesOfRun]:
        """Put runs of base files that are read."""
        tasks = tasks_of(state, indexed, changes)
        weights = [sum(change.file.size for change in task.changes) for task in tasks]
        steps = ProgressRunner(self.runner, self.progress, "runs")
        return steps.run(cover_files, tasks, weights=weights)

    def _declare(self, entry: str, text: str) -> None:
        """Say in hoodie.properties which indexes there are; "" for none."""
        storage = self.lease.storage
        properties = {**load_config(storage).properties, entry: text}
        if not text:
            del properties[entry]
        with self.lease.fenced():
            save_config(storage, properties)

    def _delete(self, paths: Sequence[str]) -> None:
        """Delete runs, unless another writer took the table: it may need them.

        What was put in their place survives a power cut first.
        """
        if not paths:
            return
        self.lease.storage.sync()
        self.lease.check()
        for path in paths:
            self.lease.storage.delete(path)


def _continues(change: ValueChange, chains: Chains) -> bool:
    """Whether a change that is known can be a link: a chain that is not too long leads there."""
    if change.before is None:
        return True
    links = chains.of_file(change.before.partition_path, change.before.name)
    return 0 < len(links) < _CHAIN_MAX


def _changes(state: TableState, uncovered: Sequence[BaseFile], chains: Chains) -> list[FileChange]:
    """Files that are not covered, each with the newest covered slice before it.

    Where its chain has grown long, the file gets all its values.
    """
    slices: dict[tuple[str, str], list[BaseFile]] = {
        (file.partition_path, file.file_id): [] for file in uncovered
    }
    for file in listed_files(state.listing):
        if (group := (file.partition_path, file.file_id)) in slices:
            slices[group].append(file)
    found = []
    for file in uncovered:
        before, length = None, 0
        for older in slices[file.partition_path, file.file_id]:
            links = len(chains.of_file(file.partition_path, older.name))
            newer = before is None or older.instant_time > before.instant_time
            if links and newer and older.instant_time < file.instant_time:
                before, length = older, links
        found.append(FileChange(file, before if length < _CHAIN_MAX else None))
    return found


def _runs_anew(state: TableState) -> int:
    """About how many runs an index built anew has."""
    row_bytes = state.average_record_bytes() or ROW_BYTES
    return 1 + int(sum(file.size for file in state.snapshot.files) / row_bytes / ROWS_PER_RUN)


def _useless(state: TableState, runs: Sequence[FilesOfRun]) -> list[str]:
    """The paths of runs that no current base file needs, and that are not of a later commit."""
    chains = Chains.of(runs)
    needed = {
        link.run
        for file in state.snapshot.files
        for link in chains.of_file(file.partition_path, file.name)
    }
    latest = max(state.timeline.commit_times(), default="")
    return [
        run.path
        for number, run in enumerate(runs)
        if number not in needed and all(file.instant_time <= latest for file in run.files)
    ]
