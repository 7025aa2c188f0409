"""Hudi's bloom filters over record keys, as base files and the metadata table carry them.

    simple body     int -1 | int hashes k | byte hash type 1 | int bits m | ceil(m / 8) bytes
    dynamic body    int -1 | int hashes k | byte hash type 1 | int bits m
                    | int keys per row | int keys in the last row | int rows
                    | that many simple bodies

All integers are big-endian; bit i is byte `i >> 3`, mask `1 << (i & 7)`. The text form is the
body in Base64. Hash type 1 is Murmur2 with Hadoop's sign-extended tail; the k positions of a key
are chained, each hash being the seed of the next. (SimpleBloomFilter,
HoodieDynamicBoundedBloomFilter, InternalDynamicBloomFilter, MurmurHash.)
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from typing import Any, Self

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError, UnsupportedTableError
from keymark.table.format.hashes.murmur import (
    LANES,
    key_buffers,
    longest,
    mix_words,
    murmur,
    murmur_lanes,
    position,
    reciprocal,
)

SIMPLE = "SIMPLE"
DYNAMIC = "DYNAMIC_V0"

_VERSION = -1
_MURMUR = 1
SIMPLE_HEADER = struct.Struct(">iibi")
DYNAMIC_HEADER = struct.Struct(">iibiiii")
# Far beyond any sensible false-positive rate; bounds the work a damaged header can ask for.
_MAX_HASHES = 1024

_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint32]
_Offsets = npt.NDArray[np.int64]


def _add_keys(
    rows: _Bytes, shape: tuple[int, int], keys: tuple[_Offsets, _Bytes], first: int
) -> None:
    """Set the bits of keys; the i-th goes to row `(first + i) % len(rows)`."""
    # Keys of one length are hashed side by side.
    by_length = np.argsort(np.diff(keys[0]), kind="stable")
    _set_bits(rows, shape, keys, by_length, first)


@numba.njit(cache=True, nogil=True)
def _set_bits(
    rows: _Bytes,
    shape: tuple[int, int],
    keys: tuple[_Offsets, _Bytes],
    order: _Offsets,
    first: int,
) -> None:
    """Set the bits of keys, in an order that has those of one length beside one another."""
    bits, hashes = np.uint32(shape[0]), shape[1]
    divisor = reciprocal(bits)
    offsets, text = keys
    words = np.zeros((longest(offsets) >> 2, LANES), np.uint32)
    tails, states = np.zeros(LANES, np.uint32), np.empty(LANES, np.uint32)
    row_of = np.empty(LANES, np.int64)
    start = 0
    while start < len(order):
        length, lanes = offsets[order[start] + 1] - offsets[order[start]], 0
        for i in order[start : start + LANES]:
            if offsets[i + 1] - offsets[i] != length:
                break
            tails[lanes] = mix_words(text[offsets[i] : offsets[i + 1]], words[:, lanes])
            row_of[lanes] = (first + i) % len(rows)
            lanes += 1
        states[:] = 0
        for _ in range(hashes):
            murmur_lanes(length, words, tails, states)
            for lane in range(lanes):
                at = position(states[lane], bits, divisor)
                bit = np.uint8(1) << np.uint8(at & np.uint32(7))
                rows[row_of[lane], at >> np.uint32(3)] |= bit
        start += lanes


@numba.njit(cache=True, nogil=True)
def _find_keys(rows: _Bytes, shape: tuple[int, int], keys: tuple[_Offsets, _Bytes]) -> Any:
    """Whether any row holds all bits of a key, for each key."""
    bits, hashes = np.uint32(shape[0]), shape[1]
    divisor = reciprocal(bits)
    offsets, text = keys
    words = np.empty((longest(offsets) >> 2) + 1, np.uint32)
    alive = np.empty(len(rows), np.bool_)
    found = np.empty(len(offsets) - 1, np.bool_)
    for i in range(len(found)):
        key = text[offsets[i] : offsets[i + 1]]
        tail = mix_words(key, words)
        state = np.uint32(0)
        alive[:] = True
        left = len(rows)
        for _ in range(hashes):
            if left == 0:
                break
            state = murmur(len(key), words, tail, state)
            at = position(state, bits, divisor)
            mask = np.uint8(1) << np.uint8(at & np.uint32(7))
            for r in range(len(rows)):
                if alive[r] and not rows[r, at >> np.uint32(3)] & mask:
                    alive[r] = False
                    left -= 1
        found[i] = left > 0
    return found


def _sizes(entries: int, fpp: float) -> tuple[int, int]:
    """Bits and hashes of a filter (BloomFilterUtils.getBitSize, getNumHashes)."""
    bits = math.ceil(entries * (-math.log(fpp) / (math.log(2) * math.log(2))))
    return bits, math.ceil(math.log(2) * bits / entries)


class BloomFilter:
    """A bloom filter of type SIMPLE (one row of bits) or DYNAMIC_V0 (rows up to a bound).

    Args:
        type_code: SIMPLE or DYNAMIC_V0.
        rows: uint8 array, one row of bits per line.
        shape: bits and hashes of a row.
        keys_per_row: keys after which a dynamic filter grows.
        max_entries: keys after which it stops growing and fills its rows in turn.
    """

    def __init__(
        self,
        type_code: str,
        rows: npt.NDArray[np.uint8],
        shape: tuple[int, int],
        *,
        keys_per_row: int,
        max_entries: int,
    ) -> None:
        self.type_code = type_code
        self._rows = rows
        self._shape = shape
        self._keys_per_row = keys_per_row
        self._max_entries = max_entries
        # Keys in the last row; it still counts once the rows are filled in turn.
        self._last_row_keys = 0
        self._full = False
        self._turn = 0

    @classmethod
    def create(cls, *, type_code: str, entries: int, fpp: float, max_entries: int) -> Self:
        """An empty filter.

        Args:
            type_code: SIMPLE or DYNAMIC_V0.
            entries: keys that a row is sized for (hoodie.index.bloom.num_entries).
            fpp: false-positive rate of a full row (hoodie.index.bloom.fpp).
            max_entries: bound of a dynamic filter (hoodie.bloom.index.filter.dynamic.max.entries).

        Raises:
            UnsupportedTableError: another type code.
            ValueError: sizes that make no filter.
        """
        if type_code not in (SIMPLE, DYNAMIC):
            raise UnsupportedTableError(f"bloom filters of type {type_code!r} are not supported")
        if entries < 1 or not 0 < fpp < 1:
            raise ValueError(f"no bloom filter has {entries} entries at the rate {fpp}")
        shape = _sizes(entries, fpp)
        if shape[0] >= 1 << 31:
            raise ValueError(f"a bloom filter of {entries} entries at {fpp} is too large")
        rows = np.zeros((1, (shape[0] + 7) // 8), np.uint8)
        return cls(type_code, rows, shape, keys_per_row=entries, max_entries=max_entries)

    @classmethod
    def parse(cls, text: bytes, type_code: str, name: str, *, max_entries: int = 100_000) -> Self:
        """Read the text form.

        Args:
            text: Base64 as found in a footer or metadata record.
            type_code: SIMPLE or DYNAMIC_V0.
            name: the file, for errors.
            max_entries: bound for further growth; the text does not hold it.

        Raises:
            CorruptFileError: damaged text or body.
            UnsupportedTableError: another type code, or filters hashed by Jenkins.
        """
        if type_code not in (SIMPLE, DYNAMIC):
            raise UnsupportedTableError(
                f"{name} holds a bloom filter of the unsupported type {type_code!r}"
            )
        try:
            body = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise CorruptFileError(name, 0, f"bloom filter is not Base64: {error}") from error
        header = SIMPLE_HEADER if type_code == SIMPLE else DYNAMIC_HEADER
        fields = parse_header(header, body, 0, name)
        shape = (fields[3], fields[1])
        if type_code == SIMPLE:
            rows = _parse_rows(body, 0, 1, shape, name)
            return cls(SIMPLE, rows, shape, keys_per_row=0, max_entries=max_entries)
        keys_per_row, last_row_keys, count = fields[4:]
        if keys_per_row < 1 or last_row_keys < 0 or count < 1:
            raise CorruptFileError(
                name, 13, f"bloom filter of {count} rows, {keys_per_row} keys each"
            )
        rows = _parse_rows(body, header.size, count, shape, name)
        found = cls(DYNAMIC, rows, shape, keys_per_row=keys_per_row, max_entries=max_entries)
        found._last_row_keys = last_row_keys
        return found

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add keys in their order.

        Args:
            keys: strings without nulls.

        Raises:
            InputError: an empty key, which Hudi's hash refuses.
        """
        offsets, text = key_buffers(keys)
        at, end = 0, len(offsets) - 1
        while at < end:
            at = self._add_some(offsets, text, at)

    def _add_some(self, offsets: _Offsets, text: _Bytes, at: int) -> int:
        """Add keys from `at` up to the next change of row; returns where it stopped."""
        end = len(offsets) - 1
        if self.type_code == SIMPLE:
            _add_keys(self._rows, self._shape, (offsets[at:], text), 0)
            return end
        if not self._full and self._last_row_keys >= self._keys_per_row:
            if len(self._rows) * self._keys_per_row < self._max_entries:
                self._rows = np.concatenate([self._rows, np.zeros_like(self._rows[:1])])
                self._last_row_keys = 0
            else:
                # The key that finds the filter full goes to row 0 without taking a turn.
                self._full = True
                _add_keys(self._rows, self._shape, (offsets[at : at + 2], text), 0)
                self._last_row_keys += 1
                return at + 1
        if self._full:
            _add_keys(self._rows, self._shape, (offsets[at:], text), self._turn)
            self._turn = (self._turn + end - at) % len(self._rows)
            self._last_row_keys += end - at
            return end
        stop = min(end, at + self._keys_per_row - self._last_row_keys)
        _add_keys(self._rows[-1:], self._shape, (offsets[at : stop + 1], text), 0)
        self._last_row_keys += stop - at
        return stop

    def contains(self, keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Whether each key may be in the filter; False is certain.

        Args:
            keys: strings without nulls.

        Raises:
            InputError: an empty key.
        """
        found: npt.NDArray[np.bool_] = _find_keys(self._rows, self._shape, key_buffers(keys))
        return found

    def serialize(self) -> bytes:
        """The text form: Base64 of the body."""
        bits, hashes = self._shape
        simple = SIMPLE_HEADER.pack(_VERSION, hashes, _MURMUR, bits)
        if self.type_code == SIMPLE:
            return base64.b64encode(simple + self._rows[0].tobytes())
        counts = (self._keys_per_row, self._last_row_keys, len(self._rows))
        header = DYNAMIC_HEADER.pack(_VERSION, hashes, _MURMUR, bits, *counts)
        return base64.b64encode(header + b"".join(simple + row.tobytes() for row in self._rows))


def parse_header(header: struct.Struct, body: bytes, at: int, name: str) -> tuple[int, ...]:
    """The fields of a header at a place in a body, checked: version, hashes, hash type, bits, ...

    Raises:
        CorruptFileError: it is none.
        UnsupportedTableError: of a filter hashed by Jenkins.
    """
    if len(body) < at + header.size:
        raise CorruptFileError(name, at, "bloom filter ends within its header")
    fields: tuple[int, ...] = header.unpack_from(body, at)
    version, hashes, hash_type, bits = fields[:4]
    if version > 0 or (version == _VERSION and hash_type == 0):
        raise UnsupportedTableError(f"{name} holds a bloom filter of the Jenkins hash")
    if version != _VERSION or hash_type != _MURMUR:
        raise CorruptFileError(
            name, at, f"bloom filter of version {version} with hash type {hash_type}"
        )
    if bits < 1 or not 1 <= hashes <= _MAX_HASHES:
        raise CorruptFileError(name, at, f"bloom filter of {bits} bits and {hashes} hashes")
    return fields


def _parse_rows(
    body: bytes, at: int, count: int, shape: tuple[int, int], name: str
) -> npt.NDArray[np.uint8]:
    """All rows from a position to the end of the body, each a simple body."""
    size = (shape[0] + 7) // 8
    step = SIMPLE_HEADER.size + size
    if len(body) - at != count * step:
        raise CorruptFileError(
            name, at, f"bloom filter holds {len(body) - at} bytes of rows instead of {count * step}"
        )
    rows = np.empty((count, size), np.uint8)
    for r in range(count):
        start = at + r * step
        fields = parse_header(SIMPLE_HEADER, body, start, name)
        if (fields[3], fields[1]) != shape:
            raise CorruptFileError(name, start, "bloom filter with rows of different shape")
        rows[r] = np.frombuffer(body, np.uint8, size, start + SIMPLE_HEADER.size)
    return rows
