"""Records of the `bloom_filters` partition, out of base file footers, and back."""

from __future__ import annotations

from keymark.table.errors import CorruptFileError
from keymark.table.format.avro.records import encode_bytes, encode_text
from keymark.table.format.hashes.hashing import file_id_hash, partition_id
from keymark.table.format.parquet.base_file import BaseFileFooter
from keymark.table.metadata.records import (
    BLOOM_FILTER,
    encode_record,
    partition_identifier,
    start_record,
)


def bloom_records(
    partition_path: str, file_name: str, footer: BaseFileFooter, instant: str
) -> tuple[list[str], list[bytes]]:
    """The record of one base file; none if its footer holds no bloom filter.

    Args:
        partition_path: empty for a table without partitions.
        file_name: the base file's name, without its path.
        footer: its footer.
        instant: the instant that wrote it.

    Returns:
        Keys and values.
    """
    if footer.bloom_text is None:
        return [], []
    payload = _payload(footer.bloom_type, instant, footer.bloom_text, deleted=False)
    return [bloom_key(partition_path, file_name)], [encode_record(BLOOM_FILTER, payload)]


def bloom_tombstones(
    partition_path: str, file_name: str, instant: str
) -> tuple[list[str], list[bytes]]:
    """The record that takes back that of a deleted base file.

    Args:
        partition_path: empty for a table without partitions.
        file_name: the deleted base file's name, without its path.
        instant: the instant that deleted it.
    """
    payload = _payload("", instant, b"", deleted=True)
    return [bloom_key(partition_path, file_name)], [encode_record(BLOOM_FILTER, payload)]


def bloom_key(partition_path: str, file_name: str) -> str:
    """The key of a base file's record; the arguments are those of `bloom_records`."""
    return partition_id(partition_identifier(partition_path)) + file_id_hash(file_name)


def decode_bloom(value: bytes, name: str) -> tuple[str, bytes] | None:
    """Type code and text of the filter in a record; None where the record takes a filter back.

    Args:
        value: a record of the `bloom_filters` partition.
        name: the file it comes from, for errors.

    Raises:
        CorruptFileError: the bytes are no such record.
    """
    record_type, cursor = start_record(value, name)
    if record_type != BLOOM_FILTER or cursor.branch(2) or not cursor.branch(2):
        raise CorruptFileError(name, 0, f"a record of type {record_type} among bloom filters")
    type_code, _, text = cursor.text(), cursor.text(), cursor.binary()
    return None if cursor.boolean() else (type_code, text)


def _payload(type_code: str, instant: str, text: bytes, *, deleted: bool) -> bytes:
    return encode_text(type_code) + encode_text(instant) + encode_bytes(text) + bytes([deleted])
