"""What a clean deleted: an Avro object container file of one record (HoodieCleanMetadata.avsc)."""

from __future__ import annotations

import io
from typing import Any, cast

import fastavro

from table.errors import CorruptFileError


def deleted_files(data: bytes, name: str) -> tuple[tuple[str, str], ...]:
    """(partition path, file name) of every file that a completed clean deleted.

    Args:
        data: the completed instant's file.
        name: its path, for errors.

    Raises:
        CorruptFileError: the bytes are no such file.
    """
    try:
        (record,) = fastavro.reader(io.BytesIO(data))
        return tuple(
            (str(partition), str(path).rpartition("/")[2])
            for partition, cleaned in cast("dict[str, Any]", record)["partitionMetadata"].items()
            for path in cleaned["successDeleteFiles"]
        )
    except Exception as error:  # fastavro raises what the bytes provoke
        raise CorruptFileError(name, 0, f"not the Avro file of a clean ({error})") from error
