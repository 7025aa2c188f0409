"""A user's own key generator, named by its import path: `package.module:Class`.

The class is made with the table's key definition and must have the two methods of KeyGenerator.
Opening such a table for writing imports that module: the import path comes from hoodie.properties.
"""

from __future__ import annotations

import importlib
from typing import Protocol

import pyarrow as pa

from keymark.table.errors import InvalidOptionError
from keymark.table.keygen.definition import JOINED_KEYS, KeyDefinition

_METHODS = ("record_keys", "partition_paths")
# Tables store the name that the class had when they were made.
_MOVED = {JOINED_KEYS: "keymark.table.keygen.joined:JoinedKeys"}


class KeyGenerator(Protocol):
    """Record keys and partition paths of rows; the same for the same row, whenever it is asked."""

    def record_keys(self, batch: pa.Table, /) -> pa.Array:
        """The record keys of a batch: strings, none null or empty."""

    def partition_paths(self, batch: pa.Table, /) -> pa.Array:
        """The partition paths of a batch: strings, without nulls.

        Not asked where the table has no partition fields.
        """


def load_generator(name: str, definition: KeyDefinition) -> KeyGenerator:
    """Import a class and make a generator of a key definition.

    Raises:
        InvalidOptionError: it cannot be imported, or is no key generator.
    """
    module, _, member = _MOVED.get(name, name).partition(":")
    try:
        found = getattr(importlib.import_module(module), member)
    except Exception as error:
        raise InvalidOptionError(f"key generator {name} cannot be imported: {error}") from error
    missing = [m for m in _METHODS if not callable(getattr(found, m, None))]
    if not isinstance(found, type) or missing:
        lacks = f": it has no method {missing[0]}" if missing else ""
        raise InvalidOptionError(f"key generator {name} is not a key generator class{lacks}")
    try:
        made: KeyGenerator = found(definition)
    except Exception as error:
        raise InvalidOptionError(f"key generator {name} cannot be made: {error}") from error
    return made
