"""A commit's JSON as Avro values: HoodieCommitMetadata.avsc, which only the archive holds.

Avro knows fewer fields than the JSON, has a number for each count that the JSON leaves out, and
`ROLLING_STAT` among the extra metadata, always empty. Source: MetadataConversionUtils.
convertCommitMetadata and ReplaceArchivalHelper.convertReplaceCommitMetadata of Hudi 0.15.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from keymark.table.errors import CorruptFileError

_LONG_MAX = (1 << 63) - 1
_TEXTS = ("fileId", "path", "prevCommit", "partitionPath")
_COUNTS = (
    "numWrites",
    "numDeletes",
    "numUpdateWrites",
    "totalWriteBytes",
    "totalWriteErrors",
    "totalLogRecords",
    "totalUpdatedRecordsCompacted",
    "numInserts",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "fileSizeInBytes",
)
_BAD_JSON = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def commit_record(content: bytes, name: str) -> dict[str, Any]:
    """The record of a commit or delta commit in any state; no content is a commit of nothing.

    Args:
        content: the instant's file.
        name: its path, for errors.

    Raises:
        CorruptFileError: the content is no commit's JSON.
    """
    try:
        return _commit(json.loads(content) if content else {})
    except _BAD_JSON as error:
        raise CorruptFileError(name, 0, f"not the JSON of a commit ({error})") from error


def replace_commit_record(content: bytes, name: str) -> dict[str, Any]:
    """The record of a completed replace commit; arguments and errors as in `commit_record`."""
    try:
        document = json.loads(content)
        replaced = document.get("partitionToReplaceFileIds") or {}
        files = {_text(p): [_text(file_id) for file_id in ids] for p, ids in replaced.items()}
        return _commit(document) | {"partitionToReplaceFileIds": files}
    except _BAD_JSON as error:
        raise CorruptFileError(name, 0, f"not the JSON of a replace commit ({error})") from error


def _commit(document: Mapping[str, Any]) -> dict[str, Any]:
    stats = document.get("partitionToWriteStats") or {}
    extra = document.get("extraMetadata") or {}
    compacted = document.get("compacted")
    return {
        "partitionToWriteStats": {
            _text(partition): [_stat(stat) for stat in listed]
            for partition, listed in stats.items()
        },
        "extraMetadata": {_text(k): _text(v) for k, v in extra.items() if v is not None}
        | {"ROLLING_STAT": ""},
        "version": None,
        "operationType": "COMPACT"
        if compacted
        else _text(document.get("operationType", "UNKNOWN")),
    }


def _stat(stat: Mapping[str, object]) -> dict[str, Any]:
    texts = {key: _text(stat.get(key)) for key in _TEXTS}
    return texts | {key: _count(stat.get(key)) for key in _COUNTS} | {"totalLogFiles": None}


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    text.encode()  # JSON can hold half of a surrogate pair, Avro cannot
    return text


def _count(value: Any) -> int:
    count = int(value or 0)
    if abs(count) > _LONG_MAX:
        raise ValueError(f"a count of {count}")
    return count
