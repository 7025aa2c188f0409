"""Building, dropping and repairing partitions of the metadata table on a table that has rows.

At once, under the lease:   build -> delta commit <latest>01k -> in use
While writers go on:        schedule   <I>.indexing.requested; file groups opened by delta commit
                                       <latest>01k; every commit from here on logs to them as well
                            run        base files from the snapshot of the plan; what a foreign
                                       writer did not log is caught up; digest of index and data
                                       compared at one commit; in use, <I>.indexing
                            abort      all of it goes

Logs are newer than base files, and say what the data says, whatever commit the base files are from:
so no commit has to wait for the build. A build that continues after it was cut off finds the base
files again. A partition is not read before hoodie.table.metadata.partitions names it.
Source: ScheduleIndexActionExecutor, RunIndexActionExecutor, HoodieBackedTableMetadataWriter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import pyarrow as pa

from keymark.indexes.installed import specs
from keymark.table.errors import (
    CorruptFileError,
    InputError,
    InvalidOptionError,
    MissingFileError,
    TableError,
)
from keymark.table.index.build.bloom_filters import build_bloom_filters
from keymark.table.index.build.column_stats import build_column_stats
from keymark.table.index.build.footers import GroupSizing, count_rows, estimate_groups
from keymark.table.index.build.record_index import (
    build_mappings,
    build_record_index,
    rebuild_shard,
)
from keymark.table.index.build.rows import RowSource
from keymark.table.index.build.target import BuildTarget, Built, open_groups
from keymark.table.index.stale_index import refuse_stale_index, stale_since
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import WriteStat
from keymark.table.layout.naming import BUILD, METADATA, PINS
from keymark.table.layout.view import Snapshot, listed_files, snapshot
from keymark.table.metadata.column_stats import stat_schema
from keymark.table.metadata.partitions import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    RECORD_INDEX,
    file_id,
    supported,
)
from keymark.table.metadata.reader import MetadataTable, slice_of
from keymark.table.metadata.records import SCHEMA
from keymark.table.metadata.reshard_plan import refuse_while_resharding
from keymark.table.metadata.writer import DeltaCommit, initialize
from keymark.table.properties.config import load_config, save_config
from keymark.table.properties.options import (
    BLOOM_FILTERS_ON,
    COLUMN_STATS_COLUMNS,
    COLUMN_STATS_ON,
    RECORD_INDEX_GROUPS_MAX,
    RECORD_INDEX_ON,
    RECORD_INDEX_PREFIX,
    TASK_MEMORY,
    Options,
    record_index_limits,
)
from keymark.table.runtime.clock import Clock
from keymark.table.runtime.runner import Progress, TaskRunner
from keymark.table.services.check.verify_index import compare_digests, index_fixes
from keymark.table.services.index.builds import (
    Build,
    drop_partition,
    forget_build,
    is_scheduled,
    save_partitions,
    scheduled,
    take_back_base_files,
    take_back_build,
)
from keymark.table.services.own_instants import BOOTSTRAP, free_instant, latest_completed
from keymark.table.state.table_state import TableState, list_storage, stored_schema
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import encode_commit
from keymark.table.timeline.index_plan import (
    IndexedPartition,
    encode_index_commit,
    encode_index_plan,
)
from keymark.table.timeline.timeline import Timeline
from keymark.table.write.index_changes import log_keys

# In Hudi's order.
BUILT_BY = (
    (BLOOM_FILTERS, BLOOM_FILTERS_ON),
    (COLUMN_STATS, COLUMN_STATS_ON),
    (RECORD_INDEX, RECORD_INDEX_ON),
)

Hold = Callable[[], AbstractContextManager[Lease]]
"""Takes the table's lease for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """Builds partitions of one table's metadata table."""

    storage: Storage
    clock: Clock
    runner: TaskRunner
    options: Options
    progress: Progress

    def build(self, partition: str, lease: Lease) -> bool:
        """Build a partition under the lease; False if the table has it.

        A record index that Hudi left behind is built anew.
        """
        _check_name(partition)
        config = load_config(self.storage)
        if partition in config.metadata_partitions:
            if partition != RECORD_INDEX or stale_since(TableState.load(self.storage)) is None:
                return False
            self.drop(partition)
        if partition in config.building:
            raise InputError(f"{partition} is being built: run or abort that first")
        if not config.metadata_partitions:
            self._build_files(lease)
            if partition == FILES:
                return True
        self._declare_columns(partition)
        take_back_base_files(self.storage, partition)
        state = TableState.load(self.storage)
        target = self._target(state, partition, free_instant(state))
        _delete_others(target)
        built = self._put_files(target, self._stat_schema(state))
        with lease.fenced():
            _commit_build(state, target.instant, built)
            forget_build(self.storage, partition)
            save_partitions(self.storage, partition, live=True)
        return True

    def build_mappings(self, source: RowSource, lease: Lease) -> bool:
        """Build the record index of given keys on a table without rows; False if it has one.

        The keys are in no base file: what reads the data, or compares it with the index, finds
        none of them.
        """
        config = load_config(self.storage)
        if RECORD_INDEX in config.metadata_partitions:
            forget_build(self.storage, RECORD_INDEX)
            return False
        if RECORD_INDEX in config.building or not config.metadata_partitions:
            raise InputError("the table has no metadata table, or its index is being built")
        take_back_base_files(self.storage, RECORD_INDEX)
        state = TableState.load(self.storage)
        if state.snapshot.files or not state.timeline.commit_times():
            raise InputError("mappings alone are for tables with a commit and without base files")
        groups = estimate_groups(source.rows, group_sizing(self.options))
        target = self._target(state, RECORD_INDEX, free_instant(state), groups)
        _delete_others(target)
        built = build_mappings(
            target, source, state=state, runner=self.runner, progress=self.progress
        )
        with lease.fenced():
            _commit_build(state, target.instant, built)
            save_partitions(self.storage, RECORD_INDEX, live=True)
            # Last: what a large build kept takes a while to delete.
            forget_build(self.storage, RECORD_INDEX)
        return True

    def _declare_columns(self, partition: str) -> None:
        """Make the option that lists the columns with statistics a fact of the table."""
        listed = self.options.optional(COLUMN_STATS_COLUMNS)
        if partition == COLUMN_STATS and listed is not None:
            properties = load_config(self.storage).properties
            save_config(self.storage, {**properties, COLUMN_STATS_COLUMNS: listed})

    def schedule(self, partition: str, lease: Lease) -> str:
        """Open a partition for writers; `run` fills it. The indexing instant."""
        _check_name(partition)
        config = load_config(self.storage)
        if partition in config.maintained:
            raise InputError(f"{partition} is built, or being built")
        if not config.metadata_partitions:
            self._build_files(lease)
        self._declare_columns(partition)
        state = TableState.load(self.storage)
        assert state.metadata is not None
        instant = state.next_instant(self.clock)
        upto = latest_completed(state.timeline)
        plan = encode_index_plan([IndexedPartition(partition=partition, upto=upto)])
        state.timeline.plan(instant, "indexing", plan)
        target = self._target(state, partition, free_instant(state))
        self.storage.delete_tree(f"{METADATA}/{partition}")
        forget_build(self.storage, partition)
        _pin(self.storage, partition, upto)
        open_groups(target)
        with lease.fenced():
            _commit_build(state, target.instant, None)
            save_partitions(self.storage, partition, live=False)
        return instant

    def run(self, partition: str, hold: Hold) -> str:
        """Fill a scheduled partition, prove it exact and put it to use; the indexing instant.

        Raises:
            InputError: another process gave the build up, or finished it.
        """
        build = scheduled(self.storage, partition)
        try:
            self._run(build, hold)
        except TableError as error:
            # Taken back under the running build, its files are missing anywhere.
            if is_scheduled(self.storage, build):
                raise
            with hold() as lease:
                if partition not in load_config(lease.storage).maintained:
                    lease.storage.delete_tree(f"{METADATA}/{partition}")
                    forget_build(lease.storage, partition)
            raise InputError(f"the build of {partition} was ended by another process") from error
        return build.instant

    def _run(self, build: Build, hold: Hold) -> None:
        partition = build.partition
        with self._hold_build(build, hold) as lease:
            take_back_base_files(lease.storage, partition)
            state = TableState.load(lease.storage)
            state.timeline.ensure_started(build.instant, "indexing", b"")
            # Both timelines are read here: later, instants may have been archived.
            start = Snapshot(())
            if build.upto != BOOTSTRAP:
                start = snapshot(state.listing, state.timeline, build.upto)
            assert state.metadata is not None
            opened = state.metadata.slices(partition)[0].base_instant_time
            target = self._target(state, partition, opened)
            schema = self._stat_schema(state)
        built = self._put_files(replace(target, files=start.files), schema)
        proven = state
        if partition == RECORD_INDEX:
            self._catch_up(build, start, hold)
            proven = self._pinned(build, hold)
            compare_digests(proven, self.runner, self.progress)
        self._put_to_use(build, built, proven, hold)

    @contextlib.contextmanager
    def _hold_build(self, build: Build, hold: Hold) -> Iterator[Lease]:
        """Hold the table, as long as the build is still scheduled."""
        with hold() as lease:
            if not is_scheduled(self.storage, build):
                raise InputError(f"no build of {build.partition} is scheduled any more")
            yield lease

    def repair(self, number: int, lease: Lease) -> int:
        """Build one shard of the record index anew from the data; the keys in it.

        Whatever is wrong with its files: they are not read. They go with the next cleaning. What a
        repair that failed has put, the next write takes back.
        """
        refuse_while_resharding(self.storage)
        state = TableState.load(self.storage)
        if state.metadata is None or RECORD_INDEX not in state.config.metadata_partitions:
            raise InputError("the table has no record index to repair")
        # The other shards lack keys, too.
        refuse_stale_index(state)
        groups = _group_count(state.metadata)
        if not 0 <= number < groups:
            raise InputError(f"no shard {number}: the record index has 0 to {groups - 1}")
        target = self._target(state, RECORD_INDEX, free_instant(state), groups)
        rows = count_rows(self.storage, target.files, runner=self.runner)
        timeline = state.metadata.timeline
        with lease.fenced():
            _begin_files(timeline, target.instant)
        # What an earlier repair left may be torn.
        self.storage.delete_tree(target.folder)
        try:
            records = rebuild_shard(
                target, number, rows=rows, runner=self.runner, progress=self.progress
            )
        except InputError:
            take_back_build(self.storage, state.config, target.instant)
            raise
        finally:
            self.storage.delete_tree(target.folder)
        with lease.fenced():
            _complete_files(timeline, target.instant, records.stats)
        return records.records

    def abort(self, partition: str) -> None:
        """Give up a scheduled partition."""
        build = scheduled(self.storage, partition)
        save_partitions(self.storage, partition, live=None)
        self.storage.delete_tree(f"{METADATA}/{partition}")
        forget_build(self.storage, partition)
        Timeline.load(self.storage).remove(build.instant, "indexing")

    def drop(self, partition: str) -> None:
        """Take a partition out of use and delete it.

        Raises:
            StorageError: a file cannot be deleted. If none was, the partition stays in use.
        """
        _check_name(partition)
        config = load_config(self.storage)
        if partition not in config.metadata_partitions:
            raise InputError(f"the table has no {partition}")
        refuse_while_resharding(self.storage)
        if partition == FILES and config.maintained != (FILES,):
            others = ", ".join(name for name in config.maintained if name != FILES)
            raise InputError(f"the other partitions need files: drop {others} first")
        drop_partition(self.storage, config, partition)

    def _build_files(self, lease: Lease) -> None:
        """The `files` partition of a table without metadata table, from one listing."""
        timeline = Timeline.load(self.storage)
        listing = list_storage(self.storage)
        files = list(listed_files(listing))
        visible = timeline.visible({file.instant_time for file in files})
        committed: dict[str, dict[str, int]] = {folder: {} for folder in listing}
        for file in files:
            if file.instant_time in visible:
                committed[file.partition_path][file.name] = file.size
        self.storage.delete_tree(METADATA)
        config = load_config(self.storage)
        latest = latest_completed(timeline)
        initialize(self.storage, config.name, {}, latest=latest, listing=committed)
        with lease.fenced():
            save_partitions(self.storage, FILES, live=True)

    def _target(
        self, state: TableState, partition: str, instant: str, groups: int | None = None
    ) -> BuildTarget:
        options = self.options
        return BuildTarget(
            storage=self.storage,
            folder=f"{BUILD}/{partition}",
            partition=partition,
            instant=instant,
            files=state.snapshot.files,
            groups=self._groups(state, partition) if groups is None else groups,
            keys=StoredKeys.of(state.config),
            zone=state.config.zone,
            block_size=options.integer("hoodie.hfile.block.size"),
            max_tasks=options.integer("hoodie.metadata.max.init.parallelism"),
            memory=options.integer(TASK_MEMORY),
        )

    def _groups(self, state: TableState, partition: str) -> int:
        if partition in state.config.building and state.metadata is not None:
            return len(state.metadata.slices(partition))
        if partition == COLUMN_STATS:
            return self.options.integer("hoodie.metadata.index.column.stats.file.group.count")
        if partition == BLOOM_FILTERS:
            return self.options.integer("hoodie.metadata.index.bloom.filter.file.group.count")
        rows = count_rows(self.storage, state.snapshot.files, runner=self.runner)
        return estimate_groups(rows, group_sizing(self.options))

    def _stat_schema(self, state: TableState) -> pa.Schema:
        """The columns that column_stats describes."""
        return stat_schema(stored_schema(state), state.config.stat_columns)

    def _put_files(self, target: BuildTarget, schema: pa.Schema) -> Built:
        """Put the base files of a partition; `schema` is for column_stats.

        Where a file that an earlier attempt put is damaged or gone, as after a power cut, all is
        built anew.
        """
        try:
            return self._try_files(target, schema)
        except (CorruptFileError, MissingFileError) as error:
            # Both errors begin with the file's path.
            ours = (f"{target.folder}/", f"{target.place}/{target.partition}/")
            if not str(error).startswith(ours):
                raise
        self.storage.delete_tree(target.folder)
        return self._try_files(target, schema)

    def _try_files(self, target: BuildTarget, schema: pa.Schema) -> Built:
        if target.partition == RECORD_INDEX:
            rows = count_rows(self.storage, target.files, runner=self.runner)
            return build_record_index(target, rows=rows, runner=self.runner, progress=self.progress)
        if target.partition == BLOOM_FILTERS:
            return build_bloom_filters(target, runner=self.runner, progress=self.progress)
        return build_column_stats(target, schema=schema, runner=self.runner, progress=self.progress)

    def _pinned(self, build: Build, hold: Hold) -> TableState:
        """The table as it is now, whose files cleaning leaves from now on."""
        with self._hold_build(build, hold) as lease:
            state = TableState.load(lease.storage)
            _pin(lease.storage, build.partition, latest_completed(state.timeline))
        return state

    def _catch_up(self, build: Build, start: Snapshot, hold: Hold) -> None:
        """Log what writers that knew nothing of the build have changed since its snapshot."""
        if not index_fixes(start, self._pinned(build, hold), self.runner):
            return
        with self._hold_build(build, hold) as lease:
            state = TableState.load(lease.storage)
            assert state.metadata is not None
            block_size = self.options.integer("hoodie.hfile.block.size")
            delta = DeltaCommit(state.metadata, free_instant(state), block_size)
            delta.begin()
            fixes = index_fixes(start, state, self.runner)
            delta.stats.extend(log_keys(delta, state, fixes, self.runner, of=state.snapshot))
            with lease.fenced():
                delta.complete()

    def _put_to_use(self, build: Build, built: Built, proven: TableState, hold: Hold) -> None:
        """Name the partition in hoodie.properties, if it is still right after the last commits.

        A delta commit names the base files, so that one which is gone is missed.
        """
        partition = build.partition
        with self._hold_build(build, hold) as lease:
            state = TableState.load(lease.storage)
            if partition == RECORD_INDEX and index_fixes(proven.snapshot, state, self.runner):
                raise CorruptFileError(
                    f"{METADATA}/{partition}", 0, "a commit since the proof is not in the index"
                )
            done = encode_index_commit([IndexedPartition(partition=partition, upto=build.upto)])
            with lease.fenced():
                _commit_build(state, free_instant(state), built)
                save_partitions(lease.storage, partition, live=True)
                forget_build(lease.storage, partition)
                state.timeline.complete(build.instant, "indexing", done)


def group_sizing(options: Options) -> GroupSizing:
    """Hudi's options for the number of file groups of a record index, checked."""
    minimum, maximum = record_index_limits(options)
    return GroupSizing(
        minimum=minimum,
        maximum=maximum,
        group_bytes=options.integer(f"{RECORD_INDEX_PREFIX}.max.filegroup.size"),
        growth=options.number(f"{RECORD_INDEX_PREFIX}.growth.factor"),
    )


