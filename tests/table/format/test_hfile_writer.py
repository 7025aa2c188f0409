"""An HFile written in batches is the HFile written at once, and no more than a block is held."""

from __future__ import annotations

import itertools
import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hfile_cases import SCHEMA, binary, open_bytes, scanned, unpacked
from hypothesis import given, settings
from hypothesis import strategies as st

from keymark.table.errors import InputError
from keymark.table.format.hfile import writer
from keymark.table.format.hfile.strings import Ordered
from keymark.table.format.hfile.writer import HFileWriter, write_hfile

keys = st.lists(st.binary(min_size=1, max_size=12), unique=True, max_size=60).map(sorted)
block_sizes = st.sampled_from([0, 1, 64, 300, 1 << 20])
INFO = {"minRecordKey": b"a"}


def ordered(keys, order, codes, values):
    return Ordered.with_values(values).with_keys(keys, order, codes)


def cut(count: int, places: list[int]) -> list[slice]:
    bounds = sorted({0, count, *(place % (count + 1) for place in places)})
    return [slice(start, end) for start, end in itertools.pairwise(bounds)]


@settings(deadline=None, max_examples=100)
@given(keys, st.lists(st.integers(0, 60), max_size=8), block_sizes, st.data())
def test_batches_leave_no_trace(rows, places, block_size, data):
    sizes = st.integers(0, 90) | st.just(70_000)
    values = [bytes([size % 251]) * size for size in (data.draw(sizes) for _ in rows)]
    whole = write_hfile(
        binary(rows),
        binary(values),
        schema=SCHEMA,
        block_size=block_size,
        bloom=b"bits",
        file_info=INFO,
    )
    parts = HFileWriter(SCHEMA, block_size)
    for part in cut(len(rows), places):
        parts.add(binary(rows[part]), binary(values[part]))
    assert unpacked(parts.finish(b"bits", INFO)) == unpacked(whole)
    assert scanned(open_bytes(whole)) == dict(zip(rows, values, strict=True))


def test_a_long_batch_is_cut_without_trace(monkeypatch):
    rows = binary(b"%06d" % number for number in range(1000))
    whole = write_hfile(rows, rows, schema=SCHEMA, block_size=3000)
    monkeypatch.setattr(writer, "_CELLS_AT_ONCE", 7)
    assert unpacked(write_hfile(rows, rows, schema=SCHEMA, block_size=3000)) == unpacked(whole)


@settings(deadline=None, max_examples=100)
@given(
    keys,
    st.integers(0, 60),
    st.lists(st.binary(max_size=60), min_size=1, max_size=5, unique=True),
    st.sampled_from([np.int32, np.int64, np.uint16]),
    block_sizes,
    st.randoms(),
    st.sampled_from([1, 2]),
)
def test_keys_in_any_order(rows, place, distinct, kind, block_size, chosen, threads):
    """The same file as of the keys in order, each with its value."""
    codes = np.array([sum(row) % len(distinct) for row in rows], kind)
    values = binary(distinct[code] for code in codes)
    file = HFileWriter(SCHEMA, block_size, threads=threads)
    for part in (slice(0, place), slice(place, None)):
        lying = list(range(len(rows)))[part]
        chosen.shuffle(lying)
        order = np.argsort(np.array(lying, np.int64))
        at = [rows[row] for row in lying]
        file.add_ordered(ordered(binary(at), order, codes[lying], binary(distinct)))
    plain = write_hfile(binary(rows), values, schema=SCHEMA, block_size=block_size)
    assert unpacked(file.finish()) == unpacked(plain)


