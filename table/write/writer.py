"""What writes need beside their rows: the table, its options, its services, means to run work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from keymark.table.format.parquet.base_file import BaseFileOptions, FooterOptions
from keymark.table.format.schema import avro_names, to_avro, with_meta
from keymark.table.index.protocol import IndexContext, spec_of
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import Options
from keymark.table.runtime.clock import Clock
from keymark.table.runtime.ids import RANDOM, Ids
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.table_state import Change, TableState
from keymark.table.storage.lease import Lease
from keymark.table.storage.storage import Storage
from keymark.table.values.changes import ValueChange
from keymark.table.values.upkeep import ValueIndexes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOOM_ENABLED = "hoodie.parquet.bloom.filter.enabled"


class Services(Protocol):
    """What runs with a write, while it holds the table."""

    def recover(self, lease: Lease) -> None:
        """Finish or take back what services that died left."""

    def prepare(self, lease: Lease) -> None:
        """Build what the options ask for and the table does not have."""

    def catch_up(self, state: TableState, lease: Lease) -> None:
        """Take in what others wrote, where the table's index must know it before it is asked."""

    def value_indexes(self, lease: Lease) -> ValueIndexes:
        """The indexes of values, whose runs are put before a commit is visible."""

    def maintain(
        self, state: TableState, change: Change, lease: Lease, values: Sequence[ValueChange] = ()
    ) -> None:
        """Take files into indexes of values, compact, clean and archive after a write, when due.

        Never fails the write.

        Args:
            state: the table that the write began with.
            change: what the write did to it.
            lease: holds the table.
            values: what the write changed in values that are indexed, as far as it is known.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A table to write to. `options` are the table's facts and what was given for this write.

    `index` is the name of the table's index; `services` runs before and after the write; `spark`
    opens or returns a Spark session; `on_phase` gets each phase as it begins, and None after the
    write; `ids` names new files.
    """

    storage: Storage
    clock: Clock
    runner: TaskRunner
    index: str
    options: Options
    services: Services
    spark: Callable[[], SparkSession]
    on_phase: Callable[[str | None], None]
    ids: Ids = RANDOM

    @property
    def moves(self) -> bool:
        """Whether a key that arrives with another partition moves there (update.partition.path)."""
        option = spec_of(self.index).move_option
        return option is not None and self.options.flag(option)

    def context(self, state: TableState) -> IndexContext:
        """The table as the index sees it."""
        return IndexContext.of(state, options=self.options, runner=self.runner, spark=self.spark)


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
