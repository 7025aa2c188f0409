"""Which key generator a table has, and what it is made of.

    SimpleKeyGenerator          one key field, one partition field
    ComplexKeyGenerator         any fields
    NonpartitionedKeyGenerator  any key fields, no partitions
    TimestampBasedKeyGenerator  one key field, one partition field that is a time
    CustomKeyGenerator          any key fields, partition fields as `field:simple,field:timestamp`
    package.module:Class        a user's own

A generator is a fact of its table, and so are the options that keys and paths depend on.
Source: HoodieSparkKeyGeneratorFactory, KeyGenUtils.inferKeyGeneratorType of Hudi 0.15.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from keymark.table.errors import InvalidOptionError, UnsupportedTableError
from keymark.table.format.kernels.words import SIMPLE_FIELD
from keymark.table.properties.config import (
    COMPLEX_KEYS,
    CUSTOM_KEYS,
    NO_PARTITION_KEYS,
    SIMPLE_KEYS,
    TIMESTAMP_KEYS,
    TableConfig,
)
from keymark.table.properties.options import (
    CONCATENATOR,
    KEY_ENCODING,
    NAMED_ENCODING,
    PARTITION_SPEC,
    TIME_OPTIONS,
)

HUDI_GENERATORS = (SIMPLE_KEYS, COMPLEX_KEYS, NO_PARTITION_KEYS, TIMESTAMP_KEYS, CUSTOM_KEYS)
JOINED_KEYS = "table.keygen.joined:JoinedKeys"
"""The generator of keys that are joined by a concatenator, by the name that tables store for it"""
_TIMESTAMP = "timestamp"
# The name of a user's own generator: `package.module:Class`.
_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDefinition:
    """All that keys and paths of a table depend on.

    Attributes:
        generator: class of Hudi, or import path.
        record_key: key fields.
        partition_fields: partition fields, without their kinds.
        kinds: `simple` or `timestamp` for each partition field; none where a table with the custom
            generator does not say.
        named: whether a single key field is named in the key.
        hive_style: hoodie.datasource.write.hive_style_partitioning.
        url_encode: hoodie.datasource.write.partitionpath.urlencode.
        time: the options hoodie.keygen.timebased.* that are set.
        concatenator: hoodie.recordkey.virtual.concatenator.
    """

    generator: str
    record_key: tuple[str, ...]
    partition_fields: tuple[str, ...]
    kinds: tuple[str, ...]
    named: bool
    hive_style: bool
    url_encode: bool
    time: tuple[tuple[str, str], ...]
    concatenator: str | None = None

    @classmethod
    def of(cls, config: TableConfig) -> KeyDefinition:
        """The definition of a table."""
        generator, properties = config.key_generator, config.properties
        partitioned = generator != NO_PARTITION_KEYS
        named = generator == COMPLEX_KEYS and properties.get(KEY_ENCODING) == NAMED_ENCODING
        return cls(
            generator=generator,
            record_key=config.record_key,
            partition_fields=config.partition_fields if partitioned else (),
            kinds=_kinds(config) if partitioned else (),
            named=named or len(config.record_key) > 1,
            hive_style=config.hive_style,
            url_encode=config.url_encode,
            time=tuple((name, properties[name]) for name in TIME_OPTIONS if name in properties),
            concatenator=properties.get(CONCATENATOR),
        )


def _kinds(config: TableConfig) -> tuple[str, ...]:
    fields = config.partition_fields
    if config.key_generator == TIMESTAMP_KEYS:
        return (_TIMESTAMP,) * len(fields)
    if config.key_generator != CUSTOM_KEYS or not fields:
        return (SIMPLE_FIELD,) * len(fields)
    stored = config.properties.get("hoodie.table.partition.fields", "")
    text = config.properties.get(PARTITION_SPEC, stored)
    return parse_partition_spec(text.split(","))[1] if ":" in text else ()


def parse_partition_spec(parts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fields and kinds of `field:kind` texts.

    Raises:
        InvalidOptionError: one is of another form, or of an unknown kind.
    """
    fields, kinds = [], []
    for part in parts:
        field, _, kind = part.strip().partition(":")
        if not field or kind.lower() not in (SIMPLE_FIELD, _TIMESTAMP):
            raise InvalidOptionError(
                f"partition {part!r} of a custom key generator is neither field:simple nor "
                "field:timestamp"
            )
        fields.append(field)
        kinds.append(kind.lower())
    return tuple(fields), tuple(kinds)


def key_generator_for(record_key: Sequence[str], partition_fields: Sequence[str]) -> str:
    """The class of Hudi that generates keys of this shape."""
    if not partition_fields:
        return NO_PARTITION_KEYS
    if ":" in partition_fields[0]:
        return CUSTOM_KEYS
    simple = len(record_key) == 1 and len(partition_fields) == 1
    return SIMPLE_KEYS if simple else COMPLEX_KEYS


def check_shape(definition: KeyDefinition) -> None:
    """Refuse fields that the generator cannot take.

    Raises:
        InvalidOptionError: there are too many or too few.
        UnsupportedTableError: the kinds of partition fields are not known.
    """
    name = definition.generator.rpartition(".")[2]
    if len(definition.kinds) != len(definition.partition_fields):
        raise UnsupportedTableError(
            "the table has a custom key generator and does not say of what kinds its partition "
            f"fields are: give option {PARTITION_SPEC}=field:simple,field:timestamp"
        )
    keys, fields = len(definition.record_key), len(definition.partition_fields)
    # Without key fields keys are generated, and only the path is the generator's.
    single = definition.generator in (SIMPLE_KEYS, TIMESTAMP_KEYS)
    if single and (max(keys, 1), fields) != (1, 1):
        raise InvalidOptionError(
            f"the key generator {name} takes one key field and one partition field, not {keys} "
            f"and {fields}"
        )


def check_known(generator: str) -> None:
    """Refuse a generator that Keymark does not have, by name."""
    if generator not in HUDI_GENERATORS and not _IMPORT_PATH.match(generator):
        raise UnsupportedTableError(f"key generator {generator} is not supported yet")
