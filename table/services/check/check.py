"""The check: a table compared with itself, whatever index it has.

files          the listing against storage, and against what the active commits wrote
rows           each base file alone (`check_files.py`)
keys           the record index against the data by digests, and key by key where these differ
               (`check_index.py`); without one, whether keys are in one row only (`check_keys.py`)
records        `column_stats` and `bloom_filters` against the footers (`check_records.py`)
values         the secondary indexes against the columns, and runs of record keys against the keys
               (`table/values/verify.py`)
pending work   what was begun and not completed (`pending.py`) explains some differences: exactly
               these are no damage

Reading a shard checks its blocks: checksums, key order, that each block holds the keys that its
index says. A check holds no lease and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from keymark.indexes.installed import of_key_runs
from keymark.table.errors import CorruptFileError, MissingFileError, SnapshotExpiredError
from keymark.table.format.hashes.digest import total
from keymark.table.index.protocol import load_index, spec_of
from keymark.table.index.stale_index import stale_since
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import (
    HOODIE,
    PROPERTIES,
    bucket_of,
    is_bucket_file_id,
    parse_base_file,
)
from keymark.table.metadata.partitions import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX
from keymark.table.properties.config import load_config
from keymark.table.properties.options import TASK_MEMORY, Options
from keymark.table.runtime.runner import Progress, ProgressRunner, TaskRunner
from keymark.table.services.check.files import FileCheck, FileFacts, check_file
from keymark.table.services.check.index import count_differences
from keymark.table.services.check.keys import KeyCheckScan
from keymark.table.services.check.pending import PendingWork, pending_work
from keymark.table.services.check.records import compare_records
from keymark.table.services.check.verify_index import index_digests
from keymark.table.services.index.builds import partitions_without_files
from keymark.table.state.table_state import TableState
from keymark.table.state.uncommitted import uncommitted_files
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import FileStatus, Storage
from keymark.table.timeline.timeline import COMMIT_ACTIONS
from keymark.table.values.indexed import indexed_column, record_keys
from keymark.table.values.verify import WrongFile, wrong_files

_LOOKS = 3
_PATHS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What was compared, and counts of each kind of difference.

    Attributes:
        keys: in the data.
        missing: keys that the index lacks: the record index, or runs of the record keys.
        extra: keys in the index only.
        wrong: keys that the record index has in another file group, or in a shard that their hash
            does not name.
        duplicate: keys in more than one place of the data; with an index that looks in one
            partition, in more than one row of a partition.
        shards: numbers of the shards of the record index that differ.
        digest: of all keys and their places in the data.
        files_missing: files that are listed in the metadata table, or that the latest commit of
            their file group wrote, and that are not on storage with that size.
        files_unlisted: files that are committed and on storage, but not listed.
        files_uncommitted: files that are listed, and that no completed commit wrote.
        files_late: files that are not listed, and whose instant was never completed: a writer that
            lost the table put them. The next write deletes them; until then other readers may
            count them.
        misplaced: rows in a file of another bucket or partition path.
        key_ranges_wrong: files with a key outside of the key range in their footer.
        bloom_filters_wrong: files with a key that the bloom filter in their footer lacks.
        column_stats_wrong: records of column_stats that are not what the footer says.
        bloom_records_wrong: records of bloom_filters that are not what the footer says.
        secondary_wrong: files of which a secondary index has not exactly the values.
        missing_paths, unlisted_paths, uncommitted_paths, late_paths: the first 20 of these files.
        wrong_paths: the first 20 files that the other counts of files, rows and records concern.
        left_behind: the commit of Apache Hudi after which the record index lacks keys (virtual
            keys).
        compared: what was compared.
        pending: work that was begun and not completed, a line each. What it explains is in no
            count.
    """

    keys: int
    missing: int
    extra: int
    wrong: int
    duplicate: int
    shards: tuple[int, ...] = ()
    digest: str = ""
    files_missing: int = 0
    files_unlisted: int = 0
    files_uncommitted: int = 0
    files_late: int = 0
    misplaced: int = 0
    key_ranges_wrong: int = 0
    bloom_filters_wrong: int = 0
    column_stats_wrong: int = 0
    bloom_records_wrong: int = 0
    secondary_wrong: int = 0
    missing_paths: tuple[str, ...] = ()
    unlisted_paths: tuple[str, ...] = ()
    uncommitted_paths: tuple[str, ...] = ()
    late_paths: tuple[str, ...] = ()
    wrong_paths: tuple[str, ...] = ()
    left_behind: str | None = None
    compared: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """No difference but those that pending work explains."""
        keys = self.missing or self.extra or self.wrong or self.duplicate
        files = self.files_missing or self.files_unlisted or self.files_uncommitted
        rows = self.misplaced or self.key_ranges_wrong or self.bloom_filters_wrong
        records = self.column_stats_wrong or self.bloom_records_wrong or self.secondary_wrong
        return not (keys or self.shards or files or self.files_late or rows or records)


