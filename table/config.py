"""hoodie.properties: what a table is, and the facts that Keymark keeps beside it.

Text of java.util.Properties; the checksum is the CRC-32 of `<database>.<table>` and covers nothing
else. A rewrite keeps a backup until the new file is there. Source: HoodieTableConfig of Hudi 0.15.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from types import MappingProxyType
from typing import Any

import javaproperties

from table.errors import CorruptFileError, NotATableError, UnsupportedTableError
from table.naming import PROPERTIES, PROPERTIES_BACKUP
from table.options import COLUMN_STATS_COLUMNS, KEYS_IGNORED, META_FIELDS
from table.storage import Storage
from table.timeline.timeline import Timeline, zone_of

SIMPLE_KEYS = "org.apache.hudi.keygen.SimpleKeyGenerator"
COMPLEX_KEYS = "org.apache.hudi.keygen.ComplexKeyGenerator"
NO_PARTITION_KEYS = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
TIMESTAMP_KEYS = "org.apache.hudi.keygen.TimestampBasedKeyGenerator"
CUSTOM_KEYS = "org.apache.hudi.keygen.CustomKeyGenerator"
# What Hudi 1.x names in place of the class (KeyGeneratorType).
KEY_TYPES = {
    "SIMPLE": SIMPLE_KEYS,
    "COMPLEX": COMPLEX_KEYS,
    "NON_PARTITION": NO_PARTITION_KEYS,
    "TIMESTAMP": TIMESTAMP_KEYS,
    "CUSTOM": CUSTOM_KEYS,
}
KEY_COLUMN = "_hoodie_record_key"
METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
BUILDING_PARTITIONS = "hoodie.table.metadata.partitions.inflight"
VERSION = "6"
_FOLDER = re.compile(r"\w[\w.-]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """The meaning of hoodie.properties; `properties` is every entry as text."""

    name: str
    record_key: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering: str | None
    key_generator: str
    hive_style: bool
    url_encode: bool
    timezone: str
    metadata_partitions: tuple[str, ...]
    building: tuple[str, ...]
    properties: Mapping[str, str]

    @property
    def maintained(self) -> tuple[str, ...]:
        """The metadata partitions that every commit brings up to date, those being built too."""
        return self.metadata_partitions + self.building

    @property
    def stat_columns(self) -> tuple[str, ...]:
        """The columns that column_stats describes; empty for all."""
        return _names(self.properties.get(COLUMN_STATS_COLUMNS, ""))

    @property
    def generates_keys(self) -> bool:
        """Whether the table has no key fields: an inserted row gets a key that is generated."""
        return not self.record_key

    @property
    def stores_meta(self) -> bool:
        """Whether rows are written with meta columns (hoodie.populate.meta.fields)."""
        return self.properties.get(META_FIELDS, "true").lower() == "true"

    @property
    def virtual_keys(self) -> bool:
        """Whether the key generator makes the keys of stored rows, whatever is stored."""
        return not self.stores_meta or _true(self.properties, KEYS_IGNORED)

    @property
    def zone(self) -> tzinfo | None:
        """The zone of instant times; None is the process's own."""
        return zone_of(self.timezone)


def checksum(name: str, database: str = "") -> str:
    """`hoodie.table.checksum` of a table name."""
    return str(binascii.crc32(f"{database}.{name}".encode()))


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The file's bytes: ISO-8859-1 with escapes, keys sorted."""
    ordered = dict(sorted(properties.items()))
    text: str = javaproperties.dumps(ordered, comments="Properties saved by Keymark")
    return text.encode("iso-8859-1")


def decode_properties(data: bytes, name: str) -> dict[str, str]:
    """The entries of a properties file."""
    try:
        entries: dict[str, Any] = javaproperties.loads(data)
    except ValueError as error:
        raise CorruptFileError(name, 0, f"not a properties file ({error})") from error
    return {str(key): str(value) for key, value in entries.items()}


