"""What the tests of builds share: base files with given keys, and a reading of what was built."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.parquet.base_file import BaseFileOptions, FooterOptions, write_base_file
from keymark.table.index.build.record_index import build_record_index
from keymark.table.index.build.target import BuildTarget, Built
from keymark.table.layout.model import BaseFile
from keymark.table.layout.naming import METADATA
from keymark.table.metadata.partitions import file_id
from keymark.table.metadata.records import decode_locations
from keymark.table.runtime.runner import LocalRunner
from keymark.table.storage.local_storage import LocalStorage
from keymark.table.storage.storage import Storage
from keymark.table.timeline.timeline import zone_of

INSTANT = "20240102030405006011"
UTC = zone_of("UTC")
NO_BLOOM = BaseFileOptions(footer=FooterOptions(bloom_enabled=False))
# (partition path, file id, milliseconds since the epoch)
Place = tuple[str, str, int]


@dataclass
class Table:
    """A folder of base files, and the index that it should have."""

    storage: Storage
    files: list[BaseFile]
    model: dict[str, Place]

    def target(self, groups: int, **changes: Any) -> BuildTarget:
        given = {
            "storage": self.storage,
            "folder": ".hoodie/.keymark/build/record_index",
            "partition": "record_index",
            "instant": INSTANT,
            "files": tuple(self.files),
            "groups": groups,
            "zone": UTC,
        }
        return BuildTarget(**{**given, **changes})

    def build(self, groups: int, runner: Any = None, **changes: Any) -> Built:
        target = self.target(groups, **changes)
        return build_record_index(target, rows=len(self.model), runner=runner or LocalRunner(2))


def put_file(
    storage: Storage, number: int, partition: str, keys: list[Any], file_id: str | None = None
) -> BaseFile:
    """Put a base file with these record keys; the number tells its name and instant."""
    identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{number}/{partition}")
    file = BaseFile(
        partition_path=partition,
        # Every third file id is no UUID: Hudi writes those as text.
        file_id=file_id or (f"{identity}-{number}" if number % 3 else f"file-{number}"),
        write_token="0-0-0",
        instant_time=f"202401010000{number % 60:02d}000",
        size=0,
    )
    count = len(keys)
    columns = {
        "_hoodie_commit_time": [file.instant_time] * count,
        "_hoodie_commit_seqno": [str(row) for row in range(count)],
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": [partition] * count,
        "_hoodie_file_name": [file.name] * count,
        "value": [f"v{row}" for row in range(count)],
    }
    table = pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
    data = bytes(write_base_file(table, options=NO_BLOOM))
    storage.put(file.path, data)
    return BaseFile(
        partition_path=partition,
        file_id=file.file_id,
        write_token="0-0-0",
        instant_time=file.instant_time,
        size=len(data),
    )


def make_table(folder: Path, contents: list[tuple[str, list[str]]]) -> Table:
    """A table with a base file per (partition path, keys)."""
    storage = LocalStorage.at(str(folder), create=True)
    files, model = [], {}
    for number, (partition, keys) in enumerate(contents):
        file = put_file(storage, number, partition, keys)
        files.append(file)
        millis = 1704067200000 + 1000 * (number % 60)
        model.update(dict.fromkeys(keys, (partition, file.file_id, millis)))
    return Table(storage, files, model)


def built_entries(built: Built) -> list[dict[str, Place]]:
    """Per file group: key -> location, read from its base file; empty where there is none."""
    storage = built.target.storage
    groups: list[dict[str, Place]] = [{} for _ in range(built.target.groups)]
    numbers = {file_id("record_index", n): n for n in range(built.target.groups)}
    for stat in built.stats:
        reader = HFileReader(storage.open(f"{METADATA}/{stat.path}"))
        entries = groups[numbers[stat.file_id]]
        for keys, values in reader.scan():
            rows = decode_locations(values, stat.path).to_pylist()
            for key, row in zip(keys.to_pylist(), rows, strict=True):
                assert key.decode() not in entries
                entries[key.decode()] = tuple(row.values())
        assert len(entries) == stat.num_writes == reader.entry_count
    return groups


def contents_of(folder: Path, under: str = METADATA) -> dict[str, bytes]:
    """Path -> bytes of every file below a folder of the table."""
    root = Path(folder) / under
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
