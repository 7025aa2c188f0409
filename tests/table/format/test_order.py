"""Keys in the order of their bytes, against Python's own sort."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.format.kernels.order import key_order

TEXTS = st.lists(st.text(max_size=12), max_size=60)
SHARED = st.lists(st.sampled_from(["", "a", "prefix--", "prefix--\0", "prefix--a", "ключ"]))


@given(TEXTS | SHARED)
def test_order_is_that_of_the_bytes(texts):
    order = key_order(pa.array(texts, pa.string()))
    assert sorted(order.tolist()) == list(range(len(texts)))
    assert [texts[row].encode() for row in order] == sorted(text.encode() for text in texts)


@pytest.mark.parametrize("shared", [1, 5, 400])
def test_keys_that_share_their_first_bytes(shared):
    texts = [f"{n * 7919 % 1000:08d}" for n in range(1000 - shared)]
    texts += [f"same8byt{n * 31 % shared:04d}" for n in range(shared)]
    order = key_order(pa.array(texts))
    assert [texts[row] for row in order] == sorted(texts)


@given(st.text(min_size=1, max_size=20), TEXTS)
def test_keys_that_all_start_alike(start, texts):
    keys = [start + text for text in texts]
    order = key_order(pa.array(keys, pa.string()))
    assert [keys[row].encode() for row in order] == sorted(key.encode() for key in keys)


def test_a_slice_of_an_array():
    keys = pa.array(["c", "b", "a", "d"]).slice(1, 2)
    assert key_order(keys).tolist() == [1, 0]
