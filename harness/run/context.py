"""What one run works with, behind protocols: so that the runner is tested without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from keymark.harness.engines.base import Engine, Layout
from keymark.harness.tables.readings import FileReadings
from keymark.harness.tables.table_folders import LocalTables, Tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


SNAPSHOT = "snapshot"
"""Name of the folder of a loaded table, which the repetitions of its cells start from."""


class Inputs(Protocol):
    """The rows of a run, prepared before any clock starts; `inputs.SparkInputs` is one."""

    @property
    def layout(self) -> Layout:
        """How the rows are keyed, laid out and ordered."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that digests are over."""

    def load(self) -> DataFrame:
        """The rows that a table is loaded with."""

    def batch(self, round_: int, /) -> DataFrame:
        """The rows of change batch 1, 2, ..."""

    def warm_up(self) -> DataFrame:
        """A few rows of the first batch or of the load, for a table that warms up."""

    def deletes(self) -> DataFrame:
        """The keys of the delete step, with the partition columns."""

    def deleted_keys(self) -> pa.StringArray:
        """Record keys of the delete step."""

    def nulled(self) -> DataFrame:
        """The rows of the delete step with some of their columns nulled."""

    def nulled_truth(self, round_: int, /) -> tuple[int, str]:
        """Rows and digest that the table must have after a round, with those rows nulled."""

    def spread(self) -> DataFrame:
        """Rows all over the table that a batch changes once more; see `spread_rows`."""

    def spread_truth(self, round_: int, /, *, deleted: bool) -> tuple[int, str]:
        """Rows and digest that the table must have after that batch, too."""

    def size(self, step: str, /) -> int:
        """Number of keys that a step handles."""

    def truth(self, round_: int, *, deleted: bool) -> tuple[int, str]:
        """Rows and digest that the table must have after a round, and after the delete step."""

    def lookup_keys(self) -> pa.Table:
        """Keys (record_key: string, expect_present: bool) of the lookup step."""

    def few_keys(self) -> pa.Table:
        """The lookup keys that the step `lookup_few` asks for."""

    def model_keys(self) -> pa.Table:
        """Keys (record_key, expect_present) of the lookup model, as many of each kind.

        Keys of a kind are in random order, so that any stretch of them is a sample.
        """

    def point_key(self, repetition: int, /) -> str:
        """The key of the point query, another for each repetition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Everything that measuring a cell needs.

    Attributes:
        inputs: rows and their truth.
        engines: by name.
        work: folder for tables; on the same file system as the run folder, removed at the end.
        source: table to start from instead of loading generated rows.
        clock: monotonic seconds.
        tables: where the tables of `work` are.
        trial_limit_s: seconds that a load or a repetition takes at most; None for no limit.
        readings: what base files of large tables hold, as far as they were read.
    """

    inputs: Inputs
    engines: Mapping[str, Engine]
    work: Path
    source: Path | None
    clock: Callable[[], float]
    tables: Tables = field(default_factory=LocalTables)
    trial_limit_s: float | None = None
    readings: FileReadings = field(default_factory=FileReadings)
