"""What runs with every write: recovery and builds before it, table services after it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from keymark.indexes.installed import of_key_runs
from keymark.table.errors import InvalidOptionError, LeaseLostError, TableError, TableWarning
from keymark.table.index.build.uniqueness import FOLDER
from keymark.table.index.external import external_entries
from keymark.table.index.protocol import has_partition
from keymark.table.layout.naming import METADATA, RESHARD
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.replaced import settle_replaced
from keymark.table.metadata.reshard_plan import refuse_while_resharding, resharding
from keymark.table.metadata.writer import take_back_orphans
from keymark.table.properties.config import TableConfig, load_config
from keymark.table.properties.options import (
    RECORD_HASHES,
    RECORD_INDEX_PREFIX,
    RESHARD_AUTOMATIC,
    SECONDARY_COLUMNS,
    TASK_MEMORY,
    Options,
    column_names,
)
from keymark.table.runtime.clock import Clock
from keymark.table.runtime.runner import Progress, TaskRunner, no_progress
from keymark.table.services.archive import Archived, Archiver, Limits
from keymark.table.services.clean import (
    Cleaner,
    clean_metadata_table,
    outdated_files,
    resume_metadata_cleans,
)
from keymark.table.services.compact import Compactor, take_back_compactions
from keymark.table.services.index.builds import (
    drop_remains,
    partitions_without_files,
    save_partitions,
    settle_builds,
)
from keymark.table.services.index.indexing import BUILT_BY, Hold, Indexer
from keymark.table.services.index.reshard import Resharder
from keymark.table.services.index.suitable_shards import outgrown
from keymark.table.services.recover.restore import Restorer, sweep_taken_back, take_back_unfinished
from keymark.table.services.retention import Retention
from keymark.table.state.table_state import Change, TableState
from keymark.table.storage.fence import FencedStorage
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import COMMIT_ACTIONS, Timeline
from keymark.table.values.changes import ValueChange
from keymark.table.values.upkeep import ValueIndexes

Step = Callable[[TableState, Lease], Change | None]

_TOLD: set[str] = set()
"""Roots of tables of whose large shards this process has warned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableServices:
    """The services of one table, as options ask for them. The caller holds the lease.

    `index` is the name of the table's index.
    """

    clock: Clock
    runner: TaskRunner
    options: Options
    index: str
    progress: Progress = no_progress

    def recover(self, lease: Lease) -> None:
        """Finish or take back what services that died left."""
        storage = lease.storage
        config = load_config(storage)
        if not config.maintained:
            # Unreferenced: left by a build or drop of `files` that died.
            storage.delete_tree(METADATA)
        if isinstance(storage, FencedStorage):
            for partition in partitions_without_files(storage, config):
                save_partitions(storage, partition, live=None)
        data, metadata = Timeline.load(storage), Timeline.load(storage, METADATA)
        settle_replaced(metadata)
        if _at_rest(config, data, metadata):
            return
        take_back_orphans(storage, data)
        settle_builds(storage)
        take_back_unfinished(storage)
        sweep_taken_back(storage)
        take_back_compactions(storage)
        resume_metadata_cleans(storage)
        Cleaner(storage, self.clock, lease).resume()

    def prepare(self, lease: Lease) -> None:
        """Build what the options ask for and the table does not have."""
        storage = lease.storage
        config = load_config(storage)
        if storage.exists(FOLDER):
            # A change of index died while it looked for repeated keys.
            storage.delete_tree(FOLDER)
        for partition, option in BUILT_BY:
            switch = self.options.optional(option)
            if switch == "false" and partition in config.maintained:
                raise InvalidOptionError(
                    f"option {option}=false: the table has {partition}, and only "
                    f"`table index drop PATH {partition}` removes it"
                )
            if partition in config.maintained:
                continue
            if self.options.flag(option):
                self.indexer(lease).build(partition, lease)
            else:
                drop_remains(storage, partition)
        if (
            self.options.flag(RECORD_HASHES)
            and not config.key_runs
            # Read anew: the partition may have been built just now.
            and has_partition(self.index, load_config(storage))
        ):
            self.value_indexes(lease).build_beside()
        columns = column_names(self.options.optional(SECONDARY_COLUMNS))
        for column in columns:
            if column not in config.secondary_columns:
                self.value_indexes(lease).build(column)

    def catch_up(self, state: TableState, lease: Lease) -> None:
        """Take base files that others wrote into runs of hashes, before these are asked.

        Each of the many questions of a large batch would read these files otherwise.
        """
        if state.config.key_runs == "hashes":
            self.value_indexes(lease).take_in_keys(state)

    def maintain(
        self, state: TableState, change: Change, lease: Lease, values: Sequence[ValueChange] = ()
    ) -> None:
        """Take base files into indexes of values; re-shard, compact, clean and archive when due.

        Shards of the record index that have grown too large give a warning, if they are to stay.

        The write is done and visible: a service that fails warns and is tried again later.
        What the write read of the table is handed on from step to step.

        Args:
            state: the table that the write began with.
            change: what the write did to it.
            lease: holds the table.
            values: what the write changed in values that are indexed, as far as it is known.
        """
        steps: list[tuple[str, Step]] = []
        # Before cleaning, which may delete earlier slices: they show what changed in a file group.
        if state.config.secondary_columns:
            take_in = partial(self._take_in_columns, values)
            steps.append(("the upkeep of secondary indexes", take_in))
        if state.config.key_runs:
            take_in = partial(self._take_in_keys, values)
            name = of_key_runs(state.config.key_runs).name
            steps.append((f"the upkeep of the index {name}", take_in))
        if self.options.flag(RESHARD_AUTOMATIC):
            steps.append(("re-sharding", self._reshard_if_due))
        elif lease.storage.root not in _TOLD:
            steps.append(("a look at the sizes of shards", self._tell_of_size))
        steps.append(("compaction", self._compact_if_due))
        if self.options.flag("hoodie.clean.automatic"):
            steps.append(("cleaning", self._clean))
        if self.options.flag("hoodie.archive.automatic"):
            steps.append(("archiving", self._archive))
        done: Change | None = change
        for name, step in steps:
            try:
                state = state.after(done) if done else state
                # After a failure the timelines tell what the step did.
                done = Change()
                done = step(state, lease)
            except LeaseLostError:
                return
            except (TableError, OSError) as error:
                warnings.warn(f"the write is done, {name} failed: {error}", TableWarning, 2)

    def compact(self, lease: Lease) -> str | None:
        """Compact the metadata table; the instant, None if there is nothing to compact.

        Raises:
            InputError: the record index is being re-sharded.
        """
        refuse_while_resharding(lease.storage)
        compactor = self._compactor(TableState.load(lease.storage), lease)
        return compactor.run() if compactor else None

    def clean(self, lease: Lease) -> str | None:
        """Delete files that no retained commit needs; the data's clean instant, or None."""
        change = self._clean(TableState.load(lease.storage), lease)
        return change.time or None if change else None

    def archive(self, lease: Lease) -> Archived:
        """Move the oldest instants of both timelines to their archives."""
        config = load_config(lease.storage)
        return self._archived(Archiver.load(lease.storage, config, lease))

    def indexer(self, lease: Lease) -> Indexer:
        """Builds, drops and repairs partitions of the metadata table, under the lease."""
        return self.indexer_of(lease.storage)

    def indexer_of(self, storage: Storage) -> Indexer:
        """Runs builds that take the lease now and then."""
        return Indexer(
            storage=storage,
            clock=self.clock,
            runner=self.runner,
            options=self.options,
            progress=self.progress,
        )

    def value_indexes(self, lease: Lease) -> ValueIndexes:
        """Builds, drops and keeps the indexes of values."""
        return ValueIndexes(lease=lease, runner=self.runner, progress=self.progress)

    def resharder(
        self, storage: Storage, hold: Hold, cores: int, *, by_service: bool = False
    ) -> Resharder:
        """Deals the record index out to another number of file groups; holds the lease at times."""
        return Resharder(
            storage=storage,
            clock=self.clock,
            runner=self.runner,
            options=self.options,
            progress=self.progress,
            hold=hold,
            cores=cores,
            by_service=by_service,
        )

    def restorer(self, lease: Lease) -> Restorer:
        """Savepoints, rollback, restore."""
        entries = external_entries(self.index, self.options, self.runner)
        return Restorer(
            storage=lease.storage,
            clock=self.clock,
            runner=self.runner,
            lease=lease,
            memory=self.options.integer(TASK_MEMORY),
            entries=entries,
        )

    def _take_in_columns(
        self, values: Sequence[ValueChange], state: TableState, lease: Lease
    ) -> None:
        self.value_indexes(lease).take_in_columns(state, values)

    def _take_in_keys(self, values: Sequence[ValueChange], state: TableState, lease: Lease) -> None:
        self.value_indexes(lease).take_in_keys(state, values)

    def _tell_of_size(self, state: TableState, lease: Lease) -> None:
        """Say once for each table that shards of its record index are past Hudi's largest size."""
        if not outgrown(state, self.options):
            return
        root, option = lease.storage.root, f"{RECORD_INDEX_PREFIX}.max.filegroup.size"
        _TOLD.add(root)
        warnings.warn(
            f"a shard of the record index has more than {self.options.integer(option):,} bytes "
            f"({option}): `keymark table index reshard {root} --shards auto` makes more while "
            "writers go on",
            TableWarning,
            stacklevel=2,
        )

    def _reshard_if_due(self, state: TableState, lease: Lease) -> Change | None:
        if RECORD_INDEX not in state.config.metadata_partitions:
            return None
        plan = resharding(lease.storage)
        if plan is None and not outgrown(state, self.options):
            return None
        if plan is not None and not plan.by_service:
            # The command `table index reshard` is at it.
            return None
        resharder = self.resharder(
            lease.storage, lambda: nullcontext(lease), cores=1, by_service=True
        )
        resharder.run(None)
        return Change()

    def _compact_if_due(self, state: TableState, lease: Lease) -> Change | None:
        compactor = self._compactor(state, lease)
        commits = self.options.integer("hoodie.metadata.compact.max.delta.commits")
        if compactor is None or not compactor.due(commits):
            return None
        if resharding(lease.storage) is not None:
            # It takes in what is logged on the file groups that it began with.
            return None
        # One that died right after its switch has left this.
        lease.storage.delete_tree(RESHARD)
        compactor.run()
        return Change()

    def _clean(self, state: TableState, lease: Lease) -> Change | None:
        done = None
        if state.metadata is not None:
            retained = self.options.integer("hoodie.cleaner.commits.retained")
            done = clean_metadata_table(state.metadata, state.config.maintained, retained)
        retention = Retention.of(self.options, state.timeline.completed(COMMIT_ACTIONS))
        files = outdated_files(state, retention) if retention else {}
        instant = Cleaner(lease.storage, self.clock, lease).clean(state, files, retention)
        if instant is None:
            return Change() if done else None
        return Change(time=instant, deleted=files)

    def _archive(self, state: TableState, lease: Lease) -> None:
        archiver = Archiver(
            config=state.config,
            timeline=state.timeline,
            metadata=state.metadata,
            lease=lease,
            known_listing=state.listing,
        )
        self._archived(archiver)

    def _archived(self, archiver: Archiver) -> Archived:
        return archiver.run(data=Limits.of(self.options), metadata=Limits.of_metadata(self.options))

    def _compactor(self, state: TableState, lease: Lease) -> Compactor | None:
        if state.metadata is None:
            return None
        return Compactor(
            metadata=state.metadata,
            partitions=state.config.metadata_partitions,
            listing=state.listing,
            block_size=self.options.integer("hoodie.hfile.block.size"),
            memory=self.options.integer(TASK_MEMORY),
            runner=self.runner,
            lease=lease,
        )


def _at_rest(config: TableConfig, data: Timeline, metadata: Timeline) -> bool:
    """Whether the timelines show neither a dead write nor what one may have left behind."""
    if data.pending() or data.completed({"rollback", "restore"}):
        return False
    return not metadata.pending() and not config.building
