"""Key generators: record keys and partition paths from the columns of a batch."""

from keymark.table.keygen.custom import KeyGenerator
from keymark.table.keygen.definition import KeyDefinition, key_generator_for
from keymark.table.keygen.generators import (
    check_key_generator,
    makes_keys,
    partition_paths,
    record_keys,
)

__all__ = [
    "KeyDefinition",
    "KeyGenerator",
    "check_key_generator",
    "key_generator_for",
    "makes_keys",
    "partition_paths",
    "record_keys",
]
