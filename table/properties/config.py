"""hoodie.properties: what a table is, and the facts that Keymark keeps beside it.

Text of java.util.Properties; the checksum is the CRC-32 of `<database>.<table>` and covers nothing
else, so Keymark adds a seal (see `seal`). A rewrite keeps a backup until the new file is
there; where the file is torn, the backup counts. Source: HoodieTableConfig of Hudi 0.15.
"""

from __future__ import annotations

import binascii
import contextlib
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from types import MappingProxyType

import javaproperties

from keymark.indexes.installed import specs
from keymark.indexes.spec import KeyRuns
from keymark.table.errors import (
    CorruptFileError,
    NotATableError,
    StorageError,
    UnsupportedTableError,
)
from keymark.table.layout.naming import PROPERTIES, PROPERTIES_BACKUP
from keymark.table.properties.options import (
    COLUMN_STATS_COLUMNS,
    INDEX_TYPE,
    KEY_ENCODING,
    KEY_GENERATOR,
    KEYS_IGNORED,
    META_FIELDS,
    NAMED_ENCODING,
    OWN_INDEX_TYPE,
    PARTITION_SPEC,
    PAYLOAD_CLASS,
    PLAIN_ENCODING,
    RECORD_HASHES,
    SECONDARY_COLUMNS,
)
from keymark.table.properties.seal import (
    ARCHIVE,
    BUILDING_PARTITIONS,
    FLAGS,
    GENERATOR_TYPE,
    METADATA_PARTITIONS,
    ORDERING,
    PARTITION_FIELDS,
    PRECOMBINE,
    RECORD_KEY,
    SEAL,
    STORED_PAYLOAD,
    TIMEZONE,
    Difference,
    decode_seal,
    differences,
    encode_seal,
    refuse_damaged_names,
    refuse_hidden_entries,
    texts,
)
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import Timeline, zone_of

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
VERSION = "6"
# The first table version that Apache Hudi 1.x makes of one of version 6.
_UPGRADED = 8
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
    def secondary_columns(self) -> tuple[str, ...]:
        """The columns with a secondary index."""
        return _names(self.properties.get(SECONDARY_COLUMNS, ""))

    @property
    def index_type(self) -> str | None:
        """The type of the table's index, as its spec has it; None where the table names none."""
        return self.properties.get(OWN_INDEX_TYPE, self.properties.get(INDEX_TYPE))

    @property
    def key_runs(self) -> KeyRuns:
        """What the runs of record keys hold that the table keeps: see IndexSpec.

        They are those of its index, or of the one that stands beside it.
        """
        named = (spec for spec in specs().values() if spec.table_type == self.index_type)
        own: KeyRuns = next((spec.key_runs for spec in named), "")
        if own:
            return own
        return "hashes" if _flag(self.properties, RECORD_HASHES) else ""

    @property
    def generates_keys(self) -> bool:
        """Whether the table has no key fields: an inserted row gets a key that is generated."""
        return not self.record_key

    @property
    def stores_meta(self) -> bool:
        """Whether rows are written with meta columns (hoodie.populate.meta.fields)."""
        return _flag(self.properties, META_FIELDS)

    @property
    def virtual_keys(self) -> bool:
        """Whether the key generator makes the keys of stored rows, whatever is stored."""
        return not self.stores_meta or _flag(self.properties, KEYS_IGNORED)

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
        entries: dict[str, str] = javaproperties.loads(data)
        # An escape can be half of a surrogate pair, which no column or file can be named by.
        "".join((*entries, *entries.values())).encode()
    except ValueError as error:
        raise CorruptFileError(name, 0, f"not a properties file ({error})") from error
    refuse_hidden_entries(data.decode("iso-8859-1").splitlines(), name)
    return {str(key): str(value) for key, value in entries.items()}


def parse_config(properties: Mapping[str, str]) -> TableConfig:
    """The meaning of the entries; what Keymark does not support is refused by name."""
    name = properties.get("hoodie.table.name")
    if not name:
        raise CorruptFileError(PROPERTIES, 0, "hoodie.table.name is missing")
    refuse_damaged_names(properties)
    _refuse_unsupported(properties)
    stored = properties.get("hoodie.table.checksum")
    if stored is not None and stored != checksum(name, properties.get("hoodie.database.name", "")):
        raise CorruptFileError(PROPERTIES, 0, "hoodie.table.checksum does not fit the table's name")
    for flag in FLAGS:
        _flag(properties, flag)
    _choice(properties, KEY_ENCODING, (PLAIN_ENCODING, NAMED_ENCODING))
    return TableConfig(
        name=name,
        record_key=_names(properties.get(RECORD_KEY, "")),
        partition_fields=_partition_fields(properties),
        ordering=_ordering(properties),
        key_generator=_key_generator(properties),
        hive_style=_flag(properties, "hoodie.datasource.write.hive_style_partitioning"),
        url_encode=_flag(properties, "hoodie.datasource.write.partitionpath.urlencode"),
        timezone=_choice(properties, TIMEZONE, ("LOCAL", "UTC")),
        metadata_partitions=_names(properties.get(METADATA_PARTITIONS, "")),
        building=_names(properties.get(BUILDING_PARTITIONS, "")),
        properties=MappingProxyType(dict(properties)),
    )


