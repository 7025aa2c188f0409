"""Avro's binary encoding, as far as the records of the metadata table need it.

Numbers are zigzag varints, texts and bytes carry their length, unions the number of their
branch; a map is blocks of entries, each after its count, up to a count of 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keymark.table.errors import CorruptFileError
from keymark.table.format.coding import ByteCursor, encode_varint
from keymark.table.format.hashes.hashing import string_buffers

# What a field that is skipped looks like: a text, a union of null and text, a union that is null
# here, the long that marks the records wanted.
TEXT = 0
OPTIONAL_TEXT = 1
NULL = 2
MARK = 3

_Bytes = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_HASH_FACTOR = 0x9E3779B97F4A7C15


def encode_long(value: int) -> bytes:
    """An int or long."""
    return encode_varint((value << 1) ^ (value >> 63))


def encode_bytes(value: bytes) -> bytes:
    """A bytes value."""
    return encode_long(len(value)) + value


def encode_text(value: str) -> bytes:
    """A string."""
    return encode_bytes(value.encode())


class AvroCursor(ByteCursor):
    """Reads Avro values forward; whatever does not parse is a CorruptFileError."""

    __slots__ = ()

    def long(self) -> int:
        """An int or long."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        """A bytes value."""
        return self.take(self.long())

    def text(self) -> str:
        """A string."""
        value = self.binary()
        try:
            return value.decode()
        except UnicodeDecodeError:
            self.fail("a text that is not UTF-8")

    def boolean(self) -> bool:
        """A boolean."""
        value = self.take(1)[0]
        if value > 1:
            self.fail(f"a boolean of {value}")
        return value == 1

    def branch(self, count: int) -> int:
        """The branch of a union of `count` branches."""
        value = self.long()
        if not 0 <= value < count:
            self.fail(f"branch {value} of a union of {count}")
        return value

    def map_keys(self) -> Iterator[str]:
        """The keys of a map; the caller reads each value before it asks for the next key."""
        while count := self.long():
            if count < 0:
                count = -count
                self.long()
            if count > self.remaining:
                self.fail(f"a map block of {count} entries in {self.remaining} bytes")
            for _ in range(count):
                yield self.text()

    def end(self) -> None:
        """Nothing may be left."""
        if self.remaining:
            self.fail(f"{self.remaining} bytes after the record")


@numba.njit(cache=True, nogil=True)
def read_long(data: _Bytes, at: int, end: int) -> Any:
    """A zigzag varint: the value and the place after it, -1 if the bytes end."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < 70:
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return 0, -1


@numba.njit(cache=True, nogil=True)
def scan_files_map(data: _Bytes, at: int, found: npt.NDArray[np.int64]) -> int:
    """Find the entries of a map of text to (long, boolean).

    Args:
        data: the bytes.
        at: where the map starts in them.
        found: out, 4 rows: where each text starts, its length, the long, 0 or 1.

    Returns:
        How many entries there are; -1 if the bytes are no such map, or `found` is too short.
    """
    count = 0
    while True:
        left, at = read_long(data, at, data.size)
        if at < 0:
            return -1
        if left == 0:
            return count
        if left < 0:
            left = -left
            _, at = read_long(data, at, data.size)
        if at < 0 or left < 0 or left > found.shape[1] - count:
            return -1
        for entry in range(count, count + left):
            length, at = read_long(data, at, data.size)
            if at < 0 or length < 0 or length > data.size - at:
                return -1
            found[0, entry], found[1, entry] = at, length
            found[2, entry], at = read_long(data, at + length, data.size)
            if at < 0 or at >= data.size or data[at] > 1:
                return -1
            found[3, entry] = data[at]
            at += 1
        count += left


@numba.njit(cache=True, nogil=True)
def _skip(data: _Bytes, bounds: tuple[int, int], fields: _Bytes, mark: int) -> int:
    """The place after the fields, -1 if they are not as expected."""
    at, end = bounds
    for field in fields:
        value, at = read_long(data, at, end)
        if at < 0:
            return -1
        if field == OPTIONAL_TEXT:
            if value == 0:
                continue
            if value != 1:
                return -1
            value, at = read_long(data, at, end)
            if at < 0:
                return -1
        if field in (TEXT, OPTIONAL_TEXT):
            if value < 0 or value > end - at:
                return -1
            at += value
        elif (field == NULL and value != 0) or (field == MARK and value != mark):
            return -1
    return at


@numba.njit(cache=True, nogil=True)
def _equal(words: _Words, a: int, b: int, length: int) -> bool:
    """Whether two ranges are the same; `words` is the eight bytes from each place on."""
    at = 0
    while at + 8 <= length:
        if words[a + at] != words[b + at]:
            return False
        at += 8
    gap = np.uint64(64 - 8 * (length - at))
    return length == at or (words[a + at] << gap) == (words[b + at] << gap)


