"""Hudi's hashes of record keys and names, a column at a time.

Java's String.hashCode runs over UTF-16 code units in wrapping 32-bit arithmetic; the kernels
take the units straight from Arrow's UTF-8 buffers.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

# HashID of Hudi: the int -625288518, sign-extended to 64 bits.
_XXHASH_SEED = 0xFFFFFFFFDABADABA

_COMMA = 0x2C
_COLON = 0x3A


def string_buffers(
    keys: pa.Array | pa.ChunkedArray,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The offsets (one more than keys) and the bytes of a string or binary array.

    Args:
        keys: of a string or binary type, without nulls.

    Raises:
        ValueError: the array holds nulls or is of another type.
    """
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    if keys.null_count:
        raise ValueError("keys hold nulls")
    if pa.types.is_string(keys.type) or pa.types.is_binary(keys.type):
        width: type[np.int32 | np.int64] = np.int32
    elif pa.types.is_large_string(keys.type) or pa.types.is_large_binary(keys.type):
        width = np.int64
    else:
        raise ValueError(f"keys are of type {keys.type}, not strings")
    if len(keys) == 0:
        return np.zeros(1, np.int64), _read_only(np.zeros(0, np.uint8))
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, width, len(keys) + 1, keys.offset * width().itemsize)
    text = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return bounds.astype(np.int64), _read_only(text)