def check_table(  # noqa: PLR0913  a table, where it is read, and what of it is
    storage: Storage,
    index: str,
    options: Options,
    runner: TaskRunner,
    progress: Progress,
    *,
    values: bool = True,
) -> CheckResult:
    """Compare a table with itself.

    Args:
        storage: of the table.
        index: name of its index.
        options: of the table.
        runner: where files are read.
        progress: receives how far it came.
        values: whether indexes of values are compared, too.

    Raises:
        CorruptFileError: a file is damaged, so that its content is unknown.
        SnapshotExpiredError: others changed the table each time it was read.
        StorageError: a file cannot be read.
    """
    for _ in range(_LOOKS):
        state = None
        try:
            state = TableState.load(storage)
            # On a local disk no writer can put that late: there it is damage.
            local = isinstance(storage, LocalStorage)
            without_files = () if local else partitions_without_files(storage, state.config)
            comparison = _Comparison(
                state=_without(state, without_files),
                index=index,
                options=options,
                runner=runner,
                progress=progress,
                values=values,
            )
            result = comparison.run()
            if without_files:
                late = (PROPERTIES, *result.late_paths)
                result = replace(result, files_late=result.files_late + 1, late_paths=late)
        except (CorruptFileError, MissingFileError, SnapshotExpiredError):
            if state is None or not _has_changed(state):
                raise
        else:
            # Files come and go while others write.
            if result.ok or not _has_changed(state):
                return result
    raise SnapshotExpiredError(
        f"{storage.root} changed during each comparison: check it while nobody writes"
    )


def _without(state: TableState, partitions: tuple[str, ...]) -> TableState:
    """The same table without some partitions of its metadata table."""
    named = tuple(name for name in state.config.metadata_partitions if name not in partitions)
    return replace(state, config=replace(state.config, metadata_partitions=named))


