"""Sets of row positions in the deletion vectors of Delta and Iceberg: 64-bit Roaring bitmaps.

    magic 1681511377 (4 bytes LE) | count of bitmaps (8 bytes LE) | key (4 bytes LE), bitmap | ...

A position is its key times 2^32 plus a member of the bitmap. A bitmap is in the portable format:

    cookie       12346: no runs; then the count of containers, 4 bytes
                 12347 in the low half: count - 1 in the high half, then a bit a container: has runs
    header       for each container: key (2 bytes), members - 1 (2 bytes)
    offsets      4 bytes a container; not with runs and fewer than 4 containers
    containers   runs: count, then (start, length - 1) pairs of 2 bytes
                 at most 4,096 members: 2 bytes each
                 others: 65,536 bits

Sources: PROTOCOL.md of Delta Lake ("Deletion Vector Format"), the Puffin specification of Iceberg
(deletion-vector-v1), and the format specification of RoaringBitmap.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from keymark.harness.errors import HarnessError

MAGIC = 1681511377
_NO_RUNS, _RUNS = 12346, 12347
_ARRAY_MOST = 4096
_OFFSETS_FROM = 4
_BITMAP_BYTES = 8192

_Positions = npt.NDArray[np.int64]


def positions(data: bytes, where: str) -> _Positions:
    """The members of a set, ascending.

    Args:
        data: the set, from its magic number on.
        where: how an error names it.

    Raises:
        HarnessError: it is damaged.
    """
    try:
        return _positions(data)
    except (struct.error, ValueError, IndexError) as error:
        raise HarnessError(f"{where}: no set of deleted rows: {error}") from error


def _positions(data: bytes) -> _Positions:
    magic, count = struct.unpack_from("<Iq", data)
    if magic != MAGIC:
        raise ValueError(f"magic number {magic}")
    if not 0 <= count <= len(data):
        raise ValueError(f"{count} bitmaps")
    found, at = [np.empty(0, np.int64)], 12
    for _ in range(count):
        (key,) = struct.unpack_from("<I", data, at)
        members, at = _bitmap(data, at + 4)
        found.append(members + (key << 32))
    return np.concatenate(found)


def _bitmap(data: bytes, at: int) -> tuple[_Positions, int]:
    """The members of a 32-bit bitmap, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    if cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
        has_runs = np.zeros(count, np.uint8)
    elif cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        size = (count + 7) // 8
        bits = _numbers(data, at, count=size, kind="<u1").astype(np.uint8)
        has_runs = np.unpackbits(bits, bitorder="little")[:count]
        at += size
    else:
        raise ValueError(f"cookie {cookie}")
    header = _numbers(data, at, count=2 * count, kind="<u2").reshape(-1, 2)
    at += 4 * count
    if cookie == _NO_RUNS or count >= _OFFSETS_FROM:
        at += 4 * count
    found = [np.empty(0, np.int64)]
    for (key, less_one), is_run in zip(header.tolist(), has_runs.tolist(), strict=True):
        members, at = _container(data, at, size=less_one + 1, is_run=bool(is_run))
        found.append(members + (key << 16))
    return np.concatenate(found), at


def _container(data: bytes, at: int, *, size: int, is_run: bool) -> tuple[_Positions, int]:
    """The members of a container, and where it ends."""
    if is_run:
        (count,) = struct.unpack_from("<H", data, at)
        runs = _numbers(data, at + 2, count=2 * count, kind="<u2").reshape(-1, 2)
        spans = [np.arange(start, start + less_one + 1) for start, less_one in runs.tolist()]
        members = np.concatenate([np.empty(0, np.int64), *spans])
        at += 2 + 4 * count
    elif size <= _ARRAY_MOST:
        members = _numbers(data, at, count=size, kind="<u2")
        at += 2 * size
    else:
        bits = _numbers(data, at, count=_BITMAP_BYTES, kind="<u1").astype(np.uint8)
        members = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        at += _BITMAP_BYTES
    if len(members) != size:
        raise ValueError(f"{len(members)} members in a container of {size}")
    return members.astype(np.int64), at


def _numbers(data: bytes, at: int, *, count: int, kind: str) -> _Positions:
    """Whole numbers of a kind; ValueError where the data ends before them."""
    return np.frombuffer(data, kind, count, at).astype(np.int64)
