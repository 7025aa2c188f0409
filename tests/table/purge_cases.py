"""A search for keys in the files of a table that uses nothing of the package."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_GZIP = b"\x1f\x8b\x08"


def contents(root: Any) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of every file: as stored, each gzip stream in it, and Parquet's columns."""
    for path in sorted(Path(root).rglob("*")):
        if not path.is_file():
            continue
        name = str(path.relative_to(root))
        data = path.read_bytes()
        yield name, data
        yield from ((name, stream) for stream in _streams(data))
        if name.endswith(".parquet"):
            yield name, _decoded(path)


def _streams(data: bytes) -> Iterator[bytes]:
    at = data.find(_GZIP)
    while at >= 0:
        stream = zlib.decompressobj(31)
        with contextlib.suppress(zlib.error):
            yield stream.decompress(data[at:])
        at = data.find(_GZIP, at + 1)


def _decoded(path: Path) -> bytes:
    file = pq.ParquetFile(path)
    parts = [repr(file.metadata.metadata).encode()]
    for group in range(file.metadata.num_row_groups):
        parts += [
            repr(file.metadata.row_group(group).column(column).statistics).encode()
            for column in range(file.metadata.num_columns)
        ]
    for column in file.read().columns:
        parts += [str(value).encode() for value in column.to_pylist()]
    return b"\0".join(parts)


def grep(root: Any, keys: Any) -> list[tuple[str, str]]:
    """(path, key) of every file that holds the bytes of a key."""
    wanted = [(key, key.encode()) for key in keys]
    return [(path, key) for path, data in contents(root) for key, text in wanted if text in data]


def entries(root: Any, keys: Any) -> list[tuple[str, str]]:
    """(path, key) of every file with a row, a cell, an index entry or a delete of a key.

    Cells and index entries are told by the length before the key and what follows it, deletes by
    what is around them in an Avro record: so keys may be as short as they like.
    """
    found = []
    for path, data in contents(root):
        for key in keys:
            text = key.encode()
            cell = len(text).to_bytes(2, "big") + text + b"\0\x7f\xff\xff\xff"
            deleted = b"\2" + _varint(2 * len(text)) + text + b"\2\x18record_index"
            if cell in data or deleted in data:
                found.append((path, key))
        if path.endswith(".parquet"):
            found += [(path, key) for key in _rows(Path(root) / path, keys)]
    return found


def _rows(path: Path, keys: Any) -> list[str]:
    file = pq.ParquetFile(path)
    stored = set(file.read(["_hoodie_record_key"]).column(0).to_pylist())
    named = {
        (file.metadata.metadata or {}).get(name)
        for name in (b"hoodie_min_record_key", b"hoodie_max_record_key")
    }
    return [key for key in keys if key in stored or key.encode() in named]


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def unchanged(root: Any) -> dict[str, bytes]:
    """Path -> bytes of every file but those of the lease."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(Path(root).rglob("*"))
        if path.is_file() and "/.keymark/lease/" not in str(path)
    }


def key_rows(keys: list[str], **columns: Any) -> pa.Table:
    """Rows k, p, ts, v whose values do not hold the key."""
    count = len(keys)
    made = {
        "k": pa.array(keys, pa.string()),
        "p": pa.array([f"p{sum(key.encode()) % 3}" for key in keys], pa.string()),
        "ts": pa.array([1] * count, pa.int64()),
        "v": pa.array([f"value {i}" for i in range(count)], pa.string()),
    }
    for name, values in columns.items():
        listed = values if isinstance(values, list) else [values] * count
        made[name] = pa.array(listed, made[name].type)
    return pa.table(made)