def _has_changed(state: TableState) -> bool:
    """Whether somebody changed the table since it was read."""
    if state.timeline.again() != state.timeline or load_config(state.storage) != state.config:
        return True
    metadata = state.metadata
    return metadata is not None and metadata.timeline.again() != metadata.timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileDifferences:
    """Paths of files, sorted; see `CheckResult`."""

    missing: tuple[str, ...]
    unlisted: tuple[str, ...]
    uncommitted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """One reading of a table, compared with its files."""

    state: TableState
    index: str
    options: Options
    runner: TaskRunner
    progress: Progress
    values: bool

    def run(self) -> CheckResult:
        """Compare all that can be compared."""
        state, used = self.state, set(self.state.config.metadata_partitions)
        stored = tuple(state.storage.walk(""))
        bases = {file.path: file for status in stored if (file := _base_file(status))}
        pending = pending_work(state, stored, tuple(bases.values()))
        files = self._compare_files(bases, pending)
        listing = state.listing if state.metadata is not None else None
        late = [file.path for file in uncommitted_files(bases.values(), state.timeline, listing)]
        listed = [
            file
            for partition, names in state.listing.items()
            for name, size in names.items()
            if (file := parse_base_file(partition, name, size)) and bases.get(file.path) == file
        ]
        current = set(state.snapshot.files)
        present = [file for file in listed if file in current]
        shards = 1
        if state.metadata is not None and RECORD_INDEX in used:
            shards = len(state.metadata.slices(RECORD_INDEX))
        works = [self._file_check(file, shards) for file in present]
        steps = ProgressRunner(self.runner, self.progress, "files")
        facts = steps.run(check_file, works, weights=[file.size for file in present])
        second = _second_of_bucket(present) if spec_of(self.index).owns_layout else set()
        misplaced = [
            each.rows if file.path in second else each.misplaced
            for file, each in zip(present, facts, strict=True)
        ]
        wrong = [
            file.path
            for file, each, rows in zip(present, facts, misplaced, strict=True)
            if rows or each.range_lacks or each.filter_lacks
        ]
        records = compare_records(state, listed, self.runner)
        secondary, keys = self._compare_values(present)
        paths = (*wrong, *records.paths, *secondary, *(file.path for file in keys))
        result = CheckResult(
            keys=sum(each.rows for each in facts),
            missing=sum(file.missing for file in keys),
            extra=sum(file.extra for file in keys),
            wrong=0,
            duplicate=0,
            digest=total([total(each.digests) for each in facts]).hex,
            files_missing=len(files.missing),
            files_unlisted=len(files.unlisted),
            files_uncommitted=len(files.uncommitted),
            files_late=len(late),
            misplaced=sum(misplaced),
            key_ranges_wrong=sum(each.range_lacks > 0 for each in facts),
            bloom_filters_wrong=sum(each.filter_lacks > 0 for each in facts),
            column_stats_wrong=records.column_stats,
            bloom_records_wrong=records.bloom_filters,
            secondary_wrong=len(secondary),
            missing_paths=files.missing[:_PATHS_MAX],
            unlisted_paths=files.unlisted[:_PATHS_MAX],
            uncommitted_paths=files.uncommitted[:_PATHS_MAX],
            late_paths=tuple(sorted(late))[:_PATHS_MAX],
            wrong_paths=tuple(dict.fromkeys(paths))[:_PATHS_MAX],
            compared=self._compared(),
            pending=pending.lines,
        )
        if RECORD_INDEX in used:
            return self._with_index(result, present, facts)
        return self._with_keys(result, present)

    def _compare_values(self, files: Sequence[BaseFile]) -> tuple[list[str], list[WrongFile]]:
        """The paths of files of which a secondary index is wrong; those of which runs of keys are.

        Before the first row there are no columns.
        """
        state = self.state
        if not self.values:
            return [], []
        columns = state.config.secondary_columns if files else ()
        secondary = {
            wrong.path
            for column in columns
            for wrong in wrong_files(state, indexed_column(state, column), files, self.runner)
        }
        keys: list[WrongFile] = []
        if runs := state.config.key_runs:
            keys = wrong_files(state, record_keys(state.config, runs), files, self.runner)
        return sorted(secondary), keys

    @property
    def _has_filters(self) -> bool:
        """Whether a reader asks key ranges and bloom filters in footers."""
        config = self.state.config
        asked = spec_of(self.index).reads_filters
        asked = asked or BLOOM_FILTERS in config.metadata_partitions
        return asked and config.stores_meta and not config.virtual_keys

    @property
    def _has_partition_paths(self) -> bool:
        """Whether rows name their partition path."""
        return self.state.config.stores_meta and not self.state.config.virtual_keys

    def _compared(self) -> tuple[str, ...]:
        """What is compared with what, by name."""
        used = self.state.config.metadata_partitions
        names = [
            name for name in (FILES, RECORD_INDEX, COLUMN_STATS, BLOOM_FILTERS) if name in used
        ]
        config = self.state.config
        if self.values:
            names += [f"secondary index on {column}" for column in config.secondary_columns]
        if self.values and config.key_runs:
            names.append(of_key_runs(config.key_runs).name)
        names.append("commits")
        if RECORD_INDEX not in used:
            names.append("unique keys")
        if self._has_partition_paths:
            names.append("partition paths")
        if self._has_filters:
            names += ["key ranges", "filters in footers"]
        if spec_of(self.index).owns_layout:
            names.append("buckets")
        return tuple(names)

    def _file_check(self, file: BaseFile, shards: int) -> FileCheck:
        config = self.state.config
        buckets = None
        spec = spec_of(self.index)
        if spec.owns_layout:
            given = {o.name: self.options.optional(o.name) for o in spec.fixed_options}
            buckets = {name: value for name, value in given.items() if value is not None}
        return FileCheck(
            storage=self.state.storage,
            file=file,
            config=config,
            shards=shards,
            filters=self._has_filters,
            index=self.index,
            buckets=buckets,
            partition_paths=self._has_partition_paths,
        )

    def _compare_files(
        self, bases: Mapping[str, BaseFile], pending: PendingWork
    ) -> _FileDifferences:
        """Compare listing, storage and what commits wrote."""
        timeline = self.state.timeline
        times = {file.instant_time for file in bases.values()}
        # A savepoint has the time of the commit that it keeps.
        begun = {i.time for i in timeline.pending() if i.action in COMMIT_ACTIONS}
        visible = timeline.visible(times) - begun - pending.taken_back
        if self.state.metadata is None:
            lost = self._lost(bases, pending)
            return _FileDifferences(missing=tuple(sorted(lost)), unlisted=(), uncommitted=())
        listed = {
            f"{partition}/{name}" if partition else name: size
            for partition, names in self.state.listing.items()
            for name, size in names.items()
        }
        sizes = {path: file.size for path, file in bases.items()}
        missing = {path for path, size in listed.items() if sizes.get(path) != size}
        missing -= pending.to_delete - sizes.keys()
        missing |= self._lost(bases, pending)
        unlisted = {p for p, file in bases.items() if file.instant_time in visible} - listed.keys()
        uncommitted = {
            path for path in listed.keys() & sizes.keys() if bases[path].instant_time not in visible
        }
        return _FileDifferences(
            missing=tuple(sorted(missing)),
            unlisted=tuple(sorted(unlisted)),
            uncommitted=tuple(sorted(uncommitted)),
        )

    def _lost(self, bases: Mapping[str, BaseFile], pending: PendingWork) -> set[str]:
        """Files that the latest active commit of their file group wrote and that are gone."""
        timeline = self.state.timeline
        latest: dict[tuple[str, str], tuple[BaseFile, int]] = {}
        for commit in timeline.completed(("commit", "replacecommit")):
            if commit.time in pending.taken_back:
                continue
            for _, path, size in timeline.commit(commit).files:
                partition, _, name = path.rpartition("/")
                file = parse_base_file(partition, name, size)
                if file is not None:
                    latest[partition, file.file_id] = file, size
        replaced, current = timeline.replaced_file_ids(), self.state.snapshot.by_location()
        lost = set()
        for location, (file, size) in latest.items():
            known, there = current.get(location), bases.get(file.path)
            if location in replaced:
                continue
            older = known is None or known.instant_time < file.instant_time
            gone = there is None and not (known and known.instant_time > file.instant_time)
            resized = known == there and there is not None and 0 < size != there.size
            if older or gone or resized:
                lost.add(file.path)
        return lost

    def _with_index(
        self, result: CheckResult, present: Sequence[BaseFile], facts: Sequence[FileFacts]
    ) -> CheckResult:
        """The result with a comparison of record index and data."""
        index = index_digests(self.state, self.runner, self.progress)
        data = [total([each.digests[n] for each in facts]) for n in range(len(index))]
        pairs = enumerate(zip(index, data, strict=True))
        differing = tuple(number for number, (found, wanted) in pairs if found != wanted)
        same = sum(data[n].count for n in range(len(data)) if n not in differing)
        memory = self.options.integer(TASK_MEMORY)
        found = count_differences(self.state, present, differing, memory)
        duplicate = 0
        if found.repeated:
            duplicate, _ = self._key_scan(present, is_global=True).repeated(result.keys)
        return replace(
            result,
            keys=same + found.keys,
            missing=result.missing + found.missing,
            extra=result.extra + found.extra,
            wrong=found.wrong,
            duplicate=duplicate,
            shards=differing,
            left_behind=stale_since(self.state),
        )

    def _with_keys(self, result: CheckResult, present: Sequence[BaseFile]) -> CheckResult:
        """The result of a table without record index: whether keys are in one row only."""
        scan = self._key_scan(present, is_global=load_index(self.index).is_global)
        duplicate, rows = scan.repeated(result.keys)
        return replace(result, keys=result.keys - rows + duplicate, duplicate=duplicate)

    def _key_scan(self, present: Sequence[BaseFile], *, is_global: bool) -> KeyCheckScan:
        return KeyCheckScan(
            storage=self.state.storage,
            files=present,
            stored=StoredKeys.of(self.state.config),
            is_global=is_global,
            runner=self.runner,
            progress=self.progress,
        )


def _base_file(status: FileStatus) -> BaseFile | None:
    """The base file of the data that a path is; None for all others."""
    if status.path.startswith(f"{HOODIE}/"):
        return None
    partition, _, name = status.path.rpartition("/")
    return parse_base_file(partition, name, status.size)


def _second_of_bucket(files: Sequence[BaseFile]) -> set[str]:
    """Paths of files whose bucket another file group of the partition has, too."""
    first: dict[tuple[str, int], str] = {}
    second = set()
    for file in files:
        if is_bucket_file_id(file.file_id):
            place = (file.partition_path, bucket_of(file.file_id))
            if first.setdefault(place, file.file_id) != file.file_id:
                second.add(file.path)
    return second
