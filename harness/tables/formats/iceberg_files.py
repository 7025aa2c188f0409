"""Tables of Iceberg: table metadata, manifest list, manifests and position deletes.

    metadata/v<N>.metadata.json   the current snapshot, schemas, partition fields, properties; in a
                                  catalog's tables it is `<N>-<UUID>.metadata.json`
    manifest list (Avro)          the manifests of a snapshot: content 0 data, 1 deletes
    manifest (Avro)               entries: status 2 is deleted; the data file with its partition
    delete file                   of version 2 Parquet (file_path, pos), of version 3 a Puffin blob

Files are looked for in the table's own folder, whatever absolute path its metadata names: a copy of
a table must hold all that its rows are made of. Sources: the Iceberg table specification and the
Puffin specification.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from keymark.harness.errors import HarnessError
from keymark.harness.tables.formats import beside, roaring
from keymark.harness.tables.formats.model import NO_PARTITION, FormatFacts, FormatFile, LastCommit

METADATA, DATA = "metadata", "data"
_TABLE_METADATA = re.compile(
    r"v(\d{1,18})\.metadata\.json|v(\d{1,18})\.gz\.metadata\.json|"
    r"(\d{1,18})-[0-9a-f-]{36}\.metadata\.json"
)
_DELETED = 2
_POSITIONS = 1
_BAD = (KeyError, TypeError, ValueError, AttributeError, OSError, IndexError, EOFError)


class IcebergReader:
    """Reads tables of Iceberg that a Hadoop catalog keeps, or whose catalog names the newest."""

    def is_of(self, table: Path) -> bool:
        """A folder with table metadata."""
        folder = table / METADATA
        return folder.is_dir() and any(_TABLE_METADATA.fullmatch(p.name) for p in folder.iterdir())

    def facts(self, table: Path) -> FormatFacts:
        """What the table says about its rows."""
        metadata = table_metadata(table)
        names = [name for name, _ in _partition_fields(metadata, table)]
        properties = {**beside.read(table), **(metadata.get("properties") or {})}
        return FormatFacts.of(properties, names)

    def files(self, table: Path) -> Sequence[FormatFile]:
        """The live data files."""
        metadata = table_metadata(table)
        try:
            return list(_files(table, metadata))
        except _BAD as error:
            raise HarnessError(f"manifests of {table} cannot be read: {error!r}") from error

    def last_commit(self, table: Path) -> LastCommit:
        """The current snapshot, by its summary."""
        summary = _snapshot(table_metadata(table), table).get("summary") or {}
        names = ("added-data-files", "added-delete-files")
        return LastCommit(files=sum(int(summary.get(name, 0)) for name in names), metrics=summary)

    def rows_written(self, table: Path, added: Collection[str]) -> int:
        """Rows of the data files of snapshots whose manifest list was added."""
        snapshots = table_metadata(table).get("snapshots") or ()
        return sum(
            int((each.get("summary") or {}).get("added-records", 0))
            for each in snapshots
            if f"{METADATA}/{_name(each['manifest-list'])}" in added
        )


def current(names: Collection[str]) -> str:
    """The newest table metadata of a folder's files; empty where there is none."""
    numbered = [
        (int(match[1] or match[2] or match[3]), name)
        for name in names
        if (match := _TABLE_METADATA.fullmatch(name))
    ]
    return max(numbered, default=(0, ""))[1]


def decoded(data: bytes, where: str) -> dict[str, Any]:
    """Table metadata.

    Raises:
        HarnessError: it is damaged.
    """
    try:
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        return dict(json.loads(text))
    except _BAD as error:
        raise HarnessError(f"{where} cannot be read: {error}") from error


def table_metadata(table: Path) -> dict[str, Any]:
    """The newest metadata of a table.

    Raises:
        HarnessError: there is none, or it is damaged.
    """
    folder = table / METADATA
    name = current([path.name for path in folder.iterdir()])
    if not name:
        raise HarnessError(f"{folder} has no table metadata")
    return decoded((folder / name).read_bytes(), str(folder / name))


def _snapshot(metadata: Mapping[str, Any], table: Path) -> dict[str, Any]:
    wanted = metadata.get("current-snapshot-id")
    for each in metadata.get("snapshots") or ():
        if each["snapshot-id"] == wanted:
            return dict(each)
    raise HarnessError(f"{table} has no snapshot {wanted}")