@numba.njit(cache=True, nogil=True)
def _hash(words: _Words, start: int, length: int) -> np.uint64:
    state = np.uint64(length)
    at = 0
    while at + 8 <= length:
        state = (state ^ words[start + at]) * np.uint64(_HASH_FACTOR)
        state ^= state >> np.uint64(32)
        at += 8
    if at < length:
        state = (state ^ (words[start + at] << np.uint64(64 - 8 * (length - at)))) * np.uint64(
            _HASH_FACTOR
        )
    return np.uint64(state ^ (state >> np.uint64(32)))


@numba.njit(cache=True, nogil=True)
def _rehash(hashes: npt.NDArray[np.uint64], count: int) -> Any:
    """A table of four slots per entry, holding entry numbers by hash."""
    size = 4096
    while size < 4 * count:
        size *= 2
    slots = np.full(size, -1, np.int32)
    for entry in range(count):
        slot = hashes[entry] & np.uint64(size - 1)
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & np.uint64(size - 1)
        slots[slot] = entry
    return slots


@numba.njit(cache=True, nogil=True)
def _group_tails(
    offsets: _Offsets, text: tuple[_Bytes, _Words], fields: _Bytes, mark: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], int]:
    """Number of the distinct tail of each value; where the distinct tails are; the bad value."""
    data, words = text
    codes = np.empty(len(offsets) - 1, np.int32)
    tails = np.empty((1024, 2), np.int64)
    hashes = np.empty(1024, np.uint64)
    found = 0
    slots = _rehash(hashes, 0)
    head = 0
    for i in range(len(codes)):
        size = offsets[i + 1] - offsets[i]
        # Nearly all values start as the one before does.
        same = i > 0 and size >= head and _equal(words, offsets[i - 1], offsets[i], head)
        if not same:
            head = _skip(data, (offsets[i], offsets[i + 1]), fields, mark) - offsets[i]
            if head < 0:
                return codes, tails[:found], i
        start, length = offsets[i] + head, size - head
        state = _hash(words, start, length)
        slot = state & np.uint64(len(slots) - 1)
        entry = slots[slot]
        while entry >= 0:
            same = hashes[entry] == state and tails[entry, 1] == length
            if same and _equal(words, tails[entry, 0], start, length):
                break
            slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
            entry = slots[slot]
        if entry < 0:
            if found == len(hashes):
                tails = np.concatenate((tails, np.empty_like(tails)))
                hashes = np.concatenate((hashes, np.empty_like(hashes)))
            entry = found
            tails[entry, 0], tails[entry, 1] = start, length
            hashes[entry] = state
            slots[slot] = entry
            found += 1
            if 2 * found > len(slots):
                slots = _rehash(hashes, found)
        codes[i] = entry
    return codes, tails[:found], -1


def group_tails(
    values: pa.Array, fields: bytes, mark: int, name: str
) -> tuple[npt.NDArray[np.int32], list[bytes]]:
    """Group records by what they hold after their first fields.

    Args:
        values: one record each, without nulls.
        fields: what the fields to skip look like: TEXT, OPTIONAL_TEXT, NULL, MARK.
        mark: what the MARK field holds.
        name: the file, for errors.

    Returns:
        For each record the number of its tail, and the distinct tails.

    Raises:
        CorruptFileError: a record whose first fields are not so.
    """
    codes, data, places = tail_places(values, fields, mark, name)
    return codes, [data[start : start + length].tobytes() for start, length in places.tolist()]


def tail_places(
    values: pa.Array, fields: bytes, mark: int, name: str
) -> tuple[npt.NDArray[np.int32], _Bytes, npt.NDArray[np.int64]]:
    """Group records as `group_tails` does, and leave their tails where they are.

    Returns:
        For each record the number of its tail; the bytes of all records; and of each distinct tail
        where it starts, and its length.
    """
    offsets, data = string_buffers(values)
    program = np.frombuffer(fields, np.uint8)
    codes, places, bad = _group_tails(offsets, _words(data, int(offsets[-1])), program, mark)
    if bad >= 0:
        raise CorruptFileError(name, 0, f"value {bad} is not a metadata record of type {mark}")
    return codes, data, places


def _words(data: _Bytes, end: int) -> tuple[_Bytes, _Words]:
    """The eight bytes from each place on, as numbers; reads of the last ones need padding."""
    if len(data) < end + 8:
        data = np.concatenate([data, np.zeros(8, np.uint8)])
        data.flags.writeable = False
    return data, np.ndarray(len(data) - 7, "<u8", data, 0, (1,))
