"""An HFile written in batches is the HFile written at once, and no more than a block is held."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hfile_cases import SCHEMA, binary, open_bytes, scanned
from hypothesis import given, settings
from hypothesis import strategies as st

from table.errors import InputError
from table.format.hfile import writer
from table.format.hfile.writer import HFileWriter, write_hfile

keys = st.lists(st.binary(min_size=1, max_size=12), unique=True, max_size=60).map(sorted)
block_sizes = st.sampled_from([0, 1, 64, 300, 1 << 20])
INFO = {"minRecordKey": b"a"}


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
    assert parts.finish(b"bits", INFO) == whole
    assert scanned(open_bytes(whole)) == dict(zip(rows, values, strict=True))


def test_a_long_batch_is_cut_without_trace(monkeypatch):
    rows = binary(b"%06d" % number for number in range(1000))
    whole = write_hfile(rows, rows, schema=SCHEMA, block_size=3000)
    monkeypatch.setattr(writer, "_CELLS_AT_ONCE", 7)
    assert write_hfile(rows, rows, schema=SCHEMA, block_size=3000) == whole


@settings(deadline=None, max_examples=100)
@given(
    keys,
    st.lists(st.integers(0, 60), max_size=8),
    st.lists(st.binary(max_size=60), min_size=1, max_size=5),
    st.sampled_from([np.int32, np.int64, np.uint16]),
    block_sizes,
)
def test_codes_stand_for_values(rows, places, distinct, kind, block_size):
    codes = np.array([sum(row) % len(distinct) for row in rows], kind)
    values = binary(distinct[code] for code in codes)
    coded = HFileWriter(SCHEMA, block_size)
    for number, part in enumerate(cut(len(rows), places)):
        given_codes = pa.array(codes[part]) if number % 2 else codes[part]
        coded.add_coded(binary(rows[part]), given_codes, binary(distinct))
    plain = write_hfile(binary(rows), values, schema=SCHEMA, block_size=block_size)
    assert coded.finish() == plain


@pytest.mark.parametrize("codes", [[0, 2], [-1, 0]])
def test_codes_outside_of_the_dictionary_are_refused(codes):
    file = HFileWriter(SCHEMA)
    with pytest.raises(ValueError, match="2 distinct values"):
        file.add_coded(binary([b"a", b"b"]), np.array(codes), binary([b"x", b"y"]))


def test_codes_must_match_keys():
    with pytest.raises(ValueError, match="1 keys with 2 codes"):
        HFileWriter(SCHEMA).add_coded(binary([b"a"]), np.array([0, 0]), binary([b"x"]))


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
    rows = pa.array([f"{number:07d}" for number in range(200_000)])
    codes, distinct = np.arange(200_000, dtype=np.int32) % 5, binary([b"v" * 100] * 5)
    HFileWriter(SCHEMA, 100_000).add_coded(rows[:10], codes[:10], distinct)
    tracemalloc.start()
    try:
        file = HFileWriter(SCHEMA, 100_000)
        file.add_coded(rows, codes, distinct)
        size = len(file.finish())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * size + 1_000_000
