"""One write: begun on a table without left-overs, completed by one put, or taken back.

    begin    take the lease; finish or take back what dead writers and services left; build what
             the options ask for; read the table; <T>.commit.requested       phase `open`
             (here the stages of a write put its data files)
                                         phases `prepare`, `tag`, `place` and `write`
    commit   runs of indexes of values                       phase `index`
             <T>.deltacommit.requested, .inflight      (metadata table)
             log files of record_index                       phase `index`
             entries of an index outside the table           phase `index`
             log files of files, column_stats, bloom_filters
             <T>.deltacommit
             <T>.commit                                phase `commit`: visible from here on
             entries of keys that moved or went              phase `index`
    services clean, archive, compact, as the options ask     phase `services`

A failure takes back what the write did. What a dead process left, the next write takes back.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from keymark.table.errors import (
    InputError,
    LeaseLostError,
    StorageError,
    TableError,
    TableWarning,
    UnsupportedTableError,
)
from keymark.table.format.schema import avro_names, from_avro, to_avro, without_meta
from keymark.table.index.external import (
    ExternalIndex,
    apply_pending,
    pending_entries,
    recover_entries,
    stage_entries,
    warn_pending,
    withdraw_entries,
)
from keymark.table.index.protocol import (
    Index,
    IndexContext,
    index_name,
    load_index,
    tagging_index,
)
from keymark.table.index.stale_index import refuse_stale_index
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile, CommitResult, WriteStat
from keymark.table.layout.naming import TEMP
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.metadata.writer import DeltaCommit
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import (
    EVENT_TIME_PAYLOAD,
    KEY_ENCODING,
    OVERWRITE_PAYLOAD,
    PAGE_ROWS,
    PAYLOAD_CLASS,
    Options,
)
from keymark.table.state.table_state import Change, TableState, table_schema
from keymark.table.storage.lease import Lease, LeaseTerms, hold
from keymark.table.storage.storage import Storage
from keymark.table.timeline.commit_metadata import encode_commit
from keymark.table.timeline.instant_name import COMPLETED
from keymark.table.values.changes import ValueChange
from keymark.table.values.indexed import indexed_of
from keymark.table.write.batch import DELETED_COLUMN
from keymark.table.write.clock_check import check_clock
from keymark.table.write.file_group import FileGroupResult, WriteTarget
from keymark.table.write.index_changes import IndexChanges
from keymark.table.write.key_facts import settle_keys
from keymark.table.write.undo import clear_failed, sweep_losers, undo
from keymark.table.write.writer import Writer, base_file_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Distinct incoming keys by what became of them; a moved key counts once."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    moved: int = 0
    unchanged: int = 0


@dataclass(slots=True, kw_only=True)
class Transaction:
    """An instant under the lease; what it puts counts once the instant is published.

    Attributes:
        state: the table as it was.
        lease: holds the table.
        instant: on the data's timeline, and of the metadata table's delta commit.
        action: of the instant.
    """

    state: TableState
    lease: Lease
    instant: str
    action: str

    @property
    def storage(self) -> Storage:
        """The table's storage, as the holder of the lease has it."""
        return self.lease.storage

    @property
    def config(self) -> TableConfig:
        """The table's config."""
        return self.state.config

    def begin_delta(self, block_size: int) -> DeltaCommit | None:
        """Begin the metadata table's delta commit; None where there is no metadata table."""
        if self.state.metadata is None:
            return None
        delta = DeltaCommit(self.state.metadata, self.instant, block_size)
        delta.begin()
        return delta

    def publish(self, delta: DeltaCommit | None, content: bytes) -> None:
        """Complete both commits, the metadata table's first, unless another writer took the table.

        This is what makes the instant visible.
        """
        completions = [delta.completion()] if delta is not None else []
        path = self.state.timeline.path(self.instant, self.action, COMPLETED)
        self.lease.publish([*completions, (path, content)])


