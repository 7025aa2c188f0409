"""What writes need beside their rows, and one attempt to write: lock, instant, undo on failure."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from keymark.table.errors import (
    InputError,
    LeaseLostError,
    StorageError,
    TableError,
    TableWarning,
    UnsupportedTableError,
)
from keymark.table.format.parquet.base_file import BaseFileOptions, FooterOptions
from keymark.table.format.schema import (
    avro_names,
    conform,
    from_avro,
    to_avro,
    with_meta,
    without_meta,
)
from keymark.table.index.external import OutsideIndex, recover, take_back, unsettled
from keymark.table.index.protocol import Index, IndexContext, load_index, usable_index
from keymark.table.index.stale_index import refuse_left_behind
from keymark.table.keygen import record_keys
from keymark.table.keygen.auto import auto_keys
from keymark.table.keygen.stored import StoredKeys
from keymark.table.layout.model import BaseFile, CommitResult
from keymark.table.layout.naming import TEMP
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import (
    EVENT_TIME_PAYLOAD,
    KEY_ENCODING,
    MOVE_OPTIONS,
    OVERWRITE_PAYLOAD,
    PAYLOAD_CLASS,
    Options,
)
from keymark.table.rows.arrow import to_arrow
from keymark.table.runtime.clock import Clock
from keymark.table.runtime.ids import RANDOM, Ids
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.table_state import Change, TableState, table_schema
from keymark.table.storage.lease import Lease, LeaseTerms, hold
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import next_instant
from keymark.table.write.batch import DELETED_COLUMN, Batch, check_fields, delete_flags, keyed
from keymark.table.write.clock_check import check_clock
from keymark.table.write.file_group import WriteTarget
from keymark.table.write.key_facts import settle_keys
from keymark.table.write.undo import clear_failed, undo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOOM_ENABLED = "hoodie.parquet.bloom.filter.enabled"


class Services(Protocol):
    """What runs with a write, while it holds the table."""

    def recover(self, lease: Lease) -> None:
        """Finish or take back what services that died left."""

    def prepare(self, lease: Lease) -> None:
        """Build what the options ask for and the table does not have."""

    def maintain(self, attempt: Attempt) -> None:
        """Compact, clean and archive after a write, where the options ask for it.

        Never fails the write.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A table to write to. `options` are the table's facts and what was given for this write.

    `index` is the name of the table's index; `services` runs before and after the write; `spark`
    opens or returns a Spark session; `on_phase` is told when a phase begins; `ids` names new files.
    """

    storage: Storage
    clock: Clock
    runner: TaskRunner
    index: str
    options: Options
    services: Services
    spark: Callable[[], SparkSession]
    on_phase: Callable[[str], None]
    ids: Ids = RANDOM

    @property
    def moves(self) -> bool:
        """Whether a key that arrives with another partition moves there (update.partition.path)."""
        option = MOVE_OPTIONS.get(self.index)
        return option is not None and self.options.flag(option)

    def context(self, state: TableState) -> IndexContext:
        """The table as the index sees it."""
        return IndexContext.of(state, options=self.options, runner=self.runner, spark=self.spark)

    def attempt(
        self, operation: str, schema: pa.Schema | None, work: Callable[[Attempt], CommitResult]
    ) -> CommitResult:
        """Run one write under the lock, on a table without left-overs.

        Args:
            operation: Hudi's name of it, for the commit.
            schema: of the incoming rows, the table's if this is its first commit.
            work: does the write; whatever it raises takes the table back to where it was.
        """
        started = self.clock.seconds()
        check_clock(self.storage, self.clock, self.options)
        with hold(self.storage, self.clock, LeaseTerms.of(self.options)) as lease:
            holder = replace(self, storage=lease.storage)
            settle_keys(lease.storage, self.options.given)
            recover_entries(lease.storage, self.index, self.context)
            clear_failed(lease.storage)
            self.services.recover(lease)
            self.services.prepare(lease)
            state = TableState.load(lease.storage)
            refuse_left_behind(state)
            attempt = Attempt.of(holder, state, lease, operation, incoming=schema)
            result = self._run(attempt, work)
            self.services.maintain(attempt)
        result.phases["total"] = self.clock.seconds() - started
        return result

    def _run(self, attempt: Attempt, work: Callable[[Attempt], CommitResult]) -> CommitResult:
        # Outside the try: where another writer took the instant, its files must stay.
        attempt.state.timeline.begin(attempt.instant, "commit")
        try:
            result = work(attempt)
        except LeaseLostError:
            # The table is another writer's now, and so is what this one left.
            raise
        except BaseException:
            if not attempt.lease.settled:
                # The next writer may complete it.
                raise
            # What cannot be taken back now, the next write takes back.
            with contextlib.suppress(TableError, OSError):
                if isinstance(attempt.index, OutsideIndex):
                    take_back(attempt.index, attempt.instant, attempt.context)
                undo(attempt.storage, attempt.state.timeline, attempt.instant)
            raise
        # The write is done; markers that cannot be swept now, the next write sweeps.
        with contextlib.suppress(StorageError):
            attempt.storage.delete_tree(f"{TEMP}/{attempt.instant}")
        return result


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One write under way: the table as it was, the instant, and what the commit will say.

    `written` are the base files of the commit once it is completed.
    """

    writer: Writer
    state: TableState
    lease: Lease
    index: Index
    instant: str
    operation: str
    target: WriteTarget
    avro_schema: str | None
    unchanged: int = 0
    written: list[BaseFile] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        writer: Writer,
        state: TableState,
        lease: Lease,
        operation: str,
        *,
        incoming: pa.Schema | None,
    ) -> Attempt:
        """Choose the instant and the index, and settle the schema."""
        config = state.config
        stored = table_schema(state.timeline)
        record, namespace = avro_names(config.name)
        avro = stored or _first_schema(incoming, record, namespace)
        schema = without_meta(from_avro(avro)) if avro else None
        _warn_of_two_forms(config, schema)
        timelines = [state.timeline] + ([state.metadata.timeline] if state.metadata else [])
        instant = next_instant(writer.clock, config.zone, *timelines)
        target = WriteTarget(
            storage=writer.storage,
            instant=instant,
            schema=schema,
            options=base_file_options(writer.options, config, schema),
            metadata_partitions=config.maintained,
            keys=StoredKeys.of(config),
            stores_meta=config.stores_meta,
            stat_columns=config.stat_columns,
            ordering=config.ordering if _by_event_time(writer.options) else None,
            ids=writer.ids,
        )
        return cls(
            writer=writer,
            state=state,
            lease=lease,
            index=usable_index(writer.index, config, writer.options),
            instant=instant,
            operation=operation,
            target=target,
            avro_schema=avro,
        )

    @property
    def config(self) -> TableConfig:
        """The table's config."""
        return self.state.config

    @property
    def change(self) -> Change:
        """What the commit changed, once it is completed."""
        return Change(time=self.instant, written=self.written)

    @property
    def storage(self) -> Storage:
        """The table's storage."""
        return self.writer.storage

    @property
    def options(self) -> Options:
        """The options of this write."""
        return self.writer.options

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

    def batch(self, rows: DataFrame | pa.Table, *, new: bool = False) -> Batch:
        """Incoming rows in the table's schema, keyed and checked.

        Where the table has no key fields, `new` rows get generated keys, and others name theirs.
        """
        rows, config, keys = to_arrow(rows), self.config, None
        check_fields(rows, config)
        deletes = delete_flags(rows)
        if config.generates_keys:
            keys = (
                auto_keys(self.instant, 0, 0, rows.num_rows) if new else record_keys(rows, config)
            )
        return keyed(in_table_schema(rows, self.target.schema), config, deletes, keys)

    def tag(self, batch: Batch) -> pa.Table:
        """The index's answer for the keys of a combined batch."""
        with self.phase("tag"):
            return self.index.tag(batch.keys, batch.partitions, self.context)

    def locate(self, batch: Batch) -> pa.Table:
        """Where the keys of a combined batch are, exactly; as the index counts them."""
        with self.phase("tag"):
            return self.index.lookup(batch.keys, self.context, batch.partitions)

    def start(self) -> None:
        """Put the inflight file: data files follow."""
        self.state.timeline.start(self.instant, "commit")

    def average_record_bytes(self) -> float | None:
        """Bytes per row of the latest commit that wrote rows; None before the first."""
        for instant in reversed(self.state.timeline.completed(("commit", "replacecommit"))):
            done = self.state.timeline.commit(instant)
            if done.rows:
                return done.bytes_written / done.rows
        return None

    def result(self, **counts: int) -> CommitResult:
        """The write's result, with the phases measured so far."""
        return CommitResult(
            instant=self.instant, index=self.index.name, phases=self.phases, **counts
        )