def _partition_fields(metadata: Mapping[str, Any], table: Path) -> list[tuple[str, str]]:
    """Source column and name of each partition field.

    Raises:
        HarnessError: a field is not the column itself.
    """
    schema = next(
        each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"]
    )
    columns = {each["id"]: str(each["name"]) for each in schema["fields"]}
    spec = next(
        each
        for each in metadata["partition-specs"]
        if each["spec-id"] == metadata["default-spec-id"]
    )
    for each in spec["fields"]:
        if each["transform"] != "identity":
            raise HarnessError(f"{table} is partitioned by {each['transform']}, which is not read")
    return [(columns[each["source-id"]], str(each["name"])) for each in spec["fields"]]


def _files(table: Path, metadata: Mapping[str, Any]) -> Iterator[FormatFile]:
    fields = [name for _, name in _partition_fields(metadata, table)]
    data: list[tuple[dict[str, Any], int]] = []
    deletes: list[dict[str, Any]] = []
    for entry, sequence in _entries(table, _snapshot(metadata, table)):
        if entry["content"]:
            deletes.append(entry)
        else:
            data.append((entry, sequence))
    gone = _gone(table, deletes, len(fields))
    for entry, sequence in data:
        path = _in_table(table, entry["file_path"], len(fields))
        positions, sources = gone.get(path, (np.empty(0, np.int64), ()))
        values = (entry["partition"][name] for name in fields)
        yield FormatFile(
            path=path,
            partition_path="/".join(NO_PARTITION if v is None else str(v) for v in values),
            commit=f"{sequence:020d}",
            deletes=tuple(dict.fromkeys(sources)),
            mark=f"{len(positions)}",
            gone=positions,
        )


def _entries(table: Path, snapshot: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """The live files of a snapshot, each with the sequence number of the commit that added it."""
    for manifest in _avro(table / METADATA / _name(snapshot["manifest-list"])):
        for entry in _avro(table / METADATA / _name(manifest["manifest_path"])):
            if entry["status"] != _DELETED:
                number = entry.get("sequence_number")
                inherited = manifest.get("sequence_number") or 0
                yield dict(entry["data_file"]), int(inherited if number is None else number)


def _gone(
    table: Path, deletes: Sequence[Mapping[str, Any]], partitions: int
) -> dict[Path, tuple[npt.NDArray[np.int64], list[Path]]]:
    """Positions of deleted rows by data file, and the files that say so."""
    found: dict[Path, tuple[npt.NDArray[np.int64], list[Path]]] = {}
    for entry in deletes:
        path = _in_table(table, entry["file_path"], partitions)
        if entry["content"] != _POSITIONS:
            raise HarnessError(f"{path.name} deletes by values, which is not read")
        for of, positions in _delete_file(path, entry):
            data = _in_table(table, of, partitions)
            known, sources = found.get(data, (np.empty(0, np.int64), []))
            found[data] = np.union1d(known, positions), [*sources, path]
    return found


def _delete_file(
    path: Path, entry: Mapping[str, Any]
) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """Data files that a delete file names, with the positions of their deleted rows."""
    if str(entry["file_format"]).lower() == "puffin":
        at, size = int(entry["content_offset"]), int(entry["content_size_in_bytes"])
        # The blob begins with its length, 4 bytes, and ends with a CRC-32.
        blob = path.read_bytes()[at + 4 : at + size - 4]
        yield str(entry["referenced_data_file"]), roaring.positions(blob, str(path))
        return
    rows = pq.ParquetFile(path).read(["file_path", "pos"]).to_pandas()
    for name, group in rows.groupby("file_path"):
        yield str(name), np.sort(group["pos"].to_numpy(np.int64))


def _avro(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return [dict(record) for record in fastavro.reader(file)]


def _name(location: str) -> str:
    return location.rpartition("/")[2]


def _in_table(table: Path, location: str, partitions: int) -> Path:
    """A data or delete file in the table's folder: a folder a partition field, below `data`.

    Deletion vectors, which may be of several partitions, are in `data` itself.
    """
    for folders in (partitions, 0):
        parts = location.split("/")[-(folders + 2) :]
        if parts[0] == DATA:
            return table.joinpath(*parts)
    raise HarnessError(f"{location} is not below the folder {DATA} of {table}")
