"""The options of a write, by Hudi's names with Hudi 0.15's defaults.

An option that Hudi knows and Keymark does not support is refused by name; an unknown one is refused
with the nearest known name. Two defaults differ from Hudi's: on a table with a record index,
`hoodie.datasource.insert.dup.policy` is `fail`, so that an insert cannot make duplicates unasked;
and `hoodie.index.hbase.rollback.sync` is `true`: entries of what was taken back always go.
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from keymark.indexes.installed import finders, specs
from keymark.indexes.spec import IndexOption
from keymark.table.errors import InvalidOptionError, UnsupportedTableError

OVERWRITE_PAYLOAD = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
EVENT_TIME_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"

INDEX_TYPE = "hoodie.index.type"
PAYLOAD_CLASS = "hoodie.datasource.write.payload.class"
KEY_ENCODING = "keymark.recordkey.encoding"
DUP_POLICY = "hoodie.datasource.insert.dup.policy"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
KEY_GENERATOR = "hoodie.table.keygenerator.class"
# How a complex key generator writes the key of a single field: its value, or `field:value`.
PLAIN_ENCODING, NAMED_ENCODING = "plain", "named"
# `field:simple,field:timestamp`, of tables with the custom key generator.
PARTITION_SPEC = "hoodie.datasource.write.partitionpath.field"
_TIME = "hoodie.keygen.timebased."
TIME_TYPE = f"{_TIME}timestamp.type"
TIME_UNIT = f"{_TIME}timestamp.scalar.time.unit"
TIME_INPUT = f"{_TIME}input.dateformat"
TIME_DELIMITER = f"{_TIME}input.dateformat.list.delimiter.regex"
TIME_INPUT_ZONE = f"{_TIME}input.timezone"
TIME_OUTPUT = f"{_TIME}output.dateformat"
TIME_OUTPUT_ZONE = f"{_TIME}output.timezone"
TIME_ZONE = f"{_TIME}timezone"
TIME_OPTIONS = (
    *(TIME_TYPE, TIME_UNIT, TIME_INPUT, TIME_DELIMITER),
    *(TIME_INPUT_ZONE, TIME_OUTPUT, TIME_OUTPUT_ZONE, TIME_ZONE),
)
KEY_GENERATOR_TYPE = "hoodie.datasource.write.keygenerator.type"
META_FIELDS = "hoodie.populate.meta.fields"
_VIRTUAL = "hoodie.recordkey.virtual."
VIRTUAL_COLUMNS, CONCATENATOR = f"{_VIRTUAL}columns", f"{_VIRTUAL}concatenator"
# Keys are stored, and readers still make them: the way back from virtual keys is open.
KEYS_IGNORED = "keymark.recordkey.ignore.stored"
# Whether Apache Hudi is to read the table.
HUDI_READS = "keymark.hudi.reads"
RECORD_INDEX_ON = "hoodie.metadata.record.index.enable"
COLUMN_STATS_ON = "hoodie.metadata.index.column.stats.enable"
BLOOM_ENTRIES = "hoodie.index.bloom.num_entries"
BLOOM_FPP = "hoodie.index.bloom.fpp"
BLOOM_FILTERS_ON = "hoodie.metadata.index.bloom.filter.enable"
COLUMN_STATS_COLUMNS = "hoodie.metadata.index.column.stats.column.list"
# The columns with a secondary index. A write builds those that are named and not there.
SECONDARY_COLUMNS = "keymark.secondary.columns"
RECORD_INDEX_PREFIX = "hoodie.metadata.record.index"
RECORD_INDEX_GROUPS_MAX = 10_000
# Whether a write that finds shards past Hudi's largest size makes more of them.
RESHARD_AUTOMATIC = "keymark.record.index.reshard.automatic"
# Whether a table keeps hashes of its record keys beside its record index.
RECORD_HASHES = "keymark.record.index.hashes"
# The index, where `hoodie.index.type` names another one that Hudi's writers have.
OWN_INDEX_TYPE = "keymark.index.type"
INDEX_FALLBACK = "keymark.index.fallback"
BLOCK_CACHE = "keymark.hfile.block.cache.bytes"
LOCAL_BYTES = "keymark.local.bytes"
# Rows of a page in new files, the unit that later writes copy; 0 leaves that to Arrow.
PAGE_ROWS = "keymark.parquet.page.rows"
# A batch of more bytes, as Arrow has its rows in memory, stays out of the writer's process.
BATCH_COLLECT = "keymark.batch.collect.bytes"
# What a task that sorts keys, or makes a file of the metadata table, may hold of them.
TASK_MEMORY = "keymark.task.memory.bytes"
TASK_MEMORY_BYTES = 256 << 20
TASK_MEMORY_BYTES_MIN = 16 << 20
# How far the clock may be ahead of what the table and its storage say.
CLOCK_DAYS = "keymark.clock.max.days.ahead"
LOCAL_SYNC = "keymark.local.sync"
CONCURRENCY_MODE = "hoodie.write.concurrency.mode"
ONE_WRITER = "single_writer"
# Settings of the connection follow, by obstore's or Hadoop's names; no table keeps them.
STORAGE_SETTINGS = "keymark.storage."
REQUEST_LOG = f"{STORAGE_SETTINGS}request_log"
COMMITS_RETAINED = "hoodie.cleaner.commits.retained"
KEEP_MIN = "hoodie.keep.min.commits"
KEEP_MAX = "hoodie.keep.max.commits"

_CHOICES = {
    PAYLOAD_CLASS: (OVERWRITE_PAYLOAD, EVENT_TIME_PAYLOAD),
    DUP_POLICY: ("none", "drop", "fail"),
    "hoodie.parquet.compression.codec": ("gzip", "snappy", "zstd", "uncompressed"),
    "hoodie.bloom.index.filter.type": ("DYNAMIC_V0", "SIMPLE"),
    "hoodie.metadata.enable": ("true",),
    CONCURRENCY_MODE: (ONE_WRITER, "optimistic_concurrency_control"),
    KEY_ENCODING: (PLAIN_ENCODING, NAMED_ENCODING),
    "hoodie.cleaner.policy": ("KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"),
}
_POSITIVE = frozenset(
    {
        "hoodie.parquet.block.size",
        "hoodie.copyonwrite.record.size.estimate",
        BLOOM_ENTRIES,
        "hoodie.bloom.index.filter.dynamic.max.entries",
        "hoodie.hfile.block.size",
        "hoodie.metadata.compact.max.delta.commits",
        "hoodie.metadata.index.column.stats.file.group.count",
        "hoodie.metadata.index.bloom.filter.file.group.count",
        "hoodie.metadata.record.index.max.filegroup.size",
        "hoodie.metadata.max.init.parallelism",
        CLOCK_DAYS,
        COMMITS_RETAINED,
        "hoodie.cleaner.fileversions.retained",
        KEEP_MIN,
        "hoodie.write.lock.storage.validity.timeout.secs",
        "hoodie.write.lock.storage.renew.interval.secs",
    }
)
_PROBABILITIES = frozenset({BLOOM_FPP})
_NUMBERS = frozenset({f"{RECORD_INDEX_PREFIX}.growth.factor"})
_FILTER_BITS_MAX = (1 << 31) - 1
# Switches without a default: whether one is on depends on the table.
_SWITCHES = frozenset({RECORD_INDEX_ON, COLUMN_STATS_ON, BLOOM_FILTERS_ON})

# name -> default as text; None where the default depends on the table. Those of indexes are in
# their specs.
_DEFAULTS: dict[str, str | None] = {
    INDEX_TYPE: None,
    PAYLOAD_CLASS: OVERWRITE_PAYLOAD,
    KEY_ENCODING: PLAIN_ENCODING,
    KEY_GENERATOR: None,
    KEY_GENERATOR_TYPE: None,
    PARTITION_SPEC: None,
    **dict.fromkeys(TIME_OPTIONS),
    DUP_POLICY: None,
    HIVE_STYLE: "false",
    URL_ENCODE: "false",
    "hoodie.parquet.max.file.size": "125829120",
    "hoodie.parquet.block.size": "125829120",
    "hoodie.parquet.small.file.limit": "104857600",
    "hoodie.parquet.compression.codec": "gzip",
    "hoodie.parquet.bloom.filter.enabled": "true",
    "hoodie.copyonwrite.record.size.estimate": "1024",
    "hoodie.copyonwrite.insert.split.size": "500000",
    BLOOM_ENTRIES: "60000",
    BLOOM_FPP: "0.000000001",
    "hoodie.bloom.index.filter.type": "DYNAMIC_V0",
    "hoodie.bloom.index.filter.dynamic.max.entries": "100000",
    "hoodie.hfile.block.size": "1048576",
    "hoodie.metadata.enable": "true",
    RECORD_INDEX_ON: None,
    COLUMN_STATS_ON: None,
    BLOOM_FILTERS_ON: None,
    COLUMN_STATS_COLUMNS: None,
    SECONDARY_COLUMNS: None,
    INDEX_FALLBACK: None,
    "hoodie.metadata.record.index.min.filegroup.count": "10",
    "hoodie.metadata.record.index.max.filegroup.count": "10000",
    "hoodie.metadata.record.index.max.filegroup.size": "1073741824",
    "hoodie.metadata.record.index.growth.factor": "2.0",
    "hoodie.metadata.max.init.parallelism": "100000",
    "hoodie.metadata.index.column.stats.file.group.count": "2",
    "hoodie.metadata.index.bloom.filter.file.group.count": "4",
    "hoodie.metadata.compact.max.delta.commits": "10",
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
    COMMITS_RETAINED: "10",
    "hoodie.cleaner.fileversions.retained": "3",
    "hoodie.archive.automatic": "true",
    RESHARD_AUTOMATIC: "false",
    RECORD_HASHES: "false",
    KEEP_MIN: "20",
    KEEP_MAX: "30",
    CONCURRENCY_MODE: None,
    "hoodie.write.lock.wait_time_ms": "60000",
    "hoodie.write.lock.storage.validity.timeout.secs": "300",
    "hoodie.write.lock.storage.renew.interval.secs": "30",
    BLOCK_CACHE: "67108864",
    LOCAL_BYTES: "67108864",
    BATCH_COLLECT: "268435456",
    PAGE_ROWS: "2048",
    TASK_MEMORY: str(TASK_MEMORY_BYTES),
    CLOCK_DAYS: "365",
    LOCAL_SYNC: "true",
    META_FIELDS: "true",
    VIRTUAL_COLUMNS: None,
    CONCATENATOR: None,
    KEYS_IGNORED: "false",
    HUDI_READS: "true",
}

# Other names that Hudi takes for an option.
ALIASES = {
    "hoodie.datasource.write.keygenerator.class": KEY_GENERATOR,
    "hoodie.table.keygenerator.type": KEY_GENERATOR_TYPE,
    f"{_VIRTUAL}class": KEY_GENERATOR,
    **{
        name.replace(_TIME, "hoodie.deltastreamer.keygen.timebased."): name for name in TIME_OPTIONS
    },
}

# Known to Hudi, not to Keymark yet, with the reason. Those of indexes are in their specs.
_UNSUPPORTED = {
    "hoodie.metadata.index.async": "asynchronous indexing by option (see table index schedule)",
    "hoodie.datasource.write.drop.partition.columns": "dropping partition columns",
    "hoodie.table.cdc.enabled": "change data capture",
    "hoodie.storage.layout.partitioner.class": "storage layout partitioners",
    "hoodie.combine.before.insert": "combining the rows of an insert",
    "hoodie.bulkinsert.sort.mode": "other sort modes of bulk_insert than by partition",
    "hoodie.clustering.inline": "clustering",
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": (
        "keys of timestamps as java.sql.Timestamp prints them"
    ),
    "hoodie.keygen.datetime.parser.class": "another parser of dates than Hudi's own",
    "hoodie.metadata.index.secondary.enable": "the secondary index",
    "hoodie.metadata.log.compaction.enable": "compacting logs into logs",
}


@functools.cache
def defaults() -> Mapping[str, str | None]:
    """The options that there are, each with its default as text; None where the table says it."""
    return MappingProxyType(
        _DEFAULTS | {name: option.default for name, option in index_options().items()}
    )


@functools.cache
def unsupported() -> Mapping[str, str]:
    """The options that are refused by name, each with what it asks for."""
    of_indexes = {
        name: reason
        for spec in specs().values()
        for name, reason in spec.unsupported_options.items()
    }
    return MappingProxyType(_UNSUPPORTED | of_indexes)


@functools.cache
def index_options() -> Mapping[str, IndexOption]:
    """The options that belong to indexes, by name."""
    return MappingProxyType(
        {option.name: option for spec in specs().values() for option in spec.options}
    )


@functools.cache
def index_properties() -> tuple[str, ...]:
    """The options that a table keeps because of its index."""
    fixed = (option.name for option in index_options().values() if option.fixed)
    return (INDEX_TYPE, OWN_INDEX_TYPE, *fixed)


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options: what was given, over the facts of a table, over the defaults."""

    given: Mapping[str, str]

    def text(self, name: str) -> str:
        """The option's value, or its default."""
        value = self.given.get(name, defaults()[name])
        if value is None:
            raise InvalidOptionError(f"option {name} must be given")
        return value

    def optional(self, name: str) -> str | None:
        """The option's value, its default, or None."""
        return self.given.get(name, defaults()[name])

    def integer(self, name: str) -> int:
        """The option as a non-negative integer."""
        return _integer(name, self.text(name))

    def number(self, name: str) -> float:
        """The option as a number."""
        return _number(name, self.text(name))

    def flag(self, name: str) -> bool:
        """The option as true or false; a switch that was not given is false."""
        return _flag(name, self.optional(name) or "false")


