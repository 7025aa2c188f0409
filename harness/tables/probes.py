"""What a step left on storage, by comparing listings from before and after it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from keymark.harness.tables import formats, hudi_rs

INDEX_FOLDERS = (".hoodie/metadata/record_index/", ".hoodie/.keymark/keys/")
"""Folders with an entry for each record key: the record index, and runs of the keys."""
META_FOLDERS = (".hoodie/", "_delta_log/")
"""Folders whose files are no data, Parquet or not: Hudi's, and Delta's with its checkpoints."""

_COMMIT = re.compile(r"\.hoodie/\d{17}\.(commit|deltacommit|replacecommit)")
_LATER_COMMIT = re.compile(r"\.hoodie/timeline/(\d+)_\d+\.(?:commit|deltacommit|replacecommit)")
"""A completed commit of table version 8 and 9: the times of its request and its completion."""

_DATA = (".parquet", ".bin", ".puffin")
"""Rows, and which of them are gone: of Delta in `.bin`, of Iceberg's version 3 in `.puffin`."""

_LOG_FILE = re.compile(r"(?:.*/)?\.[^/]+\.log\.\d+_[^/]+")


@dataclass(frozen=True, slots=True)
class Listing:
    """Sizes of all files of a table in bytes, by path relative to it.

    Hadoop's checksum side-cars (`.<name>.crc`) are left out: they are the file system's, and
    whether there are any depends on who wrote the file.
    """

    sizes: Mapping[str, int]

    @classmethod
    def of(cls, table: Path) -> Listing:
        """List a table on local storage."""
        sizes = {}
        for folder, _, names in os.walk(table):
            for name in names:
                if not (name.startswith(".") and name.endswith(".crc")):
                    path = Path(folder, name)
                    sizes[path.relative_to(table).as_posix()] = path.lstat().st_size
        return cls(sizes)

    @property
    def index_bytes(self) -> int:
        """Bytes of the entries of record keys."""
        return sum(size for path, size in self.sizes.items() if path.startswith(INDEX_FOLDERS))

    @property
    def total_bytes(self) -> int:
        """Bytes of all files, those that only earlier versions of the table need included."""
        return sum(self.sizes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Bytes and files that a step added, by the phase that they belong to.

    Attributes:
        data_files: new base files, and log files that are new or have grown.
        data_bytes: their bytes (phase `write`).
        index_bytes: new bytes of entries of record keys (phase `index`).
        total_bytes: new bytes in all, the timeline and other metadata included.
    """

    data_files: int
    data_bytes: int
    index_bytes: int
    total_bytes: int

    @property
    def commit_bytes(self) -> int:
        """Timeline and metadata other than the record index (phase `commit`)."""
        return self.total_bytes - self.data_bytes - self.index_bytes


def rows_written(table: Path, before: Listing, after: Listing) -> int:
    """Rows in the base and log files of the commits of a step, by their commit metadata.

    A row that an update only copies into the next file slice is one of them.
    """
    reader = formats.reader_of(table)
    if reader is not None:
        return reader.rows_written(table, after.sizes.keys() - before.sizes.keys())
    new = [name for name in after.sizes if name not in before.sizes]
    later = {match.group(1) for match in map(_LATER_COMMIT.fullmatch, new) if match}
    rows = hudi_rs.rows_written(table, later) if later else 0
    for name in filter(_COMMIT.fullmatch, new):
        # A commit that wrote nothing has no statistics.
        partitions = json.loads((table / name).read_bytes()).get("partitionToWriteStats") or {}
        rows += sum(stat.get("numWrites", 0) for stats in partitions.values() for stat in stats)
    return rows


def written(before: Listing, after: Listing) -> Written:
    """What is there after a step that was not there before; growth of a file counts."""
    grown = {
        path: size - before.sizes.get(path, 0)
        for path, size in after.sizes.items()
        if size > before.sizes.get(path, 0)
    }
    data = {
        path: size
        for path, size in grown.items()
        if not path.startswith(META_FOLDERS) and (path.endswith(_DATA) or _LOG_FILE.fullmatch(path))
    }
    return Written(
        data_files=len(data),
        data_bytes=sum(data.values()),
        index_bytes=sum(size for path, size in grown.items() if path.startswith(INDEX_FOLDERS)),
        total_bytes=sum(grown.values()),
    )
