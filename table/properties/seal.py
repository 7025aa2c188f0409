"""The seal of hoodie.properties: the values that must not change unasked, with a digest of them.

    keymark.table.seal = <version> <digest> {"key":"uuid","partition":"dt","ordering":"ts"}

The seal holds the meaning of the entries, not their lines: Apache Hudi sorts and rewrites the file,
and renames some entries, without breaking it. A value that is the default is left out. The seal is
written with every rewrite of the file by Keymark and compared before each write.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from keymark.table.errors import CorruptFileError
from keymark.table.layout.naming import PROPERTIES
from keymark.table.properties.options import (
    COLUMN_STATS_COLUMNS,
    CONCATENATOR,
    HIVE_STYLE,
    HUDI_READS,
    INDEX_TYPE,
    KEY_ENCODING,
    KEY_GENERATOR,
    KEYS_IGNORED,
    META_FIELDS,
    PARTITION_SPEC,
    PAYLOAD_CLASS,
    RECORD_HASHES,
    SECONDARY_COLUMNS,
    TIME_OPTIONS,
    URL_ENCODE,
    index_properties,
)

SEAL = "keymark.table.seal"
RECOVERY = "keymark.table.recovery"
METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
BUILDING_PARTITIONS = "hoodie.table.metadata.partitions.inflight"
RECORD_KEY = "hoodie.table.recordkey.fields"
PARTITION_FIELDS = "hoodie.table.partition.fields"
PRECOMBINE = "hoodie.table.precombine.field"
ORDERING = "hoodie.table.ordering.fields"
TIMEZONE = "hoodie.table.timeline.timezone"
ARCHIVE = "hoodie.archivelog.folder"
# Hudi 1.x stores it when it makes a table, as 0.15 does for merge-on-read.
STORED_PAYLOAD = "hoodie.compaction.payload.class"
GENERATOR_TYPE = "hoodie.table.keygenerator.type"

# Apache Hudi changes these when it builds or drops an index, so they need not be what they were.
CHANGED_BY_HUDI = (METADATA_PARTITIONS, BUILDING_PARTITIONS)
FLAGS = {
    META_FIELDS: True,
    KEYS_IGNORED: False,
    HUDI_READS: True,
    RECORD_HASHES: False,
    HIVE_STYLE: False,
    URL_ENCODE: False,
    "hoodie.datasource.write.drop.partition.columns": False,
    "hoodie.partition.metafile.use.base.format": False,
    "hoodie.table.cdc.enabled": False,
}
"""The entries that are true or false, with what a missing one means."""
_TEXTS = (KEY_ENCODING, CONCATENATOR, COLUMN_STATS_COLUMNS, SECONDARY_COLUMNS, *TIME_OPTIONS)
_KNOWN = (
    *(*FLAGS, *_TEXTS, *CHANGED_BY_HUDI, SEAL, RECOVERY, RECORD_KEY, PARTITION_FIELDS),
    *(PRECOMBINE, ORDERING, TIMEZONE, ARCHIVE, STORED_PAYLOAD, GENERATOR_TYPE, KEY_GENERATOR),
    *(PARTITION_SPEC, PAYLOAD_CLASS, "hoodie.table.name", "hoodie.table.type"),
    *("hoodie.table.version", "hoodie.timeline.layout.version", "hoodie.table.checksum"),
    *("hoodie.table.base.file.format", "hoodie.database.name"),
)
# Short names keep the entry short.
_SHORT = {
    "key": RECORD_KEY,
    "partition": PARTITION_FIELDS,
    "kinds": PARTITION_SPEC,
    "ordering": PRECOMBINE,
    "generator": KEY_GENERATOR,
    "metadata": METADATA_PARTITIONS,
    "building": BUILDING_PARTITIONS,
    "index": INDEX_TYPE,
    "encoding": KEY_ENCODING,
    "meta": META_FIELDS,
    "zone": TIMEZONE,
    "payload": PAYLOAD_CLASS,
    "archive": ARCHIVE,
}
_LONG = {name: short for short, name in _SHORT.items()}
_VERSION = "1"


def texts() -> tuple[str, ...]:
    """The sealed entries that mean what they say."""
    return (*_TEXTS, *index_properties())


def _known() -> frozenset[str]:
    """All entries that Keymark or Hudi write."""
    return frozenset((*_KNOWN, *index_properties()))


@dataclass(frozen=True, slots=True)
class Difference:
    """An entry that does not mean any more what was sealed."""

    name: str
    sealed: str
    found: str

    def __str__(self) -> str:
        return f"{self.name} was {self.sealed} and is {self.found}"


def encode_seal(meaning: Mapping[str, str]) -> str:
    """The text of the seal of these values, by names of entries."""
    short = {_LONG.get(name, name): value for name, value in meaning.items()}
    text = json.dumps(short, sort_keys=True, separators=(",", ":"))
    return f"{_VERSION} {_digest(text)} {text}"


def decode_seal(seal: str) -> dict[str, str]:
    """The sealed values by names of entries.

    Raises:
        CorruptFileError: the seal itself is damaged.
    """
    version, _, rest = seal.partition(" ")
    digest, _, text = rest.partition(" ")
    try:
        if version == _VERSION and digest == _digest(text):
            found = json.loads(text).items()
            return {_SHORT.get(name, name): str(value) for name, value in found}
    except (ValueError, AttributeError, RecursionError):
        # Whoever made the digest sealed no values by it.
        pass
    raise CorruptFileError(
        PROPERTIES,
        0,
        f"the seal {SEAL} does not fit its own digest; `table accept PATH` makes it anew if "
        "the other entries fit the table's files",
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def differences(sealed: Mapping[str, str], found: Mapping[str, str]) -> list[Difference]:
    """What differs, by names of entries, without what Apache Hudi may change."""
    names = sorted((sealed.keys() | found.keys()) - set(CHANGED_BY_HUDI))
    pairs = [(name, sealed.get(name), found.get(name)) for name in names]
    return [
        Difference(name, *(_default(name) if v is None else v for v in values))
        for name, *values in pairs
        if values[0] != values[1]
    ]


def _default(name: str) -> str:
    return str(FLAGS[name]).lower() if name in FLAGS else "(not set)"


def refuse_damaged_names(properties: Mapping[str, str]) -> None:
    """Refuse entries that a damaged letter has turned into unknown ones.

    A damaged name would otherwise leave its entry at the default. An unknown name one letter from a
    known entry that is missing cannot be a coincidence, nor can one that holds a known name and its
    value, as after a damaged separator or line end.

    Raises:
        CorruptFileError: names the entry.
    """
    known = _known()
    missing = [name for name in known if name not in properties]
    for key, value in properties.items():
        for name in missing:
            near = len(key) == len(name) and sum(map(str.__ne__, key, name)) == 1
            joined = not value and len(key) > len(name) and key.startswith(name)
            cut = name.startswith(key) and value.startswith(name[len(key) + 1 :])
            if key not in known and (near or joined or (cut and len(key) < len(name))):
                detail = f"the entry {key!r} is unknown; it seems to be a damaged {name}"
                raise CorruptFileError(PROPERTIES, 0, detail)
            if name in value and key != SEAL:
                raise CorruptFileError(PROPERTIES, 0, f"the value of {key} holds the entry {name}")


def refuse_hidden_entries(lines: Iterable[str], name: str) -> None:
    """Refuse comments that hold an entry: a damaged line end joins the next line to them.

    Raises:
        CorruptFileError: names the entry.
    """
    known = _known()
    for line in lines:
        if line.lstrip()[:1] in ("#", "!"):
            for entry in known:
                if f"{entry}=" in line:
                    raise CorruptFileError(name, 0, f"a comment holds the entry {entry}")
