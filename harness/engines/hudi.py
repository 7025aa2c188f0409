"""The engine `hudi@VERSION`: tables that a release of Apache Hudi writes and reads.

Its tables are of the version that the release makes by default, or of the one that the engine's
name ends with (`hudi@1.2.0-v6`).

Jars of two releases cannot share a JVM, so each release has a process of its own (`hudi_child`),
warm for the whole run, with a Spark session of the same settings. Batches are Parquet files, the
same ones that `native` reads; results are compared with the truth through Hudi's own reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from keymark import Table
from keymark.harness.engines import HudiName, hudi_releases, s3a
from keymark.harness.engines.base import IndexCheck, Layout, MeasuredTable, NamedIndex, Purged
from keymark.harness.engines.hudi_options import kept_options, table_options
from keymark.harness.engines.hudi_process import HudiProcess
from keymark.harness.engines.pipe import Asked
from keymark.harness.engines.process_engine import AskedRows, ProcessEngine, layout_of
from keymark.harness.errors import CellError
from keymark.harness.tables import independent, timelines
from keymark.harness.tables.independent import SourceFacts
from keymark.harness.tables.other_indexes import drop_other_indexes
from keymark.harness.tables.table_folders import Tables
from keymark.indexes.installed import measured_specs
from keymark.indexes.spec import IndexSpec
from keymark.table.index.choice import declare_index
from keymark.table.index.protocol import LookupStats, index_name
from keymark.table.properties.config import load_config
from keymark.table.properties.options import INDEX_TYPE
from keymark.table.storage.stores import storage_at

_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
_SECONDARY = "hoodie.metadata.index.secondary."


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiWrite:
    """What a write of Hudi's left; see `base.WriteOutcome`."""

    path: Path

    @property
    def files_written(self) -> int:
        """Base files of the latest commit; none of one that wrote log files alone, or nothing."""
        is_later = independent.facts(self.path).version > hudi_releases.BASE_VERSION
        read = timelines.read_later if is_later else timelines.read
        latest = max(read(self.path).completed, default="")
        slices = independent.slices(self.path)
        return sum(each.has_base and each.instant == latest for each in slices)

    @property
    def phases(self) -> Mapping[str, float]:
        """Nothing: Hudi does not tell."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCounts:
    """What comparing a record index with the data found; see `base.IndexCheck`."""

    missing: int
    extra: int
    wrong: int
    duplicate: int

    @property
    def ok(self) -> bool:
        """No difference."""
        return not (self.missing or self.extra or self.wrong or self.duplicate)


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiTable:
    """A table under test; see `base.MeasuredTable`.

    Attributes:
        child: the process of its release.
        path: its folder in the run folder.
        tables: where tables are.
        layout: how its rows are keyed, laid out and ordered.
        index: name of its index.
        options: of every call.
    """

    child: Asked
    path: Path
    tables: Tables
    layout: Layout
    index: str
    options: Mapping[str, str]

    @property
    def place(self) -> str:
        """Where Hudi finds it: the path, or a URL."""
        where = self.tables.of(self.path)
        return s3a.place(where) if "://" in where else where

    def bulk_insert(self, df: tuple[str, ...], /) -> HudiWrite:
        """Load held rows into an empty table.

        A secondary index is built upon the loaded rows: Hudi 1.1 and 1.2 leave the rows of a
        table's first commit out of one that its options name, so that queries by it miss them.
        """
        of_first = {k: v for k, v in self.options.items() if not k.startswith(_SECONDARY)}
        loaded = self._write("bulk_insert", df, of_first)
        if len(of_first) < len(self.options):
            self.build_index()
        return loaded

    def upsert(self, df: tuple[str, ...], /) -> HudiWrite:
        """Insert or update held rows by key."""
        return self._write("upsert", df, self.options)

    def delete(self, df: tuple[str, ...], /) -> HudiWrite:
        """Delete held keys."""
        return self._write("delete", df, self.options)

    def _write(
        self, operation: str, files: tuple[str, ...], options: Mapping[str, str]
    ) -> HudiWrite:
        self.child.call("write", operation=operation, files=files, path=self.place, options=options)
        return HudiWrite(path=self.path)

    def read(self, keys: Sequence[str] | None = None, where: str | None = None) -> AskedRows:
        """All rows, those of a condition, or those of record keys.

        Keys are looked for by the key column that Hudi's pruning looks at; those of several columns
        by Hudi's meta column, which prunes nothing.
        """
        fields = self.layout.record_key
        return AskedRows(
            child=self.child,
            table={"path": self.place, "options": self.options},
            column=fields[0] if len(fields) == 1 else independent.KEY,
            keys=tuple(keys or ()),
            where=where,
        )

    def read_optimized(self, keys: Sequence[str] | None = None) -> AskedRows:
        """As `read`, of base files only."""
        table = {"path": self.place, "options": {**self.options, **_OPTIMIZED}}
        return replace(self.read(keys), table=table)

    def lookup(
        self,
        _held: object,
        /,
        *,
        stats: LookupStats | None = None,  # noqa: ARG002 - has none
    ) -> None:
        """Look up the keys that the child holds."""
        self.child.call("lookup", options=self.options)

    def info(self) -> NamedIndex:
        """The index of the writer's options, and of the table where it must be built there."""
        spec, index_type = measured_specs()[self.index], self.options[INDEX_TYPE]
        facts = independent.facts(self.tables.seen(self.path))
        partition = _partition(spec, facts)
        if partition is not None:
            is_built = partition in facts.partitions_of_metadata
            return NamedIndex(index=self.index if is_built else "none")
        return NamedIndex(
            index=self.index if index_type == spec.table_type else index_name(index_type)
        )

    def check(self) -> IndexCheck:
        """Hudi's record index against its data.

        In copy-on-write tables of version 6 both are read by Keymark, with no code of Hudi's. In
        others, and where Hudi keeps the index in a partition that Keymark does not use
        (`hudi_partition`), the index is read by Hudi (`hudi_index_check`).
        """
        here = self.tables.seen(self.path)
        facts, spec = independent.facts(here), measured_specs()[self.index]
        is_later = facts.is_merge_on_read or facts.version > hudi_releases.BASE_VERSION
        if is_later or spec.hudi_partition:
            counts = self.child.call(
                "check_index",
                path=self.place,
                options=self.options,
                in_partitions=not spec.is_global,
            )
            return IndexCounts(**counts)
        return Table.open(str(here), options={INDEX_TYPE: spec.table_type}).check()

    @property
    def leaves_deletes(self) -> bool:
        """A compaction of Hudi's leaves no log file."""
        return False

    def compact_rows(self) -> None:
        """Schedule a compaction of all file groups that have log files, and run it."""
        self.child.call("compact_rows", path=self.place, options=self.options)

    def compact(self) -> str | None:
        """Hudi merges the log blocks of its metadata table when it writes, not on demand."""
        raise CellError("Hudi's metadata table is compacted by its own writes only")

    def drop_index(self) -> None:
        """Take the record index away, by Keymark: Hudi does so only when it writes."""
        kind = measured_specs()[self.index].table_type
        options = {**self.tables.options, INDEX_TYPE: kind}
        Table.open(self.tables.of(self.path), options=options).drop_index()

    def build_index(self) -> None:
        """Let Hudi's metadata writer initialise what the options ask for, without a write."""
        self.child.call("build_index", path=self.place, options=self.options)

    def purge(self, _df: object, /) -> Purged:
        """Hudi erases old slices by cleaning only."""
        raise CellError("Hudi has no purge")


