"""Records of the metadata table, `files` and `record_index`. See `docs/formats/metadata_table.md`.

A value is one HoodieMetadataRecord in Avro binary. Its own key is empty: the key is the row's.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.avro.records import (
    MARK,
    NULL,
    OPTIONAL_TEXT,
    TEXT,
    AvroCursor,
    encode_long,
    encode_text,
    group_tails,
    scan_files_map,
    tail_places,
)

SCHEMA: str = (
    resources.files(__package__).joinpath("metadata_record.avsc").read_text("utf-8").strip()
)
ALL_PARTITIONS = "__all_partitions__"
NON_PARTITIONED = "."

PARTITION_LIST = 1
FILES = 2
COLUMN_STATS = 3
BLOOM_FILTER = 4
RECORD_INDEX = 5

# Five meta columns, the empty key.
_NULL = b"\x00"
_PRESENT = b"\x02"
_START = _NULL * 5 + encode_text("")
_META_FIELDS = 5
# Bytes of an entry in a map of files: the length of a name, a size, a boolean.
_ENTRY_BYTES_MIN = 3
_ENCODING_UUID = 0
_ENCODING_TEXT = 1
_UUID_FILE_ID = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:-(0|[1-9][0-9]{0,8}))?\Z"
)
_INT64_SIGN = 1 << 63
_BEFORE_LOCATION = bytes([OPTIONAL_TEXT] * _META_FIELDS + [TEXT, MARK, NULL, NULL, NULL])


def partition_identifier(partition_path: str) -> str:
    """What metadata records call a partition: its path, `.` where there are no partitions."""
    return partition_path or NON_PARTITIONED


def encode_record(record_type: int, payload: bytes) -> bytes:
    """A record whose only payload is the one of its type, in Avro binary."""
    # The four unions of the schema, in its order.
    order = (FILES, BLOOM_FILTER, COLUMN_STATS, RECORD_INDEX)
    held = FILES if record_type == PARTITION_LIST else record_type
    unions = b"".join(_PRESENT + payload if kind == held else _NULL for kind in order)
    return _START + encode_long(record_type) + unions


def start_record(value: bytes, name: str) -> tuple[int, AvroCursor]:
    """The type of a record, and a cursor at the first of its four unions.

    Raises:
        CorruptFileError: the bytes are no record.
    """
    cursor = AvroCursor(value, name)
    for _ in range(_META_FIELDS):
        if cursor.branch(2):
            cursor.text()
    cursor.text()
    return cursor.long(), cursor


def encode_files(entries: Mapping[str, tuple[int, bool]], *, record_type: int) -> bytes:
    """A record of the `files` partition.

    Args:
        entries: size in bytes and whether deleted, by file name (FILES) or partition
            (PARTITION_LIST).
        record_type: FILES or PARTITION_LIST.
    """
    encoded = [
        encode_text(name) + encode_long(size) + bytes([deleted])
        for name, (size, deleted) in entries.items()
    ]
    count = encode_long(len(entries)) if entries else b""
    return encode_record(record_type, count + b"".join(encoded) + encode_long(0))


def decode_files(value: bytes, name: str) -> dict[str, tuple[int, bool]]:
    """Size in bytes and whether deleted, by file name or partition.

    Args:
        value: a record of the `files` partition.
        name: the file it comes from, for errors.

    Raises:
        CorruptFileError: the bytes are no such record.
    """
    record_type, cursor = start_record(value, name)
    if record_type not in (PARTITION_LIST, FILES):
        cursor.fail(f"a record of type {record_type} in the files partition")
    if not cursor.branch(2):
        return {}
    return _files_map(value, cursor.position) or {
        key: (cursor.long(), cursor.boolean()) for key in cursor.map_keys()
    }


def _files_map(value: bytes, at: int) -> dict[str, tuple[int, bool]]:
    """The map at a place in a record; none where the cursor has to say what is wrong with it."""
    found = np.empty((4, len(value) // _ENTRY_BYTES_MIN), np.int64)
    count = scan_files_map(np.frombuffer(value, np.uint8), at, found)
    starts, lengths, sizes, deleted = found[:, : max(count, 0)].tolist()
    try:
        names = [
            value[start : start + length].decode()
            for start, length in zip(starts, lengths, strict=True)
        ]
    except UnicodeDecodeError:
        return {}
    return dict(zip(names, zip(sizes, map(bool, deleted), strict=True), strict=True))


def encode_locations(
    partition_paths: Sequence[str], file_ids: Sequence[str], instants_ms: Sequence[int]
) -> pa.Array:
    """Records of the `record_index` partition, one per location.

    File ids `<uuid>` and `<uuid>-<n>` are packed into numbers; all others are kept as text
    (HoodieMetadataPayload.createRecordIndexUpdate).

    Args:
        partition_paths: empty for a table without partitions.
        file_ids: file groups.
        instants_ms: instants that put the keys there, in milliseconds since the epoch.

    Returns:
        A record for each, binary.
    """
    locations = zip(partition_paths, file_ids, instants_ms, strict=True)
    return pa.array([_encode_location(*location) for location in locations], pa.binary())


def _encode_location(partition_path: str, file_id: str, instant_ms: int) -> bytes:
    match = _UUID_FILE_ID.match(file_id)
    if match:
        bits = uuid.UUID(match[1]).int
        high, low = _signed(bits >> 64), _signed(bits & ((1 << 64) - 1))
        index = -1 if match[2] is None else int(match[2])
        text, encoding = "", _ENCODING_UUID
    else:
        high = low = index = -1
        text, encoding = file_id, _ENCODING_TEXT
    fields = (
        encode_text(partition_path),
        encode_long(high),
        encode_long(low),
        encode_long(index),
        encode_text(text),
        encode_long(instant_ms),
    )
    payload = b"".join(_PRESENT + encoded for encoded in fields) + encode_long(encoding)
    return encode_record(RECORD_INDEX, payload)


def _signed(value: int) -> int:
    return value - 2 * _INT64_SIGN if value >= _INT64_SIGN else value


def decode_locations(values: pa.Array, name: str) -> pa.Table:
    """The locations that records of the `record_index` partition hold, one per value.

    Takes, returns and raises what `location_codes` does, with the locations in place of codes.
    """
    codes, locations = location_codes(values, name)
    return locations.take(pa.array(codes))


def location_codes(values: pa.Array, name: str) -> tuple[npt.NDArray[np.int32], pa.Table]:
    """The distinct locations that records of the `record_index` partition hold.

    Args:
        values: without nulls.
        name: the file they come from, for errors.

    Returns:
        For each value the row of its location, and the locations:
        partition_path string, file_id string, instant_ms int64.

    Raises:
        CorruptFileError: a value is no such record.
    """
    codes, tails = location_tails(values, name)
    try:
        locations = [_known_location(tail) for tail in tails]
    except CorruptFileError as error:
        raise CorruptFileError(name, error.offset, error.detail) from error
    columns = list(zip(*locations, strict=True)) or [(), (), ()]
    kinds = (pa.string(), pa.string(), pa.int64())
    decoded = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return codes, pa.table(decoded, names=["partition_path", "file_id", "instant_ms"])


def location_tails(values: pa.Array, name: str) -> tuple[npt.NDArray[np.int32], list[bytes]]:
    """The distinct encodings of locations in records of the `record_index` partition.

    Keys of one file group share all bytes but the row's, so each distinct location is decoded
    once. Takes and raises what `location_codes` does.

    Returns:
        For each value the number of its encoding, and the encodings.
    """
    return group_tails(values, _BEFORE_LOCATION, RECORD_INDEX, name)


def location_places(
    values: pa.Array, name: str
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Like `location_tails`, with the encodings where they lie.

    Returns:
        For each value the number of its encoding; the bytes of all values; and of each encoding
        where it starts, and its length.
    """
    return tail_places(values, _BEFORE_LOCATION, RECORD_INDEX, name)


