"""The facts of a table that its keys and paths depend on: set at creation, then never changed.

Hudi keeps the generator's class and most options of times in hoodie.properties. It leaves to each
writer the type of a time (hoodie.keygen.timebased.timestamp.type) and the kinds of the custom
generator's fields: Keymark stores both, beside the encoding of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keymark.table.errors import InvalidOptionError
from keymark.table.keygen.definition import key_generator_for, parse_partition_spec
from keymark.table.keygen.timestamps import TEXT_TYPES
from keymark.table.keygen.virtual import check_virtual_agreement, joined_generator, virtual_facts
from keymark.table.properties.config import (
    COMPLEX_KEYS,
    CUSTOM_KEYS,
    KEY_TYPES,
    NO_PARTITION_KEYS,
    TIMESTAMP_KEYS,
    TableConfig,
)
from keymark.table.properties.options import (
    HIVE_STYLE,
    KEY_ENCODING,
    KEY_GENERATOR,
    KEY_GENERATOR_TYPE,
    NAMED_ENCODING,
    PARTITION_SPEC,
    TIME_OPTIONS,
    TIME_OUTPUT_ZONE,
    TIME_TYPE,
    TIME_ZONE,
    URL_ENCODE,
    Options,
)


def key_facts(
    record_key: Sequence[str], partition_fields: Sequence[str], given: Mapping[str, str]
) -> dict[str, str]:
    """The entries of hoodie.properties that say how keys and paths are made.

    Args:
        record_key: key fields; none for keys that are generated.
        partition_fields: partition fields; for the custom generator as `field:kind`.
        given: checked options.

    Raises:
        InvalidOptionError: fields and options contradict each other.
    """
    asked = asked_generator(given)
    generator = joined_generator(record_key, given) or asked
    generator = generator or key_generator_for(record_key, partition_fields)
    options, listed = Options(given), list(partition_fields)
    if generator == CUSTOM_KEYS and PARTITION_SPEC in given:
        listed = given[PARTITION_SPEC].split(",")
    fields = parse_partition_spec(listed)[0] if generator == CUSTOM_KEYS else tuple(listed)
    facts = {
        **({"hoodie.table.recordkey.fields": ",".join(record_key)} if record_key else {}),
        "hoodie.table.partition.fields": ",".join(fields),
        KEY_GENERATOR: generator,
        HIVE_STYLE: options.text(HIVE_STYLE),
        URL_ENCODE: options.text(URL_ENCODE),
        KEY_ENCODING: options.text(KEY_ENCODING),
        **{name: given[name] for name in TIME_OPTIONS if name in given},
        **virtual_facts(record_key, generator, given),
    }
    if generator == CUSTOM_KEYS and fields:
        facts[PARTITION_SPEC] = ",".join(listed)
    _settle_zone(facts)
    if generator == NO_PARTITION_KEYS and fields:
        raise InvalidOptionError("the non-partitioned key generator takes no partition fields")
    spec = given.get(PARTITION_SPEC)
    if generator != CUSTOM_KEYS and spec not in (None, ",".join(fields)):
        raise InvalidOptionError(
            f"option {PARTITION_SPEC}={spec} differs from the partition fields {','.join(fields)}"
        )
    times = [name for name in TIME_OPTIONS if name in given]
    if times and generator not in (TIMESTAMP_KEYS, CUSTOM_KEYS):
        raise InvalidOptionError(
            f"option {times[0]} needs a timestamp-based or custom key generator: set "
            f"{KEY_GENERATOR_TYPE}=TIMESTAMP or CUSTOM"
        )
    if facts[KEY_ENCODING] == NAMED_ENCODING and generator != COMPLEX_KEYS:
        raise InvalidOptionError(
            f"option {KEY_ENCODING}={NAMED_ENCODING} is for the complex key generator only"
        )
    return facts


def asked_generator(given: Mapping[str, str]) -> str | None:
    """The generator that options name, by class or by type."""
    kind = given.get(KEY_GENERATOR_TYPE)
    if kind is not None and kind.upper() not in KEY_TYPES:
        raise InvalidOptionError(
            f"option {KEY_GENERATOR_TYPE}: {kind!r} is none of {', '.join(KEY_TYPES)}"
        )
    by_type = None if kind is None else KEY_TYPES[kind.upper()]
    by_class = given.get(KEY_GENERATOR)
    if by_class is not None:
        by_class = by_class.replace("AvroKeyGenerator", "KeyGenerator")
    if by_type is not None and by_class is not None and by_type != by_class:
        raise InvalidOptionError(f"option {KEY_GENERATOR_TYPE}={kind} contradicts {by_class}")
    return by_class or by_type


def _settle_zone(facts: dict[str, str]) -> None:
    """Numbers need a zone: Hudi would take that of each process where none is set."""
    number = facts.get(TIME_TYPE, "DATE_STRING") not in TEXT_TYPES
    if number and TIME_ZONE not in facts:
        facts.setdefault(TIME_OUTPUT_ZONE, "UTC")


def check_key_agreement(config: TableConfig, given: Mapping[str, str]) -> None:
    """Refuse options that name another generator, or other settings of it, than the table has.

    Raises:
        InvalidOptionError: an option differs.
    """
    asked = asked_generator(given)
    if asked is not None and asked != config.key_generator:
        raise InvalidOptionError(
            f"option {KEY_GENERATOR}={asked} differs from the table's own {config.key_generator}"
        )
    own = dict(config.properties)
    if config.key_generator != CUSTOM_KEYS:
        own[PARTITION_SPEC] = ",".join(config.partition_fields)
    check_virtual_agreement(config, given)
    left_out = missing_facts(config, given)
    for name in (PARTITION_SPEC, *TIME_OPTIONS):
        if name in given and name not in left_out and given[name] != own.get(name):
            has = own.get(name, "(none)")
            raise InvalidOptionError(
                f"option {name}={given[name]} differs from the table's own {has}"
            )


def missing_facts(config: TableConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Facts that Hudi leaves out of a table's properties, as far as options give them.

    For a timestamp-based generator it leaves out the type of the time, for a custom one all.
    Source: TimestampKeyGeneratorConfig, HoodieTableMetaClient.PropertyBuilder of Hudi 0.15.
    """
    properties, left_out = config.properties, []
    if TIME_TYPE not in properties and config.key_generator == TIMESTAMP_KEYS:
        left_out.append(TIME_TYPE)
    if config.key_generator == CUSTOM_KEYS:
        left_out += [PARTITION_SPEC] if PARTITION_SPEC not in properties else []
        left_out += TIME_OPTIONS if TIME_TYPE not in properties else ()
    return {name: given[name] for name in left_out if name in given}