def _partition_fields(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The partition fields; Hudi 1.x stores those of the custom generator with their kinds."""
    fields = _names(properties.get(PARTITION_FIELDS, ""))
    return tuple(field.partition(":")[0] for field in fields)


def _ordering(properties: Mapping[str, str]) -> str | None:
    """The ordering field; Hudi renamed its property in 1.1."""
    fields = _names(properties.get(PRECOMBINE) or properties.get(ORDERING, ""))
    if len(fields) > 1:
        listed = ",".join(fields)
        raise UnsupportedTableError(f"{ORDERING}={listed} is not supported, only one field")
    return fields[0] if fields else None


def _key_generator(properties: Mapping[str, str]) -> str:
    """The class that generates keys, or the name of a type that is none of ours."""
    kind = properties.get(GENERATOR_TYPE, "SIMPLE").upper()
    found = properties.get(KEY_GENERATOR)
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
            text = f"{key}={found or '(missing)'} is not supported, only {wanted}"
            if key == "hoodie.table.version" and found and found.isdecimal():
                number = int(found[:9])
                if number >= _UPGRADED:
                    text += (
                        f"; the table was upgraded by Apache Hudi to version {number}: Hudi 1.x "
                        "takes a copy of it back (CALL downgrade_table(table => 'NAME', "
                        "to_version => 'SIX')), and `keymark plan` needs no table"
                    )
            raise UnsupportedTableError(f"{PROPERTIES}: {text}")


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
    return _load(storage)[0]


def _load(storage: Storage) -> tuple[TableConfig, bytes]:
    """The config of the file that counts, and the bytes of that file."""
    torn = b""
    for path in (PROPERTIES, PROPERTIES_BACKUP):
        try:
            data = storage.read(path)
        except FileNotFoundError:
            continue
        if _is_torn(data) and path == PROPERTIES:
            torn = data or b"\n"
            continue
        if torn and _is_torn(data):
            break
        return _parsed(data, path), data
    if torn:
        # It says more about what is wrong, or has its last line without an end.
        return _parsed(torn, PROPERTIES), torn
    raise no_table(storage)


def no_table(storage: Storage) -> NotATableError:
    """The error for a folder without hoodie.properties, with the format of the table in it.

    A folder `_delta_log` is Delta's (its protocol, "Delta Log Entries"), files
    `metadata/*.metadata.json` are Iceberg's (its spec, "File System Tables" and "Table Metadata").
    A store gets two requests more.
    """
    other = ""
    with contextlib.suppress(StorageError):
        if storage.exists("_delta_log"):
            other = "of Delta (it has _delta_log)"
        elif any(each.name.endswith(".metadata.json") for each in storage.list("metadata")):
            other = "of Iceberg (it has metadata/*.metadata.json)"
    if other:
        return NotATableError(
            f"{storage.root} is not a Hudi table but one {other}; `keymark data profile` profiles "
            "the keys of such tables"
        )
    return NotATableError(f"{storage.root} is not a Hudi table: {PROPERTIES} is missing")


@functools.lru_cache(maxsize=16)
def _parsed(data: bytes, path: str) -> TableConfig:
    """The config in the bytes of a file; a lookup of a few keys would spend a fifth on it."""
    return parse_config(decode_properties(data, path))


def _is_torn(data: bytes) -> bool:
    """Whether a properties file is empty or cut: every writer of one ends its last line.

    Hudi writes the file in place, so that a process that dies leaves a part of it. Hudi takes the
    backup then, as it does for a file without the table's name.
    """
    return not data.endswith(b"\n") or b"hoodie.table.name" not in data


def restore_properties(storage: Storage) -> None:
    """Finish a rewrite of hoodie.properties that was cut off; call it under the lease."""
    if not storage.exists(PROPERTIES_BACKUP):
        return
    storage.replace(PROPERTIES, _load(storage)[1])
    storage.delete(PROPERTIES_BACKUP)


def put_config(storage: Storage, properties: Mapping[str, str]) -> None:
    """Put hoodie.properties of a new table, with its seal; FileTakenError if the file is there."""
    storage.commit(PROPERTIES, _sealed(properties))


def save_config(storage: Storage, properties: Mapping[str, str], *, accept: bool = False) -> None:
    """Replace hoodie.properties; a backup stands beside it until the new file is whole.

    Args:
        storage: the table's storage.
        properties: all entries. They get a new seal.
        accept: whether values that do not fit the present seal may be sealed anew.

    Raises:
        CorruptFileError: the file was changed or damaged since it was sealed.
    """
    data = _sealed(properties)
    if storage.exists(PROPERTIES) or storage.exists(PROPERTIES_BACKUP):
        config, before = _load(storage)
        if not accept:
            refuse_broken_seal(config)
        storage.replace(PROPERTIES_BACKUP, before)
    storage.replace(PROPERTIES, data)
    storage.delete(PROPERTIES_BACKUP)


def _sealed(properties: Mapping[str, str]) -> bytes:
    """The content of hoodie.properties, with a new seal and checksum."""
    name, database = properties["hoodie.table.name"], properties.get("hoodie.database.name", "")
    sealed = {**properties, SEAL: encode_seal(meaning(parse_config(properties)))}
    return encode_properties({**sealed, "hoodie.table.checksum": checksum(name, database)})


def meaning(config: TableConfig) -> dict[str, str]:
    """What the seal holds of a table: names of entries and values; defaults are left out."""
    properties = config.properties
    kinds = properties.get(PARTITION_SPEC, properties.get(PARTITION_FIELDS, ""))
    # They say whether a key moves, and are true or false.
    moves = [spec.move_option for spec in specs().values() if spec.move_option]
    found = {
        RECORD_KEY: ",".join(config.record_key),
        PARTITION_FIELDS: ",".join(config.partition_fields),
        PARTITION_SPEC: ",".join(_names(kinds)).lower() if ":" in kinds else "",
        PRECOMBINE: config.ordering or "",
        KEY_GENERATOR: config.key_generator,
        TIMEZONE: config.timezone,
        ARCHIVE: properties.get(ARCHIVE) or "archived",
        PAYLOAD_CLASS: properties.get(PAYLOAD_CLASS, properties.get(STORED_PAYLOAD, "")),
        METADATA_PARTITIONS: ",".join(sorted(config.metadata_partitions)),
        BUILDING_PARTITIONS: ",".join(sorted(config.building)),
        **{name: properties.get(name, "") for name in texts()},
        **{name: properties.get(name, "").lower() for name in moves},
    }
    for name, default in FLAGS.items():
        if _flag(properties, name) != default:
            found[name] = str(not default).lower()
    return {name: text for name, text in found.items() if text}


def broken_seal(config: TableConfig) -> list[Difference]:
    """The entries that differ from the seal; none where the table has no seal.

    Raises:
        CorruptFileError: the seal itself is damaged.
    """
    seal = config.properties.get(SEAL)
    return [] if seal is None else differences(decode_seal(seal), meaning(config))


def refuse_broken_seal(config: TableConfig) -> None:
    """Refuse to write to a table whose properties are not those that were sealed.

    Raises:
        CorruptFileError: names the entries, their old and new values, and the command that accepts
            the new ones.
    """
    found = broken_seal(config)
    if found:
        listed = "; ".join(str(difference) for difference in found)
        raise CorruptFileError(
            PROPERTIES,
            0,
            f"{listed}; put the old value back, or let `table accept PATH` take the new one",
        )


def sealed_partitions(config: TableConfig) -> tuple[str, ...]:
    """The metadata partitions that the table had when it was sealed, those being built too."""
    seal = config.properties.get(SEAL)
    sealed = {} if seal is None else decode_seal(seal)
    return (
        *_names(sealed.get(METADATA_PARTITIONS, "")),
        *_names(sealed.get(BUILDING_PARTITIONS, "")),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _flag(properties: Mapping[str, str], key: str) -> bool:
    """An entry that is true or false; any other text is damage."""
    default = str(FLAGS[key]).lower()
    return _choice(properties, key, (default, str(not FLAGS[key]).lower())) == "true"


def _choice(properties: Mapping[str, str], key: str, choices: Sequence[str]) -> str:
    """An entry that has one of some values, in any case; the first one is the default.

    Raises:
        CorruptFileError: names the entry and its value.
    """
    found = properties.get(key, "") or choices[0]
    for choice in choices:
        if found.lower() == choice.lower():
            return choice
    listed = " nor ".join(choices)
    raise CorruptFileError(PROPERTIES, 0, f"{key}={found} is neither {listed}")
