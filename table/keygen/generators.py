"""Record keys and partition paths of a batch, by the key generator of its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from keymark.table.errors import InputError
from keymark.table.keygen.custom import KeyGenerator, load_generator
from keymark.table.keygen.definition import HUDI_GENERATORS, KeyDefinition, check_known, check_shape
from keymark.table.keygen.paths import PathStyle, Segment, SimpleSegment
from keymark.table.keygen.record_key import named_keys, plain_keys, refuse_rows
from keymark.table.keygen.texts import column_of
from keymark.table.keygen.timestamps import TimeOptions, TimeSegment
from keymark.table.properties.config import COMPLEX_KEYS, KEY_COLUMN, TableConfig
from keymark.table.properties.options import KEY_ENCODING

_KEY_BYTES_MAX = 32767  # a row key of an HFile has a signed 16-bit length


def record_keys(batch: pa.Table, config: TableConfig) -> pa.Array:
    """Record keys of a batch; InputError names field and row."""
    if config.virtual_keys:
        refuse_null_parts(batch, config.record_key)
    return keys_of(batch, KeyDefinition.of(config))


def refuse_null_parts(batch: pa.Table, fields: Sequence[str]) -> None:
    """InputError where a key column of a batch has a null: virtual keys forbid it."""
    for field in fields:
        column = column_of(batch, field, "record key")
        if column.null_count:
            refuse_rows(pc.is_null(column), f"record key field {field} is null")


def keys_of(batch: pa.Table, definition: KeyDefinition) -> pa.Array:
    """The same by a key definition."""
    keys = _generator(definition).record_keys(batch)
    if definition.generator not in HUDI_GENERATORS:
        _check_answer(keys, batch, f"record_keys of {definition.generator}")
        refuse_rows(pc.equal(keys, ""), f"the record key of {definition.generator} is empty")
    lengths = pc.binary_length(keys)
    if len(keys) and pc.max(lengths).as_py() > _KEY_BYTES_MAX:
        fault = (
            f"record key field {', '.join(definition.record_key)} is longer than {_KEY_BYTES_MAX}"
        )
        refuse_rows(pc.greater(lengths, _KEY_BYTES_MAX), f"{fault} bytes")
    return keys


def partition_paths(batch: pa.Table, config: TableConfig) -> pa.Array:
    """The partition paths of a batch; "" for a table without partitions."""
    definition = KeyDefinition.of(config)
    if not definition.partition_fields:
        return pa.repeat(pa.scalar("", pa.string()), batch.num_rows)
    paths = _generator(definition).partition_paths(batch)
    if definition.generator not in HUDI_GENERATORS:
        _check_answer(paths, batch, f"partition_paths of {definition.generator}")
    for path in pc.unique(paths).to_pylist():
        _check_path(path, config)
    return paths


def check_key_generator(config: TableConfig) -> None:
    """Refuse to write a table whose key generator Keymark does not have, or not with its options.

    Raises:
        UnsupportedTableError: the generator is not known, or the table does not say enough.
        InvalidOptionError: options of the generator contradict each other.
    """
    generator = _generator(KeyDefinition.of(config))
    if isinstance(generator, _Generator):
        generator.segments()


def makes_keys(config: TableConfig) -> bool:
    """Whether a row's key is known from its key columns alone.

    Not where a user's own class or an unknown one makes it; nor where the key of a single field may
    be plain or named, as in tables of the complex generator that Hudi made.
    """
    single = config.key_generator == COMPLEX_KEYS and len(config.record_key) == 1
    settled = not single or KEY_ENCODING in config.properties
    made = config.key_generator in HUDI_GENERATORS and not config.generates_keys
    return made and settled


@lru_cache(maxsize=64)
def _generator(definition: KeyDefinition) -> KeyGenerator:
    if definition.generator not in HUDI_GENERATORS:
        check_known(definition.generator)
        return load_generator(definition.generator, definition)
    return _Generator(definition)


@dataclass(frozen=True, slots=True)
class _Generator:
    """Hudi's generators: they differ in how fields make the path. Implements KeyGenerator."""

    definition: KeyDefinition

    def record_keys(self, batch: pa.Table) -> pa.Array:
        """The record keys."""
        if not self.definition.record_key:
            return plain_keys(batch, KEY_COLUMN)
        if self.definition.named:
            return named_keys(batch, self.definition.record_key)
        return plain_keys(batch, self.definition.record_key[0])

    def partition_paths(self, batch: pa.Table) -> pa.Array:
        """The partition paths, their parts joined by `/`."""
        parts = [segment(batch) for segment in self.segments()]
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")

    def segments(self) -> list[Segment]:
        """What makes the parts of a path."""
        return _segments(self.definition)


@lru_cache(maxsize=64)
def _segments(definition: KeyDefinition) -> list[Segment]:
    check_shape(definition)
    style = PathStyle(definition.hive_style, definition.url_encode)
    made: list[Segment] = []
    for field, kind in zip(definition.partition_fields, definition.kinds, strict=True):
        if kind == "timestamp":
            made.append(TimeSegment(field, style, TimeOptions.of(dict(definition.time))))
        else:
            made.append(SimpleSegment(field, style))
    return made


def _check_answer(answer: object, batch: pa.Table, name: str) -> None:
    """Refuse what a user's own generator must not answer."""
    if not isinstance(answer, pa.Array) or answer.type != pa.string():
        raise InputError(f"{name} answers {type(answer).__name__}, not a pyarrow array of string")
    if len(answer) != batch.num_rows:
        raise InputError(f"{name} answers {len(answer)} for {batch.num_rows} rows")
    if answer.null_count:
        refuse_rows(pc.is_null(answer), f"the answer of {name} is null")


def _check_path(path: str, config: TableConfig) -> None:
    parts = path.split("/")
    reserved = parts[0] in (".hoodie", "__all_partitions__")
    if reserved or "\0" in path or any(part in ("", ".", "..") for part in parts):
        fields = ", ".join(config.partition_fields)
        raise InputError(
            f"partition field {fields} gives the path {path!r}, which no table can hold"
        )
