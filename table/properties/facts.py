"""The facts of a table: what it is, which index it has, and which options that fixes.

Hudi leaves the index and its options to each writer; a writer with others breaks the table. Keymark
writes them into hoodie.properties at creation and refuses options that differ later.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keymark.table.errors import InputError, InvalidOptionError, StorageError, TableWarning
from keymark.table.index.protocol import HUDI_TYPES, index_name
from keymark.table.keygen import check_key_generator
from keymark.table.keygen.facts import check_key_agreement, key_facts
from keymark.table.layout.naming import METADATA, PROPERTIES, PROPERTIES_BACKUP, is_bucket_file_id
from keymark.table.metadata.partitions import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    RECORD_INDEX,
    record_index_groups,
)
from keymark.table.metadata.writer import initialize
from keymark.table.properties.config import VERSION, TableConfig, parse_config, save_config
from keymark.table.properties.options import (
    BLOOM_FILTERS_ON,
    BUCKET_COUNT,
    BUCKET_FIELDS,
    COLUMN_STATS_COLUMNS,
    COLUMN_STATS_ON,
    DUP_POLICY,
    HBASE_TABLE,
    HIVE_STYLE,
    INDEX_TYPE,
    KEY_ENCODING,
    MOVE_OPTIONS,
    PAYLOAD_CLASS,
    RECORD_INDEX_ON,
    URL_ENCODE,
    Options,
)
from keymark.table.properties.seal import METADATA_PARTITIONS, STORED_PAYLOAD
from keymark.table.runtime.clock import Clock
from keymark.table.state.table_state import TableState
from keymark.table.storage.lease import LeaseTerms, exclusively
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline
from keymark.table.write.clock_check import check_clock

INDEX_FACTS = (INDEX_TYPE, BUCKET_COUNT, BUCKET_FIELDS, HBASE_TABLE, *MOVE_OPTIONS.values())
"""The facts that a table has because of its index."""

FACTS = (
    *INDEX_FACTS,
    PAYLOAD_CLASS,
    KEY_ENCODING,
    HIVE_STYLE,
    URL_ENCODE,
    COLUMN_STATS_COLUMNS,
)
# So many file ids that all start with eight digits by chance are out of the question.
_BUCKET_EVIDENCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Name and key definition of a table to be created."""

    name: str
    record_key: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering: str | None


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """The index of a table, and why it is that one."""

    name: str
    reason: str


def names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """Column names from `a,b`, a sequence, or nothing."""
    if columns is None:
        return ()
    listed = columns.split(",") if isinstance(columns, str) else list(columns)
    return tuple(name.strip() for name in listed if name.strip())


def create_table(
    storage: Storage, identity: Identity, index: str, given: Mapping[str, str], *, clock: Clock
) -> None:
    """Make an empty table; hoodie.properties comes last: the table is there whole or not at all."""
    _check_identity(identity)
    properties = new_properties(identity, index, given)
    groups = _partition_groups(index, given)
    check_clock(storage, clock, Options(given))
    properties[METADATA_PARTITIONS] = ",".join(sorted((FILES, *groups)))
    with exclusively(storage, clock, LeaseTerms.of(Options(given))):
        if _holds_table(storage):
            raise StorageError(f"{storage.root} holds a table already")
        # Without properties and instants it can only be what a dead create left.
        storage.delete_tree(METADATA)
        try:
            initialize(storage, identity.name, groups)
            save_config(storage, properties)
        except BaseException:
            storage.delete_tree(METADATA)
            for path in (PROPERTIES, PROPERTIES_BACKUP):
                storage.delete(path)
            raise


def _partition_groups(index: str, given: Mapping[str, str]) -> dict[str, int]:
    """File groups of the metadata partitions beside `files`, in Hudi's order."""
    options = Options(given)
    groups = {}
    prefix = "hoodie.metadata.index"
    if options.flag(BLOOM_FILTERS_ON):
        groups[BLOOM_FILTERS] = options.integer(f"{prefix}.bloom.filter.file.group.count")
    if options.flag(COLUMN_STATS_ON):
        groups[COLUMN_STATS] = options.integer(f"{prefix}.column.stats.file.group.count")
    if index == "record" or options.flag(RECORD_INDEX_ON):
        groups[RECORD_INDEX] = _record_index_groups(given)
    return groups


def _check_identity(identity: Identity) -> None:
    for role, fields in (("key", identity.record_key), ("partition", identity.partition_fields)):
        if len(set(fields)) < len(fields):
            raise InvalidOptionError(f"a {role} column is named twice: {', '.join(fields)}")
    if not identity.name.isprintable() or not identity.name:
        raise InvalidOptionError(f"table name {identity.name!r} is not printable")


def _holds_table(storage: Storage) -> bool:
    named = storage.exists(PROPERTIES) or storage.exists(PROPERTIES_BACKUP)
    return named or bool(Timeline.load(storage).instants)


