"""What every call of a table works with: its storage, options, index, session and lease."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from keymark.table.errors import InputError
from keymark.table.format.hfile.cache import BlockCache
from keymark.table.index.choice import check_agreement, choose_index, table_options
from keymark.table.index.protocol import Index, IndexContext, LookupStats, load_index
from keymark.table.properties.config import TableConfig, load_config
from keymark.table.properties.options import BLOCK_CACHE, LOCAL_BYTES, Options, check_options
from keymark.table.rows.arrow import is_frame
from keymark.table.runtime.clock import Clock, SystemClock
from keymark.table.runtime.ids import RANDOM, Ids
from keymark.table.runtime.phases import phase_describer
from keymark.table.runtime.runner import LocalRunner, Progress, SparkRunner, TaskRunner, no_progress
from keymark.table.services.maintain import TableServices
from keymark.table.state.table_state import TableState
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage
from keymark.table.write.seal_check import warn_of_broken_seal
from keymark.table.write.transaction import hold_recovered
from keymark.table.write.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableHandle:
    """An open table.

    Args:
        storage: where the table is.
        options: options of this handle, checked; facts of the table win or must agree.
        spark: a Spark session; None uses the active one where Spark is needed.
        clock: the time.
        ids: names new files.
    """

    def __init__(
        self,
        storage: Storage,
        options: Mapping[str, str] | None = None,
        *,
        spark: SparkSession | None = None,
        clock: Clock | None = None,
        ids: Ids = RANDOM,
    ) -> None:
        if isinstance(storage, str | PathLike):
            raise InputError(f"Table.open({str(storage)!r}) opens the table at a path")
        self.storage = storage
        self._given = check_options(options or {})
        self._spark = spark
        self._clock = clock or SystemClock()
        self._ids = ids
        config = load_config(storage)
        warn_of_broken_seal(config)
        check_agreement(config, self._given)
        self.warned: set[str] = set()
        self.choice = choose_index(config, self._given, storage)
        capacity = self.options().integer(BLOCK_CACHE)
        self._cache = BlockCache(capacity) if capacity else None
        self._known: TableState | None = None

    @property
    def config(self) -> TableConfig:
        """hoodie.properties, read anew."""
        return load_config(self.storage)

    @property
    def index(self) -> Index:
        """The table's index."""
        return load_index(self.choice.name)

    def options(self) -> Options:
        """Facts of the table, what was given, and the defaults that depend on the index."""
        return table_options(self.config, self.choice.name, self._given)

    def state(self, as_of: str | None = None) -> TableState:
        """The table as it is now, or was at an instant: the listing is read when it has changed."""
        self._known = TableState.load(self.storage, as_of, self._known)
        return self._known

    @contextmanager
    def _held(self, progress: Progress = no_progress) -> Iterator[tuple[TableServices, Lease]]:
        """The table's services and its lease, on a table without left-overs."""
        with self._hold() as lease:
            yield self._services(self._runner(), progress), lease

    def _hold(self) -> AbstractContextManager[Lease]:
        return hold_recovered(self._writer(None, RANDOM))

    def _runner(self, options: Options | None = None) -> TaskRunner:
        if self._spark is None:
            return LocalRunner()
        local_bytes = (options or self.options()).integer(LOCAL_BYTES)
        return SparkRunner(self._spark, local_bytes=local_bytes)

    def _context(self, state: TableState, stats: LookupStats | None) -> IndexContext:
        # By the properties of that reading: far away each further look at them takes a request.
        options = table_options(state.config, self.choice.name, self._given)
        context = IndexContext.of(
            state, options=options, runner=self._runner(options), spark=self.session
        )
        return replace(context, stats=stats or LookupStats(), cache=self._cache)

    @property
    def has_session(self) -> bool:
        """Whether this handle has a Spark session already."""
        return self._spark is not None

    def session(self) -> SparkSession:
        """The Spark session: the one given, the active one, or a new local one."""
        from keymark.table.runtime.spark import session  # noqa: PLC0415  most uses need no Spark

        if self._spark is None:
            from pyspark.sql import SparkSession  # noqa: PLC0415

            self._spark = SparkSession.getActiveSession() or session(None, {})
        return self._spark

    def _writer(self, rows: Any, ids: Ids | None = None) -> Writer:
        if self._spark is not None or is_frame(rows):
            self._spark = self._spark or rows.sparkSession
        services = self._services(self._runner())
        return Writer(
            storage=self.storage,
            clock=self._clock,
            runner=services.runner,
            index=self.choice.name,
            options=services.options,
            services=services,
            spark=self.session,
            on_phase=phase_describer(self._spark),
            ids=ids or self._ids.of_write(),
        )

    def _services(self, runner: TaskRunner, progress: Progress = no_progress) -> TableServices:
        return TableServices(
            clock=self._clock,
            runner=runner,
            options=self.options(),
            index=self.choice.name,
            progress=progress,
        )
