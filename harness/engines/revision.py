"""The engine `native@COMMIT`: Keymark's own tables, as one revision of the code makes them.

Two revisions cannot share a Python process, so each has one of its own, with a Spark session of
the same settings (`revision_child`). `native@worktree` is the code of the work tree, in a process
of its own as well: both sides of a comparison get their calls in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from keymark.harness.engines import revisions
from keymark.harness.engines.base import IndexCheck, Layout, MeasuredTable, NamedIndex, Purged
from keymark.harness.engines.pipe import Asked, Child
from keymark.harness.measure.event_log import STEP_PROPERTY
from keymark.harness.measure.session import measuring_conf
from keymark.harness.redaction import redact
from keymark.harness.scenario.workload_section import SparkSection
from keymark.harness.tables.table_folders import Tables
from keymark.table.index.protocol import LookupStats, spec_of
from keymark.table.properties.options import INDEX_TYPE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row

_CHILD = Path(__file__).with_name("revision_child.py")
_DESCRIPTION = "spark.job.description"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionWrite:
    """What a write says; see `base.WriteOutcome`."""

    files_written: int
    phases: Mapping[str, float]


class RevisionRows:
    """The rows of a table, or those of some keys or a condition; read when asked for."""

    def __init__(
        self, child: Asked, table: int, keys: Sequence[str] | None, where: str | None
    ) -> None:
        self._child, self._table, self._keys, self._where = child, table, keys, where

    def digest(self, columns: Sequence[str]) -> tuple[int, str]:
        """Rows and digest of all rows."""
        rows, digest = self._child.call("digest", table=self._table, columns=list(columns))
        return int(rows), str(digest)

    def collect(self) -> list[Row]:
        """The rows of the condition, or of the keys."""
        keys = None if self._keys is None else list(self._keys)
        return list(self._child.call("find", table=self._table, keys=keys, where=self._where))

    def inputFiles(self) -> list[str]:  # noqa: N802 - a data frame's name for it
        """The files that `collect` opened."""
        return list(self._child.call("opened"))


@dataclass(frozen=True, slots=True)
class RevisionScan:
    """The rows of some keys, read without Spark when asked for.

    Attributes:
        child: the process of the revision.
        files: names of the base files that are opened.
    """

    child: Asked
    files: Sequence[str]

    def to_arrow(self) -> pa.Table:
        """The rows."""
        return self.child.call("scanned")


class RevisionTable:
    """A table under test; see `base.MeasuredTable`."""

    def __init__(self, child: Asked, number: int) -> None:
        self._child, self._number = child, number

    def bulk_insert(self, df: tuple[str, ...], /) -> RevisionWrite:
        """Load held rows into an empty table."""
        return self._write("bulk_insert", df)

    def upsert(self, df: tuple[str, ...], /) -> RevisionWrite:
        """Insert or update held rows by key."""
        return self._write("upsert", df)

    def delete(self, df: tuple[str, ...], /) -> RevisionWrite:
        """Delete held keys."""
        return self._write("delete", df)

    def read(self, keys: Sequence[str] | None = None, where: str | None = None) -> RevisionRows:
        """All rows, or those of record keys or of a condition."""
        return RevisionRows(self._child, self._number, keys, where)

    def scan(self, keys: Sequence[str] | None = None) -> RevisionScan:
        """The rows of all or some record keys, without Spark."""
        asked = None if keys is None else list(keys)
        files = self._child.call("scan", table=self._number, keys=asked)
        return RevisionScan(self._child, files)

    def lookup(self, _held: object, /, *, stats: LookupStats | None = None) -> None:
        """Look up the keys that the child holds; `stats` receives what that touched."""
        counts = self._child.call("lookup", table=self._number)
        for name, value in counts.items() if stats is not None else ():
            if hasattr(stats, name):
                setattr(stats, name, value)

    def info(self) -> NamedIndex:
        """What the table says about itself."""
        return NamedIndex(index=self._child.call("index", table=self._number))

    def check(self) -> IndexCheck:
        """Compare record index and data."""
        found: IndexCheck = SimpleNamespace(**self._child.call("check", table=self._number))
        return found

    def compact(self) -> str | None:
        """Merge the log blocks of the index into base files; None if there is nothing to merge."""
        instant = self._child.call("compact", table=self._number)
        return None if instant is None else str(instant)

    def drop_index(self) -> None:
        """Take the record index away."""
        self._child.call("drop_index", table=self._number)

    def build_index(self) -> None:
        """Build the record index of the rows that are there."""
        self._child.call("build_index", table=self._number)

    def purge(self, df: tuple[str, ...], /) -> Purged:
        """Erase held keys from all that the table keeps."""
        found: Purged = SimpleNamespace(**self._child.call("purge", table=self._number, files=df))
        return found

    def _write(self, operation: str, files: tuple[str, ...]) -> RevisionWrite:
        answer = self._child.call("write", table=self._number, operation=operation, files=files)
        return RevisionWrite(**answer)


class RevisionEngine:
    """Makes and opens tables through one revision; its process is `child`."""

    def __init__(self, child: Asked, tables: Tables) -> None:
        self._child, self._tables = child, tables
        # An earlier revision would refuse the option.
        counts = bool(tables.options) and child.call("counts_requests")
        self._counting = tables.options if counts else {}

    def requests(self) -> Mapping[str, int]:
        """Requests of all processes of the revision, if it counts them."""
        return self._tables.requests() if self._counting else {}

    def create(
        self, path: Path, layout: Layout, *, index: str, options: Mapping[str, str]
    ) -> MeasuredTable:
        """A new, empty table."""
        number = self._child.call(
            "create",
            path=self._tables.of(path),
            name=layout.name,
            record_key=layout.record_key,
            partition_path=layout.partition_path,
            ordering=layout.ordering,
            index=index,
            options={**options, **self._counting},
        )
        return self.table(number)

    def open(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A table that was made with this index."""
        given = {**options, **self._counting, INDEX_TYPE: spec_of(index).table_type}
        number = self._child.call("open", path=self._tables.of(path), options=given)
        return self.table(number)

    def table(self, number: int) -> MeasuredTable:
        """The table that the child knows by a number."""
        return RevisionTable(self._child, number)

    def adopt(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A copy of a table that names its index."""
        return self.open(path, index=index, options=options)

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Attribute the jobs of the child's session to a step."""
        properties = {STEP_PROPERTY: label, _DESCRIPTION: label}
        self._child.call("begin", properties=properties)
        try:
            yield
        finally:
            self._child.call("end", names=[*properties, "spark.jobGroup.id"])

    def limited(self, seconds: float) -> AbstractContextManager[None]:  # noqa: ARG002
        """An earlier revision cannot be stopped: its step runs to its end."""
        return nullcontext()

    def hold_rows(self, df: DataFrame, /) -> tuple[str, ...]:
        """The files of a data frame that was read from Parquet; the child has read their schema."""
        files = tuple(sorted(df.inputFiles()))
        self._child.call("hold_rows", files=files)
        return files

    def hold_keys(self, keys: pa.StringArray, _table: MeasuredTable, /) -> None:
        """Bring keys to the child."""
        self._child.call("hold_keys", keys=keys)

    def answer(self, _found: object, _keys: pa.StringArray, /) -> pa.Table:
        """The places that the child's lookup found."""
        return self._child.call("places")

    def digest(self, rows: RevisionRows, columns: Sequence[str], /) -> tuple[int, str]:
        """Rows and digest through the revision's own reader."""
        return rows.digest(columns)


def process(name: str, work: Path) -> Child:
    """The process of a revision, set up; its output goes to a log in `work`.

    Raises:
        HarnessError: there is no such revision, or it could not be set up.
    """
    ready = revisions.checkout(name)
    command = [str(ready.python), str(_CHILD), str(ready.root)]
    return Child(command, log=work / f"{name}.log", name=name)


def start(child: Asked, *, section: SparkSection, events: Path) -> dict[str, Any]:
    """Let a process start Spark; the options that it runs with, secrets left out.

    Raises:
        CellError: it did not come up.
    """
    conf = child.call("start", master=section.master, conf=measuring_conf(section, events))
    return {"conf": redact(conf), "seeded_ids": child.call("seeded")}
