"""Keys dealt out in ascending pieces, against a sorted list."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.format.kernels import pieces
from keymark.table.format.kernels.pieces import Histogram, RadixPartitioner, Spilled, shared_start

KEYS = st.lists(st.binary(min_size=1, max_size=6), max_size=40)
ALIKE = st.lists(
    st.builds(
        lambda start, end: start + end,
        st.sampled_from([b"user-", b"user-\0", b"user", b"v"]),
        st.binary(max_size=4),
    ),
    max_size=40,
)


def spilled(keys, first):
    text = b"".join(keys)
    codes = np.arange(first, first + len(keys), dtype=np.int32).tobytes()
    lengths = np.array([len(key) for key in keys], np.uint16).tobytes()
    return Spilled(
        np.frombuffer(codes, np.int32),
        np.frombuffer(lengths, np.uint16),
        np.frombuffer(text, np.uint8),
    )


def dealt(lots):
    start = shared_start([lot for lot in lots if len(lot.codes)][:1])
    histograms = [Histogram(start) for _ in lots]
    assert all(histogram.add(lot) for histogram, lot in zip(histograms, lots, strict=True))
    partitioner = RadixPartitioner(histograms)
    assert all(partitioner.put(number, lot) for number, lot in enumerate(lots))
    return partitioner.keys


@given(st.lists(KEYS | ALIKE, min_size=1, max_size=4), st.integers(1, 9))
def test_pieces_ascend_and_hold_each_key_with_its_code(lots, size):
    with mock.patch.object(pieces, "_PIECE_KEYS", size):
        found = dealt([spilled(keys, 100 * number) for number, keys in enumerate(lots)])
    parts = [
        sorted(zip(keys.to_pylist(), codes.tolist(), strict=True)) for keys, codes in found.pieces()
    ]
    wanted = [(key, 100 * n + row) for n, keys in enumerate(lots) for row, key in enumerate(keys)]
    assert sorted(entry for part in parts for entry in part) == sorted(wanted)
    for below, above in itertools.pairwise(parts):
        assert below[-1][0] < above[0][0]


def test_pieces_have_about_the_size_that_was_asked_for():
    keys = [b"key-%04x" % (n * 40503 % 65536) for n in range(65536)]
    sizes = np.diff(dealt([spilled(keys, 0)]).rows)
    assert sizes[sizes > 0].tolist() == [16384] * 4


def test_what_keys_start_with():
    first, second = spilled([b"user-1", b"user-22"], 0), spilled([b"use", b"useful"], 0)
    assert first.start() == b"user-"
    assert shared_start([first, second]) == b"use"
    assert shared_start([]) == b""


def test_lengths_that_do_not_add_up():
    good = spilled([b"ab", b"cd"], 0)
    for text in (b"abc", b"abcde", b""):
        bad = good._replace(text=np.frombuffer(text, np.uint8))
        assert not Histogram(b"").add(bad)


def test_other_keys_than_were_counted():
    histogram = Histogram(b"")
    assert histogram.add(spilled([b"ab", b"cd"], 0))
    for keys in ([b"ab", b"cd", b"e"], [b"ab", b"cde"]):
        partitioner = RadixPartitioner([histogram])
        assert not partitioner.put(0, spilled(keys, 0))
