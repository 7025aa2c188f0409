"""The index of a table, and the options that it fixes.

Hudi leaves the index and its options to each writer; a writer with others breaks the table. Keymark
writes them into hoodie.properties at creation and refuses options that differ later.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keymark.indexes.installed import finders, of_partition, specs
from keymark.indexes.spec import IndexSpec
from keymark.table.errors import InputError, InvalidOptionError, TableWarning
from keymark.table.index.protocol import index_name, spec_of
from keymark.table.keygen.facts import check_key_agreement
from keymark.table.layout.naming import bucket_of, is_bucket_file_id
from keymark.table.metadata.partitions import RECORD_INDEX
from keymark.table.properties.config import TableConfig, save_config
from keymark.table.properties.options import (
    COLUMN_STATS_COLUMNS,
    DUP_POLICY,
    HIVE_STYLE,
    INDEX_TYPE,
    KEY_ENCODING,
    OWN_INDEX_TYPE,
    PAYLOAD_CLASS,
    URL_ENCODE,
    Options,
    column_names,
    index_options,
    index_properties,
)
from keymark.table.properties.seal import STORED_PAYLOAD
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage

_OWN = (PAYLOAD_CLASS, KEY_ENCODING, HIVE_STYLE, URL_ENCODE, COLUMN_STATS_COLUMNS)
# This many file ids that all start with eight digits cannot be a coincidence.
_BUCKET_EVIDENCE = 4


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """The index of a table, and why it is that one."""

    name: str
    reason: str


def fixed_options() -> tuple[str, ...]:
    """The options that a table keeps and never changes."""
    return (*index_properties(), *_OWN)


def check_agreement(config: TableConfig, given: Mapping[str, str]) -> None:
    """Options must not differ from the facts that the table carries."""
    for name in fixed_options():
        fact = config.index_type if name == INDEX_TYPE else config.properties.get(name)
        asked = given.get(name)
        if fact is not None and asked is not None and not _agree(name, fact, asked):
            raise InvalidOptionError(f"option {name}={asked} differs from the table's own {fact}")
    check_key_agreement(config, given)


def _agree(name: str, fact: str, asked: str) -> bool:
    """Whether two values of an option are the same; columns and names of tables have a case."""
    if name == INDEX_TYPE or fact.lower() in ("true", "false"):
        return fact.lower() == asked.lower()
    return fact == asked


def choose_index(config: TableConfig, given: Mapping[str, str], storage: Storage) -> IndexChoice:
    """The table's index: its fact, its record_index partition, the option given, or a default."""
    fact, given_type = config.index_type, given.get(INDEX_TYPE)
    if fact is not None:
        named_by = OWN_INDEX_TYPE if OWN_INDEX_TYPE in config.properties else INDEX_TYPE
        return IndexChoice(index_name(fact), f"{named_by} in hoodie.properties")
    asked = None if given_type is None else spec_of(index_name(given_type))
    if RECORD_INDEX in config.metadata_partitions:
        built = of_partition(RECORD_INDEX)
        if asked is not None and asked.owns_layout and _buckets(storage):
            warnings.warn(
                f"the record index of this {asked.name} table is not used: Hudi 0.15 leaves out "
                "the keys that it adds to buckets which exist",
                TableWarning,
                stacklevel=2,
            )
            return IndexChoice(asked.name, f"option {INDEX_TYPE}")
        if asked not in (None, built):
            raise InvalidOptionError(
                f"option {INDEX_TYPE}={given_type} contradicts the table, which has a record index"
            )
        return IndexChoice(built.name, f"the table has a {RECORD_INDEX} partition")
    if asked is not None:
        for name in _layout_options(asked):
            if name not in given:
                raise InputError(
                    f"the table does not say that it is a {asked.name} table: give option {name}"
                )
        return IndexChoice(asked.name, f"option {INDEX_TYPE}")
    if seen := options_seen(config, given, storage):
        options = " and ".join(f"{name}={value}" for name, value in seen.items())
        raise InputError(
            f"its files are named like those of a {seen[INDEX_TYPE].lower()} table: give options "
            f"{options}, or a greater number if its writers use one"
        )
    return IndexChoice(finders()[0].name, "the table names no index")


def options_seen(config: TableConfig, given: Mapping[str, str], storage: Storage) -> dict[str, str]:
    """The options of a bucket table that nothing names, by the names of its files; else nothing.

    They are enough to look at the table. A write needs the options: the last buckets may be
    empty.
    """
    if INDEX_TYPE in given or INDEX_TYPE in config.properties:
        return {}
    if RECORD_INDEX in config.metadata_partitions or not (buckets := _buckets(storage)):
        return {}
    owner = next(spec for spec in specs().values() if spec.owns_layout)
    named = dict.fromkeys(_layout_options(owner), str(buckets))
    return {INDEX_TYPE: owner.table_type, **named}


def _layout_options(spec: IndexSpec) -> list[str]:
    """The options that are needed to know the file group of a key."""
    if not spec.owns_layout:
        return []
    return [option.name for option in spec.fixed_options if not option.of_key]


def _buckets(storage: Storage) -> int:
    """How many buckets the files of a table show; 0 where they are not those of buckets."""
    ids = [file.file_id for file in TableState.load(storage).snapshot.files]
    if len(ids) < _BUCKET_EVIDENCE or not all(map(is_bucket_file_id, ids)):
        return 0
    return max(map(bucket_of, ids)) + 1


def table_options(config: TableConfig, index: str, given: Mapping[str, str]) -> Options:
    """What was given over the table's facts, and the defaults that depend on the table."""
    merged = {n: config.properties[n] for n in fixed_options() if n in config.properties}
    if STORED_PAYLOAD in config.properties:
        merged.setdefault(PAYLOAD_CLASS, config.properties[STORED_PAYLOAD])
    merged.update(given)
    merged.setdefault(DUP_POLICY, spec_of(index).duplicates)
    for option in index_options().values():
        if option.of_key:
            merged.setdefault(option.name, ",".join(config.record_key))
    return Options(merged)


def index_table_properties(
    index: str, record_key: Sequence[str], given: Mapping[str, str]
) -> dict[str, str]:
    """The facts that a table has because of its index."""
    spec, options = spec_of(index), Options(given)
    facts = {INDEX_TYPE: spec.named_to_hudi or spec.table_type}
    if spec.named_to_hudi:
        facts[OWN_INDEX_TYPE] = spec.table_type
    for option in spec.fixed_options:
        if not option.of_key:
            facts[option.name] = options.text(option.name)
            continue
        if not record_key:
            raise InvalidOptionError(f"the {index} index needs key fields: it hashes their values")
        facts[option.name] = given.get(option.name, ",".join(record_key))
        for name in column_names(facts[option.name]):
            if name not in record_key:
                raise InvalidOptionError(f"option {option.name}: {name} is not a record key column")
    return facts


def declare_index(storage: Storage, config: TableConfig, facts: Mapping[str, str]) -> None:
    """Write the facts of an index into the properties of a table, in place of another one's."""
    gone = index_properties()
    kept = {name: value for name, value in config.properties.items() if name not in gone}
    save_config(storage, {**kept, **facts})