@dataclass(slots=True, kw_only=True)
class WriteTransaction(Transaction):
    """One write under way.

    Attributes:
        writer: the table to write to, as the holder of the lease.
        index: finds its keys.
        operation: Hudi's name of the write, for the commit.
        target: what all file groups of the commit share.
        avro_schema: of the table's rows, for the commit.
        written: the base files of the commit once it is completed.
        values: what changed in values that are indexed, as far as it was noted.
        phases: the wall time of each phase in seconds.
    """

    writer: Writer
    index: Index
    operation: str
    target: WriteTarget
    avro_schema: str | None
    written: list[BaseFile] = field(default_factory=list)
    values: list[ValueChange] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def options(self) -> Options:
        """The options of this write."""
        return self.writer.options

    @property
    def index_shards(self) -> int:
        """How many shards the record index has that the write keeps up to date; 0 without one."""
        if self.state.metadata is None or RECORD_INDEX not in self.config.maintained:
            return 0
        return len(self.state.metadata.slices(RECORD_INDEX))

    @property
    def keeps_keys(self) -> bool:
        """Whether an index wants to know the keys that come and go."""
        return self.index_shards > 0 or isinstance(self.index, ExternalIndex)

    @property
    def context(self) -> IndexContext:
        """The table as the index sees it."""
        return self.writer.context(self.state)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase; several stretches of one name add up."""
        self.writer.on_phase(name)
        started = self.writer.clock.seconds()
        yield
        spent = self.writer.clock.seconds() - started
        self.phases[name] = self.phases.get(name, 0.0) + spent

    def start(self) -> None:
        """Put the inflight file: data files follow."""
        self.state.timeline.start(self.instant, "commit")

    def commit(
        self, files: Sequence[FileGroupResult], changes: IndexChanges, counts: Counts
    ) -> CommitResult:
        """Bring the indexes up to date and make the write visible.

        Args:
            files: the result of every file group.
            changes: what changes in the table's index.
            counts: the incoming keys, for the result.
        """
        written = [result.file for result in files if result.file is not None]
        self.values.extend(change for result in files for change in result.values)
        with self.phase("index"):
            values = self.writer.services.value_indexes(self.lease)
            values.stage(self.state, self.target.indexed, written, self.values)
            delta = self.begin_delta(self.options.integer("hoodie.hfile.block.size"))
            if delta is not None and RECORD_INDEX in self.config.maintained:
                delta.stats.extend(changes.log(delta, self.state, self.writer.runner))
            if isinstance(self.index, ExternalIndex):
                self.lease.check()
                entries = changes.entries(self.storage, self.instant)
                stage_entries(self.index, self.instant, entries, self.context)
        with self.phase("commit"):
            self._complete(files, delta)
        if isinstance(self.index, ExternalIndex):
            with self.phase("index"):
                # What waits for the commit to be visible; what fails here, the next write does.
                try:
                    apply_pending(self.index, self.instant, self.context)
                except (TableError, OSError) as error:
                    warn_pending(self.index, error)
        return CommitResult(
            instant=self.instant,
            index=self.index.name,
            phases=self.phases,
            files_written=len(self.written),
            inserted=counts.inserted,
            updated=counts.updated,
            deleted=counts.deleted,
            moved=counts.moved,
            unchanged=counts.unchanged,
        )

    def _complete(self, results: Sequence[FileGroupResult], delta: DeltaCommit | None) -> None:
        """Log the files in the metadata table and publish the commit.

        A task that ran twice left a file that no result names: it goes before anything is visible.
        """
        files: list[BaseFile] = [r.file for r in results if r.file is not None]
        stats: list[WriteStat] = [r.stat for r in results if r.stat is not None]
        sweep_losers(self.storage, self.instant, {file.path for file in files})
        if delta is not None:
            delta.put_files(files)
            merged: dict[str, dict[str, bytes]] = {}
            for result in results:
                for partition, (keys, values) in result.records.items():
                    merged.setdefault(partition, {}).update(zip(keys, values, strict=True))
            for partition, records in sorted(merged.items()):
                delta.put_records(partition, records)
        content = encode_commit(stats, schema=self.avro_schema, operation=self.operation)
        self.publish(delta, content)
        self.written.extend(files)


@contextlib.contextmanager
def begin(
    writer: Writer, operation: str, incoming: pa.Schema | None, *, maintain: bool = True
) -> Iterator[WriteTransaction]:
    """A write on a table without left-overs; whatever is raised in it takes the table back.

    All that is recovered, built and read for it is done before the caller sees the transaction.

    Args:
        writer: the table.
        operation: Hudi's name of the write, for the commit.
        incoming: the schema of the incoming rows, the table's if this is its first commit.
        maintain: whether the table's services run after the write.
    """
    started = writer.clock.seconds()
    writer.on_phase("open")
    with hold_recovered(writer) as lease:
        writer = replace(writer, storage=lease.storage)
        writer.services.prepare(lease)
        state = TableState.load(lease.storage)
        refuse_stale_index(state)
        writer.services.catch_up(state, lease)
        tx = _transaction(writer, state, lease, operation=operation, incoming=incoming)
        # Outside the try: where another writer took the instant, its files must stay.
        state.timeline.begin(tx.instant, tx.action)
        tx.phases["open"] = writer.clock.seconds() - started
        try:
            yield tx
        except LeaseLostError:
            # The table is another writer's now, and so is what this one left.
            raise
        except BaseException:
            # If the lease is not settled, the next writer may complete this write.
            if lease.settled:
                _take_back(tx)
            raise
        with tx.phase("services"):
            # The write is done; markers that cannot be swept now, the next write sweeps.
            with contextlib.suppress(StorageError):
                tx.storage.delete_tree(f"{TEMP}/{tx.instant}")
            if maintain:
                change = Change(time=tx.instant, written=tx.written)
                writer.services.maintain(state, change, lease, tx.values)
    tx.phases["total"] = writer.clock.seconds() - started
    writer.on_phase(None)


@contextlib.contextmanager
def hold_recovered(writer: Writer) -> Iterator[Lease]:
    """Hold the table, with all that dead writers and services left finished or taken back."""
    check_clock(writer.storage, writer.clock, writer.options)
    with hold(writer.storage, writer.clock, LeaseTerms.of(writer.options)) as lease:
        storage = lease.storage
        named = settle_keys(storage, writer.options.given).index_type
        if named is not None and index_name(named) != writer.index:
            # Its keys would get no entries in the index of now, or the rows of a key several.
            raise InputError(
                f"the table has the index {index_name(named)} and no longer {writer.index}, with "
                "which it was opened: open it anew"
            )
        index = load_index(writer.index)
        if isinstance(index, ExternalIndex) and pending_entries(storage):
            recover_entries(index, writer.context(TableState.load(storage)))
        clear_failed(storage)
        writer.services.recover(lease)
        yield lease


def _take_back(tx: WriteTransaction) -> None:
    """Undo a write; what cannot be taken back now, the next write takes back."""
    with contextlib.suppress(TableError, OSError):
        if isinstance(tx.index, ExternalIndex):
            withdraw_entries(tx.index, tx.instant, tx.context)
        undo(tx.storage, tx.state.timeline, tx.instant)


def _transaction(
    writer: Writer,
    state: TableState,
    lease: Lease,
    *,
    operation: str,
    incoming: pa.Schema | None,
) -> WriteTransaction:
    """Choose the instant and the index, and settle the schema."""
    config, options = state.config, writer.options
    avro = table_schema(state.timeline) or _first_schema(incoming, config)
    schema = without_meta(from_avro(avro)) if avro else None
    _warn_of_two_forms(config, schema)
    instant = state.next_instant(writer.clock)
    payload = options.text(PAYLOAD_CLASS)
    if payload not in (OVERWRITE_PAYLOAD, EVENT_TIME_PAYLOAD):
        raise UnsupportedTableError(f"payload class {payload} is not supported yet")
    target = WriteTarget(
        storage=lease.storage,
        instant=instant,
        schema=schema,
        options=base_file_options(options, config, schema),
        metadata_partitions=config.maintained,
        keys=StoredKeys.of(config),
        stores_meta=config.stores_meta,
        stat_columns=config.stat_columns,
        indexed=indexed_of(config, schema),
        ordering=config.ordering if payload == EVENT_TIME_PAYLOAD else None,
        page_rows=options.integer(PAGE_ROWS),
        ids=writer.ids,
    )
    return WriteTransaction(
        state=state,
        lease=lease,
        instant=instant,
        action="commit",
        writer=writer,
        index=tagging_index(writer.index, config, options),
        operation=operation,
        target=target,
        avro_schema=avro,
    )


def _first_schema(incoming: pa.Schema | None, config: TableConfig) -> str | None:
    """The Avro schema of a table's first rows: without meta columns, everything nullable."""
    if incoming is None:
        return None
    record, namespace = avro_names(config.name)
    fields = [f for f in without_meta(incoming) if f.name != DELETED_COLUMN]
    schema = pa.schema([f.with_nullable(nullable=True) for f in fields])
    return to_avro(schema, record_name=record, namespace=namespace)


def _warn_of_two_forms(config: TableConfig, schema: pa.Schema | None) -> None:
    """Warn that a table written by Hudi may hold a key twice, as two texts."""
    if schema is None or KEY_ENCODING in config.properties:
        return
    for name in config.record_key:
        kind = schema.field(name).type if name in schema.names else None
        if kind is not None and (pa.types.is_timestamp(kind) or pa.types.is_binary(kind)):
            warnings.warn(
                f"Hudi 0.15 writes keys of column {name} in one form by bulk insert and in another "
                "by upsert; Keymark takes the form of its upsert, so that rows which were bulk "
                "inserted by Hudi are not found",
                TableWarning,
                stacklevel=2,
            )