def check_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options, each known and well-formed, or InvalidOptionError with the nearest name."""
    given = _by_own_names(given)
    for name, value in given.items():
        if name.startswith(STORAGE_SETTINGS):
            continue
        if name in unsupported():
            reason = unsupported()[name]
            raise UnsupportedTableError(f"option {name}: {reason} is not supported yet")
        if name not in defaults():
            near = difflib.get_close_matches(name, [*defaults(), *unsupported()], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InvalidOptionError(f"unknown option {name}{hint}")
        _check_value(name, str(value))
    checked = {name: str(value) for name, value in given.items()}
    _check_kept(Options(checked))
    _check_filter(Options(checked))
    return checked


def _by_own_names(given: Mapping[str, str]) -> dict[str, str]:
    """Options by their names of Hudi 0.15, whichever they were given by."""
    named: dict[str, str] = {}
    for name, text in given.items():
        own, value = ALIASES.get(name, name), text
        if name == f"{_VIRTUAL}enabled":
            own, value = META_FIELDS, str(not _flag(name, str(text))).lower()
        if named.setdefault(own, value) != value:
            raise InvalidOptionError(f"option {name}={value} contradicts {own}={named[own]}")
    return named


def _check_kept(options: Options) -> None:
    """Archiving must leave what cleaning retains; limits that were not given grow to fit."""
    if not options.given.keys() & {KEEP_MIN, KEEP_MAX}:
        return
    minimum, retained = options.integer(KEEP_MIN), options.integer(COMMITS_RETAINED)
    maximum = options.integer(KEEP_MAX)
    if minimum >= maximum:
        raise InvalidOptionError(
            f"option {KEEP_MIN}: {minimum} is not below {KEEP_MAX} ({maximum})"
        )
    by_commits = options.text("hoodie.cleaner.policy") == "KEEP_LATEST_COMMITS"
    if by_commits and minimum <= retained:
        raise InvalidOptionError(
            f"option {KEEP_MIN}: {minimum} is not greater than {COMMITS_RETAINED} ({retained})"
        )


def _check_filter(options: Options) -> None:
    """Bloom filters count their bits by an int of Java's (BloomFilterUtils.getBitSize)."""
    entries, rate = options.integer(BLOOM_ENTRIES), options.number(BLOOM_FPP)
    if math.ceil(-entries * math.log(rate) / math.log(2) ** 2) > _FILTER_BITS_MAX:
        raise InvalidOptionError(
            f"option {BLOOM_ENTRIES}: a bloom filter of {entries} keys is too large at "
            f"{BLOOM_FPP}={rate}"
        )


