"""HFiles for tests: the golden ones, and readers over bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from keymark.table.format.hfile.reader import HFileReader
from keymark.table.storage.storage import BytesReader

DATA = Path(__file__).parents[2] / "data" / "hfile"
BASE_FILE = DATA / "hudi_0.15.0_record_index_base.hfile"
SYNTHETIC = {
    path: int(path.stem.split("_")[5]) for path in sorted(DATA.glob("*.hfile")) if path != BASE_FILE
}
SCHEMA = '"bytes"'


def open_bytes(data: bytes, **place) -> HFileReader:
    return HFileReader(BytesReader(name="a.hfile", data=data), **place)


def binary(items) -> pa.Array:
    return pa.array(list(items), pa.binary())


def golden_key(number: int) -> bytes:
    return b"key-%05d-abcdefgh" % number


def golden_entries(count: int) -> dict[bytes, bytes]:
    return {golden_key(7 * number): b"value %d" % number for number in range(count)}


def unpacked(data: bytes) -> tuple[list[bytes], list[bytes], dict[str, bytes]]:
    """What an HFile holds, whatever its compressor made of it.

    Blocks of data and bloom, the keys of the index (whose blocks come last, with the file info's),
    and the file info. isal, which compresses small blocks, finds other matches where several
    threads use it at a time.
    """
    reader = open_bytes(data)
    *payloads, _, _, _ = reader.payloads()
    return payloads, list(reader.index_keys()), dict(reader.file_info)


def scanned(reader: HFileReader) -> dict[bytes, bytes]:
    entries = {}
    for keys, values in reader.scan():
        assert len(keys) == len(values) > 0
        entries.update(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    return entries


def looked_up(reader: HFileReader, keys) -> dict[bytes, bytes]:
    ordered = sorted(keys)
    positions, values = reader.lookup(binary(ordered))
    assert positions.dtype == np.int64
    assert (np.diff(positions) > 0).all()
    found = [ordered[position] for position in positions.tolist()]
    return dict(zip(found, values.to_pylist(), strict=True))
