"""What a write needs of an index, and how one is found by name.

`table` knows no index: implementations register under the entry-point group `keymark.indexes`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, runtime_checkable

import pyarrow as pa

from keymark.indexes.installed import GROUP, of_key_runs, specs
from keymark.indexes.spec import IndexSpec
from keymark.table.errors import InvalidOptionError
from keymark.table.format.hfile.cache import BlockCache
from keymark.table.layout.view import Snapshot
from keymark.table.metadata.reader import MetadataTable
from keymark.table.properties.config import TableConfig
from keymark.table.properties.options import INDEX_FALLBACK, INDEX_TYPE, Options
from keymark.table.runtime.runner import TaskRunner
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCATION_SCHEMA = pa.schema(
    [("partition_path", pa.string()), ("file_id", pa.string()), ("instant_time", pa.string())]
)


@dataclass(slots=True)
class LookupStats:
    """What a lookup touched; indexes add to it.

    `candidates` are the pairs of key and file that a bloom index checks against filters, or that
    hashes allow, `false_positives` those that passed for nothing, `proven` those of which the file
    holds the key; for these `pages_read` pages of keys and commits were read. `ranges_from_...`
    and `filters_from_...` count the files whose key range or filter it took from there. `others`
    are what an index counts besides, by name.
    """

    shards_read: int = 0
    blocks_decoded: int = 0
    files_read: int = 0
    candidates: int = 0
    false_positives: int = 0
    proven: int = 0
    pages_read: int = 0
    ranges_from_footers: int = 0
    ranges_from_metadata: int = 0
    filters_from_footers: int = 0
    filters_from_metadata: int = 0
    others: dict[str, int] = field(default_factory=dict)

    def count(self, name: str, number: int) -> None:
        """Add to a counter that is an index's own."""
        self.others[name] = self.others.get(name, 0) + number

    def counted(self, name: str) -> int:
        """The value of a counter, by its name."""
        return int(getattr(self, name, self.others.get(name, 0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexContext:
    """The table as an index sees it: one snapshot, its metadata table, and means to run work.

    `spark` opens (or returns) a Spark session; only indexes that distribute data call it. `cache`
    keeps blocks of the index between lookups; a write has none: its batch would only evict them.
    """

    storage: Storage
    config: TableConfig
    options: Options
    snapshot: Snapshot
    metadata: MetadataTable | None
    runner: TaskRunner
    spark: Callable[[], SparkSession]
    stats: LookupStats = field(default_factory=LookupStats)
    cache: BlockCache | None = None

    @classmethod
    def of(
        cls,
        state: TableState,
        *,
        options: Options,
        runner: TaskRunner,
        spark: Callable[[], SparkSession],
    ) -> IndexContext:
        """The table as one reading of it has it."""
        return cls(
            storage=state.storage,
            config=state.config,
            options=options,
            snapshot=state.snapshot,
            metadata=state.metadata,
            runner=runner,
            spark=spark,
        )


def no_session() -> NoReturn:
    """In place of a session, for an index outside the table and for one that a task asks."""
    raise AssertionError("this index is asked where there is no Spark session")


class Index(Protocol):
    """Finds the file group of each key.

    Attributes:
        name: the name on the command line.
        is_global: one key space for the whole table, or one per partition path.
        is_exact: a tag says that the key is in that file group; otherwise it says where the key
            belongs, and merging with the base file finds out whether it is there.

    An attribute `spec`, an IndexSpec, says the rest. Without it an index has no options, no
    counters and no cost. Where the spec says `tags_in_tasks`, `tag` and `lookup` of a large batch
    are called in Spark tasks, with a context that has no session and runs work in one thread.
    """

    name: ClassVar[str]
    is_global: ClassVar[bool]
    is_exact: ClassVar[bool]

    def tag(self, keys: pa.Array, partitions: pa.Array, context: IndexContext) -> pa.Table:
        """Locate the keys of a batch.

        Args:
            keys: distinct record keys (of one partition path, where the index is partition-local).
            partitions: the partition path of each incoming row.
            context: the table.

        Returns:
            A row of LOCATION_SCHEMA per key in the same order, null where the key is new.
        """

    def lookup(
        self, keys: pa.Array, context: IndexContext, partitions: pa.Array | None = None
    ) -> pa.Table:
        """Locate keys exactly: as `tag`, null for every key that is in no file.

        Args:
            keys: distinct, or with `partitions` distinct per partition path.
            context: the table.
            partitions: the only partition path in which a partition-local index looks for each key;
                a global index takes no notice. None: a key counts wherever it is, and where it is
                in several partition paths, in the first of them.
        """

    def buckets(self, keys: pa.Array, config: TableConfig, options: Options) -> Any:
        """The bucket (int32) in which each new key belongs, or None: any file group will do."""


@runtime_checkable
class FrameIndex(Index, Protocol):
    """An index that finds the keys of a large batch in Spark, all at once.

    A method that an index may leave out: the writer then asks `tag` or `lookup` for some keys at a
    time, and an index that reads files for them reads these anew each time.
    """

    def tag_frame(self, keys: DataFrame, context: IndexContext) -> DataFrame | None:
        """Locate the keys of a batch exactly.

        Args:
            keys: columns part and row (int), which number a key, key and partition (string).
                Spark does not know how many there are.
            context: the table.

        Returns:
            part, row and the columns of LOCATION_SCHEMA for each key that is there, in any order;
            of several places the first one counts, by partition path and file id. None: the index
            is to be asked for some keys at a time. If the frame fails, it is asked so, too, for
            its error names the file that was at fault.
        """


@functools.cache
def load_index(name: str) -> Index:
    """The index registered under that name."""
    for entry in entry_points(group=GROUP, name=name):
        index: Index = entry.load()()
        return index
    raise InvalidOptionError(f"unknown index {name!r}, one of {', '.join(specs())}")


def usable_index(name: str, config: TableConfig, options: Options) -> Index:
    """The table's index, or the fallback that the user named where the index is not built."""
    partition = spec_of(name).metadata_partition
    if partition is None or partition in config.metadata_partitions:
        return load_index(name)
    return load_index(options.optional(INDEX_FALLBACK) or name)


def tagging_index(name: str, config: TableConfig, options: Options) -> Index:
    """The index that a write asks: the one that stands beside the table's own, if it has both.

    It finds candidates in a part of the time, and merging proves them.
    """
    if config.key_runs and has_partition(name, config):
        return load_index(of_key_runs(config.key_runs).name)
    return usable_index(name, config, options)


def has_partition(name: str, config: TableConfig) -> bool:
    """Whether a table has the metadata partition that an index asks; False if it asks none."""
    return spec_of(name).metadata_partition in config.metadata_partitions


def spec_of(name: str) -> IndexSpec:
    """What is true of an index, by its name.

    Raises:
        InvalidOptionError: there is no such index.
    """
    if name not in specs():
        load_index(name)  # it says why
    return specs()[name]


def index_name(hudi_type: str) -> str:
    """Our name of a `hoodie.index.type`."""
    types = {spec.table_type: name for name, spec in specs().items()}
    if hudi_type.upper() not in types:
        raise InvalidOptionError(
            f"option {INDEX_TYPE}: {hudi_type!r} is none of {', '.join(types)}"
        )
    return types[hudi_type.upper()]
