"""Bloom filters against vectors and footers that Hudi wrote."""

import base64
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keymark.table.errors import CorruptFileError, InputError, UnsupportedTableError
from keymark.table.format.bloom import filter as bloom
from keymark.table.format.bloom.filter import DYNAMIC, SIMPLE, BloomFilter
from keymark.table.format.hashes.murmur import LANES, position, reciprocal

KEYS = pa.array(["a", "ü", "key-00000"])
VECTORS = {
    DYNAMIC: b"/////wAAAAoBAAAAkAAAAAoAAAADAAAAAf////8AAAAKAQAAAJCiGAAEQAgB4BAQDEAAMhWIAhQ=",
    SIMPLE: b"/////wAAAAoBAAAAkKIYAARACAHgEBAMQAAyFYgCFA==",
}


def small(type_code, *, entries=10, fpp=1e-3, max_entries=25):
    return BloomFilter.create(
        type_code=type_code, entries=entries, fpp=fpp, max_entries=max_entries
    )


@pytest.mark.parametrize("type_code", [SIMPLE, DYNAMIC])
def test_vectors(type_code):
    made = small(type_code)
    made.add(KEYS)
    assert made.serialize() == VECTORS[type_code]
    read = BloomFilter.parse(VECTORS[type_code], type_code, "f")
    assert read.contains(KEYS).tolist() == [True, True, True]
    assert read.contains(pa.array(["b", "u", "key-00001"])).tolist() == [False] * 3
    assert read.serialize() == VECTORS[type_code]


def test_default_size():
    made = BloomFilter.create(type_code=DYNAMIC, entries=60000, fpp=1e-9, max_entries=100000)
    text = made.serialize()
    assert len(text) == 431380
    assert struct.unpack(">iibiiii", base64.b64decode(text)[:25]) == (
        -1, 30, 1, 2587966, 60000, 0, 1,
    )  # fmt: skip


def murmur(key, seed):
    """Murmur2 with Hadoop's tail, over Python's integers."""
    mult, mask = 0x5BD1E995, 0xFFFFFFFF
    state = (seed ^ len(key)) & mask
    for i in range(0, len(key) & ~3, 4):
        word = int.from_bytes(key[i : i + 4], "little") * mult & mask
        word = (word ^ word >> 24) * mult & mask
        state = (state * mult & mask) ^ word
    tail = key[len(key) & ~3 :]
    if tail:
        for back, byte in enumerate(reversed(tail)):
            state ^= ((byte - 256 if byte > 127 else byte) << 8 * back) & mask
        state = state * mult & mask
    state = (state ^ state >> 13) * mult & mask
    return state ^ state >> 15