def _check_value(name: str, value: str) -> None:
    own = index_options().get(name)
    choices = own.choices if own else _CHOICES.get(name, ())
    if name == INDEX_FALLBACK:
        choices = tuple(spec.name for spec in finders())
    if choices and value not in choices:
        raise UnsupportedTableError(
            f"option {name}: {value!r} is not supported, only {', '.join(choices)}"
        )
    default = defaults()[name]
    positive = own.positive if own else name in _POSITIVE
    if default is not None and default.isdigit() and _integer(name, value) < positive:
        raise InvalidOptionError(f"option {name}: {value} is too small")
    if name == TASK_MEMORY and _integer(name, value) < TASK_MEMORY_BYTES_MIN:
        raise InvalidOptionError(
            f"option {name}: {value} is too small, it must be {TASK_MEMORY_BYTES_MIN} at least"
        )
    if name in _NUMBERS:
        _number(name, value)
    if name in _PROBABILITIES and not 0 < _number(name, value) < 1:
        raise InvalidOptionError(f"option {name}: {value} is not between 0 and 1")
    if own is not None and own.share and not 0 < _number(name, value) <= 1:
        raise InvalidOptionError(f"option {name}: {value} is not above 0 and at most 1")
    if default in ("true", "false") or name in _SWITCHES:
        _flag(name, value)


