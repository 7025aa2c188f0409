"""Virtual keys: the record key is not stored, the key generator makes it from the row.

    hoodie.populate.meta.fields=false           Hudi's name: the five meta columns hold null
    hoodie.recordkey.virtual.enabled=true       the same, by the names of the proposal
        .columns, .concatenator, .class         become the key fields and the key generator
    keymark.recordkey.ignore.stored=true        keys are stored, and readers still make them

Hudi makes virtual keys by its simple, complex and non-partitioned generators only. With another
generator, keys joined by a concatenator, or keys in another encoding, Hudi would not find a row:
such a table needs keymark.hudi.reads=false, which says that this is known.
Source: the proposal of virtual keys; HoodieSparkSqlWriter, HoodieTableConfig of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keymark.table.errors import InvalidOptionError
from keymark.table.keygen.definition import JOINED_KEYS
from keymark.table.properties.config import (
    COMPLEX_KEYS,
    NO_PARTITION_KEYS,
    SIMPLE_KEYS,
    TableConfig,
)
from keymark.table.properties.options import (
    CONCATENATOR,
    HUDI_READS,
    KEY_ENCODING,
    KEY_GENERATOR,
    KEYS_IGNORED,
    META_FIELDS,
    NAMED_ENCODING,
    VIRTUAL_COLUMNS,
    Options,
)

_BY_HUDI = (SIMPLE_KEYS, COMPLEX_KEYS, NO_PARTITION_KEYS)
# Only stored where they say something.
_RARE = {KEYS_IGNORED: "false", HUDI_READS: "true"}


def is_virtual(given: Mapping[str, str]) -> bool:
    """Whether options ask for keys that are made."""
    options = Options(given)
    return not options.flag(META_FIELDS) or options.flag(KEYS_IGNORED)


def joined_generator(record_key: Sequence[str], given: Mapping[str, str]) -> str | None:
    """The generator that a concatenator asks for: one column needs none."""
    if CONCATENATOR not in given or len(record_key) == 1:
        return None
    if given.get(KEY_GENERATOR, JOINED_KEYS) != JOINED_KEYS:
        raise InvalidOptionError(
            f"option {CONCATENATOR} contradicts the key generator {given[KEY_GENERATOR]}"
        )
    return JOINED_KEYS


def virtual_facts(
    record_key: Sequence[str], generator: str, given: Mapping[str, str]
) -> dict[str, str]:
    """The entries of hoodie.properties that say whether keys are stored.

    Raises:
        InvalidOptionError: options contradict each other, or Hudi could not read the table and
            `keymark.hudi.reads` does not say that it need not.
    """
    options, virtual = Options(given), is_virtual(given)
    for name in (VIRTUAL_COLUMNS, CONCATENATOR):
        if name in given and not virtual:
            raise InvalidOptionError(f"option {name} needs virtual keys: {META_FIELDS}=false")
    if given.get(VIRTUAL_COLUMNS) not in (None, ",".join(record_key)):
        raise InvalidOptionError(
            f"option {VIRTUAL_COLUMNS}={given[VIRTUAL_COLUMNS]} differs from the record key "
            f"{','.join(record_key)}"
        )
    if options.flag(KEYS_IGNORED) and not options.flag(META_FIELDS):
        raise InvalidOptionError(f"option {KEYS_IGNORED} needs stored keys: {META_FIELDS}=true")
    if virtual and not record_key:
        raise InvalidOptionError("virtual keys need key fields: generated keys are stored")
    named = options.text(KEY_ENCODING) == NAMED_ENCODING
    if virtual and options.flag(HUDI_READS) and (generator not in _BY_HUDI or named):
        what = "keys with their field's name" if named else f"the key generator {generator}"
        raise InvalidOptionError(
            f"Apache Hudi cannot make virtual keys with {what}: set option {HUDI_READS}=false if "
            "it need not read the table"
        )
    facts = {META_FIELDS: options.text(META_FIELDS).lower()}
    rare = {name: given.get(name, usual).lower() for name, usual in _RARE.items()}
    facts.update({name: text for name, text in rare.items() if text != _RARE[name]})
    if generator == JOINED_KEYS:
        facts[CONCATENATOR] = given[CONCATENATOR]
    return facts


def check_virtual_agreement(config: TableConfig, given: Mapping[str, str]) -> None:
    """Refuse options that differ from what the table says about its keys.

    Raises:
        InvalidOptionError: an option differs.
    """
    own = {
        META_FIELDS: "true",
        **_RARE,
        VIRTUAL_COLUMNS: ",".join(config.record_key),
        CONCATENATOR: "(none)",
    }
    if len(config.record_key) == 1 and CONCATENATOR in given:
        own[CONCATENATOR] = given[CONCATENATOR]
    for name, usual in own.items():
        has = config.properties.get(name, usual)
        asked = given.get(name, has)
        # Switches are written as one likes.
        same = asked.lower() == has.lower() if usual in ("true", "false") else asked == has
        if not same:
            raise InvalidOptionError(f"option {name}={asked} differs from the table's own {has}")
