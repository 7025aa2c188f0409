"""The search for many byte strings against Python's own.

Strategy: random needles over a tiny alphabet, so that they overlap, contain and begin each other;
what is found must be what `bytes.find` finds, value by value.
"""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keymark.table.format.kernels.needles import Needles

texts = st.text("ab0é", min_size=8, max_size=40)


def needles(listed):
    return Needles.of(pa.array(listed, pa.string()), np.arange(len(listed)))


def occurrences(data, text):
    at = data.find(text)
    while at >= 0:
        yield at
        at = data.find(text, at + 1)


@given(st.lists(texts, max_size=12), st.lists(st.text("ab0é", max_size=60), max_size=8))
def test_what_is_found_is_what_is_there(listed, values):
    data = "".join(values).encode()
    bounds = np.cumsum([0, *(len(value.encode()) for value in values)]).astype(np.int64)
    whole, inside = needles(listed).search(data, bounds)
    for number, text in enumerate(listed):
        holding = [value for value in values if text in value]
        assert (number in whole) == (text in holding)
        assert (number in inside) == any(value != text for value in holding)
    whole, inside = needles(listed).search(data)
    found = {number for number, text in enumerate(listed) if text.encode() in data}
    assert whole | inside == found


@given(st.integers(0, 400), st.integers(8, 60), st.integers(0, 3))
def test_every_place_is_looked_at(at, length, behind):
    text = bytes(range(65, 65 + length)).decode("latin-1")[:length]
    data = b"." * at + text.encode() + b"." * behind
    assert 0 in set().union(*needles([text]).search(data))
    assert not any(needles([text]).search(data[:-1] if not behind else data.replace(b"A", b"B")))


def test_many_needles_that_begin_alike():
    listed = [f"customer-{number:07d}" for number in range(3000)]
    data = "|".join(listed[1000:2000]).encode()
    found = needles(listed)
    assert found.search(data)[1] == frozenset(range(1000, 2000))
    assert pickle.loads(pickle.dumps(found)).search(data)[1] == frozenset(range(1000, 2000))


def test_several_forms_of_one_thing():
    found = Needles.of(pa.array(["first-form", "second-form"]), np.array([7, 7]))
    assert found.search(b"the second-form of it") == (frozenset(), {7})
    assert found.search(b"second-form") == ({7}, frozenset())
    assert found.longest == 11


def test_short_needles_are_refused_and_none_find_nothing():
    with pytest.raises(ValueError, match="less than 8 bytes"):
        needles(["1234567"])
    assert needles([]).search(b"anything at all") == (frozenset(), frozenset())
    assert needles(["12345678"]).search(b"") == (frozenset(), frozenset())
