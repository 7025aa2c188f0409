"""The facts of a table: what it is, which index it has, and which options that fixes.

Hudi leaves the index and its options to each writer; a writer with others breaks the table. Keymark
writes them into hoodie.properties at creation and refuses options that differ later.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keymark.indexes.installed import finders, of_partition, specs
from keymark.indexes.spec import IndexSpec
from keymark.table.errors import InputError, InvalidOptionError, StorageError, TableWarning
from keymark.table.index.protocol import index_name, spec_of
from keymark.table.keygen import check_key_generator
from keymark.table.keygen.facts import check_key_agreement, key_facts
from keymark.table.layout.naming import METADATA, PROPERTIES, PROPERTIES_BACKUP, is_bucket_file_id
from keymark.table.metadata.partitions import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    RECORD_INDEX,
)
from keymark.table.metadata.writer import initialize
from keymark.table.properties.config import VERSION, TableConfig, parse_config, save_config
from keymark.table.properties.options import (
    BLOOM_FILTERS_ON,
    COLUMN_STATS_COLUMNS,
    COLUMN_STATS_ON,
    DUP_POLICY,
    HIVE_STYLE,
    INDEX_TYPE,
    KEY_ENCODING,
    PAYLOAD_CLASS,
    RECORD_INDEX_ON,
    URL_ENCODE,
    Options,
    index_options,
    index_properties,
    record_index_limits,
)
from keymark.table.properties.seal import METADATA_PARTITIONS, STORED_PAYLOAD
from keymark.table.runtime.clock import Clock
from keymark.table.state.table_state import TableState
from keymark.table.storage.lease import LeaseTerms, exclusively
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline
from keymark.table.write.clock_check import check_clock

_OWN = (PAYLOAD_CLASS, KEY_ENCODING, HIVE_STYLE, URL_ENCODE, COLUMN_STATS_COLUMNS)
# So many file ids that all start with eight digits by chance are out of the question.
_BUCKET_EVIDENCE = 4


def fact_names() -> tuple[str, ...]:
    """The options that a table keeps and never changes."""
    return (*index_properties(), *_OWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
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
    storage: Storage, identity: TableSpec, index: str, given: Mapping[str, str], *, clock: Clock
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
    if spec_of(index).metadata_partition == RECORD_INDEX or options.flag(RECORD_INDEX_ON):
        groups[RECORD_INDEX] = record_index_limits(options)[0]
    return groups


def _check_identity(identity: TableSpec) -> None:
    for role, fields in (("key", identity.record_key), ("partition", identity.partition_fields)):
        if len(set(fields)) < len(fields):
            raise InvalidOptionError(f"a {role} column is named twice: {', '.join(fields)}")
    if not identity.name.isprintable() or not identity.name:
        raise InvalidOptionError(f"table name {identity.name!r} is not printable")


def _holds_table(storage: Storage) -> bool:
    named = storage.exists(PROPERTIES) or storage.exists(PROPERTIES_BACKUP)
    return named or bool(Timeline.load(storage).instants)


def new_properties(identity: TableSpec, index: str, given: Mapping[str, str]) -> dict[str, str]:
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
    spec, options = spec_of(index), Options(given)
    facts = {INDEX_TYPE: spec.table_type}
    for option in spec.fixed_options:
        if not option.of_key:
            facts[option.name] = options.text(option.name)
            continue
        if not record_key:
            raise InvalidOptionError(f"the {index} index needs key fields: it hashes their values")
        facts[option.name] = given.get(option.name, ",".join(record_key))
        for name in names(facts[option.name]):
            if name not in record_key:
                raise InvalidOptionError(f"option {option.name}: {name} is no record key column")
    return facts


def check_agreement(config: TableConfig, given: Mapping[str, str]) -> None:
    """Options must not differ from the facts that the table carries."""
    for name in fact_names():
        fact, asked = config.properties.get(name), given.get(name)
        if fact is not None and asked is not None and fact.lower() != asked.lower():
            raise InvalidOptionError(f"option {name}={asked} differs from the table's own {fact}")
    check_key_agreement(config, given)


def choose_index(config: TableConfig, given: Mapping[str, str], storage: Storage) -> IndexChoice:
    """The table's index: its fact, its record_index partition, the option given, or a default."""
    fact, given_type = config.properties.get(INDEX_TYPE), given.get(INDEX_TYPE)
    if fact is not None:
        return IndexChoice(index_name(fact), f"{INDEX_TYPE} in hoodie.properties")
    asked = None if given_type is None else spec_of(index_name(given_type))
    if RECORD_INDEX in config.metadata_partitions:
        built = of_partition(RECORD_INDEX)
        if asked is not None and asked.owns_layout and _has_buckets(storage):
            warnings.warn(
                f"the record index of this {asked.name} table is not used: Hudi 0.15 leaves out "
                "the keys that it adds to buckets which exist",
                TableWarning,
                stacklevel=2,
            )
            return IndexChoice(asked.name, f"option {INDEX_TYPE}")
        if asked not in (None, built):
            raise InvalidOptionError(
                f"option {INDEX_TYPE}={given_type}: the table has a record index, which decides"
            )
        return IndexChoice(built.name, f"the table has a {RECORD_INDEX} partition")
    if asked is not None:
        for name in _layout_options(asked):
            if name not in given:
                raise InputError(f"a {asked.name} table that does not say so needs option {name}")
        return IndexChoice(asked.name, f"option {INDEX_TYPE}")
    if _has_buckets(storage):
        needed = [name for spec in specs().values() for name in _layout_options(spec)]
        raise InputError(
            f"the table looks like a bucket table: give options {INDEX_TYPE} and "
            f"{' and '.join(needed)}"
        )
    return IndexChoice(finders()[0].name, "the table names no index")


def _layout_options(spec: IndexSpec) -> list[str]:
    """The options without which nobody knows the file group of a key."""
    if not spec.owns_layout:
        return []
    return [option.name for option in spec.fixed_options if not option.of_key]


def _has_buckets(storage: Storage) -> bool:
    files = TableState.load(storage).snapshot.files
    return len(files) >= _BUCKET_EVIDENCE and all(is_bucket_file_id(f.file_id) for f in files)


def table_options(config: TableConfig, index: str, given: Mapping[str, str]) -> Options:
    """What was given over the table's facts, and the defaults that depend on the table."""
    merged = {n: config.properties[n] for n in fact_names() if n in config.properties}
    if STORED_PAYLOAD in config.properties:
        merged.setdefault(PAYLOAD_CLASS, config.properties[STORED_PAYLOAD])
    merged.update(given)
    merged.setdefault(DUP_POLICY, spec_of(index).duplicates)
    for option in index_options().values():
        if option.of_key:
            merged.setdefault(option.name, ",".join(config.record_key))
    return Options(merged)


def declare_index(storage: Storage, config: TableConfig, facts: Mapping[str, str]) -> None:
    """Write facts into the properties of a table that does not carry them."""
    save_config(storage, {**config.properties, **facts})
