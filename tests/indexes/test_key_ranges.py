"""Keys within ranges: the search finds what comparing every pair finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keymark.indexes.bloom.key_ranges import SortedKeys, count_of, keys_in, parts, places_in
from keymark.indexes.shared.scope import scopes
from keymark.table.layout.model import BaseFile
from keymark.table.layout.view import Snapshot

TEXTS = st.text(st.sampled_from("abz\0 ~é퟿\ue000\uff5e\U0001f600"), max_size=5)
ENDS = st.one_of(st.none(), TEXTS)


def java(text):
    """A text as Java orders it."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_keys(texts):
    return SortedKeys.of(pa.array(texts, pa.string()), np.arange(len(texts)))


@given(st.lists(TEXTS, unique=True, max_size=30), st.lists(st.tuples(ENDS, ENDS), max_size=12))
def test_both_ways_leave_the_same_keys(texts, ranges):
    asked = sorted_keys(texts)
    found = [
        [{texts[asked.rows[n]] for n in places_in(s)} if s else set() for s in spans]
        for spans in (asked.within(ranges, by_search=way) for way in (True, False))
    ]
    assert found[0] == found[1]
    for (low, high), chosen in zip(ranges, found[0], strict=True):
        for text in texts:
            by_bytes = (low or "").encode() <= text.encode()
            by_bytes &= high is None or text.encode() <= high.encode()
            disputed = any(char >= "\ue000" for char in text)
            assert (text in chosen) == (bool(text) and (by_bytes or disputed))


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=1, max_size=8))
def test_no_key_of_a_file_is_left_out_by_a_range_of_javas(files):
    texts = sorted({text for keys in files for text in keys})
    asked = sorted_keys(texts)
    ranges = [(min(keys, key=java), max(keys, key=java)) for keys in files]
    for keys, spans in zip(files, asked.within(ranges, by_search=True), strict=True):
        chosen = {texts[asked.rows[place]] for span in [spans] if span for place in places_in(span)}
        assert {key for key in keys if key} <= chosen


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 7))
def test_parts_are_the_spans_in_pieces(first, second, size):
    spans = tuple(span for span in ((2, 2 + first), (20, 20 + second)) if span[0] < span[1])
    if not spans:
        return
    pieces = parts(spans, size)
    assert [n for piece in pieces for n in places_in(piece)] == places_in(spans).tolist()
    assert max(map(count_of, pieces)) <= size
    keys = pa.array([f"{n}" for n in range(40)])
    assert [int(k.as_py()) for piece in pieces for k in keys_in(keys, piece)] == [
        n for piece in pieces for n in places_in(piece)
    ]


def snapshot(*paths):
    files = [
        BaseFile(partition_path=path, file_id=f"f{n}", write_token="0", instant_time="1", size=9)
        for n, path in enumerate(paths)
    ]
    return Snapshot(tuple(files))


@given(
    st.lists(st.sampled_from("abcd"), max_size=8),
    st.one_of(st.none(), st.lists(st.sampled_from("abcx"), max_size=8)),
)
def test_scopes_pair_each_key_with_the_files_of_its_path(paths, partitions):
    files = snapshot(*sorted(paths))
    count = 5 if partitions is None else len(partitions)
    wanted = None if partitions is None else pa.array(partitions, pa.string())
    found = scopes(count, files, wanted)
    pairs = [(row, number) for scope in found for row in scope.rows for number in scope.files]
    expected = {
        (row, number)
        for row in range(count)
        for number, file in enumerate(files.files)
        if partitions is None or partitions[row] == file.partition_path
    }
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected
    assert all(len(scope.rows) and len(scope.files) for scope in found)