@functools.lru_cache(maxsize=1 << 16)
def _known_location(tail: bytes) -> tuple[str, str, int]:
    """A decoded location: nearly every shard names nearly every file group."""
    return decode_location(tail, "")


def decode_location(tail: bytes, name: str) -> tuple[str, str, int]:
    """Partition path, file id and instant in milliseconds of an encoding of a location."""
    cursor = AvroCursor(tail, name)
    if not cursor.branch(2):
        cursor.fail("a record without location")
    partition_path = cursor.text() if cursor.branch(2) else ""
    high, low, index = (cursor.long() if cursor.branch(2) else None for _ in range(3))
    text = cursor.text() if cursor.branch(2) else ""
    if not cursor.branch(2):
        cursor.fail("a location without instant")
    instant_ms = cursor.long()
    encoding = cursor.long()
    _skip_later_fields(cursor)
    if encoding == _ENCODING_TEXT:
        return partition_path, text, instant_ms
    if encoding != _ENCODING_UUID or high is None or low is None or index is None:
        cursor.fail(f"a file id of encoding {encoding}")
    bits = (high & (2 * _INT64_SIGN - 1)) << 64 | low & (2 * _INT64_SIGN - 1)
    number = "" if index == -1 else f"-{index}"
    return partition_path, f"{uuid.UUID(int=bits)}{number}", instant_ms


def _skip_later_fields(cursor: AvroCursor) -> None:
    """The fields that Hudi 1.x added: the row's position, and the secondary index."""
    if cursor.remaining:
        if cursor.branch(2):
            cursor.long()
        if cursor.branch(1):
            cursor.fail("a location with a secondary index")
    cursor.end()
