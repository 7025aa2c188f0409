"""The entries of hoodie.properties that must not change, compared before each write.

A table with a seal is compared with that. A table of Hudi's has none at first: its entries are
compared with what one of its files holds, once, and sealed then.
"""

from __future__ import annotations

import warnings

import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import CorruptFileError, InputError, TableError, TableWarning
from keymark.table.format.parquet.base_file import read_base_file, read_metadata
from keymark.table.keygen import makes_keys, partition_paths, record_keys
from keymark.table.keygen.generators import check_key_generator
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import METADATA, PROPERTIES
from keymark.table.properties.config import (
    KEY_COLUMN,
    TableConfig,
    broken_seal,
    load_config,
    refuse_broken_seal,
    save_config,
    sealed_partitions,
)
from keymark.table.properties.options import META_FIELDS
from keymark.table.properties.seal import (
    BUILDING_PARTITIONS,
    METADATA_PARTITIONS,
    PARTITION_FIELDS,
    RECORD_KEY,
    RECOVERY,
    SEAL,
)
from keymark.table.state.base_files import open_sized
from keymark.table.state.table_state import TableState
from keymark.table.storage.storage import Storage

_ROWS = 100


def check_seal(storage: Storage, config: TableConfig) -> None:
    """Refuse a table whose properties are not what they were, or do not fit its files.

    Raises:
        CorruptFileError: names the entries, and the command that accepts what they are now.
    """
    if RECOVERY in config.properties:
        raise CorruptFileError(
            PROPERTIES, 0, "a recovery of the table was cut off: `table recover PATH` finishes it"
        )
    refuse_broken_seal(config)
    refuse_lost_partitions(storage, config)
    if SEAL not in config.properties:
        compare_with_files(storage, config)


def warn_of_broken_seal(config: TableConfig) -> None:
    """Warn, when a table is opened, of properties that writes refuse."""
    try:
        refuse_broken_seal(config)
    except CorruptFileError as error:
        warnings.warn(f"rows may be read wrongly: {error}", TableWarning, stacklevel=3)


def refuse_lost_partitions(storage: Storage, config: TableConfig) -> None:
    """Refuse a table that has lost the name of a metadata partition and still has its files.

    Apache Hudi may drop a partition: then its files go, too.
    """
    for partition in set(sealed_partitions(config)) - set(config.maintained):
        if storage.list(f"{METADATA}/{partition}"):
            name = BUILDING_PARTITIONS if config.building else METADATA_PARTITIONS
            raise CorruptFileError(
                PROPERTIES,
                0,
                f"{name} does not name {partition} any more, and {METADATA}/{partition} has files; "
                "put the name back, or let `table accept PATH` take the present value",
            )


def compare_with_files(storage: Storage, config: TableConfig) -> None:
    """Compare the entries with the smallest base file of the table; nothing before the first row.

    Raises:
        CorruptFileError: columns, record keys or partition paths of the file are others.
    """
    files = [file for file in TableState.load(storage).snapshot.files if file.size]
    if not files:
        return
    file = min(files, key=lambda file: file.size)
    source = open_sized(storage, file)
    schema = read_metadata(source).schema.to_arrow_schema()
    wanted = {RECORD_KEY: config.record_key}
    if makes_keys(config) or config.partition_fields:
        wanted[PARTITION_FIELDS] = config.partition_fields
    for entry, fields in wanted.items():
        for field in fields:
            if field.partition(".")[0] not in schema.names:
                raise _misfit(entry, ",".join(fields), f"{file.path} has no column {field}")
    if not config.partition_fields and file.partition_path:
        raise _misfit(PARTITION_FIELDS, "", f"{file.path} lies in a partition")
    columns = [*dict.fromkeys((*config.record_key, *config.partition_fields))]
    if all(_is_plain(schema, column) for column in columns):
        if KEY_COLUMN not in schema.names:
            raise _misfit(META_FIELDS, "", f"{file.path} has no column {KEY_COLUMN}")
        _compare_rows(read_base_file(source, [KEY_COLUMN, *columns]).slice(0, _ROWS), config, file)


def _is_plain(schema: pa.Schema, field: str) -> bool:
    """Whether all releases of Hudi write values of a column as the same text."""
    if field not in schema.names:
        return False
    kind = schema.field(field).type
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


def _compare_rows(rows: pa.Table, config: TableConfig, file: BaseFile) -> None:
    """Compare the stored keys and paths of some rows with those that the entries make."""
    if not rows.num_rows:
        return
    stored = rows[KEY_COLUMN].combine_chunks()
    # Hudi leaves empty texts in place of virtual keys.
    empty = not pc.any(pc.fill_null(pc.not_equal(stored, ""), fill_value=False)).as_py()
    if empty and config.stores_meta:
        raise _misfit(META_FIELDS, "true", f"the rows of {file.path} have no meta fields")
    try:
        made = record_keys(rows, config) if makes_keys(config) else None
        paths = _paths(rows, config)
    except InputError as error:
        raise _misfit(RECORD_KEY, ",".join(config.record_key), f"{file.path}: {error}") from error
    if made is not None and not empty and not _same(stored, made):
        found = f"the record keys of {file.path} are not made of these"
        raise _misfit(RECORD_KEY, ",".join(config.record_key), found)
    if paths is not None and not _same(pa.repeat(file.partition_path, len(paths)), paths):
        found = (
            f"the rows of {file.path} belong to another partition by these and the key generator"
        )
        raise _misfit(PARTITION_FIELDS, ",".join(config.partition_fields), found)


def _paths(rows: pa.Table, config: TableConfig) -> pa.Array | None:
    """The partition paths of rows; None where the table does not say how to make them."""
    try:
        check_key_generator(config)
    except TableError:
        return None
    return partition_paths(rows, config)


def _same(left: pa.Array, right: pa.Array) -> bool:
    return bool(pc.all(pc.fill_null(pc.equal(left, right), fill_value=False)).as_py())


def _misfit(entry: str, value: str, found: str) -> CorruptFileError:
    return CorruptFileError(PROPERTIES, 0, f"{entry}={value} does not fit the table: {found}")


def accept_properties(storage: Storage, *, dry_run: bool) -> list[str]:
    """Seal the present entries, if they fit the table's files; what is new in them.

    Call it under the lease.

    Raises:
        CorruptFileError: the entries do not fit the files.
    """
    config = load_config(storage)
    try:
        found = [str(difference) for difference in broken_seal(config)]
        kept = set(sealed_partitions(config)) - set(config.maintained)
        found += [f"{METADATA_PARTITIONS} does not name {name} any more" for name in sorted(kept)]
    except CorruptFileError as error:
        found = [str(error)]
    compare_with_files(storage, config)
    if not dry_run:
        save_config(storage, config.properties, accept=True)
    return found