def reference(keys, bits, hashes, rows_of):
    """The rows of bits after adding keys, each to the row named for it."""
    rows = np.zeros((max(rows_of) + 1, (bits + 7) // 8), np.uint8)
    for key, row in zip(keys, rows_of, strict=True):
        value = 0
        for _ in range(hashes):
            value = murmur(key.encode(), value)
            position = abs(value - (1 << 32) if value >> 31 else value) % bits
            rows[row, position >> 3] |= 1 << (position & 7)
    return rows


def rows_of(text, size):
    body = base64.b64decode(text)[25:]
    step = 13 + size
    return np.array(
        [np.frombuffer(body[i + 13 : i + step], np.uint8) for i in range(0, len(body), step)]
    )


def test_murmur_vectors():
    assert murmur(b"key-00000", 0) == 868625773
    assert murmur("ü".encode(), 0) == 1738317100


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), max_size=40), st.integers(1, 20))
def test_growth_follows_hudi(texts, cut):
    made = small(DYNAMIC, entries=4, max_entries=9)
    keys = pa.array(texts, pa.string())
    made.add(keys[:cut])
    made.add(keys[cut:])
    # 4 keys a row; a third row starts at 8 < 9; the 13th key finds the filter full and goes to
    # row 0; from then on the rows take turns.
    rows = [i // 4 if i < 12 else 0 if i == 12 else (i - 13) % 3 for i in range(len(texts))]
    bits, hashes = bloom._sizes(4, 1e-3)
    header = struct.unpack(">iibiiii", base64.b64decode(made.serialize())[:25])
    count = max(rows, default=0) + 1
    # The count of the last row goes on when the rows take turns.
    last = len(texts) - 8 if len(texts) > 8 else len(texts) - 4 * (count - 1)
    assert header == (-1, hashes, 1, bits, 4, last, count)
    if texts:
        found = rows_of(made.serialize(), (bits + 7) // 8)
        assert np.array_equal(found, reference(texts, bits, hashes, rows))
        assert made.contains(keys).all()


@settings(deadline=None)
@given(st.integers(1, (1 << 31) - 1), st.integers(0, (1 << 32) - 1))
@example(1, 1 << 31)
@example(1 << 30, 1 << 31)
@example((1 << 31) - 1, 1 << 31)
def test_position_is_that_of_java(bits, value):
    divisor = reciprocal(np.uint32(bits))
    expected = abs(value - (1 << 32) if value >> 31 else value) % bits
    assert position(np.uint32(value), np.uint32(bits), divisor) == expected


@pytest.mark.parametrize("count", [LANES - 1, LANES, LANES + 1, 3 * LANES + 2])
def test_keys_of_one_length(count):
    keys = [f"key-{i:04d}-äö"[: 8 + i % 2] for i in range(2 * count)]
    made = small(SIMPLE, entries=count)
    made.add(pa.array(keys))
    bits, hashes = bloom._sizes(count, 1e-3)
    expected = reference(keys, bits, hashes, [0] * len(keys))
    assert base64.b64decode(made.serialize())[13:] == expected.tobytes()


def test_parsed_filter_grows_on():
    keys = pa.array([f"key-{i}" for i in range(11)])
    whole = small(DYNAMIC, entries=4, max_entries=9)
    whole.add(keys)
    first = small(DYNAMIC, entries=4, max_entries=9)
    first.add(keys[:6])
    second = BloomFilter.parse(first.serialize(), DYNAMIC, "f", max_entries=9)
    second.add(keys[6:])
    assert second.serialize() == whole.serialize()


def test_empty_key():
    with pytest.raises(InputError):
        small(SIMPLE).add(pa.array(["a", ""]))


def test_false_positive_rate():
    made = small(DYNAMIC, entries=1000, fpp=1e-2, max_entries=2000)
    made.add(pa.array([f"in-{i}" for i in range(1000)]))
    assert made.contains(pa.array([f"out-{i}" for i in range(20000)])).mean() < 0.02


@pytest.mark.parametrize("type_code", [SIMPLE, DYNAMIC])
def test_damage_is_found(type_code):
    body = base64.b64decode(VECTORS[type_code])
    for end in range(len(body)):
        with pytest.raises(CorruptFileError):
            BloomFilter.parse(base64.b64encode(body[:end]), type_code, "f")
    header = 13 if type_code == SIMPLE else 38
    for at in range(header):
        for bit in range(8):
            damaged = bytearray(body)
            damaged[at] ^= 1 << bit
            try:
                read = BloomFilter.parse(base64.b64encode(damaged), type_code, "f")
            except (CorruptFileError, UnsupportedTableError):
                continue
            read.contains(KEYS)
            assert read.serialize() == base64.b64encode(damaged)


def test_no_base64():
    with pytest.raises(CorruptFileError, match="Base64"):
        BloomFilter.parse(b"*not base64*", SIMPLE, "f")


def test_unknown_kinds():
    with pytest.raises(UnsupportedTableError, match="V9"):
        BloomFilter.parse(VECTORS[SIMPLE], "V9", "f")
    with pytest.raises(UnsupportedTableError, match="Jenkins"):
        BloomFilter.parse(base64.b64encode(b"\0\0\0\5" + b"\0" * 20), SIMPLE, "f")