def _read_only(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    # Kernels are compiled anew for writable arrays; buffers come as either.
    data.flags.writeable = False
    return data


@numba.njit(cache=True, nogil=True, inline="always")
def _hash_unit(state: np.uint32, unit: int) -> np.uint32:
    return np.uint32(np.uint32(state * np.uint32(31)) + np.uint32(unit))


@numba.njit(cache=True, nogil=True)
def _hash_range(text: npt.NDArray[np.uint8], start: int, end: int) -> np.uint32:
    """String.hashCode of one UTF-8 range."""
    state = np.uint32(0)
    i = start
    while i < end:
        lead = np.uint32(text[i])
        if lead < 0x80:
            state = _hash_unit(state, lead)
            i += 1
        elif lead < 0xE0:
            state = _hash_unit(state, ((lead & 0x1F) << 6) | (text[i + 1] & 0x3F))
            i += 2
        elif lead < 0xF0:
            middle = (np.uint32(text[i + 1]) & 0x3F) << 6
            state = _hash_unit(state, ((lead & 0x0F) << 12) | middle | (text[i + 2] & 0x3F))
            i += 3
        else:
            point = ((lead & 0x07) << 18) | ((np.uint32(text[i + 1]) & 0x3F) << 12)
            point |= ((np.uint32(text[i + 2]) & 0x3F) << 6) | (text[i + 3] & 0x3F)
            point -= 0x10000
            state = _hash_unit(state, 0xD800 + (point >> 10))
            state = _hash_unit(state, 0xDC00 + (point & 0x3FF))
            i += 4
    return state


@numba.njit(cache=True, nogil=True)
def _hash_all(offsets: npt.NDArray[np.int64], text: npt.NDArray[np.uint8]) -> Any:
    out = np.empty(len(offsets) - 1, np.uint32)
    for i in range(len(out)):
        out[i] = _hash_range(text, offsets[i], offsets[i + 1])
    return out


def java_hashes(keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """String.hashCode of each key.

    Args:
        keys: strings without nulls.
    """
    hashes: npt.NDArray[np.uint32] = _hash_all(*string_buffers(keys))
    return hashes.view(np.int32)


def shards(keys: pa.Array | pa.ChunkedArray, count: int) -> npt.NDArray[np.int32]:
    """The file group of each key in a metadata partition of `count` file groups.

    Java's Math.abs leaves the smallest int negative and its remainder keeps the sign; both
    matter for keys such as `polygenelubricants`
    (HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex).

    Args:
        keys: strings without nulls.
        count: file groups of the partition, at least 1.
    """
    # abs(abs(h) % n) over Java ints equals |h| % n over wide integers for every h.
    wide = np.abs(java_hashes(keys).astype(np.int64))
    return (wide % count).astype(np.int32)


@numba.njit(cache=True, nogil=True)
def _same(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> bool:
    return len(a) == len(b) and bool(np.all(a == b))


@numba.njit(cache=True, nogil=True)
def _find(text: npt.NDArray[np.uint8], start: int, end: int, wanted: int) -> int:
    """Position of a byte in the range, or the range's end."""
    for i in range(start, end):
        if text[i] == wanted:
            return i
    return end


@numba.njit(cache=True, nogil=True)
def _hash_composite(
    key: npt.NDArray[np.uint8],
    names: npt.NDArray[np.uint8],
    name_offsets: npt.NDArray[np.int64],
    specials: npt.NDArray[np.uint8],
) -> np.uint32:
    """List.hashCode of the wanted values of one `f1:v1,f2:v2` key.

    Parts without a colon count as values. `specials` spells `__null__` and then `__empty__`;
    both hash to 0, as null and "" do.
    """
    state = np.uint32(1)
    end = len(key)
    # Java's split drops empty strings at the end, and only there.
    while end > 0 and key[end - 1] == _COMMA:
        end -= 1
    start = 0
    while start <= end:
        stop = _find(key, start, end, _COMMA)
        colon = _find(key, start, stop, _COLON)
        wanted = colon == stop
        for n in range(len(name_offsets) - 1):
            name = names[name_offsets[n] : name_offsets[n + 1]]
            wanted = wanted or _same(key[start:colon], name)
        if wanted:
            first = start if colon == stop else colon + 1
            value = np.uint32(0)
            named = key[first:stop]
            empty = first > start and (_same(named, specials[:8]) or _same(named, specials[8:]))
            if not empty:
                value = _hash_range(key, first, stop)
            state = np.uint32(np.uint32(state * np.uint32(31)) + value)
        start = stop + 1
    return state


@numba.njit(cache=True, nogil=True)
def _hash_lists(
    keys: tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]],
    names: npt.NDArray[np.uint8],
    name_offsets: npt.NDArray[np.int64],
    specials: npt.NDArray[np.uint8],
) -> Any:
    offsets, text = keys
    out = np.empty(len(offsets) - 1, np.uint32)
    for i in range(len(out)):
        key = text[offsets[i] : offsets[i + 1]]
        if _find(key, 0, len(key), _COLON) == len(key):
            out[i] = np.uint32(31) + _hash_range(key, 0, len(key))
        else:
            out[i] = _hash_composite(key, names, name_offsets, specials)
    return out


def buckets(
    keys: pa.Array | pa.ChunkedArray,
    count: int,
    *,
    key_fields: Sequence[str],
    hash_fields: Sequence[str],
) -> npt.NDArray[np.int32]:
    """The bucket of each key under Hudi's simple bucket index.

    A key without `:` is hashed whole. Any other is taken for a composite `f1:v1,f2:v2` key, even
    if it is a plain value with a colon in it: then none of its parts is wanted and the bucket is
    `1 % count` (BucketIdentifier.getHashKeys, KeyGenUtils.extractRecordKeysByFields).

    Args:
        keys: strings without nulls.
        count: buckets of a partition, at least 1.
        key_fields: the record key fields.
        hash_fields: the fields to hash; empty for all record key fields.
    """
    names = pa.array(list(hash_fields or key_fields), pa.string())
    name_offsets, name_text = string_buffers(names)
    specials = np.frombuffer(b"__null____empty__", np.uint8)
    lists: npt.NDArray[np.uint32]
    lists = _hash_lists(string_buffers(keys), name_text, name_offsets, specials)
    return ((lists & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32)


def column_id(name: str) -> str:
    """Identifier of a column in column_stats keys (ColumnIndexID): 12 characters."""
    digest = xxhash.xxh64_digest(name.encode(), seed=_XXHASH_SEED)
    return base64.b64encode(digest).decode()


def partition_id(identifier: str) -> str:
    """Identifier of a partition in metadata keys (PartitionIndexID): 12 characters.

    Args:
        identifier: the partition path, `.` for the partition of a table without partitions.
    """
    return column_id(identifier)


def file_id_hash(file_name: str) -> str:
    """Identifier of a base file in metadata keys (FileIndexID): 24 characters.

    Args:
        file_name: the file's name without its path.
    """
    return base64.b64encode(
        hashlib.md5(file_name.encode(), usedforsecurity=False).digest()
    ).decode()
