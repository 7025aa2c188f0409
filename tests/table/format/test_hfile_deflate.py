"""Deflated cells: any inflater gives the block back, whatever it holds."""

from __future__ import annotations

import random
import uuid
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from keymark.table.format.hfile import huffman
from keymark.table.format.hfile.deflate import deflate_cells
from keymark.table.format.hfile.reader import HFileReader
from keymark.table.format.hfile.writer import write_hfile
from keymark.table.storage.storage import BytesReader

GZIP = 31
END = b"\x00\x7f" + b"\xff" * 7 + b"\x04"


def cell(key: bytes, value: bytes) -> bytes:
    sizes = (len(key) + 12).to_bytes(4, "big") + len(value).to_bytes(4, "big")
    return sizes + len(key).to_bytes(2, "big") + key + END + value + b"\x00"


def block(keys: list[bytes], values: list[bytes]) -> bytes:
    return b"".join(map(cell, sorted(keys), values))


def inflated(data: bytes) -> bytes:
    """By zlib and by ISA-L; checksum and length of the member count, too."""
    stream = zlib.decompressobj(GZIP)
    found = stream.decompress(data)
    assert stream.eof
    assert not stream.unused_data
    assert isal_zlib.decompress(data, GZIP) == found
    return found


def uuids(count: int, seed: int = 1) -> list[bytes]:
    chosen = random.Random(seed)
    return [str(uuid.UUID(int=chosen.getrandbits(128))).encode() for _ in range(count)]


def test_blocks_of_a_record_index_come_out_small():
    """Sorted uuids and 220 locations in 20 partitions, files of 11 tasks."""
    chosen = random.Random(2)
    tasks = [chosen.randbytes(20) for _ in range(11)]
    places = [b"2024-01-%02d" % (n % 20) + tasks[n % 11] + bytes([n, 2, 0]) for n in range(220)]
    keys = uuids(9000)
    raw = block(keys, [bytes(15) + chosen.choice(places) for _ in keys])
    data = deflate_cells(raw)
    assert inflated(data) == raw
    assert len(data) < 0.97 * len(isal_zlib.compress(raw, 3, GZIP))
    assert deflate_cells(np.frombuffer(raw, np.uint8)) == data
    assert deflate_cells(np.frombuffer(bytearray(raw), np.uint8)) == data


CELLS = st.tuples(
    st.integers(1, 60),  # bytes of a key's random part
    st.sampled_from([b"", b"user:", b"\xff\x00\xc3\xbc"]),
    st.sampled_from([b"0123456789abcdef-", bytes(range(256)), b"a"]),
    st.integers(1, 400),  # distinct values
    st.integers(0, 300),  # bytes of a value
    st.integers(0, 2**32),
)


@settings(max_examples=150)
@given(CELLS, st.booleans())
def test_any_cells_survive(shape, vary):
    length, prefix, letters, distinct, width, seed = shape
    chosen = random.Random(seed)
    values = [
        bytes(chosen.choice(letters) for _ in range(chosen.randint(0, width) if vary else width))
        for _ in range(distinct)
    ]
    count = 60_000 // (len(prefix) + length + width // 2 + 30) + 300
    keys = [prefix + bytes(chosen.choices(letters, k=length)) for _ in range(count)]
    raw = block(keys, [chosen.choice(values) for _ in keys])
    data = deflate_cells(raw)
    assert data is None or inflated(data) == raw


def test_one_repeated_cell_and_long_values():
    for raw in (
        cell(b"k", b"") * 3000,
        cell(b"k" * 1000, b"v" * 1000) * 60,
        cell(b"k", bytes(40_000)) * 3,
        cell(b"\x00" * 32767, b"") * 2,
    ):
        data = deflate_cells(raw)
        assert data is None or inflated(data) == raw
    assert inflated(deflate_cells(cell(b"key", b"value") * 3000)) == cell(b"key", b"value") * 3000


def test_rare_letters_get_codes_of_limited_length():
    """Counts like Fibonacci's make the deepest tree there is."""
    counts = np.array([1, 1, *([0] * 284)], np.int64)
    for symbol in range(2, 40):
        counts[symbol] = counts[symbol - 1] + counts[symbol - 2]
    lengths = np.empty(286, np.int32)
    huffman.code_lengths(counts, lengths)
    assert lengths.max() == huffman.CODE_MAX
    assert (lengths[:40] > 0).all()
    assert not lengths[40:].any()
    assert sum(2.0 ** -int(length) for length in lengths[:40]) <= 1


def test_a_letter_that_the_sample_missed():
    """One key in 20,000 has it: the codes that the sample gave are not used."""
    keys = uuids(20_000)
    for place in (1, 777, 19_998):
        changed = sorted(keys)
        changed[place] = changed[place][:-1] + b"\xf0"
        raw = block(changed, [b"value" * 11] * len(keys))
        data = deflate_cells(raw)
        assert data is not None
        assert inflated(data) == raw


@pytest.mark.parametrize("size", [0, 100, 50_000, 5_000_000])
def test_what_is_not_for_it_is_left_alone(size):
    chosen = random.Random(3)
    assert deflate_cells(chosen.randbytes(size)) is None
    assert deflate_cells(bytes(size)) is None
    keys = uuids(size // 3000)
    assert deflate_cells(block(keys, [chosen.randbytes(3000) for _ in keys])) is None


@given(st.data())
def test_bytes_that_are_no_cells(data):
    raw = bytearray(block(uuids(400), [bytes(56)] * 400))
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    found = deflate_cells(bytes(raw))
    assert found is None or inflated(found) == bytes(raw)
    short = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    found = deflate_cells(short)
    assert found is None or inflated(found) == short


def test_a_stream_that_inflates_to_something_else_is_not_stored(monkeypatch):
    """Whatever the compressor does, a block holds its payload."""
    keys = pa.array([f"key-{n:08d}" for n in range(2000)])
    values = pa.array([b"value of a cell"] * 2000, pa.binary())
    right = write_hfile(keys, values, schema="{}")

    def spoilt(payload, _):
        data = bytearray(memoryview(payload).cast("B"))
        data[len(data) // 2] ^= 1
        return deflate_cells(np.frombuffer(bytes(data), np.uint8))

    for wrong in (spoilt, lambda *_: b"\x1f\x8b no stream"):
        monkeypatch.setattr("keymark.table.format.hfile.block.deflate_cells", wrong)
        data = write_hfile(keys, values, schema="{}")
        found = [
            part.to_pylist()
            for reader in (HFileReader(BytesReader(name="f", data=data)),)
            for part, _ in reader.scan()
        ]
        assert [key.decode() for part in found for key in part] == keys.to_pylist()
        assert data != right
