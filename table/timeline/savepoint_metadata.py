"""A savepoint: an Avro file of one record (HoodieSavepointMetadata), version 1.

A savepoint has no requested file; its inflight file is empty. Source: SavepointActionExecutor and
TimelineMetadataUtils.convertSavepointMetadata of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keymark.table.timeline.avro_file import decode_container, encode_container, load_schema

_METADATA = "savepoint_metadata"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """Which files a savepoint keeps.

    Attributes:
        user: who made it.
        millis: when, in milliseconds since the epoch.
        comments: why.
        files: names of the data files it keeps, by partition path.
    """

    user: str
    millis: int
    comments: str
    files: Mapping[str, tuple[str, ...]]


def encode_savepoint(savepoint: Savepoint) -> bytes:
    """The completed file of a savepoint."""
    record = {
        "savepointedBy": savepoint.user,
        "savepointedAt": savepoint.millis,
        "comments": savepoint.comments,
        "partitionMetadata": {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in savepoint.files.items()
        },
        "version": _VERSION,
    }
    return encode_container(load_schema(_METADATA), record)


def decode_savepoint(data: bytes, name: str) -> Savepoint:
    """Parse a completed savepoint.

    Raises:
        CorruptFileError: the bytes are no such file.
    """
    record = decode_container(data, name, load_schema(_METADATA))
    return Savepoint(
        user=record["savepointedBy"],
        millis=record["savepointedAt"],
        comments=record["comments"],
        files={
            partition: tuple(kept["savepointDataFile"])
            for partition, kept in record["partitionMetadata"].items()
        },
    )
