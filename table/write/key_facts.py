"""What keys depend on and a table of Hudi's does not say: given by options, or seen from its rows.

The key of a complex generator's single field is `value` or `field:value`, as the release wrote it:
a base file shows which. Both in one table would give every row a second key, so the encoding is
stored before the first write, and another one refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow.compute as pc

from keymark.table.errors import InvalidOptionError, UnsupportedTableError
from keymark.table.format.parquet.base_file import read_base_file
from keymark.table.keygen import check_key_generator
from keymark.table.keygen.facts import missing_facts
from keymark.table.keygen.texts import texts_of
from keymark.table.layout.naming import PROPERTIES
from keymark.table.metadata.partitions import supported
from keymark.table.properties.config import (
    COMPLEX_KEYS,
    KEY_COLUMN,
    TableConfig,
    load_config,
    parse_config,
    save_config,
)
from keymark.table.properties.options import (
    EVENT_TIME_PAYLOAD,
    KEY_ENCODING,
    NAMED_ENCODING,
    OVERWRITE_PAYLOAD,
    PAYLOAD_CLASS,
    PLAIN_ENCODING,
)
from keymark.table.properties.seal import SEAL, STORED_PAYLOAD
from keymark.table.state.base_files import read_base
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage
from keymark.table.write.seal_check import check_seal


def settle_keys(storage: Storage, given: Mapping[str, str]) -> TableConfig:
    """Store what is known now of the keys of a table that does not say it; call it under the lease.

    Raises:
        CorruptFileError: the properties are not those that were sealed, or do not fit the files.
        InvalidOptionError: an option contradicts the rows.
        UnsupportedTableError: rows have keys of both encodings, or Keymark cannot write the table.
    """
    config = load_config(storage)
    check_seal(storage, config)
    facts = missing_facts(config, given)
    known = with_encoding(config, storage)
    if known is not config:
        facts[KEY_ENCODING] = known.properties[KEY_ENCODING]
        asked = given.get(KEY_ENCODING)
        if asked is not None and asked != facts[KEY_ENCODING]:
            raise InvalidOptionError(
                f"option {KEY_ENCODING}={asked} differs from the keys of the table's rows, which "
                f"are {facts[KEY_ENCODING]}"
            )
    settled = parse_config({**config.properties, **facts}) if facts else config
    check_writable(settled)
    if facts or SEAL not in config.properties:
        # A damaged value must not be sealed.
        _check_payload(settled, given)
        save_config(storage, settled.properties)
    return settled


def _check_payload(config: TableConfig, given: Mapping[str, str]) -> None:
    """Refuse a payload class that no write could use."""
    stored = config.properties.get(PAYLOAD_CLASS, config.properties.get(STORED_PAYLOAD))
    name = given.get(PAYLOAD_CLASS, stored)
    if name not in (None, OVERWRITE_PAYLOAD, EVENT_TIME_PAYLOAD):
        raise UnsupportedTableError(f"{PROPERTIES}: payload class {name} is not supported yet")


def check_writable(config: TableConfig) -> None:
    """Refuse what Keymark could not keep right by writing."""
    check_key_generator(config)
    for partition in config.maintained:
        if not supported(partition):
            raise UnsupportedTableError(
                f"the metadata partition {partition} cannot be kept up to date yet"
            )


def completed(config: TableConfig, storage: Storage, given: Mapping[str, str]) -> TableConfig:
    """The config with what `settle_keys` would store."""
    known = with_encoding(config, storage)
    return replace(known, properties={**known.properties, **missing_facts(config, given)})


def with_encoding(config: TableConfig, storage: Storage) -> TableConfig:
    """The config with the encoding that a table's rows have, if the table should say it."""
    single = config.key_generator == COMPLEX_KEYS and len(config.record_key) == 1
    if not single or KEY_ENCODING in config.properties:
        return config
    found = _stored_encoding(config, storage)
    if found is None:
        return config
    return replace(config, properties={**config.properties, KEY_ENCODING: found})


def _stored_encoding(config: TableConfig, storage: Storage) -> str | None:
    """The encoding of the first file with rows; None where there are none."""
    (field,) = config.record_key
    for file in TableState.load(storage).snapshot.files:
        rows = read_base_file(read_base(storage, file), [KEY_COLUMN, field])
        if not rows.num_rows or rows.num_columns < 2:
            continue
        keys = rows[KEY_COLUMN].combine_chunks()
        plain = texts_of(rows, field, "record key")
        forms = {
            PLAIN_ENCODING: plain,
            NAMED_ENCODING: pc.binary_join_element_wise(f"{field}:", plain, ""),
        }
        for name, texts in forms.items():
            if pc.all(pc.equal(keys, texts)).as_py():
                return name
        raise UnsupportedTableError(
            f"{file.path}: its record keys are neither values of {field} nor all of the form "
            f"{field}:value, as where releases of Hudi wrote both; rewrite the table with one of "
            "them"
        )
    return None