def _partition(spec: IndexSpec, facts: SourceFacts) -> str | None:
    """The partition of the metadata table in which Hudi has an index; None for none.

    An index with a partition of Hudi's own is there whatever the table's version: a release may
    make it in versions other than those that are known.
    """
    return spec.hudi_partition or spec.partition_in(facts.version)


class HudiEngine(ProcessEngine):
    """Makes and opens tables through one release of Hudi.

    Args:
        name: the release and the version of its tables.
        child: its process.
        tables: where its tables are.
        parallelism: tasks of each of Hudi's shuffles.
    """

    def __init__(
        self, name: HudiName, child: HudiProcess, tables: Tables, *, parallelism: int
    ) -> None:
        super().__init__(child, tables)
        self._name, self._parallelism = name, parallelism

    def create(
        self, path: Path, layout: Layout, *, index: str, options: Mapping[str, str]
    ) -> MeasuredTable:
        """A table that the first write makes."""
        self._child.revive()
        given = table_options(
            layout,
            index=index,
            engine=self._name,
            parallelism=self._parallelism,
            options=options,
        )
        return HudiTable(
            child=self._child,
            path=path,
            tables=self._tables,
            layout=layout,
            index=index,
            options=given,
        )

    def open(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A table that exists; metadata partitions that it has are kept."""
        facts = independent.facts(self._tables.seen(path))
        own = _partition(measured_specs()[index], facts)
        kept = kept_options([name for name in facts.partitions_of_metadata if name != own])
        given = {**options, **kept}
        return self.create(path, layout_of(facts), index=index, options=given)

    def adopt(self, path: Path, *, index: str, options: Mapping[str, str]) -> MeasuredTable:
        """A copy of a table: Hudi's index is a matter of its writer's options.

        Of tables of version 6, indexes that they have beside it are dropped, and so is what
        Keymark's say about their index: with Hudi its writer says it. Later ones keep what they
        have.
        """
        if independent.facts(self._tables.seen(path)).version > hudi_releases.BASE_VERSION:
            return self.open(path, index=index, options=options)
        place, options_there = self._tables.of(path), self._tables.options
        storage = storage_at(place, options_there)
        drop_other_indexes(place, index, options_there)
        config = load_config(storage)
        if INDEX_TYPE in config.properties:
            declare_index(storage, config, {})
        return self.open(path, index=index, options=options)

    def hold_keys(self, keys: pa.StringArray, table: Any, /) -> None:
        """Bring keys to Hudi's JVM, with their partitions where the index needs them.

        A partition-local index looks in the partition of the incoming row. The partition of a
        key that is in the table is that of its row; an absent one gets that of another row.
        """
        held = keys.to_pylist()
        partitions = None
        spec = measured_specs()[table.index]
        if not spec.is_global:
            here = self._tables.seen(table.path)
            located = independent.locations(here, keys).to_pydict()
            known = dict(zip(located["record_key"], located["partition_path"], strict=True))
            other = next(iter(known.values()), "")
            partitions = [known.get(key, other) for key in held]
        elif spec.metadata_partition is None:
            partitions = [""] * len(held)
        self._child.call(
            "hold_keys",
            path=table.place,
            keys=held,
            partitions=partitions,
            slices=self._parallelism,
        )