def test_large_blocks_of_keys_in_any_order():
    """Blocks that are deflated as cells, by one thread or many."""
    chosen = random.Random(7)
    keys = [f"{chosen.getrandbits(64):016x}-key" for _ in range(30_000)]
    distinct = [b"%02d" % (number % 9) + bytes(30) + b"%04d" % number for number in range(300)]
    codes = np.array([chosen.randrange(300) for _ in keys], np.int32)
    order = np.argsort(np.array(keys))
    files = []
    for threads in (1, 3):
        file = HFileWriter(SCHEMA, 1 << 17, threads=threads)
        file.add_ordered(ordered(pa.array(keys), order, codes, binary(distinct)))
        files.append(file.finish())
    assert unpacked(files[0]) == unpacked(files[1])
    found = scanned(open_bytes(files[0]))
    expected = {key.encode(): distinct[code] for key, code in zip(keys, codes, strict=True)}
    assert found == expected
    assert list(found) == sorted(expected)


@pytest.mark.parametrize("codes", [[0, 2], [-1, 0]])
def test_codes_outside_of_the_dictionary_are_refused(codes):
    with pytest.raises(ValueError, match="2 distinct values"):
        ordered(binary([b"a", b"b"]), [0, 1], np.array(codes), binary([b"x", b"y"]))


def test_codes_must_match_keys():
    with pytest.raises(ValueError, match="1 keys with 2 codes"):
        ordered(binary([b"a"]), [0], np.array([0, 0]), binary([b"x"]))


@pytest.mark.parametrize(
    ("rows", "order", "fault"),
    [
        ([b"b", b"a"], [0, 1], "key number 2 "),
        ([b"a", b"a"], [0, 1], "key number 2 "),
        ([b"long enough", b"long enough"], [1, 0], "key number 2 "),
        ([b"a", b""], [1, 0], "key number 1 has 0 bytes"),
        ([b"A"], [0], "key number 1 "),
    ],
)
def test_an_order_that_is_none_is_refused(rows, order, fault):
    file = HFileWriter(SCHEMA)
    file.add(binary([b"Z"]), binary([b""]))
    with pytest.raises(InputError, match=fault):
        file.add_ordered(ordered(binary(rows), order, [0] * len(rows), binary([b"v"])))


@pytest.mark.parametrize("following", [b"b", b"a", b"ab"])
def test_keys_ascend_from_batch_to_batch(following):
    file = HFileWriter(SCHEMA)
    file.add(binary([b"a", b"b"]), binary([b"", b""]))
    file.add(binary([]), binary([]))
    with pytest.raises(InputError, match="key number 2 "):
        file.add(binary([following]), binary([b""]))


def test_bad_keys_are_counted_over_all_batches():
    file = HFileWriter(SCHEMA)
    file.add(binary([b"a", b"b"]), binary([b"", b""]))
    with pytest.raises(InputError, match="key number 3 has 0 bytes"):
        file.add(binary([b"c", b""]), binary([b"", b""]))


def test_first_and_last_key_are_known():
    file = HFileWriter(SCHEMA)
    assert (file.entry_count, file.first_key, file.last_key) == (0, None, None)
    file.add(binary([b"a", b"b"]), binary([b"", b""]))
    file.add(binary([b"c"]), binary([b""]))
    assert (file.entry_count, file.first_key, file.last_key) == (3, b"a", b"c")


def test_a_block_has_a_limit(monkeypatch):
    monkeypatch.setattr(writer, "BLOCK_BYTES_MAX", 1000)
    with pytest.raises(InputError, match="key number 1 exceeds 1000"):
        write_hfile(binary([b"a", b"b"]), binary([b"v" * 700] * 2), schema=SCHEMA)


def test_one_block_is_held():
    """Of 25 MB of cells from one dictionary, a block of 100 kB and the compressed bytes."""
    rows = pa.array([f"{number:07d}" for number in range(200_000)], pa.large_string())
    codes, distinct = np.arange(200_000, dtype=np.int32) % 5, binary([b"v" * 100] * 5)
    order = np.arange(200_000)
    HFileWriter(SCHEMA, 100_000).add_ordered(ordered(rows[:10], order[:10], codes[:10], distinct))
    tracemalloc.start()
    try:
        file = HFileWriter(SCHEMA, 100_000)
        file.add_ordered(ordered(rows, order, codes, distinct))
        size = len(file.finish())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * size + 1_000_000