def parse_config(properties: Mapping[str, str]) -> TableConfig:
    """The meaning of the entries; what Keymark does not support is refused by name."""
    name = properties.get("hoodie.table.name")
    if not name:
        raise CorruptFileError(PROPERTIES, 0, "hoodie.table.name is missing")
    _refuse_unsupported(properties)
    stored = properties.get("hoodie.table.checksum")
    if stored is not None and stored != checksum(name, properties.get("hoodie.database.name", "")):
        raise CorruptFileError(PROPERTIES, 0, "hoodie.table.checksum does not fit the table's name")
    return TableConfig(
        name=name,
        record_key=_names(properties.get("hoodie.table.recordkey.fields", "")),
        partition_fields=_partition_fields(properties),
        ordering=_ordering(properties),
        key_generator=_key_generator(properties),
        hive_style=_true(properties, "hoodie.datasource.write.hive_style_partitioning"),
        url_encode=_true(properties, "hoodie.datasource.write.partitionpath.urlencode"),
        timezone=properties.get("hoodie.table.timeline.timezone", "LOCAL").upper(),
        metadata_partitions=_names(properties.get(METADATA_PARTITIONS, "")),
        building=_names(properties.get(BUILDING_PARTITIONS, "")),
        properties=MappingProxyType(dict(properties)),
    )


def _partition_fields(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The partition fields; Hudi 1.x stores those of the custom generator with their kinds."""
    fields = _names(properties.get("hoodie.table.partition.fields", ""))
    return tuple(field.partition(":")[0] for field in fields)


def _ordering(properties: Mapping[str, str]) -> str | None:
    """The ordering field; Hudi renamed its property in 1.1."""
    name = "hoodie.table.ordering.fields"
    fields = _names(properties.get("hoodie.table.precombine.field") or properties.get(name, ""))
    if len(fields) > 1:
        raise UnsupportedTableError(f"{name}={','.join(fields)} is not supported, only one field")
    return fields[0] if fields else None


def _key_generator(properties: Mapping[str, str]) -> str:
    """The class that generates keys, or the name of a type that is none of ours."""
    kind = properties.get("hoodie.table.keygenerator.type", "SIMPLE").upper()
    found = properties.get("hoodie.table.keygenerator.class")
    # Engines other than Spark name the classes on which those of Spark are built.
    found = found and found.replace("AvroKeyGenerator", "KeyGenerator")
    return found or KEY_TYPES.get(kind, kind)


def _refuse_unsupported(properties: Mapping[str, str]) -> None:
    supported = {
        "hoodie.table.version": (VERSION, None),
        "hoodie.table.type": ("COPY_ON_WRITE", "COPY_ON_WRITE"),
        "hoodie.timeline.layout.version": ("1", "1"),
        "hoodie.table.base.file.format": ("PARQUET", "PARQUET"),
        "hoodie.datasource.write.drop.partition.columns": ("false", "false"),
    }
    for key, (wanted, default) in supported.items():
        found = properties.get(key, default)
        if found is None or found.upper() != wanted.upper():
            raise UnsupportedTableError(
                f"{key}={found or '(missing)'} is not supported, only {wanted}"
            )


def archive_folder(timeline: Timeline) -> str:
    """The folder of archived instants: `history` in tables of version 6 that Hudi 1.x made.

    Source: TimelinePathProviderV1 of Hudi 1.1.
    """
    path = f"{timeline.folder}/hoodie.properties"
    option = "hoodie.archivelog.folder"
    name = decode_properties(timeline.storage.read(path), path).get(option) or "archived"
    if not _FOLDER.match(name):
        raise UnsupportedTableError(f"{option}={name} is not supported, only the name of a folder")
    return f"{timeline.folder}/{name}"


def load_config(storage: Storage) -> TableConfig:
    """Read hoodie.properties, or its backup where a rewrite was cut off."""
    for path in (PROPERTIES, PROPERTIES_BACKUP):
        try:
            data = storage.read(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        return parse_config(decode_properties(data, path))
    raise NotATableError(f"{storage.root} is no Hudi table: {PROPERTIES} is missing")


def save_config(storage: Storage, properties: Mapping[str, str]) -> None:
    """Replace hoodie.properties; a backup stands beside it until the new file is whole."""
    name, database = properties["hoodie.table.name"], properties.get("hoodie.database.name", "")
    data = encode_properties({**properties, "hoodie.table.checksum": checksum(name, database)})
    if storage.exists(PROPERTIES):
        storage.replace(PROPERTIES_BACKUP, storage.read(PROPERTIES))
    storage.replace(PROPERTIES, data)
    storage.delete(PROPERTIES_BACKUP)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _true(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "false").lower() == "true"
