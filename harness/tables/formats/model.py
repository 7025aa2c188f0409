"""A table of another format: its facts, and its live files with their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from keymark.harness.errors import HarnessError

NAME, KEY, ORDERING = "keymark.table.name", "keymark.recordkey.fields", "keymark.ordering.field"
"""Table properties in which an engine keeps what these formats have no words for."""

NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Partition path of a null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatFacts:
    """How the rows of a table are keyed, laid out and ordered, and its properties."""

    name: str
    record_key: tuple[str, ...]
    partition_path: tuple[str, ...]
    ordering: str | None
    properties: Mapping[str, str]

    @classmethod
    def of(cls, properties: Mapping[str, str], partitions: Sequence[str]) -> FormatFacts:
        """The facts of a table that an engine of this harness made."""
        return cls(
            name=properties.get(NAME, ""),
            record_key=tuple(filter(None, properties.get(KEY, "").split(","))),
            partition_path=tuple(partitions),
            ordering=properties.get(ORDERING) or None,
            properties=properties,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatFile:
    """A live data file.

    Attributes:
        path: of the file.
        partition_path: values of the partition columns, joined by slashes.
        commit: that added it in this state; commits of a table ascend as texts.
        deletes: files that say which of its rows are gone.
        mark: what tells this state of the deletes from others of the same file.
        gone: positions of the rows that are gone, ascending.
        constants: columns that the file does not hold, with the value of all of its rows.
    """

    path: Path
    partition_path: str
    commit: str
    deletes: tuple[Path, ...] = ()
    mark: str = ""
    gone: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)

    @property
    def file_id(self) -> str:
        """Its name without the ending."""
        return self.path.stem

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Its live rows, with some columns or all.

        Raises:
            HarnessError: deletes name rows that it does not have.
        """
        # Delta writes timestamps as Spark does by default: 96 bits, nanoseconds to Arrow.
        file = pq.ParquetFile(self.path, coerce_int96_timestamp_unit="us")
        held = file.schema_arrow.names
        wanted = [*held, *self.constants] if columns is None else list(columns)
        found = file.read([name for name in wanted if name in held])
        rows = file.metadata.num_rows
        for name in wanted:
            if name in self.constants and name not in held:
                found = found.append_column(name, pa.repeat(self.constants[name], rows))
        if len(self.gone):
            if self.gone[-1] >= rows:
                raise HarnessError(f"{self.path.name} has {rows} rows, and {self.gone[-1]} is gone")
            live = np.ones(rows, np.bool_)
            live[self.gone] = False
            found = found.filter(pa.array(live))
        found = found.select(wanted)
        plain = [field.with_type(_without_views(field.type)) for field in found.schema]
        return found.cast(pa.schema(plain))


def _without_views(kind: pa.DataType) -> pa.DataType:
    """A type whose texts are no views, as delta-rs has them written into its files' metadata."""
    types = pa.types
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(_without_views(kind.key_type), _without_views(kind.item_type))
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommit:
    """What the latest commit of a table says about itself.

    Attributes:
        files: that it wrote: data files and files of deletes.
        metrics: its own measurements.
    """

    files: int
    metrics: Mapping[str, str]


class TableReader(Protocol):
    """Reads the tables of one format; those that are refused are named in a HarnessError."""

    def is_of(self, table: Path) -> bool:
        """Whether a folder holds a table of the format."""

    def facts(self, table: Path) -> FormatFacts:
        """What the table says about its rows."""

    def files(self, table: Path) -> Sequence[FormatFile]:
        """The live data files."""

    def last_commit(self, table: Path) -> LastCommit:
        """The latest commit."""

    def rows_written(self, table: Path, added: Collection[str]) -> int:
        """Rows in the data files of the commits of which files, by relative path, were added."""
