"""Tables of Delta: `_delta_log/<version>.json` replayed from the first version on.

    metaData   schema, partition columns, properties; the latest counts
    add        a file is live, with its partition values and, maybe, a deletion vector
    remove     a file is no longer live

A file is known by its path and its deletion vector: a commit that changes the latter removes the
one and adds the other. Checkpoints repeat what the versions say and are not read, so a table whose
first versions are gone is refused. Source: PROTOCOL.md of Delta Lake ("Actions", "Deletion
Vectors").
"""

from __future__ import annotations

import base64
import json
import re
import struct
import uuid
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.harness.errors import HarnessError
from keymark.harness.tables.formats import beside, roaring
from keymark.harness.tables.formats.model import NO_PARTITION, FormatFacts, FormatFile, LastCommit

LOG = "_delta_log"
_VERSION = re.compile(r"(\d{20})\.json")
_TYPES = {
    "string": pa.string(),
    "date": pa.date32(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
}
"""Types of partition columns, whose values the log keeps as texts."""

_ID_LENGTH = 20
"""Characters of a UUID in base 85."""

_BAD = (KeyError, TypeError, ValueError, AttributeError, OSError)


@dataclass(slots=True)
class _State:
    """What the versions say in all."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    adds: dict[tuple[str, str], tuple[Mapping[str, Any], str]] = field(default_factory=dict)


class DeltaReader:
    """Reads tables of Delta."""

    def is_of(self, table: Path) -> bool:
        """A folder with a log."""
        return (table / LOG).is_dir()

    def facts(self, table: Path) -> FormatFacts:
        """What the table says about its rows."""
        metadata = _replayed(table).metadata
        properties = {**beside.read(table), **(metadata.get("configuration") or {})}
        return FormatFacts.of(properties, metadata["partitionColumns"])

    def files(self, table: Path) -> Sequence[FormatFile]:
        """The live data files."""
        state = _replayed(table)
        fields = json.loads(state.metadata["schemaString"])["fields"]
        types = {each["name"]: each["type"] for each in fields}
        partitions = state.metadata["partitionColumns"]
        return [
            _file(table, add, version, [(name, types[name]) for name in partitions])
            for add, version in state.adds.values()
        ]

    def last_commit(self, table: Path) -> LastCommit:
        """The latest commit: files that no version before it had, and the operation's metrics."""
        *earlier, (_, last) = _versions(table)
        known = {a["add"]["path"] for _, actions in earlier for a in actions if "add" in a}
        adds = [action["add"] for action in last if "add" in action]
        vectors = [each["deletionVector"] for each in adds if each.get("deletionVector")]
        new = {each["path"] for each in adds} - known
        metrics: dict[str, str] = {}
        for action in last:
            metrics |= (action.get("commitInfo") or {}).get("operationMetrics") or {}
        return LastCommit(
            files=len(new) + len({each["pathOrInlineDv"] for each in vectors}), metrics=metrics
        )

    def rows_written(self, table: Path, added: Collection[str]) -> int:
        """Rows of the files that versions added, by the statistics of these files."""
        rows, known = 0, set[str]()
        for version, actions in _versions(table):
            adds = [action["add"] for action in actions if "add" in action]
            if f"{LOG}/{version}.json" in added:
                new = (each for each in adds if each["path"] not in known)
                rows += sum(
                    json.loads(each.get("stats") or "{}").get("numRecords", 0) for each in new
                )
            known |= {each["path"] for each in adds}
        return rows


def _versions(table: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each version with its actions.

    Raises:
        HarnessError: one is missing or damaged.
    """
    names = sorted(match[1] for path in (table / LOG).iterdir()
                   if (match := _VERSION.fullmatch(path.name)))  # fmt: skip
    if not names:
        raise HarnessError(f"{table / LOG} has no version")
    for number, name in enumerate(names):
        if int(name) != number:
            raise HarnessError(f"{table / LOG} lacks version {number}; checkpoints are not read")
        path = table / LOG / f"{name}.json"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            yield name, [dict(json.loads(line)) for line in lines if line.strip()]
        except _BAD as error:
            raise HarnessError(f"{path} cannot be read: {error}") from error


def _replayed(table: Path) -> _State:
    state = _State()
    for version, actions in _versions(table):
        try:
            for action in actions:
                _apply(state, action, version)
        except _BAD as error:
            raise HarnessError(f"{LOG}/{version}.json of {table}: {error!r}") from error
    if not state.metadata:
        raise HarnessError(f"{table / LOG} describes no table")
    mode = (state.metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise HarnessError(f"{table} has column mapping by {mode}, which is not read")
    return state


def _apply(state: _State, action: Mapping[str, Any], version: str) -> None:
    if "metaData" in action:
        state.metadata = action["metaData"]
    if "remove" in action:
        state.adds.pop(_identity(action["remove"]), None)
    if "add" in action:
        state.adds[_identity(action["add"])] = (action["add"], version)


def _identity(file: Mapping[str, Any]) -> tuple[str, str]:
    vector = file.get("deletionVector")
    mark = "".join(str(vector.get(name, "")) for name in _VECTOR) if vector else ""
    return str(file["path"]), mark


_VECTOR = ("storageType", "pathOrInlineDv", "offset")


def _file(
    table: Path, add: Mapping[str, Any], version: str, partitions: Sequence[tuple[str, str]]
) -> FormatFile:
    values = {name: add["partitionValues"].get(name) or None for name, _ in partitions}
    vector = add.get("deletionVector")
    deletes = _vector_path(table, vector) if vector else None
    return FormatFile(
        path=table / unquote(add["path"]),
        partition_path="/".join(value or NO_PARTITION for value in values.values()),
        commit=version,
        deletes=(deletes,) if deletes else (),
        mark=_identity(add)[1],
        gone=_gone(deletes, vector) if vector else np.empty(0, np.int64),
        constants={name: _scalar(values[name], kind, name) for name, kind in partitions},
    )


def _scalar(text: str | None, kind: str, column: str) -> pa.Scalar:
    if kind not in _TYPES:
        raise HarnessError(f"partition column {column} is {kind}, which is not read")
    return pa.scalar(text, pa.string()).cast(_TYPES[kind])


def _vector_path(table: Path, vector: Mapping[str, Any]) -> Path | None:
    """The file of a deletion vector; None where the log itself holds it."""
    kind, location = vector["storageType"], str(vector["pathOrInlineDv"])
    if kind == "i":
        return None
    if kind != "u":
        raise HarnessError(f"a deletion vector of kind {kind!r} is not read")
    folder, name = location[:-_ID_LENGTH], uuid.UUID(bytes=_base85(location[-_ID_LENGTH:]))
    return table / folder / f"deletion_vector_{name}.bin"


def _gone(path: Path | None, vector: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    """The rows of a deletion vector: in a file the size, the set and its CRC-32 stand together."""
    size, where = int(vector["sizeInBytes"]), str(path or "a deletion vector in the log")
    if path is None:
        return roaring.positions(_base85(str(vector["pathOrInlineDv"]))[:size], where)
    at = int(vector.get("offset") or 0)
    data = path.read_bytes()[at : at + size + 8]
    if len(data) < size + 8 or struct.unpack_from(">i", data)[0] != size:
        raise HarnessError(f"{where}: no deletion vector of {size} bytes at {at}")
    held = data[4 : 4 + size]
    if struct.unpack_from(">I", data, 4 + size)[0] != zlib.crc32(held):
        raise HarnessError(f"{where}: the deletion vector at {at} has another checksum")
    return roaring.positions(held, where)


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""Alphabet of Z85, in which Delta writes; Python's base 85 has another."""

_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_PYTHONS = str.maketrans(_Z85, _B85)


def _base85(text: str) -> bytes:
    return base64.b85decode(text.translate(_TO_PYTHONS))
