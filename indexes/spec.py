"""The spec of an index: all that is true of it and that others ask. Plain data and small formulas.

Tables, the harness, reports and the planner ask a spec instead of comparing names of indexes. So a
spec imports no table, no Arrow, no numpy and no Spark. A run folder keeps the data of the specs,
without the functions, so that a report needs no index installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from keymark.indexes.workload import Workload

Amounts = Mapping[str, float]
"""Amounts of work by name. Their constants are fitted to calibration runs."""

Formula = Callable[[Workload, str], dict[str, float]]
"""Amounts of a workload in a mode: TASKS of Spark, or THREADS of the writer's process."""

TASKS, THREADS = "tasks", "threads"

KeyRuns = Literal["", "keys", "hashes"]

UNKNOWN_COLOR = "#8a9099"
"""The colour of indexes that say no other one."""

# What options ask for that Hudi has for several indexes and Keymark refuses.
LOOKUP_TASKS = "a number of lookup tasks by hand (cores and sizes say it)"
CACHED_ROWS = "caching incoming rows (they are in memory while tagged)"

_OWN_VERSION = 6
"""The version of the tables that Keymark writes."""
_COLOR = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOption:
    """An option that belongs to an index.

    Attributes:
        name: of the option.
        default: as text; None if there is none.
        positive: whether a whole number must be at least 1.
        share: whether it is a number above 0 and at most 1.
        choices: the only values that are supported; none: any.
        fixed: whether a table keeps it in hoodie.properties and never changes it.
        of_key: whether it names columns of the record key; their default is all of them.
    """

    name: str
    default: str | None = None
    positive: bool = False
    share: bool = False
    choices: tuple[str, ...] = ()
    fixed: bool = False
    of_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupCounter:
    """A number that a lookup counts; `title` is what a chart's axis says."""

    name: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What must be there before an index works: declared, for no run can measure it.

    Options are those of Apache Hudi 0.15.0 that a writer must set, as HoodieIndexConfig,
    HoodieMetadataConfig and HoodieHBaseIndexConfig have them: no default, a default that is another
    index's, or a number that the table can never change.

    Attributes:
        options: names of the options to set.
        steps: what to do to a table that has rows.
        servers: processes that must run beside the writer.
    """

    options: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Equation:
    """A formula with a name; indexes whose equations have one name share its constants.

    Attributes:
        name: `<quantity>/<family>`.
        formula: its amounts.
        scans: whether its amount `rows` is reading rows of key columns: one constant for all.
    """

    name: str
    formula: Formula
    scans: bool = False


def _no_options(_at: Workload) -> dict[str, str]:
    """An index whose options do not depend on the workload."""
    return {}


def _no_weight(_at: Workload) -> float:
    """Work that no runner weighs."""
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCost:
    """What an index costs, as formulas.

    Attributes:
        equations: by quantity: `tag`, `lookup`, `index`, `shuffle`, `index_bytes`, `bootstrap`,
            `point_query`. A quantity without an equation is nothing; without `lookup`, a lookup is
            tagging; without `point_query`, a query by key opens all base files.
        written: amounts of writing the base files that are the index's own; such an index has
            constants of writing of its own.
        weight: bytes of work of tagging, as the table's runner counts them.
        memory: bytes that the largest task holds; None where that is not known.
        index_bytes: bytes on storage where they follow from the formula alone.
        options: what gives a table the index as it was predicted, beside its type.
        fewest_shards: that leave room for the table to grow, if the index is in shards.
        block_bytes: of the data blocks with which it is asked fastest, if it has such.
        since: by amount, the release of Hudi that began the work; others are in all releases.
    """

    equations: Mapping[str, Equation]
    written: Callable[[Workload], dict[str, float]] | None = None
    weight: Callable[[Workload], float] = _no_weight
    memory: Callable[[Workload], float] | None = None
    index_bytes: Callable[[Workload], float] | None = None
    options: Callable[[Workload], dict[str, str]] = _no_options
    fewest_shards: Callable[[Workload], int] | None = None
    block_bytes: Callable[[Workload], int] | None = None
    since: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """One index.

    Attributes:
        name: on the command line and in scenarios.
        table_type: its `hoodie.index.type`.
        is_global: one key space for the whole table, or one per partition path.
        is_exact: tagging says whether the key is there, not only where it belongs.
        order: its place in tables and charts.
        color: on charts.
        is_default: whether new tables get it where nothing is said.
        is_compared: whether scenarios that name no indexes measure it.
        metadata_partition: the partition of the metadata table that it looks keys up in.
        key_runs: what the runs hold that Keymark keeps beside the metadata table, and that it looks
            record keys up in (`table/values`): `keys`, or `hashes` of them; "" for no runs.
        build_options: names of the options that say how that partition is built.
        owns_layout: whether it decides which file group a key is in.
        tags_in_tasks: whether a task that has only a part of a batch's keys finds them with its
            part of the work. Otherwise the writer asks for some keys of a large batch at a time, or
            the index has `tag_frame` (table.index.protocol).
        reads_filters: whether it asks key ranges and bloom filters in footers.
        entries: what holds its entries outside of the table, in words.
        entries_option: the option that names it.
        move_option: says whether a key moves when it arrives with another partition path.
        duplicates: default of `hoodie.datasource.insert.dup.policy` on its tables.
        options: that belong to it.
        unsupported_options: that Hudi has for it and Keymark refuses, each with what it asks for.
        requirements: what must be there before it works.
        counters: what its lookups count.
        named_to_hudi: the `hoodie.index.type` that Keymark's tables name for Hudi's writers, where
            these do not have the index in tables of that version.
        in_hudi: whether Apache Hudi has it.
        hudi_before: the first release of Hudi that no longer has it.
        hudi_since: the first release of Hudi that has it.
        hudi_table_versions: of Hudi's tables that can have it, each with the first release that
            writes it there; none: all.
        hudi_partition: the partition of the metadata table that it looks keys up in, in tables that
            Hudi wrote with `hudi_table_versions`; Keymark keeps the index elsewhere.
        hudi_options: what Hudi's writer needs beside the type.
        published_shuffle: bytes that tagging a batch shuffled for each row of the table in the run
            that the record index's authors published; 0 where they published none.
        in_formats: the formats other than Hudi's whose engines have it, as a mode in which they
            find and replace rows, each with its first release.
        table_properties: of a table of such a format that is written in this mode.
        cells: `module:object` of what a run does around its cells (`harness` has the protocol).
        cost: in Keymark; None if it is unknown.
        hudi_cost: in Apache Hudi; None if it is unknown.
    """

    name: str
    table_type: str
    is_global: bool
    is_exact: bool = True
    order: int = 1000
    color: str = UNKNOWN_COLOR
    is_default: bool = False
    is_compared: bool = False
    metadata_partition: str | None = None
    key_runs: KeyRuns = ""
    build_options: tuple[str, ...] = ()
    owns_layout: bool = False
    tags_in_tasks: bool = False
    reads_filters: bool = False
    entries: str = ""
    entries_option: str = ""
    move_option: str | None = None
    duplicates: str = "none"
    options: tuple[IndexOption, ...] = ()
    unsupported_options: Mapping[str, str] = field(default_factory=dict)
    requirements: Requirements = field(default_factory=Requirements)
    counters: tuple[LookupCounter, ...] = ()
    named_to_hudi: str = ""
    in_hudi: bool = False
    hudi_before: tuple[int, ...] | None = None
    hudi_since: tuple[int, ...] = ()
    hudi_table_versions: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    hudi_partition: str | None = None
    hudi_options: Mapping[str, str] = field(default_factory=dict)
    published_shuffle: float = 0.0
    in_formats: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    table_properties: Mapping[str, str] = field(default_factory=dict)
    cells: str = ""
    cost: IndexCost | None = None
    hudi_cost: IndexCost | None = None

    @property
    def needs_base_files_only(self) -> bool:
        """Whether it finds the keys of any table, wherever their rows are."""
        apart = self.metadata_partition or self.key_runs or self.entries or self.owns_layout
        return self.is_global and not apart and not self.in_formats

    @property
    def is_built(self) -> bool:
        """Whether it is built from the keys of base files, and kept in the table."""
        return self.metadata_partition is not None or self.key_runs != ""

    def hudi_has_it(self, release: tuple[int, ...], table_version: int) -> bool:
        """Whether a release of Hudi has it in tables of a version."""
        if not self.in_hudi or (self.hudi_before is not None and release >= self.hudi_before):
            return False
        since = self.hudi_table_versions or {table_version: self.hudi_since}
        return table_version in since and release >= max(self.hudi_since, since[table_version])

    def partition_in(self, table_version: int) -> str | None:
        """The partition of the metadata table that has it in tables of a version; None for none.

        Of version 6 it is Keymark's own: a table of Hudi's may have the index in it, too.
        """
        if table_version in self.hudi_table_versions and table_version > _OWN_VERSION:
            return self.hudi_partition
        return self.metadata_partition

    @property
    def takes_loaded_files(self) -> bool:
        """Whether it can be built upon base files that were loaded with another index."""
        return not (self.entries or self.owns_layout)

    @property
    def own_options(self) -> frozenset[str]:
        """Names of options that make no base file another one, unless it owns the layout."""
        return frozenset((*(option.name for option in self.options), *self.build_options))

    @property
    def fixed_options(self) -> tuple[IndexOption, ...]:
        """The options that a table keeps."""
        return tuple(option for option in self.options if option.fixed)


UNKNOWN = IndexSpec(name="", table_type="", is_global=True)
"""The spec of an index about which nothing is known."""

_PLAIN = (
    *("name", "table_type", "is_global", "is_exact", "order", "color"),
    *("metadata_partition", "owns_layout", "entries", "published_shuffle"),
)


def spec_data(spec: IndexSpec) -> dict[str, Any]:
    """What a run folder keeps of a spec: JSON types only."""
    needs = spec.requirements
    return {
        **{name: getattr(spec, name) for name in _PLAIN},
        "requirements": {part.name: list(getattr(needs, part.name)) for part in fields(needs)},
        "counters": {counter.name: counter.title for counter in spec.counters},
    }


def spec_from(data: Mapping[str, Any]) -> IndexSpec:
    """A spec from what a run folder keeps of it.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is none.
    """
    needs = {name: tuple(map(str, words)) for name, words in data["requirements"].items()}
    counters = (LookupCounter(name=n, title=str(title)) for n, title in data["counters"].items())
    color = str(data["color"])
    return IndexSpec(
        name=str(data["name"]),
        table_type=str(data["table_type"]),
        is_global=bool(data["is_global"]),
        is_exact=bool(data["is_exact"]),
        order=int(data["order"]),
        color=color if _COLOR.fullmatch(color) else UNKNOWN_COLOR,
        metadata_partition=data["metadata_partition"],
        owns_layout=bool(data["owns_layout"]),
        entries=str(data["entries"]),
        requirements=Requirements(**needs),
        counters=tuple(counters),
        published_shuffle=float(data.get("published_shuffle", 0.0)),
    )