def _check_name(partition: str) -> None:
    if not supported(partition):
        use = f"; `keymark table index use PATH {partition}`" if partition in specs() else ""
        raise InvalidOptionError(f"{partition!r} is not a partition of the metadata table{use}")


def _delete_others(target: BuildTarget) -> None:
    """Delete files of the partition that other, dropped or dead, builds left."""
    folder = f"{METADATA}/{target.partition}"
    for status in target.storage.list(folder):
        if f"_{target.instant}." not in status.name:
            target.storage.delete(status.path)


def _group_count(metadata: MetadataTable) -> int:
    """How many shards there are, by the files that are there or that commits name.

    What is older than all files that are there is of a partition that was dropped since.
    """
    statuses = metadata.storage.list(f"{METADATA}/{RECORD_INDEX}")
    there = {slice_of(RECORD_INDEX, status.name) for status in statuses} - {None}
    start = metadata.dealt_out_anew(RECORD_INDEX)
    start = max(start, min((owner[1] for owner in there if owner), default=""))
    paths = [path for path in metadata.recorded if path.startswith(f"{RECORD_INDEX}/")]
    named = {slice_of(RECORD_INDEX, path.rpartition("/")[2]) for path in paths}
    owners = {owner[0] for owner in there | named if owner is not None and owner[1] >= start}
    known = {file_id(RECORD_INDEX, number): number for number in range(RECORD_INDEX_GROUPS_MAX)}
    return max((known[owner] for owner in owners if owner in known), default=-1) + 1


def _commit_build(state: TableState, instant: str, built: Built | None) -> None:
    assert state.metadata is not None
    _begin_files(state.metadata.timeline, instant)
    _complete_files(state.metadata.timeline, instant, built.stats if built else ())


def _begin_files(timeline: Timeline, instant: str) -> None:
    timeline.begin(instant, "deltacommit")
    timeline.start(instant, "deltacommit")


def _complete_files(timeline: Timeline, instant: str, stats: Sequence[WriteStat]) -> None:
    content = encode_commit(stats, schema=SCHEMA, operation="BULK_INSERT")
    timeline.complete(instant, "deltacommit", content)


def _pin(storage: Storage, partition: str, instant: str) -> None:
    """Keep cleaning away from the files of a snapshot while a build reads them."""
    with contextlib.suppress(FileExistsError):
        storage.put(f"{PINS}/{partition}/{instant}", b"")
