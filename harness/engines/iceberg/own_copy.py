"""A copied table of Iceberg, made independent of the folder that it was copied from.

Metadata of Iceberg names its files by absolute paths, so a copy of a folder would read and write
the folder that it was copied from. Its newest table metadata gets the copy's location:

    location        the copy's, so that new files and new metadata are written there
    metadata-log    empty: earlier metadata stay in the first folder
    gc.enabled      false: Iceberg deletes no file that the copies share
    snapshots       as they are: their manifests, and the files that these name, are read where they
                    lay, which are the same bytes

`version-hint.text` names the same version as before. Hadoop's checksum of the changed file goes: it
would no longer be right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from keymark.harness.errors import HarnessError
from keymark.harness.tables.formats.iceberg_files import METADATA, current, decoded
from keymark.table.storage.stores import storage_at


def settle(where: str, place: str, *, connection: Mapping[str, str]) -> None:
    """Make the folder of a table its location.

    Args:
        where: the folder, as Keymark's storage spells it.
        place: the same, as Spark spells it.
        connection: options of the store.

    Raises:
        HarnessError: there is no table, or its metadata is damaged.
    """
    storage = storage_at(where, connection)
    name = current([file.name for file in storage.list(METADATA)])
    if not name:
        raise HarnessError(f"{place} has no table metadata")
    path = f"{METADATA}/{name}"
    metadata = decoded(storage.read(path), f"{place}/{path}")
    if metadata.get("location") == place:
        return
    changed = {
        **metadata,
        "location": place,
        "metadata-log": [],
        "properties": {**(metadata.get("properties") or {}), "gc.enabled": "false"},
    }
    side_car = f"{METADATA}/.{name}.crc"
    if storage.exists(side_car):
        storage.delete(side_car)
    storage.replace(path, json.dumps(changed).encode())