def recover_entries(
    storage: Storage, index: str, context: Callable[[TableState], IndexContext]
) -> None:
    """Bring what dead writers left of an index outside the table up to date, under the lease.

    Args:
        storage: of the table.
        index: name of its index.
        context: makes the table that the index sees of a reading of it.
    """
    found = load_index(index)
    if isinstance(found, OutsideIndex) and unsettled(storage):
        recover(found, context(TableState.load(storage)))


def in_table_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Incoming rows in a table's schema: without meta columns and delete flags."""
    extra = [c for c in without_meta(rows.schema).names if c != DELETED_COLUMN]
    if len(set(extra)) < len(extra):
        name = next(c for c in extra if extra.count(c) > 1)
        raise InputError(f"the incoming rows have more than one column {name!r}")
    chosen = rows.select(extra)
    if DELETED_COLUMN in schema.names:
        chosen = chosen.append_column(DELETED_COLUMN, pa.array(delete_flags(rows)))
    return conform(chosen, schema, "the incoming rows")


def _by_event_time(options: Options) -> bool:
    """Whether the stored row stays where its ordering value is greater."""
    name = options.text(PAYLOAD_CLASS)
    if name not in (OVERWRITE_PAYLOAD, EVENT_TIME_PAYLOAD):
        raise UnsupportedTableError(f"payload class {name} is not supported yet")
    return name == EVENT_TIME_PAYLOAD


