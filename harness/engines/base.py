"""What the harness needs of an engine: tables that it can make, open and measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from keymark.harness.errors import CellError
from keymark.harness.measure.log_cost import StepCost

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row

    from keymark.table.index.protocol import LookupStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the rows under test are keyed, laid out and ordered; column names."""

    name: str
    record_key: tuple[str, ...]
    partition_path: tuple[str, ...]
    ordering: str | None


class WriteOutcome(Protocol):
    """What a write reports; `table.CommitResult` is one."""

    @property
    def files_written(self) -> int:
        """Base files of the commit."""

    @property
    def phases(self) -> Mapping[str, float]:
        """Seconds of `tag`, `write`, `index`, `commit`, `total`.

        Empty where the engine does not tell; they are then read off the event log, as far as
        its stages say what they belong to.
        """


class UsedIndex(Protocol):
    """What a table says about itself; `keymark.table.services.info.TableInfo` is one."""

    @property
    def index(self) -> str:
        """Name of the index that it uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedIndex:
    """A used index that an engine's process names."""

    index: str


class IndexCheck(Protocol):
    """A record index compared with the data; the `CheckResult` of a table is one."""

    @property
    def ok(self) -> bool:
        """No difference."""

    @property
    def missing(self) -> int:
        """Keys that the index lacks."""

    @property
    def extra(self) -> int:
        """Keys in the index only."""

    @property
    def wrong(self) -> int:
        """Keys in another place than the index says."""

    @property
    def duplicate(self) -> int:
        """Keys in more than one place of the data."""


class Purged(Protocol):
    """What a purge reports; `keymark.table.services.purge.purge.PurgeReport` is one."""

    @property
    def keys(self) -> int:
        """Distinct keys asked for."""

    @property
    def files_rewritten(self) -> int:
        """Base files written without them."""

    @property
    def files_left(self) -> int:
        """Files that still hold a key."""

    @property
    def proven(self) -> bool:
        """None does."""


class Rows(Protocol):
    """What a table's `read` gives; a data frame is one."""

    def collect(self) -> list[Row]:
        """The rows."""

    def inputFiles(self) -> list[str]:  # noqa: N802 - a data frame's name for it
        """The files that `collect` opens."""


class MeasuredTable(Protocol):
    """A table under test; `table.Table` is one.

    Rows, keys and answers are the engine's own kind; `Engine` translates them off the clock.
    """

    def bulk_insert(self, df: Any, /) -> WriteOutcome:
        """Load rows into an empty table."""

    def upsert(self, df: Any, /) -> WriteOutcome:
        """Insert or update by key."""

    def delete(self, df: Any, /) -> WriteOutcome:
        """Delete by key."""

    def read(self, keys: list[str] | None = None, where: str | None = None) -> Rows:
        """The live rows, those of encoded record keys, or those of a condition in SQL."""

    def lookup(self, keys: Any, /, *, stats: LookupStats | None = None) -> Any:
        """The place of each key, in the form that `Engine.answer` knows.

        `stats` receives what a lookup of `native` touched.
        """

    def info(self) -> UsedIndex:
        """What the table says about itself."""

    def check(self) -> IndexCheck:
        """Compare record index and data."""

    def compact(self) -> str | None:
        """Merge the log blocks of the index into base files; None if there is nothing to merge."""

    def drop_index(self) -> None:
        """Take the record index away."""

    def build_index(self) -> object:
        """Build the record index of the rows that are there."""

    def purge(self, df: Any, /) -> Purged:
        """Erase keys, as `delete` takes them, from all that the table keeps."""


@runtime_checkable
class Compactable(Protocol):
    """A table whose rows can be put together in fewer files on demand."""

    @property
    def leaves_deletes(self) -> bool:
        """Whether a compaction may leave files that say which rows of others are gone."""

    def compact_rows(self) -> None:
        """Merge log files, deletes and small files into base files."""


@runtime_checkable
class MergeOnRead(Compactable, Protocol):
    """A table whose rows may be in log files; those of Hudi can be."""

    def read_optimized(self, keys: list[str] | None = None) -> Rows:
        """The rows in base files, as they were at the last compaction."""


def merge_on_read(table: MeasuredTable) -> MergeOnRead:
    """The table, if it is of an engine that has merge-on-read tables.

    Raises:
        CellError: it is not.
    """
    if not isinstance(table, MergeOnRead):
        raise CellError("only Hudi reads base files without what was changed since")
    return table


class ScannedRows(Protocol):
    """What a scan gives; `keymark.table.read.arrow.ReadPlan` is one."""

    @property
    def files(self) -> Sequence[object]:
        """The base files that `to_arrow` opens."""

    def to_arrow(self) -> pa.Table:
        """The rows."""


@runtime_checkable
class Scannable(Protocol):
    """A table that is read without Spark; Keymark's are."""

    def scan(self, keys: list[str] | None = None) -> ScannedRows:
        """The live rows, or those of encoded record keys."""


def scannable(table: MeasuredTable) -> Scannable:
    """The table, if it is read without Spark.

    Raises:
        CellError: it is not.
    """
    if not isinstance(table, Scannable):
        raise CellError("only Keymark's tables are scanned")
    return table


def compactable(table: MeasuredTable) -> Compactable:
    """The table, if its rows can be put together on demand.

    Raises:
        CellError: they cannot.
    """
    if not isinstance(table, Compactable):
        raise CellError("Keymark's tables are copy-on-write: there is nothing to compact")
    return table


class Engine(Protocol):
    """Makes tables with a given index, and speaks their language."""

    def create(
        self, path: Path, layout: Layout, *, index: str, options: Mapping[str, str]
    ) -> MeasuredTable:
        """A new, empty table."""

    def open(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A table that was made or adopted with this index."""

    def adopt(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A copy of somebody's table, to be used with this index from now on."""

    def step(self, label: str) -> AbstractContextManager[StepCost | None]:
        """Attribute what the engine's Spark does in the block to a step; what that costs."""

    def requests(self) -> Mapping[str, int]:
        """Requests to an object store so far, by kind; empty where they are not counted."""

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        """Let what the engine's Spark does in the block fail once it has taken so long."""

    def hold_rows(self, df: DataFrame, /) -> Any:
        """A data frame of the run's session, as the writes of this engine take it."""

    def hold_keys(self, keys: pa.StringArray, table: MeasuredTable, /) -> Any:
        """Record keys, as the lookups of the table take them."""

    def answer(self, found: Any, keys: pa.StringArray, /) -> pa.Table:
        """A lookup's answer: record key, partition path, file id per key, in order.

        The last two are null where a key is absent.
        """

    def digest(self, rows: Any, columns: Sequence[str], /) -> tuple[int, str]:
        """Rows and digest of what a table's `read` returned."""
