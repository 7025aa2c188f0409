"""The digest of entries: what changes it, what does not, and that dealing out sums it right."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from keymark.table.format.hashes.digest import (
    Digest,
    digest_entries,
    digest_pairs,
    location_words,
    total,
)
from keymark.table.format.hashes.hashing import shards, string_buffers
from keymark.table.format.kernels.scatter import partition_keys

KEYS = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=50, unique=True)
WORDS = location_words(["", "p", "p", "p1"], ["f", "f", "1f", "f"])


def digest(keys, codes):
    offsets, text = string_buffers(pa.array(keys, pa.string()))
    codes = np.array(codes, np.int32)
    return digest_entries(text, offsets[:-1], np.diff(offsets), codes=codes, words=WORDS)


def test_locations_are_not_run_together():
    assert len({tuple(words) for words in WORDS.tolist()}) == 4


@given(KEYS, st.randoms(use_true_random=False))
def test_order_and_parts_do_not_matter(keys, random):
    entries = [(key, random.randrange(4)) for key in keys]
    whole = digest(*zip(*entries, strict=True))
    assert whole.count == len(keys)
    random.shuffle(entries)
    cut = random.randrange(len(keys) + 1)
    parts = [digest(*zip(*part, strict=True)) for part in (entries[:cut], entries[cut:]) if part]
    assert total(parts) == whole
    assert len(whole.hex) == 32


@given(KEYS, st.integers(0, 3), st.integers(0, 3), st.text(min_size=1))
def test_every_change_is_seen(keys, old, new, other):
    assume(old != new and other not in keys)
    codes = [old] * len(keys)
    whole = digest(keys, codes)
    assert digest(keys[1:], codes[1:]) != whole
    assert digest([other, *keys[1:]], codes) != whole, "one missing, one extra"
    assert digest(keys, [new, *codes[1:]]) != whole, "another location"


def test_swapped_locations_are_seen():
    assert digest(["a", "b"], [0, 1]) != digest(["a", "b"], [1, 0])
    # Keys that end in zero bytes, or differ in length only.
    assert len({digest([key], [0]) for key in ("a", "a\0", "a\0\0", "\0", "\0" * 8)}) == 5


def pairs(keys, values):
    found = []
    for strings in (keys, values):
        offsets, text = string_buffers(pa.array(strings, pa.binary()))
        found.append((text, offsets[:-1], np.diff(offsets)))
    return digest_pairs(*found)


@given(st.dictionaries(st.binary(min_size=1), st.binary(), min_size=1), st.binary())
def test_every_change_of_a_value_is_seen(entries, other):
    keys, values = [*entries], [*entries.values()]
    whole = pairs(keys, values)
    assert whole.count == len(keys)
    assert pairs(keys[::-1], values[::-1]) == whole
    assert (pairs(keys, [other, *values[1:]]) == whole) is (other == values[0])
    assert (pairs(keys, values[::-1]) == whole) is (values == values[::-1])
    assert pairs([keys[0] + b"\0", *keys[1:]], values) != whole
    if values[0]:
        # The first byte of the value goes to the key.
        moved = [keys[0] + values[0][:1], *keys[1:]], [values[0][1:], *values[1:]]
        assert pairs(*moved) != whole


def test_no_entries():
    assert total([]) == Digest()


@given(st.lists(KEYS, max_size=4), st.integers(1, 9), st.integers(0, 100))
def test_dealt_keys_are_the_keys(pieces, count, first):
    arrays = [(pa.array(keys, pa.string()), n % 4) for n, keys in enumerate(pieces)]
    dealt = partition_keys(arrays, WORDS, count, first=first)
    ends = np.cumsum(dealt.lengths, dtype=np.int64)
    starts = ends - dealt.lengths
    whole = Digest()
    for shard in range(count):
        rows = slice(dealt.row_bounds[shard], dealt.row_bounds[shard + 1])
        found = [
            (dealt.text[start:end].tobytes().decode(), code - first)
            for start, end, code in zip(starts[rows], ends[rows], dealt.codes[rows], strict=True)
        ]
        wanted = [
            (key, code)
            for keys, code in arrays
            for key, owner in zip(keys.to_pylist(), shards(keys, count).tolist(), strict=True)
            if owner == shard
        ]
        assert found == wanted
        assert (
            dealt.byte_bounds[shard + 1]
            == (ends[rows][-1:].tolist() or [dealt.byte_bounds[shard]])[0]
        )
        mine = Digest(len(found), int(dealt.sums.low[shard]), int(dealt.sums.high[shard]))
        assert mine == (digest(*zip(*wanted, strict=True)) if wanted else Digest())
        whole = whole.plus(mine)
    assert whole.count == sum(map(len, pieces))