def _warn_of_two_forms(config: TableConfig, schema: pa.Schema | None) -> None:
    """Tell that a table of Hudi's may hold a key twice, as two texts."""
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


def _first_schema(incoming: pa.Schema, record: str, namespace: str) -> str | None:
    """The Avro schema of a table's first rows: without meta columns, everything nullable."""
    if incoming is None:
        return None
    fields = [f for f in without_meta(incoming) if f.name != DELETED_COLUMN]
    schema = pa.schema([f.with_nullable(nullable=True) for f in fields])
    return to_avro(schema, record_name=record, namespace=namespace)


def base_file_options(
    options: Options, config: TableConfig, schema: pa.Schema | None
) -> BaseFileOptions:
    """How base files of a table are written; `schema` is without meta columns."""
    record, namespace = avro_names(config.name)
    full = with_meta(schema) if schema else None
    return BaseFileOptions(
        codec=options.text("hoodie.parquet.compression.codec"),
        block_size=options.integer("hoodie.parquet.block.size"),
        avro_schema=to_avro(full, record_name=record, namespace=namespace) if full else None,
        footer=FooterOptions(
            bloom_enabled=config.stores_meta and options.flag(BLOOM_ENABLED),
            bloom_type=options.text("hoodie.bloom.index.filter.type"),
            bloom_entries=options.integer("hoodie.index.bloom.num_entries"),
            bloom_fpp=options.number("hoodie.index.bloom.fpp"),
            bloom_max_entries=options.integer("hoodie.bloom.index.filter.dynamic.max.entries"),
        ),
    )