def new_properties(identity: Identity, index: str, given: Mapping[str, str]) -> dict[str, str]:
    """hoodie.properties of a new table, its facts included."""
    options, asked = Options(given), given.get(INDEX_TYPE)
    if asked is not None and index_name(asked) != index:
        raise InvalidOptionError(f"option {INDEX_TYPE}={asked} contradicts index {index}")
    properties = {
        "hoodie.table.name": identity.name,
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": VERSION,
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.base.file.format": "PARQUET",
        **key_facts(identity.record_key, identity.partition_fields, given),
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.archivelog.folder": "archived",
        PAYLOAD_CLASS: options.text(PAYLOAD_CLASS),
        **index_facts(index, identity.record_key, given),
    }
    if identity.ordering is not None:
        properties["hoodie.table.precombine.field"] = identity.ordering
    if COLUMN_STATS_COLUMNS in given:
        properties[COLUMN_STATS_COLUMNS] = given[COLUMN_STATS_COLUMNS]
    check_key_generator(parse_config(properties))
    return properties


def index_facts(index: str, record_key: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The facts that a table has because of its index."""
    if index == "bucket" and not record_key:
        raise InvalidOptionError("the bucket index needs key fields: it hashes their values")
    options, facts = Options(given), {INDEX_TYPE: HUDI_TYPES[index]}
    if index == "bucket":
        facts[BUCKET_COUNT] = options.text(BUCKET_COUNT)
        facts[BUCKET_FIELDS] = given.get(BUCKET_FIELDS, ",".join(record_key))
        _check_buckets(facts, record_key)
    if index == "hbase":
        facts[HBASE_TABLE] = options.text(HBASE_TABLE)
    if index in MOVE_OPTIONS:
        facts[MOVE_OPTIONS[index]] = options.text(MOVE_OPTIONS[index])
    return facts


def _check_buckets(facts: Mapping[str, str], record_key: Sequence[str]) -> None:
    if int(facts[BUCKET_COUNT]) < 1:
        raise InvalidOptionError(f"option {BUCKET_COUNT}: a table needs at least one bucket")
    for name in names(facts[BUCKET_FIELDS]):
        if name not in record_key:
            raise InvalidOptionError(f"option {BUCKET_FIELDS}: {name} is no record key column")


def _record_index_groups(given: Mapping[str, str]) -> int:
    options = Options(given)
    prefix = "hoodie.metadata.record.index"
    minimum = options.integer(f"{prefix}.min.filegroup.count")
    maximum = options.integer(f"{prefix}.max.filegroup.count")
    if not 1 <= minimum <= maximum <= 10000:
        raise InvalidOptionError(
            f"option {prefix}.min.filegroup.count: 1 <= {minimum} <= {maximum} <= 10000 must hold"
        )
    return record_index_groups(0, minimum=minimum, maximum=maximum, group_bytes=1 << 30, growth=2.0)


def check_agreement(config: TableConfig, given: Mapping[str, str]) -> None:
    """Options must not differ from the facts that the table carries."""
    for name in FACTS:
        fact, asked = config.properties.get(name), given.get(name)
        if fact is not None and asked is not None and fact.lower() != asked.lower():
            raise InvalidOptionError(f"option {name}={asked} differs from the table's own {fact}")
    check_key_agreement(config, given)


def choose_index(config: TableConfig, given: Mapping[str, str], storage: Storage) -> IndexChoice:
    """The table's index: its fact, its record_index partition, the option given, or a default."""
    fact, asked = config.properties.get(INDEX_TYPE), given.get(INDEX_TYPE)
    if fact is not None:
        return IndexChoice(index_name(fact), f"{INDEX_TYPE} in hoodie.properties")
    if RECORD_INDEX in config.metadata_partitions:
        if asked is not None and index_name(asked) == "bucket" and _has_buckets(storage):
            warnings.warn(
                "the record index of this bucket table is not used: Hudi 0.15 leaves out the keys "
                "that it adds to buckets which exist",
                TableWarning,
                stacklevel=2,
            )
            return IndexChoice("bucket", f"option {INDEX_TYPE}")
        if asked is not None and index_name(asked) != "record":
            raise InvalidOptionError(
                f"option {INDEX_TYPE}={asked}: the table has a record index, which decides"
            )
        return IndexChoice("record", "the table has a record_index partition")
    if asked is not None:
        if index_name(asked) == "bucket" and BUCKET_COUNT not in given:
            raise InputError(f"a bucket table that does not say so needs option {BUCKET_COUNT}")
        return IndexChoice(index_name(asked), f"option {INDEX_TYPE}")
    if _has_buckets(storage):
        raise InputError(
            f"the table looks like a bucket table: give options {INDEX_TYPE} and {BUCKET_COUNT}"
        )
    return IndexChoice("global_simple", "the table names no index")


def _has_buckets(storage: Storage) -> bool:
    files = TableState.load(storage).snapshot.files
    return len(files) >= _BUCKET_EVIDENCE and all(is_bucket_file_id(f.file_id) for f in files)


def table_options(config: TableConfig, index: str, given: Mapping[str, str]) -> Options:
    """What was given over the table's facts, and the defaults that depend on the table."""
    merged = {name: config.properties[name] for name in FACTS if name in config.properties}
    if STORED_PAYLOAD in config.properties:
        merged.setdefault(PAYLOAD_CLASS, config.properties[STORED_PAYLOAD])
    merged.update(given)
    merged.setdefault(DUP_POLICY, "fail" if index == "record" else "none")
    merged.setdefault(BUCKET_FIELDS, ",".join(config.record_key))
    return Options(merged)


def declare_index(storage: Storage, config: TableConfig, facts: Mapping[str, str]) -> None:
    """Write facts into the properties of a table that does not carry them."""
    save_config(storage, {**config.properties, **facts})