def _integer(name: str, value: str) -> int:
    if not value.isdecimal() or len(value) > 18:
        raise InvalidOptionError(f"option {name}: {value!r} is not a whole number")
    return int(value)


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidOptionError(f"option {name}: {value!r} is not a number")
    return number


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidOptionError(f"option {name}: {value!r} is neither true nor false")
    return value.lower() == "true"


def record_index_limits(options: Options) -> tuple[int, int]:
    """The least and the greatest number of file groups of a record index, checked."""
    minimum = options.integer(f"{RECORD_INDEX_PREFIX}.min.filegroup.count")
    maximum = options.integer(f"{RECORD_INDEX_PREFIX}.max.filegroup.count")
    if not 1 <= minimum <= maximum <= RECORD_INDEX_GROUPS_MAX:
        raise InvalidOptionError(
            f"option {RECORD_INDEX_PREFIX}.min.filegroup.count: 1 <= {minimum} <= {maximum} <= "
            f"{RECORD_INDEX_GROUPS_MAX} must hold"
        )
    return minimum, maximum


def column_names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """Column names from `a,b`, a sequence, or nothing."""
    if columns is None:
        return ()
    listed = columns.split(",") if isinstance(columns, str) else list(columns)
    return tuple(name.strip() for name in listed if name.strip())
