"""Create an empty table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keymark.table.errors import (
    CommitConflictError,
    FileTakenError,
    InvalidOptionError,
    LeaseLostError,
    StorageError,
)
from keymark.table.index.choice import index_table_properties
from keymark.table.index.protocol import index_name, spec_of
from keymark.table.keygen import check_key_generator
from keymark.table.keygen.facts import key_facts
from keymark.table.layout.naming import METADATA, PROPERTIES, PROPERTIES_BACKUP
from keymark.table.metadata.partitions import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    RECORD_INDEX,
)
from keymark.table.metadata.writer import initialize
from keymark.table.properties.config import VERSION, parse_config, put_config
from keymark.table.properties.options import (
    BLOOM_FILTERS_ON,
    COLUMN_STATS_COLUMNS,
    COLUMN_STATS_ON,
    INDEX_TYPE,
    PAYLOAD_CLASS,
    RECORD_INDEX_ON,
    SECONDARY_COLUMNS,
    Options,
    record_index_limits,
)
from keymark.table.properties.seal import METADATA_PARTITIONS
from keymark.table.runtime.clock import Clock
from keymark.table.storage.lease import LeaseTerms, exclusively
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline
from keymark.table.write.clock_check import check_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """Name and key definition of a table to be created."""

    name: str
    record_key: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering: str | None


def create_table(
    storage: Storage, identity: TableSpec, index: str, given: Mapping[str, str], *, clock: Clock
) -> None:
    """Make an empty table; hoodie.properties comes last: the table is there whole or not at all."""
    _check_identity(identity)
    properties = new_properties(identity, index, given)
    groups = _partition_groups(index, given)
    check_clock(storage, clock, Options(given))
    properties[METADATA_PARTITIONS] = ",".join(sorted((FILES, *groups)))
    with exclusively(storage, clock, LeaseTerms.of(Options(given))) as held:
        named = held.exists(PROPERTIES) or held.exists(PROPERTIES_BACKUP)
        if named or Timeline.load(held).instants:
            raise StorageError(f"{held.root} holds a table already")
        # Without properties and instants it can only be what a dead create left. Where there is
        # nothing, no request to delete may come late and meet the table of another process.
        if held.exists(METADATA):
            held.delete_tree(METADATA)
        try:
            initialize(held, identity.name, groups)
            put_config(held, properties)
        except (LeaseLostError, FileTakenError, CommitConflictError):
            # Another process makes a table here: what is there may be its own.
            raise
        except BaseException:
            held.delete_tree(METADATA)
            for path in (PROPERTIES, PROPERTIES_BACKUP):
                held.delete(path)
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
        **index_table_properties(index, identity.record_key, given),
    }
    if identity.ordering is not None:
        properties["hoodie.table.precombine.field"] = identity.ordering
    if COLUMN_STATS_COLUMNS in given:
        properties[COLUMN_STATS_COLUMNS] = given[COLUMN_STATS_COLUMNS]
    if SECONDARY_COLUMNS in given:
        properties[SECONDARY_COLUMNS] = given[SECONDARY_COLUMNS]
    check_key_generator(parse_config(properties))
    return properties
