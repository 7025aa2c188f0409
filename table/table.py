"""The table as its users hold it: create, open, write, read, look up, check.

t = Table.create("path", record_key="uuid", partition_path="dt", ordering="ts", index="record")
result = t.upsert(rows)          # Spark DataFrame or pyarrow Table
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

import pyarrow as pa

from keymark.indexes.installed import default_index, specs
from keymark.table.errors import InvalidOptionError
from keymark.table.handle import TableHandle
from keymark.table.index.build.rows import RowSource
from keymark.table.index.choice import choose_index, table_options
from keymark.table.index.external import external_entries, rebuild
from keymark.table.index.protocol import (
    LookupStats,
    has_partition,
    index_name,
    load_index,
    spec_of,
    usable_index,
)
from keymark.table.index.stale_index import refuse_stale_index
from keymark.table.layout.model import BaseFile, CommitResult
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import (
    check_options,
    column_names,
    index_properties,
)
from keymark.table.read.arrow import ReadPlan, plan_read
from keymark.table.read.lookup import look_up
from keymark.table.read.matching import matching_files
from keymark.table.read.pruning import files_of_keys
from keymark.table.read.skipping import ReadStats
from keymark.table.rows.arrow import is_frame, is_pandas, to_arrow
from keymark.table.rows.keys import keys_and_partitions, named_keys
from keymark.table.runtime.clock import Clock, SystemClock
from keymark.table.runtime.ids import RANDOM, Ids
from keymark.table.runtime.runner import Progress, no_progress
from keymark.table.services.archive import Archived
from keymark.table.services.check.check import CheckResult, check_table
from keymark.table.services.create import TableSpec, create_table
from keymark.table.services.index.reshard import Resharded, abort
from keymark.table.services.index.switch import IndexSwitch, Switcher
from keymark.table.services.info import PartitionInfo, TableInfo, describe, describe_partitions
from keymark.table.services.purge.purge import Purger, PurgeReport
from keymark.table.services.recover.recover import Recoverer, RecoverReport
from keymark.table.services.rewrite import Rewriter, RewriteReport
from keymark.table.state.table_state import TableState, columns_of
from keymark.table.storage.lease import LeaseTerms, hold
from keymark.table.storage.storage import Storage
from keymark.table.storage.stores import storage_at
from keymark.table.write import bulk, client
from keymark.table.write.key_facts import completed
from keymark.table.write.seal_check import accept_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from keymark.table.rows.arrow import Keys, Rows

Names = str | Sequence[str] | None


class Table(TableHandle):
    """A Hudi table of version 6, copy-on-write, Keymark's own or Hudi's.

    `TableHandle` has the arguments of the constructor; `create` and `open` are what users call.
    """

    def __repr__(self) -> str:
        key, index = ", ".join(self.config.record_key) or "generated", self.choice.name
        return f"<Table {self.config.name} at {self.storage.root}: record key {key}, index {index}>"

    @classmethod
    def create(  # noqa: PLR0913  what a table is, by name
        cls,
        path: str | PathLike[str],
        *,
        name: str | None = None,
        record_key: Names = None,
        partition_path: Names = None,
        ordering: str | None = None,
        index: str | None = None,
        options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        storage: Storage | None = None,
        clock: Clock | None = None,
        ids: Ids = RANDOM,
    ) -> Table:
        """Make an empty table; the path must not hold one yet.

        Without record_key every inserted row gets a generated key; without index the table gets the
        record index.
        """
        if record_key is not None and not column_names(record_key):
            raise InvalidOptionError("record_key is empty: leave it out to have keys generated")
        checked = check_options(options or {})
        storage = storage or storage_at(path, checked, create=True)
        index = index or default_index().name
        load_index(index)
        identity = TableSpec(
            name=name or storage.root.rstrip("/").rpartition("/")[2],
            record_key=column_names(record_key),
            partition_fields=column_names(partition_path),
            ordering=ordering,
        )
        create_table(storage, identity, index, checked, clock=clock or SystemClock())
        return cls(storage, checked, spark=spark, clock=clock, ids=ids)

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        ids: Ids = RANDOM,
    ) -> Table:
        """Open a table of Keymark's or of Hudi's."""
        storage = storage_at(path, check_options(options or {}))
        return cls(storage, options, spark=spark, ids=ids)

    @staticmethod
    def recover(
        path: str | PathLike[str],
        options: Mapping[str, str] | None = None,
        progress: Progress = no_progress,
        *,
        dry_run: bool = False,
    ) -> RecoverReport:
        """Go back to the last whole commit of a table that may be too torn to be opened."""
        checked = check_options(options or {})
        return Recoverer(storage_at(path, checked), checked, progress=progress).run(dry_run=dry_run)

    def upsert(self, rows: Rows) -> CommitResult:
        """Insert rows with new keys, and merge the others with their stored rows."""
        return client.upsert(self._writer(rows), self._rows(rows))

    def insert(self, rows: Rows) -> CommitResult:
        """Add rows; hoodie.datasource.insert.dup.policy says what becomes of keys that exist."""
        return client.insert(self._writer(rows), self._rows(rows))

    def bulk_insert(self, rows: Rows) -> CommitResult:
        """Add many rows as new files, without collecting them.

        With a record index, repeated keys are refused before the commit (unless the policy is
        `none`).
        """
        return bulk.bulk_insert(self._writer(rows), self._rows(rows))

    def delete(self, keys: Keys) -> CommitResult:
        """Delete keys.

        Keys are encoded keys, values of the key column, or rows of the key (and partition) columns.
        """
        config = completed(self.config, self.storage, self._given)
        return client.delete(self._writer(keys), named_keys(keys, config, self.storage))

    def purge(self, keys: Keys, progress: Progress = no_progress) -> PurgeReport:
        """Erase keys, as `delete` takes them, from every file of the table, and prove it.

        Older slices that hold a key are deleted: instants that need them cannot be read any more.
        """
        texts, _ = self._keys_and_partitions(keys)
        return Purger(writer=self._writer(texts), progress=progress).run(texts)

    def lookup(self, keys: Keys, *, stats: LookupStats | None = None) -> pa.Table | DataFrame:
        """Find where keys are; returns record_key, partition_path, file_id, instant_time.

        Rows are in the order of the keys; those of absent keys hold nulls. With a session, or keys
        in a DataFrame, Spark looks up many keys by shard. A DataFrame of more bytes than
        keymark.batch.collect.bytes is answered with a DataFrame: it looks keys up when it runs, and
        an error is then the last line of Spark's PythonException.
        """
        if is_frame(keys):
            self._spark = self._spark or keys.sparkSession
        state = self.state()
        config = completed(state.config, self.storage, self._given)
        named = named_keys(keys, config, self.storage)
        context = self._context(state, stats)
        index = usable_index(self.choice.name, state.config, context.options)
        if spec_of(index.name).metadata_partition == RECORD_INDEX:
            refuse_stale_index(state)
        return look_up(named, index, context)

    def read(
        self,
        keys: Keys | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        as_of: str | None = None,
        *,
        stats: ReadStats | None = None,
    ) -> DataFrame:
        """Read rows with Spark; with the meta columns unless `columns` are named.

        The record index leaves out files by `keys` and by record keys in `where`; column statistics
        leave out files by comparisons with literals. `stats` counts the files that are read.
        """
        from keymark.table.read.spark import read_frame  # noqa: PLC0415  reading is where Spark is needed

        stats = stats or ReadStats()
        return read_frame(self, keys, where, columns=columns, as_of=as_of, stats=stats)

    def scan(
        self,
        keys: Keys | None = None,
        columns: Sequence[str] | None = None,
        as_of: str | None = None,
    ) -> ReadPlan:
        """Read rows without Spark; returns which files will be read, and their rows by file."""
        state = self.state(as_of)
        wanted = None if keys is None else self._keys_and_partitions(keys, state.config)[0]
        files = state.snapshot.files if wanted is None else self.prune(state, wanted)
        return plan_read(state, files, wanted, columns)

    def files(self, where: str | None = None, as_of: str | None = None) -> tuple[BaseFile, ...]:
        """Return the base files, below the table's path, that can hold a row of a condition.

        Args:
            where: a condition in Spark's SQL, as `read` takes it; parts that do not compare
                a column with literals leave all files.
            as_of: the instant of an older snapshot.
        """
        from keymark.table.read.sql import sql_condition  # noqa: PLC0415  slow to import

        plan = self.scan(as_of=as_of)
        if plan.full is None:
            return ()
        return matching_files(self, plan, sql_condition(where, plan.full, "spark"))

    def prune(self, state: TableState, keys: pa.Array) -> tuple[BaseFile, ...]:
        """The base files of a snapshot that can hold the keys."""
        return files_of_keys(state, keys, self._context(state, None))

    def keys_of(self, keys: Keys) -> pa.Array:
        """Encoded record keys of a list, an array or a frame."""
        return self._keys_and_partitions(keys)[0]

    def check(self, progress: Progress = no_progress) -> CheckResult:
        """Compare the table with itself: its index, its metadata table and its files.

        Differences that pending work explains are no damage: the result names that work.
        """
        return check_table(self.storage, self.choice.name, self.options(), self._runner(), progress)

    def info(self) -> TableInfo:
        """Rows, index, shards and bytes per key."""
        state, choice = TableState.load(self.storage), self.choice
        return describe(state, choice.name, choice.reason, self._runner())

    def compact(self) -> str | None:
        """Compact the metadata table; returns the instant, or None if there is nothing to do."""
        with self._held() as (services, lease):
            return services.compact(lease)

    def clean(self) -> str | None:
        """Delete base files that no retained commit needs; returns the instant, or None."""
        with self._held() as (services, lease):
            return services.clean(lease)

    def archive(self) -> Archived:
        """Move the oldest instants of both timelines to their archives; returns which ones."""
        with self._held() as (services, lease):
            return services.archive(lease)

    def savepoint(self, instant: str | None = None) -> str:
        """Keep the snapshot of a commit, by default of the latest; returns its instant."""
        with self._held() as (services, lease):
            return services.restorer(lease).savepoint(instant)

    def drop_savepoint(self, instant: str) -> str:
        """Give a savepoint up; returns its instant."""
        with self._held() as (services, lease):
            return services.restorer(lease).drop_savepoint(instant)

    def rollback(self, instant: str | None = None) -> str | None:
        """Take the latest commit back, which `instant` must name; returns the rollback's instant.

        Without an instant only what dead writers left is taken back, as by every write.
        """
        with self._held() as (services, lease):
            return instant and services.restorer(lease).rollback(instant)

    def restore(self, savepoint: str) -> str | None:
        """Go back to a savepoint; returns the restore's instant, or None if nothing came after."""
        with self._held() as (services, lease):
            return services.restorer(lease).restore(savepoint)

    def build_index(self, partition: str | None = None, progress: Progress = no_progress) -> bool:
        """Build a metadata partition while no other writer writes; False if the table has it.

        If an index is named that keeps its entries outside the table, or in runs of the record
        keys, these are made anew. An index whose runs can stand beside the record index gets them
        made from that index, and kept from then on.

        Args:
            partition: its name, or that of an index; None: the runs of the table's own index, or
                else the record index.
            progress: shows how far it came.
        """
        runs = spec_of(self.choice.name).key_runs
        if partition is None:
            partition = self.choice.name if runs else RECORD_INDEX
        if runs and partition == self.choice.name:
            with self._held(progress) as (services, lease):
                services.value_indexes(lease).build_keys(runs)
            return True
        if self._stands_beside(partition):
            with self._held(progress) as (services, lease):
                services.value_indexes(lease).build_beside()
            return True
        if partition == self.choice.name and (
            entries := external_entries(partition, self.options(), self._runner())
        ):
            with hold(self.storage, self._clock, LeaseTerms.of(self.options())) as lease:
                context = entries.context(TableState.load(lease.storage))
                rebuild(entries.index, context, progress)
            return True
        with self._held(progress) as (services, lease):
            return services.indexer(lease).build(partition, lease)

    def build_mappings(self, source: RowSource, progress: Progress = no_progress) -> bool:
        """Build the record index of given keys on a table without rows, to measure lookups."""
        with self._held(progress) as (services, lease):
            return services.indexer(lease).build_mappings(source, lease)

    def build_secondary(self, column: str, progress: Progress = no_progress) -> None:
        """Build the secondary index of a column, or build it anew, while no other writer writes.

        Reads with comparisons of that column open only the files that hold a match.
        """
        with self._held(progress) as (services, lease):
            services.value_indexes(lease).build(column)

    def drop_secondary(self, column: str) -> None:
        """Give the secondary index of a column up and delete it."""
        with self._held() as (services, lease):
            services.value_indexes(lease).drop(column)

    def schedule_index(self, partition: str = RECORD_INDEX) -> str:
        """Open a metadata partition for writers; `run_index` builds it. Returns the instant."""
        with self._held() as (services, lease):
            return services.indexer(lease).schedule(partition, lease)

    def run_index(self, partition: str = RECORD_INDEX, progress: Progress = no_progress) -> str:
        """Build a scheduled partition while others write; returns the indexing instant."""
        services = self._services(self._runner(), progress)
        return services.indexer_of(self.storage).run(partition, self._hold)

    def repair_shard(self, number: int, progress: Progress = no_progress) -> int:
        """Build one shard of the record index anew from the data; returns its number of keys."""
        with self._held(progress) as (services, lease):
            return services.indexer(lease).repair(number, lease)

    def indexes(self) -> list[PartitionInfo]:
        """List the partitions of the metadata table, and the indexes beside them."""
        return describe_partitions(self.storage)

    def abort_index(self, partition: str = RECORD_INDEX) -> None:
        """Give up a scheduled partition."""
        with self._held() as (services, lease):
            services.indexer(lease).abort(partition)

    def drop_index(self, partition: str = RECORD_INDEX) -> None:
        """Take a metadata partition out of use and delete it.

        If the table's own index is kept as runs of the record keys, these are removed, and the
        table then has the index that Hudi's writers use. If an index stands beside the record
        index, its runs are deleted, and the table keeps its own index.
        """
        own = spec_of(self.choice.name)
        if own.key_runs and partition == own.name:
            self.use_index(index_name(own.named_to_hudi))
            return
        if self._stands_beside(partition) and self.config.key_runs:
            with self._held() as (services, lease):
                services.value_indexes(lease).drop_beside()
            return
        with self._held() as (services, lease):
            services.indexer(lease).drop(partition)

    def reshard_index(self, groups: int | None, progress: Progress = no_progress) -> Resharded:
        """Change the number of file groups of the record index while others write.

        A re-sharding that was cut off is continued.

        Args:
            groups: how many; None for as many as suit it.
            progress: shows how far it came.
        """
        runner = self._runner()
        services = self._services(runner, progress)
        return services.resharder(self.storage, self._hold, runner.cores).run(groups)

    def abort_reshard(self) -> None:
        """Give up a re-sharding that was begun."""
        with self._held() as (_, lease):
            abort(lease.storage)

    def use_index(
        self,
        name: str,
        options: Mapping[str, str] | None = None,
        *,
        dry_run: bool = False,
        progress: Progress = no_progress,
    ) -> IndexSwitch:
        """Give the table another index; returns what that does and means.

        Args:
            name: of the index.
            options: of the index; those that decide where rows go are kept by the table.
            dry_run: change nothing.
            progress: shows how far it came.
        """
        given = check_options(options or {})
        settled = table_options(self.config, name, {**self._given, **given})
        services = replace(self._services(self._runner(), progress), options=settled)
        switcher = Switcher(
            storage=self.storage, services=services, before=self.choice.name, given=given
        )
        if dry_run:
            return switcher.plan(name)
        with self._hold() as lease:
            switch = replace(switcher, storage=lease.storage).run(name, lease)
        kept = {name: text for name, text in self._given.items() if name not in index_properties()}
        self._given = {**kept, **given}
        self.choice = choose_index(self.config, self._given, self.storage)
        return switch

    def rewrite(self, virtual_keys: str, progress: Progress = no_progress) -> RewriteReport:
        """Make keys virtual (`on`), store them again (`off`), or store and `ignore` them."""
        rewriter = Rewriter(writer=self._writer(None), progress=progress)
        return rewriter.run(virtual_keys)

    def accept(self, *, dry_run: bool = False) -> list[str]:
        """Take the present values of hoodie.properties as the table's own; returns what is new."""
        with hold(self.storage, self._clock, LeaseTerms.of(self.options())) as lease:
            return accept_properties(lease.storage, dry_run=dry_run)

    def _stands_beside(self, name: str) -> bool:
        """Whether that index can stand beside the table's record index, to be asked by writes."""
        beside = specs().get(name)
        is_hashed = beside is not None and beside.key_runs == "hashes"
        return is_hashed and has_partition(self.choice.name, self.config)

    def _rows(self, rows: Rows) -> DataFrame | pa.Table:
        if is_frame(rows):
            return rows
        return to_arrow(rows, columns_of(self.storage) if is_pandas(rows) else None)

    def _keys_and_partitions(
        self, keys: Keys, config: TableConfig | None = None
    ) -> tuple[pa.Array, pa.Array | None]:
        """Record keys, and partition paths where they are given; `config` is that of a reading."""
        config = completed(config or self.config, self.storage, self._given)
        return keys_and_partitions(keys, config, self.storage)
